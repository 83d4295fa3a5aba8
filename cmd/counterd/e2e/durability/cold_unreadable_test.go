package durability

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestColdUnreadable damages a page of the cold file of a counter whose items are plain numbers: every command on its
// keys answers IOERR, none of them nil or none; SCAN lists all others and says which it cannot list and how to go on;
// what is set or deleted is served again.
func TestColdUnreadable(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	c := s.Dial(t)
	harness.RunScript(t, c, "add counter plain\nadd column plain n hint=8 max=32 suffix=")
	const posts = 100_000
	mid := func(i int) uint64 { return 1_000_000 + uint64(i)*4000 }
	harness.BulkParallel(t, s, 2, posts, func(dst []byte, i int) []byte {
		dst = append(dst, "*3\r\n$3\r\nSET\r\n"...)
		dst = harness.AppendBulk(dst, "plain:", mid(i), true, "")
		return harness.AppendBulk(dst, "", uint64(i), true, "")
	}, harness.WantReply("+OK"))
	c.Want("+OK\r\n", "COUNTER.DEMOTE", "plain", strconv.FormatUint(mid(0), 10))
	harness.Patch(t, files(t, s.Dir, "cold", "*.cold")[0], 5*4096+100, func(b []byte) { b[0] ^= 0x10 }, 1)

	var lost []int
	harness.BulkParallel(t, s, 1, posts, func(dst []byte, i int) []byte {
		return harness.AppendCall(dst, "GET", "plain:", mid(i), "", -1)
	}, func(i int, reply []byte) error {
		switch {
		case strings.HasPrefix(string(reply), "-IOERR "):
			lost = append(lost, i)
		case string(reply) != "$"+strconv.Itoa(i):
			return fmt.Errorf("post %d answered %q", i, reply)
		}
		return nil
	})
	if len(lost) < 10 || len(lost) > 4000 {
		t.Fatalf("%d posts cannot be read, want those of one page", len(lost))
	}
	key := func(i int) string { return fmt.Sprintf("plain:%d", mid(lost[i])) }
	for _, command := range []string{"GET K", "STRLEN K", "EXISTS K", "TYPE K", "TTL K", "OBJECT ENCODING K", "OBJECT REFCOUNT K", "INCR K", "DECRBY K 2", "GETSET K 4", "SET K 4 GET",
		"SET K 4 NX", "SET K 4 XX", "SETNX K 4", "HGET K n", "HMGET K n", "HGETALL K", "HKEYS K", "HVALS K", "HLEN K", "HEXISTS K n", "HSTRLEN K n", "HSCAN K 0", "HDEL K n", "DUMP K", "COPY K plain:5"} {
		v := c.Do(strings.Fields(strings.ReplaceAll(command, "K", key(0)))...)
		if !strings.HasPrefix(v.Raw, "-IOERR ") && !strings.HasPrefix(v.Raw, "*1\r\n-IOERR ") && !strings.HasPrefix(v.Text, "ERR unknown command") {
			t.Errorf("%s answered %q", command, v.Raw)
		}
	}
	if v := c.Do("MGET", key(0), key(1), "plain:1000000"); v.List[0].Kind != '-' || v.List[1].Kind != '-' || v.List[2].Text != "0" {
		t.Errorf("MGET answered %q", v.Raw)
	}
	c.Want("+OK\r\n", "SET", key(3), "12")
	c.Want(":13\r\n", "INCR", key(3))
	c.Want(":1\r\n", "DEL", key(4))
	c.Want("$-1\r\n", "GET", key(4))
	c.Want(":0\r\n", "EXISTS", key(4))

	listed, told, errors := map[string]bool{}, "", 0
	for cursor, first := "0", true; first || cursor != "0"; first = false {
		v := c.Do("SCAN", cursor, "COUNT", "1000")
		if v.Kind == '-' {
			told = v.Text
			errors++
			_, rest, _ := strings.Cut(v.Text, "cursor ")
			cursor, _, _ = strings.Cut(rest, " ")
			continue
		}
		cursor = v.List[0].Text
		for _, e := range v.List[1].List {
			if listed[e.Text] {
				t.Fatalf("SCAN returned %s twice", e.Text)
			}
			listed[e.Text] = true
		}
	}
	if want := fmt.Sprintf("plain from %d to ", mid(lost[0])); errors != 1 || !strings.HasPrefix(told, "IOERR ") || !strings.Contains(told, want) {
		t.Errorf("SCAN: %d errors, the last %q, want one of %q", errors, told, want)
	}
	if want := posts - len(lost) + 1; len(listed) != want || !listed[strings.TrimPrefix(key(3), "plain:")] && !listed[key(3)] {
		t.Errorf("SCAN listed %d, want %d with the one that was set", len(listed), want)
	}
}

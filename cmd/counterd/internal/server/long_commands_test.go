// Scenario: commands of very many arguments run in slices.

package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/schema"
)

// longStore has posts that a MGET finds in many small blocks.
func longStore(t *testing.T) *Server {
	s := wireServeStore(t, t.TempDir(), counter.Options{BlockItems: 512}, nil)
	c := wireDial(t, s, 2)
	for at := range 4 {
		c.want("MSET"+strings.Join(longKeys(at*1000, 1000, " %d.cntrn 7 %d.cntcm 8"), ""), "+OK")
	}
	return s
}

func longKeys(from, n int, form string) (list []string) {
	for i := range n {
		mid := 10 * (from + i)
		list = append(list, strings.ReplaceAll(form, "%d", fmt.Sprint(mid)))
	}
	return list
}

// TestLongReads asks the same by one long command and by many short ones, with keys of all kinds among them; at the same
// time for other connections, and in a pipeline.
func TestLongReads(t *testing.T) {
	s := longStore(t)
	c := wireDial(t, s, 2)
	var keys, mids []string
	for i, key := range longKeys(0, 4200, "%d.cntrn") { // the last 200 are absent
		switch i % 97 {
		case 0:
			key = "no key"[:2] + key
		case 1:
			key = strings.TrimSuffix(key, ".cntrn")
		}
		keys = append(keys, key)
		mids = append(mids, fmt.Sprint(10*i))
	}
	long := func(words string, args []string, tail string) resptest.Value {
		// Between two of others, in one packet.
		incr := resptest.Append(nil, "INCR", "1.cntrn")
		packet := resptest.Append(slices.Clone(incr), strings.Fields(words+" "+strings.Join(args, " ")+tail)...)
		if _, err := c.conn.Write(append(packet, incr...)); err != nil {
			t.Fatal(err)
		}
		before := c.read()
		v := c.read()
		if after := c.read(); after.N != before.N+1 {
			t.Errorf("%s: got %d behind it and %d before", words, after.N, before.N)
		}
		return v
	}
	for _, words := range []string{"MGET", "COUNTER.MGET weibo", "EXISTS"} {
		args, tail := keys, ""
		if words == "COUNTER.MGET weibo" {
			args, tail = mids, " COLUMNS repost"
		}
		got := long(words, args, tail)
		var want []resptest.Value
		sum := int64(0)
		for at := 0; at < len(args); at += 100 {
			v := c.do(words + " " + strings.Join(args[at:at+100], " ") + tail)
			want, sum = append(want, v.List...), sum+v.N
		}
		if words == "EXISTS" {
			if got.N != sum {
				t.Errorf("EXISTS of all: got %d, want %d", got.N, sum)
			}
			continue
		}
		if len(got.List) != len(want) {
			t.Fatalf("%s: got %d values, want %d", words, len(got.List), len(want))
		}
		for i, v := range got.List {
			if v.Raw != want[i].Raw {
				t.Fatalf("%s %s: got %q, want %q", words, args[i], v.Raw, want[i].Raw)
			}
		}
	}
	if got := long("COUNTER.MGET weibo", append(mids[:1000:1000], "x"), "").String(); !strings.HasPrefix(got, "-ERR 'x' is not a mid") {
		t.Errorf("got %.60s", got)
	}
	if got := long("COUNTER.MGET nothing", mids, "").String(); !strings.HasPrefix(got, "-ERR no counter 'nothing'") {
		t.Errorf("got %.60s", got)
	}
	c.want("MULTI", "+OK")
	c.want("EXISTS "+strings.Join(keys, " "), "+QUEUED")
	if got := c.do("EXEC"); len(got.List) != 1 || got.List[0].N < 3000 {
		t.Errorf("got %.60s", got.String())
	}
}

// TestLongReadSeesMSetWhole has connections give many posts one value, by MSET and by transactions, while others read
// them all by one command, which lets others in all the while: nobody sees a part of a change.
func TestLongReadSeesMSetWhole(t *testing.T) {
	s := longStore(t)
	stop := make(chan struct{})
	ended := make(chan error, 2)
	for i := range cap(ended) {
		c := wireDial(t, s, 2)
		go func() {
			for n := 1; ; n++ {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				mset := resptest.Append(nil, strings.Fields("MSET"+strings.Join(longKeys(0, 600, fmt.Sprintf(" %%d.cntcm %d", n%200)), ""))...)
				if i == 0 {
					mset = append(append([]byte("MULTI\r\n"), mset...), "INCR 3.cntcm\r\nEXEC\r\n"...)
				}
				if _, err := c.conn.Write(mset); err != nil {
					ended <- err
					return
				}
				replies := 1
				if i == 0 {
					replies = 4
				}
				for range replies {
					if _, err := resptest.Read(c.r, 2); err != nil {
						ended <- err
						return
					}
				}
			}
		}()
	}
	reader := wireDial(t, s, 2)
	command := "MGET " + strings.Join(longKeys(0, 4000, "%d.cntcm"), " ")
	reads := 25
	if testing.Short() { // with the race detector each takes ten times as long
		reads = 5
	}
	for range reads {
		values := make(map[string]int)
		for _, v := range reader.do(command).List[:600] {
			values[v.Text]++
		}
		if len(values) != 1 {
			t.Errorf("a part of a change is seen: values, and how many have them: %v", values)
			break
		}
	}
	close(stop)
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestLargeTransaction sends many commands of all kinds as a transaction, and one by one to another server: the replies are the same. Behind
// a change of a watched key nothing is executed.
func TestLargeTransaction(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	var queue []string
	for i := range 100 {
		mid := 10 * (i % 60)
		for _, form := range []string{"INCR %d.cntrn", "GET %d.cntrn", "DEL %d.cntcm %d.cntrn nothing", "MGET %d.cntrn 7.cntrn %d.x", "SET %d.cntrn x",
			"HINCRBY %d comment 3", "HGETALL %d", "MSET %d.cntrn 5 %d.cntcm 6", "DECRBY %d.cntrn 900", "COUNTER.MGET weibo %d 4"} {
			queue = append(queue, strings.ReplaceAll(form, "%d", fmt.Sprint(mid)))
		}
	}
	alone := wireDial(t, longStore(t), 2)
	s := longStore(t)
	c, other := wireDial(t, s, 2), wireDial(t, s, 2)
	for _, more := range []string{"", "PING"} {
		if more != "" {
			queue = append(queue, more)
		}
		var want []string
		for _, command := range queue {
			want = append(want, alone.do(command).Raw)
		}
		queueAll := func(watched bool) resptest.Value {
			t.Helper()
			if c.want("WATCH 1.cntrn", "+OK"); watched {
				other.do("INCR 1.cntrn")
			}
			c.want("MULTI", "+OK")
			for _, command := range queue {
				c.want(command, "+QUEUED")
			}
			return c.do("EXEC")
		}
		if got := queueAll(true); got.List != nil {
			t.Errorf("behind a change of a watched key: got %d replies", len(got.List))
		}
		got := queueAll(false)
		if len(got.List) != len(want) {
			t.Fatalf("got %d replies, want %d", len(got.List), len(want))
		}
		for i, v := range got.List {
			if v.Raw != want[i] {
				t.Fatalf("%d: %s: got %q, want %q", i, queue[i], v.Raw, want[i])
			}
		}
	}
}

// TestLargeTransactionJudgedLate: a large transaction that has been planned waits for the store. Changes during that time count: of a watched key,
// and of the rights of its user.
func TestLargeTransactionJudgedLate(t *testing.T) {
	s := longStore(t)
	admin, c := wireDial(t, s, 2), wireDial(t, s, 2)
	admin.want("ACL SETUSER app on nopass ~* &* +@all", "+OK")
	c.want("AUTH app x", "+OK")
	admin.want("SET 1.cntrn 1", "+OK")
	const n = 600
	for _, change := range []string{"INCR 2.cntrn", "ACL SETUSER app -incr"} {
		c.want("WATCH 2.cntrn", "+OK")
		c.want("MULTI", "+OK")
		for range n {
			c.want("INCR 1.cntrn", "+QUEUED")
		}
		b := s.Store().NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		c.send("EXEC")
		time.Sleep(30 * time.Millisecond) // it is planned by now: if not, the change comes before, and the reply is the same
		admin.do(change)
		b.End()
		refused := 0
		for _, v := range c.read().List {
			if strings.HasPrefix(v.Raw, "-NOPERM") {
				refused++
			}
		}
		if want := map[bool]int{true: n}[change != "INCR 2.cntrn"]; refused != want {
			t.Errorf("%s: %d commands were refused, want %d", change, refused, want)
		}
		admin.want("GET 1.cntrn", `"1"`)
	}
}

// TestPlannedOps: the replies of the operations that a transaction plans together are not more than those of a transaction may be, where posts
// have as many columns as can be, with long names and large values.
func TestPlannedOps(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	if n := plannedOps(s.Store().Schema()); n != maxPlannedOps {
		t.Errorf("three columns: got %d", n)
	}
	c.want("ADD COUNTER wide", "+OK")
	for i := range schema.MaxColumns {
		c.want(fmt.Sprintf("ADD COLUMN wide c%0*d hint=1 max=63 default=9223372036854775807", schema.MaxName-1, i), "+OK")
	}
	c.want(fmt.Sprintf("INCRBY wide:1.c%0*d -1", schema.MaxName-1, 0), ":9223372036854775806")
	n := plannedOps(s.Store().Schema())
	if reply := len(c.do("HGETALL wide:1").Raw); n < 10_000 || n*reply > maxExecReplies {
		t.Errorf("%d operations, of %d bytes each", n, reply)
	}
}

// TestLongTransactionRights: rights that were taken since a command was queued count in a long transaction, too.
func TestLongTransactionRights(t *testing.T) {
	s := wireServe(t, nil)
	admin, c := wireDial(t, s, 2), wireDial(t, s, 2)
	admin.want("ACL SETUSER app on nopass +@all ~weibo:*", "+OK")
	c.want("AUTH app x", "+OK")
	c.want("MULTI", "+OK")
	for range 2 * longArgs {
		c.want("INCR 1.cntrn", "+QUEUED")
	}
	admin.want("ACL SETUSER app resetkeys ~*.cntcm", "+OK")
	for _, v := range c.do("EXEC").List {
		if !strings.HasPrefix(v.Text, "NOPERM") {
			t.Fatalf("got %s, want NOPERM", v)
		}
	}
	admin.want("EXISTS 1.cntrn", ":0")
}

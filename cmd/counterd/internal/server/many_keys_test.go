// Scenario: commands on several keys change all of them or none.

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestRefusedChangesNothing: a command on several keys, one of which is on a damaged page, answers with an error and
// changes none of them.
func TestRefusedChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := wireServeStore(t, dir, counter.Options{BlockItems: 2048}, nil)
	c := wireDial(t, s, 2)
	c.want("ADD COUNTER p", "+OK")
	c.want("ADD COLUMN p v hint=8 max=32 suffix=v", "+OK")
	c.want("ADD COLUMN p w hint=8 max=32 suffix=w", "+OK")
	const posts = 10_000
	for i := 0; i < posts; i += 1000 {
		line := "MSET"
		for j := i; j < i+1000; j++ {
			line += fmt.Sprintf(" %d.v %d %d.w 7", 1000+j*10, j%200, 1000+j*10)
		}
		c.want(line, "+OK")
	}
	c.want("COUNTER.DEMOTE p 1000", "+OK")
	files, _ := filepath.Glob(filepath.Join(dir, "cold", "*.cold"))
	if len(files) != 1 {
		t.Fatalf("got files %v, want one", files)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt([]byte{0xff, 0xff, 0xff}, info.Size()/3)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	bad := 0
	for i := 0; i < posts && bad == 0; i++ {
		if strings.Contains(c.do(fmt.Sprintf("GET %d.v", 1000+i*10)).String(), "IOERR") {
			bad = 1000 + i*10
		}
	}
	if bad == 0 {
		t.Fatal("no page is damaged")
	}
	hot := 1000 + (posts-1)*10
	want := c.do(fmt.Sprintf("HGETALL p:%d", hot)).String()
	fresh := hot + 10
	for _, line := range []string{
		"DEL %[1]d.v %[2]d.v", "UNLINK %[1]d.w %[1]d.v %[2]d.v", "DEL p:%[1]d %[2]d.w", "HDEL p:%[2]d v w", "GETDEL %[2]d.v",
		"MSET %[1]d.v 5 %[3]d.v 5 %[1]d.w 99999999999", "HSET p:%[1]d v 5 w 99999999999", "HMSET p:%[3]d v 5 w 99999999999",
	} {
		line = fmt.Sprintf(line, hot, bad, fresh)
		if got := c.do(line); got.Kind != '-' {
			t.Errorf("%s: got %s, want an error", line, got)
		}
		c.want("MULTI", "+OK")
		c.do(line)
		if got := c.do("EXEC"); len(got.List) != 1 || got.List[0].Kind != '-' {
			t.Errorf("%s in a transaction: got %s, want an error", line, got)
		}
		c.want(fmt.Sprintf("HGETALL p:%d", hot), want)
		c.want(fmt.Sprintf("EXISTS p:%d", fresh), ":0")
	}
}

// TestManyKeysOneChange: MSET, HSET and DEL from several connections are seen whole or not at all by MGET,
// COUNTER.MGET, EXISTS and HGETALL, on replicas too.
func TestManyKeysOneChange(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	c := a.dial()
	c.want("ADD COUNTER m", "+OK")
	c.want("ADD COLUMN m v hint=8 max=60", "+OK")
	c.want("ADD COLUMN m w hint=8 max=60", "+OK")
	const keys, rounds = 40, 200
	var set, numbers, posts, mids string
	for i := range keys {
		mid := 1 + i*100_003
		set += fmt.Sprintf(" m:%d.v %%[1]d m:%d.w %%[1]d", mid, mid)
		numbers += fmt.Sprintf(" m:%d.v m:%d.w", mid, mid)
		posts += fmt.Sprintf(" m:%d", mid)
		mids += fmt.Sprintf(" %d", mid)
	}
	c.want(fmt.Sprintf("MSET"+set, 0), "+OK")
	same(t, a, b)
	var done atomic.Bool
	var writers, readers sync.WaitGroup
	for w := range 2 {
		conn := a.dial()
		writers.Go(func() {
			for round := range rounds {
				value := w*rounds + round
				switch round % 4 {
				case 3:
					conn.do("DEL" + posts)
				case 2:
					conn.do(fmt.Sprintf("HSET m:7 v %[1]d w %[1]d", value))
				default:
					conn.do(fmt.Sprintf("MSET"+set, value))
				}
			}
		})
	}
	seen := make(map[string]bool)
	for i, n := range []*replNode{a, a, b} {
		conn := n.dial()
		readers.Go(func() {
			for !done.Load() {
				for _, line := range []string{"MGET" + numbers, "COUNTER.MGET m" + mids, "HGETALL m:7", "EXISTS" + posts} {
					v := conn.do(line)
					if v.Kind == ':' && v.N != 0 && v.N != keys {
						t.Errorf("EXISTS: got %d, want none or %d", v.N, keys)
					}
					list := v.List
					for j := range list {
						if len(list[j].List) == 2 && list[j].List[0].String() != list[j].List[1].String() {
							t.Errorf("%.20s: got %s", line, v)
						}
					}
					if line == "HGETALL m:7" && len(list) == 4 {
						list = []resptest.Value{list[1], list[3]}
					}
					for j := range list {
						if list[j].String() != list[0].String() {
							t.Errorf("%.20s: got %s", line, v)
							return
						}
					}
					if i == 0 && len(list) > 0 {
						seen[list[0].String()] = true
					}
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	t.Logf("%d states seen", len(seen))
}

// TestPageColumns names the columns of a page, by name or suffix, also when others came and went.
func TestPageColumns(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.want("INCRBY 1.cntcm 5", ":5")
	c.want("INCRBY 1.cntrn 7", ":7")
	c.want("COUNTER.MGET weibo 1 2 COLUMNS repost", "[[:7] nil]")
	c.want("COUNTER.MGET weibo 2 1 columns cntrn comment cntrn", "[nil [:7 :5 :7]]")
	c.want("DROP COLUMN weibo comment", "+OK")
	c.want("ADD COLUMN weibo share hint=8 max=32 default=3 suffix=cntsh", "+OK")
	c.want("COUNTER.MGET weibo 1 COLUMNS share repost", "[[:3 :7]]")
	c.want("COUNTER.MGET weibo 1 COLUMNS comment", "-ERR no column 'comment' in counter 'weibo' (see SCHEMA)")
	c.want("COUNTER.MGET weibo 1 COLUMNS", "-ERR syntax error")
	c.want("COUNTER.MGET weibo COLUMNS repost", "-ERR 'COLUMNS' is not a mid: want 0..9223372036854775807")
	c.want("COUNTER.MGET weibo 1 COLUMN repost", "-ERR 'COLUMN' is not a mid: want 0..9223372036854775807")
	c.want("MULTI", "+OK")
	c.want("COUNTER.MGET weibo 1 COLUMNS repost", "+QUEUED")
	c.want("COUNTER.MGET weibo 1 COLUMNS share", "+QUEUED")
	c.want("EXEC", "[[[:7]] [[:3]]]")
}

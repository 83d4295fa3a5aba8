// Scenario: a derived column is read like any other, and only additions to its source change it.

package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

func TestWindowColumn(t *testing.T) {
	s := feedServe(t)
	for _, proto := range []int{2, 3} {
		c := wireDial(t, s, proto)
		c.want("FLUSHALL", "+OK")
		c.do("DROP COLUMN weibo comment1h")
		c.want("ADD COLUMN weibo comment1h window=1h/5m of=comment", "+OK")
		c.want("ADD COLUMN weibo comment1h window=1h/5m of=comment", "+OK")
		at, _ := feedOf(t, c.do("COUNTER.FEED FROM NOW"))
		c.want("INCR 10.cntcm", ":1")
		c.want("INCRBY 20.cntcm 5", ":5")
		c.want("DECR 20.cntcm", ":4")
		c.want("SET 30.cntcm 9", "+OK")
		_, changes := feedOf(t, c.do("COUNTER.FEED FROM "+at+" COUNT 10"))
		if len(changes) != 4 || strings.Contains(strings.Join(changes, ""), "1h") {
			t.Errorf("the feed shows %q, want four changes and no derived column", changes)
		}
		c.want("GET 20.comment1h", `"5"`)
		c.want("GET 30.comment1h", `"0"`)
		c.want("GET 40.comment1h", "nil")
		c.want("MGET 10.comment1h 10.cntcm 40.comment1h 20.comment1h", `["1" "1" nil "5"]`)
		c.want("HGET 20 comment1h", `"5"`)
		c.want("HMGET 20 comment1h comment", `["5" "4"]`)
		c.want("HLEN 20", ":3")
		c.want("HVALS 20", `["4" "0" "5"]`)
		c.want("COUNTER.MGET weibo 10 20 30 40", "[[:1 :0 :1] [:4 :0 :5] [:9 :0 :0] nil]")
		c.want("COUNTER.MGET weibo 20 COLUMNS comment1h", "[[:5]]")
		c.want("COUNTER.FIND weibo WHERE comment1h > 0", "[[:10 :1 :0 :1] [:20 :4 :0 :5]]")
		c.want("COUNTER.FIND weibo WHERE comment1h < 5 AND comment > 0 COLUMNS comment1h", "[[:10 :1] [:30 :0]]")
		c.want("COUNTER.COUNT weibo WHERE comment1h > 1", ":1")
		c.want("COUNTER.SUM weibo comment1h", ":6")
		c.want("COUNTER.TOP weibo comment1h 5", "[[:20 :5] [:10 :1] [:30 :0]]")
		c.want("DBSIZE", ":3")
		info := c.do("INFO tiers counterd").Text
		for _, line := range []string{"\r\nwindow_weibo.comment1h:posts=2,bytes=", "\r\nhot_items:3\r\n", "\r\nlog_time:", "\r\ntick_overdue:0\r\n"} {
			if !strings.Contains(info, line) {
				t.Errorf("INFO has no %q:\n%s", line, info)
			}
		}
		for _, line := range []string{"SET 10.comment1h 1", "INCR 10.comment1h", "HSET 10 comment1h 1", "HINCRBY 10 comment1h 1", "DEL 10.comment1h", "HDEL 10 comment1h", "GETSET 10.comment1h 1",
			"MSET 10.cntcm 1 10.comment1h 1", "COUNTER.MSET weibo 10 1 COLUMNS comment1h", "INCR 10.comment1h IDMP p 1"} {
			if got := c.do(line).Raw; !strings.HasPrefix(got, "-ERR counter: the column is derived") {
				t.Errorf("%s: got %q", line, got)
			}
		}
		if got := c.do("COUNTER.UPDATE weibo WHERE comment1h > 0 INCR comment 1").Raw; !strings.HasPrefix(got, "-ERR counter: query: column comment1h of weibo is derived") {
			t.Errorf("an update by a derived column: got %q", got)
		}
		if got := c.do("DROP COLUMN weibo comment").Raw; !strings.HasPrefix(got, "-ERR") {
			t.Errorf("the source of a derived column is dropped: got %q", got)
		}
		c.want("COUNTER.MINCRBY 10.cntcm 1 20.cntcm 2", "[:2 :6]")
		c.want("MULTI", "+OK")
		c.want("INCR 10.cntcm", "+QUEUED")
		c.want("GET 10.comment1h", "+QUEUED")
		c.want("EXEC", `[:3 "3"]`)
		for range 2 {
			c.want(fmt.Sprintf("INCR 10.cntcm IDMP p %d", 10+proto), ":4")
		}
		c.want("COUNTER.UPDATE weibo MID = 10 INCR comment 3", ":1")
		c.want("HGET 10 comment1h", `"7"`)
		page := c.do("COUNTER.FIND weibo WHERE comment1h > 0 LIMIT 1 CURSOR 0 COLUMNS comment1h").List
		if len(page) != 2 || page[1].String() != "[[:10 :7]]" {
			t.Fatalf("the first page is %s", page)
		}
		c.want("COUNTER.FIND weibo WHERE comment1h > 0 LIMIT 9 CURSOR "+page[0].Text+" COLUMNS comment1h", `["0" [[:20 :7]]]`)
		c.want("DEL 10", ":1")
		c.want("INCR 10.cntcm", ":1")
		c.want("GET 10.comment1h", `"1"`)
		c.want("COUNTER.DROPRANGE weibo 0 15", ":1")
		c.want("SET 10.cntcm 1", "+OK")
		c.want("GET 10.comment1h", `"0"`)
	}
}

// TestWindowTracked: clients that keep a derived column are told of additions to its source.
func TestWindowTracked(t *testing.T) {
	s := wireServe(t, nil)
	w, c := wireDial(t, s, 2), wireDial(t, s, 3)
	w.want("ADD COLUMN weibo comment1h window=1h/5m of=comment", "+OK")
	w.want("INCR 10.cntcm", ":1")
	c.want("CLIENT TRACKING ON", "+OK")
	c.want("GET 10.comment1h", `"1"`)
	w.want("INCR 10.cntrn", ":1")
	c.nothing()
	w.want("INCR 10.cntcm", ":2")
	c.told(invalid("10.comment1h"))
}

// TestWindowWatched: EXEC fails at a primary and at a replica when an addition, or time, has changed a watched derived column, and only then.
func TestWindowWatched(t *testing.T) {
	const bucket = 20 * 24 * time.Hour // time does not pass but by halve
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	w := a.dial()
	w.want("ADD COLUMN weibo recent window=60d/20d of=repost", "+OK")
	w.want("ADD COLUMN weibo heat decay=80d of=comment", "+OK")
	w.want("INCR 1.cntrn", ":1")
	same(t, a, b)
	nodes := []*wireClient{a.dial(), b.dial()}
	exec := func(watched, change, want string) {
		t.Helper()
		for _, c := range nodes {
			c.want("WATCH "+watched, "+OK")
		}
		switch change {
		case "":
		case "time":
			halve(t, a.srv.Store(), bucket)
		default:
			if v := w.do(change); v.Kind == '-' {
				t.Fatalf("%s: %s", change, v)
			}
		}
		same(t, a, b)
		for i, c := range nodes {
			c.want("MULTI", "+OK")
			c.want("STRLEN 1.cntcm", "+QUEUED")
			if v := c.do("EXEC").String(); v != want {
				t.Errorf("WATCH %s, %s: EXEC of node %d gives %s, want %s", watched, change, i, v, want)
			}
		}
	}
	const fails, passes = "nil", "[:1]"
	exec("1.recent", "", passes)
	for _, change := range []string{"INCR 1.cntrn", "HINCRBY 1 repost 2", "COUNTER.MINCRBY 1.cntrn 1", "INCREX 1.cntrn BYINT 1 IDMP p 1", "COUNTER.UPDATE weibo WHERE repost > 0 INCR repost 1", "DEL 1"} {
		exec("1.recent", change, fails)
	}
	exec("1", "INCR 1.cntrn", fails)
	exec("1.heat", "INCR 1.cntcm", fails)
	exec("1.recent", "INCR 1.cntcm", passes)
	exec("1.heat", "INCR 1.cntrn", passes)
	exec("2.recent", "INCR 1.cntrn", passes)
	for _, key := range []string{"1.recent", "1.heat", "1", "1.cntrn 1.recent"} {
		exec(key, "time", fails)
	}
	exec("1.cntrn", "time", passes)
	exec("1.recent", "", passes) // the time of the WATCH before counts no more
}

// TestWindowSetTold: clients that keep or watch a derived column are told, at a primary and at a replica, of counts that come without an addition:
// from a backup, and where a comparison of nodes mends them.
func TestWindowSetTold(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	w := a.dial()
	w.want("ADD COLUMN weibo recent window=60d/20d of=repost", "+OK") // no bucket ends meanwhile
	w.want("ADD COLUMN weibo heat decay=80d of=comment", "+OK")
	w.want("INCRBY 1.cntrn 5", ":5")
	pieces := make(map[string]counter.DerivedPiece) // of the counts now
	def, all := a.srv.Store().Schema().Counter("weibo"), slot.AllGroups()
	for i := range def.Derived {
		if err := a.srv.Store().Groups().Derived(all, def, &def.Derived[i], func(p *counter.DerivedPiece) error {
			kept := *p
			kept.Rows = slices.Clone(p.Rows)
			pieces[p.Column] = kept
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.want("INCRBY 1.cntrn 2", ":7")
	w.want("INCRBY 1.cntcm 9", ":9")
	same(t, a, b)
	recent := pieces["recent"]
	for name, change := range map[string]struct {
		key, was, is string
		nodes        []*replNode
		make         func(n *replNode) error
	}{
		"a restore": {"1.recent", `"7"`, `"5"`, []*replNode{a, b}, func(*replNode) error {
			_, _, err := a.srv.Store().Groups().SetDerived(all, &recent)
			return err
		}},
		"a comparison": {"1.heat", `"9"`, `"0"`, []*replNode{b}, func(n *replNode) error {
			space := n.srv.Store().Schema().Counter("weibo").Derived[1].Space
			_, err := counter.MendRange(n.srv.Store(), counter.PostRange{Counter: space.ID, Lo: 1, Hi: 2}, n.srv.Store().Replication().Position(), nil)
			return err
		}},
	} {
		var hear []func()
		for _, n := range change.nodes {
			keeps, all, watches, others := n.dial(), n.dial(), n.dial(), n.dial()
			for _, c := range []*wireClient{keeps, all} {
				c.proto = 3
				c.do("HELLO 3")
			}
			all.want("CLIENT TRACKING ON BCAST PREFIX "+change.key, "+OK")
			keeps.want("CLIENT TRACKING ON", "+OK")
			keeps.want("GET "+change.key, change.was)
			watches.want("WATCH "+change.key, "+OK")
			others.want("WATCH 1.cntrn 1.cntcm 2", "+OK")
			hear = append(hear, func() {
				keeps.told(invalid(change.key))
				all.told(invalid(change.key))
				keeps.want("GET "+change.key, change.is)
				for c, want := range map[*wireClient]string{watches: "nil", others: "[" + change.is + "]"} {
					c.want("MULTI", "+OK")
					c.want("GET "+change.key, "+QUEUED")
					if got := c.do("EXEC").String(); got != want {
						t.Errorf("%s, at node %d: EXEC gives %s, want %s", name, n.port, got, want)
					}
				}
			})
		}
		if err := change.make(change.nodes[0]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(change.nodes) > 1 {
			same(t, a, b)
		}
		for _, f := range hear {
			f()
		}
	}
}

// TestWindowHotlist: subscribers on a primary and a replica are told which posts enter and leave the list of a window, also by time alone.
func TestWindowHotlist(t *testing.T) {
	const bucket = 20 * 24 * time.Hour // time does not pass but by halve
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	w := a.dial()
	w.want("ADD COLUMN weibo recent window=60d/20d of=repost top=2", "+OK")
	w.want("COUNTER.MINCRBY 1.cntrn 10 2.cntrn 20 3.cntrn 1", "[:10 :20 :1]")
	until(t, "the replica follows", func() bool { return b.dial().do("GET 3.cntrn").Text == "1" })
	hear := hotSubscribers(t, "__hot__:weibo.recent", a, b)
	hear(`{"whole":true,"entered":[[2,20],[1,10]],"left":[]}`)
	halve(t, a.srv.Store(), bucket)
	w.want("INCRBY 3.cntrn 50", ":51")
	hear(`{"whole":false,"entered":[[3,51]],"left":[1]}`)
	halve(t, a.srv.Store(), 2*bucket)
	hear(`{"whole":false,"entered":[],"left":[2]}`)
	w.want("COUNTER.TOP weibo recent 2", "[[:3 :50] [:2 :0]]")
	same(t, a, b)
}

// TestWindowOfBuiltDirectory: the directory of a build has no time of the log. A window column counts from the first command on, and not from the
// first tick a second later.
func TestWindowOfBuiltDirectory(t *testing.T) {
	dir := t.TempDir()
	store, err := counter.Open(dir, counter.Options{})
	if err == nil { // without the tick of the command ADD COLUMN
		err = errors.Join(store.AlterScript("add counter w\nadd column w a hint=8 max=32 suffix=a\nadd column w win window=300d/6d of=a suffix=win"), store.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, serverStart{
		made: func(s *Server) {
			s.Open = func() (*counter.Store, error) { return counter.Open(dir, counter.Options{AppendFsync: counter.SyncNo}) }
		},
		open: func(s *Server) (*counter.Store, error) {
			store, err := s.OpenStore()
			if err == nil && store.Windows().Time() == 0 {
				t.Error("the server is about to serve, and the log has no time")
			}
			return store, err
		},
	})
	defer stopServer(t, s)
	c := wireDial(t, s, 2)
	c.want("INCR w:5.a", ":1")
	c.want("GET w:5.win", `"1"`)
}

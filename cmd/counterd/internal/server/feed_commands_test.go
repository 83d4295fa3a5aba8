// Scenario: COUNTER.FEED on a primary, on its replicas and through a change of roles.

package server

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// feedServe starts a server whose changes are durable when they are acknowledged.
func feedServe(t testing.TB) *Server {
	t.Helper()
	dir := t.TempDir()
	return wireServeStore(t, dir, counter.Options{SegmentBytes: 4096, SnapshotGrowth: -1}, func(c *config.Config) {
		c.Dir, c.AppendFsync, c.AOFRetain = dir, "always", 0
	})
}

// feedOf is the position and the changes of a reply, without their positions and times, with producers and numbers.
func feedOf(t testing.TB, v resptest.Value) (position string, changes []string) {
	t.Helper()
	if len(v.List) != 2 {
		t.Fatalf("got %s, want a position and changes", v)
	}
	for _, c := range v.List[1].List {
		if len(c.List) != 3 && len(c.List) != 5 || c.List[1].N < 1e12 {
			t.Fatalf("got %s, want a position, a time and parts, and perhaps a producer and a number", c)
		}
		if _, err := counter.ParseFeedPosition(c.List[0].Text); err != nil {
			t.Fatal(err)
		}
		text := c.List[2].String()
		for _, v := range c.List[3:] {
			text += " " + v.String()
		}
		changes = append(changes, text)
	}
	return v.List[0].Text, changes
}

func TestFeedCommand(t *testing.T) {
	s := feedServe(t)
	for _, proto := range []int{2, 3} {
		c := wireDial(t, s, proto)
		c.want("FLUSHALL", "+OK")
		at, changes := feedOf(t, c.do("COUNTER.FEED FROM NOW"))
		if len(changes) > 0 {
			t.Errorf("now: got %q", changes)
		}
		begin := at
		c.want("INCR 1.cntcm", ":1")
		c.want("HSET 2 comment 5 repost 6", ":2")
		c.want("MULTI", "+OK")
		c.want("INCR 1.cntcm", "+QUEUED")
		c.want("DEL 2", "+QUEUED")
		c.want("EXEC", "[:2 :1]")
		c.want(fmt.Sprintf("INCR 1.cntcm IDMP p%d 18446744073709551615", proto), ":3")
		number := fmt.Sprintf(` "p%d" "18446744073709551615"`, proto)
		want := []string{`[["set" "weibo" :1 "comment" :1]]`, `[["set" "weibo" :2 "comment" :5 "repost" :6]]`, `[["set" "weibo" :1 "comment" :2] ["del" "weibo" :2]]`,
			`[["set" "weibo" :1 "comment" :3]]` + number}
		read := func(words string, want ...string) string {
			t.Helper()
			next, changes := feedOf(t, c.do("COUNTER.FEED FROM "+begin+words))
			if strings.Join(changes, "\n") != strings.Join(want, "\n") {
				t.Errorf("RESP%d%s: got %q, want %q", proto, words, changes, want)
			}
			return next
		}
		end := read("", want...)
		for i, one := range want { // one at a time
			next, changes := feedOf(t, c.do("COUNTER.FEED COUNT 1 FROM "+at))
			if len(changes) != 1 || changes[0] != one {
				t.Errorf("change %d: got %q, want %s", i, changes, one)
			}
			at = next
		}
		if at != end {
			t.Errorf("one at a time leads to %s, all at once to %s", at, end)
		}
		read(" MID >= 2", want[1], `[["del" "weibo" :2]]`)
		read(" MID >= 2 AND MID < 3", want[1], `[["del" "weibo" :2]]`)
		read(" MID < 3 and mid >= 2 COUNTERS weibo", want[1], `[["del" "weibo" :2]]`)
		read(" MID < 2 COLUMNS comment COUNTERS weibo", want[0], `[["set" "weibo" :1 "comment" :2]]`, want[3])
		read(" COLUMNS repost", `[["set" "weibo" :2 "repost" :6]]`, `[["del" "weibo" :2]]`)
		read(" LATEST", `[["del" "weibo" :2]]`, `[["set" "weibo" :1 "comment" :3]]`)
		c.want("FLUSHALL", "+OK")
		read(" LATEST", `[["del" "weibo" :2]]`, `[["set" "weibo" :1 "comment" :3]]`) // FLUSHALL stands alone
		if _, changes := feedOf(t, c.do("COUNTER.FEED LATEST FROM "+end)); len(changes) != 1 || changes[0] != `[["flush"]]` {
			t.Errorf("got %q", changes)
		}
	}
}

// TestFeedWithOld: the values before each change, of a counter with old=on, in both versions of the protocol, on a replica too.
func TestFeedWithOld(t *testing.T) {
	primary, replica := replPair(t, counter.SyncAlways)
	for _, proto := range []int{2, 3} {
		c, r := primary.dial(), replica.dial()
		for _, w := range []*wireClient{c, r} {
			w.proto = proto
			w.do(fmt.Sprint("HELLO ", proto))
		}
		c.want("FLUSHALL", "+OK")
		at, _ := feedOf(t, c.do("COUNTER.FEED FROM NOW"))
		c.want("INCR 1.cntcm", ":1")
		c.want("ALTER COUNTER weibo old=on", "+OK")
		c.want("INCR 1.cntcm", ":2")
		c.want("INCRBY 2.cntcm 5", ":5")
		c.want("HSET 1 comment 7 repost 6", ":0")
		c.want("SET 2.cntrn 9", "+OK")
		c.want(fmt.Sprintf("INCR 2.cntcm IDMP p%d 1", proto), ":6")
		c.want("MULTI", "+OK")
		c.want("DECR 1.cntcm", "+QUEUED")
		c.want("DEL 2", "+QUEUED")
		c.want("EXEC", "[:6 :1]")
		c.want("COUNTER.MSET weibo 1 8 9 3 4 5 COLUMNS comment repost", ":2")
		c.want("COUNTER.UPDATE weibo MID >= 3 INCR comment 1", ":1")
		c.want("ALTER COUNTER weibo old=off", "+OK")
		c.want("INCR 1.cntcm", ":9")
		c.want("ALTER COUNTER weibo old=on", "+OK")
		want := []string{`[["set" "weibo" :1 "comment" :1 nil]]`, `schema`, `[["set" "weibo" :1 "comment" :2 ["comment" :1]]]`, `[["set" "weibo" :2 "comment" :5 []]]`,
			`[["set" "weibo" :1 "comment" :7 "repost" :6 ["comment" :2 "repost" :0]]]`, `[["set" "weibo" :2 "repost" :9 ["repost" :0]]]`,
			`[["set" "weibo" :2 "comment" :6 ["comment" :5]]] ` + fmt.Sprintf(`"p%d" :1`, proto),
			`[["set" "weibo" :1 "comment" :6 ["comment" :7]] ["del" "weibo" :2 ["comment" :6 "repost" :9]]]`,
			`[["set" "weibo" :1 "comment" :8 "repost" :9 ["comment" :6 "repost" :6]] ["set" "weibo" :3 "comment" :4 "repost" :5 []]]`,
			`[["set" "weibo" :3 "comment" :5 ["comment" :4]]]`, `schema`, `[["set" "weibo" :1 "comment" :9 nil]]`, `schema`}
		read := func(w *wireClient, words string, want ...string) {
			t.Helper()
			var changes []string
			until(t, "all changes", func() bool {
				_, changes = feedOf(t, w.do("COUNTER.FEED FROM "+at+words))
				return len(changes) >= len(want)
			})
			for i := range changes {
				if strings.HasPrefix(changes[i], `[["schema"`) {
					changes[i] = "schema"
				}
			}
			if strings.Join(changes, "\n") != strings.Join(want, "\n") {
				t.Errorf("RESP%d%s: got %q, want %q", proto, words, changes, want)
			}
		}
		read(c, " WITH OLD", want...)
		read(c, " with old COUNTERS weibo MID >= 3", `schema`, `[["set" "weibo" :3 "comment" :4 "repost" :5 []]]`, want[9], `schema`, `schema`)
		read(c, " COLUMNS repost WITH OLD MID < 3", `schema`, `[["set" "weibo" :1 "repost" :6 ["repost" :0]]]`, `[["set" "weibo" :2 "repost" :9 ["repost" :0]]]`,
			`[["del" "weibo" :2 ["repost" :9]]]`, `[["set" "weibo" :1 "repost" :9 ["repost" :6]]]`, `schema`, `schema`)
		read(r, " WITH OLD", want...)
		begin := at // behind the first change of the schema all changes have old values
		for range 2 {
			begin, _ = feedOf(t, c.do("COUNTER.FEED COUNT 1 FROM "+begin))
		}
		at = begin
		read(c, " LATEST WITH OLD", `[["del" "weibo" :2 []]]`, `[["set" "weibo" :1 "comment" :8 "repost" :9 ["comment" :1 "repost" :0]]]`, `[["set" "weibo" :3 "comment" :5 "repost" :5 []]]`)
		c.want("ALTER COUNTER weibo old=off", "+OK")
	}
}

// TestFeedExecWithOld: a transaction is one change of the feed though old values of all its posts would not fit in one frame of the log.
func TestFeedExecWithOld(t *testing.T) {
	const posts, columns = 10_000, 45
	s := feedServe(t)
	c := wireDial(t, s, 2)
	c.want("ADD COUNTER wide old=on", "+OK")
	names := []string{"COLUMNS"}
	for i := range columns {
		names = append(names, fmt.Sprint("c", i))
		c.want(fmt.Sprintf("ADD COLUMN wide c%d hint=8 max=60", i), "+OK")
	}
	for _, exec := range []string{"EXEC", "EXEC IDMP wide 1"} {
		for from := 0; from < posts; from += 1000 {
			rows := []string{"COUNTER.MSET", "wide"}
			for mid := range 1000 {
				rows = append(append(rows, fmt.Sprint(from+mid)), slices.Repeat([]string{fmt.Sprint(1<<59 + mid)}, columns)...)
			}
			if got := c.sendArgs(append(rows, names...)...); got != ":1000" {
				t.Fatal(got)
			}
		}
		at, _ := feedOf(t, c.do("COUNTER.FEED FROM NOW"))
		c.want("MULTI", "+OK")
		set := []string{"MSET"}
		for i := range posts {
			if got := c.sendArgs("DEL", fmt.Sprint("wide:", i)); got != "+QUEUED" {
				t.Fatal(got)
			}
			set = append(set, fmt.Sprintf("%d.cntcm", 1<<55+2*i), "1", fmt.Sprintf("%d.cntcm", 1<<55+2*i+1), "1")
		}
		if got := c.sendArgs(set...); got != "+QUEUED" {
			t.Fatal(got)
		}
		if got := c.do(exec); len(got.List) != posts+1 {
			t.Fatal(got)
		}
		var changes []string
		until(t, "the change", func() bool {
			_, changes = feedOf(t, c.do("COUNTER.FEED WITH OLD FROM "+at))
			return len(changes) > 0
		})
		parts, told := strings.Count(changes[0], `"del"`)+strings.Count(changes[0], `"set"`), strings.Count(changes[0], `"c0"`)
		if parts != 3*posts || told < posts/2 {
			t.Errorf("%s: a change of %d parts, of which %d have old values, want %d and %d at least", exec, parts, told, 3*posts, posts/2)
		}
	}
}

// TestFeedLatestDropped: old values of a post are told though one of its changes in the reply set only a column that was dropped since.
func TestFeedLatestDropped(t *testing.T) {
	c := wireDial(t, feedServe(t), 2)
	for _, command := range []string{"ADD COUNTER d old=on", "ADD COLUMN d a hint=8 max=32 suffix=da", "ADD COLUMN d b hint=8 max=32 suffix=db", "ADD COLUMN d x hint=8 max=32 suffix=dx", "SET d:7.da 5"} {
		c.want(command, "+OK")
	}
	at, _ := feedOf(t, c.do("COUNTER.FEED FROM NOW"))
	for _, command := range []string{"INCR d:7.dx", "INCRBY d:7.da 3", "HSET d:7 x 9 b 4"} {
		c.do(command)
	}
	c.want("DROP COLUMN d x", "+OK")
	for words, want := range map[string][]string{
		"":       {`[["set" "d" :7 nil]]`, `[["set" "d" :7 "a" :8 ["a" :5]]]`, `[["set" "d" :7 "b" :4 ["b" :0]]]`},
		"LATEST": {`[["set" "d" :7 "a" :8 "b" :4 ["a" :5 "b" :0]]]`},
	} {
		var changes []string
		until(t, "all changes", func() bool {
			_, changes = feedOf(t, c.do("COUNTER.FEED FROM "+at+" WITH OLD COUNT 3 "+words))
			return strings.Contains(strings.Join(changes, ""), `"b" :4`)
		})
		if !slices.Equal(changes, want) {
			t.Errorf("%s: got %q, want %q", words, changes, want)
		}
	}
}

// TestFeedBlocks: a client that waits is told of the next change, and of nothing that it does not want.
func TestFeedBlocks(t *testing.T) {
	s := feedServe(t)
	c, writer := wireDial(t, s, 2), wireDial(t, s, 2)
	at, _ := feedOf(t, c.do("COUNTER.FEED FROM NOW"))
	c.send("COUNTER.FEED BLOCK 0 MID >= 5 FROM " + at)
	untilBlocked(t, s, 1)
	writer.want("INCR 4.cntcm", ":1")
	writer.want("INCR 5.cntcm", ":1")
	at, changes := feedOf(t, c.read())
	if len(changes) != 1 || changes[0] != `[["set" "weibo" :5 "comment" :1]]` {
		t.Errorf("got %q", changes)
	}
	writer.want("INCR 4.cntcm", ":2")
	later, changes := feedOf(t, c.do("COUNTER.FEED BLOCK 30 MID >= 5 FROM "+at))
	if len(changes) > 0 || later == at {
		t.Errorf("when its time was over: %q at %s, from %s", changes, later, at)
	}
	id := c.do("CLIENT ID").N
	c.send("COUNTER.FEED BLOCK 0 FROM " + later)
	untilBlocked(t, s, 1)
	writer.want(fmt.Sprintf("CLIENT UNBLOCK %d", id), ":1")
	if _, changes = feedOf(t, c.read()); len(changes) > 0 {
		t.Errorf("got %q", changes)
	}
	c.send("COUNTER.FEED BLOCK 0 FROM " + later)
	untilBlocked(t, s, 1)
	writer.want(fmt.Sprintf("CLIENT UNBLOCK %d ERROR", id), ":1")
	if v := c.read(); !strings.HasPrefix(v.Text, "UNBLOCKED ") {
		t.Errorf("got %s", v)
	}
	c.send("COUNTER.FEED BLOCK 0 FROM " + later) // it goes away
	untilBlocked(t, s, 1)
	c.conn.Close()
	untilBlocked(t, s, 0)
}

// TestFeedBlocksBesideSchema: a client that waits has the log synced for a change of the schema, too, without which it is shown nothing.
func TestFeedBlocksBesideSchema(t *testing.T) {
	s := feedServe(t)
	c := wireDial(t, s, 2)
	c.want("CONFIG SET appendfsync no", "+OK")
	at, _ := feedOf(t, c.do("COUNTER.FEED FROM NOW"))
	c.want("INCR 5.cntcm", ":1")
	if _, changes := feedOf(t, c.do("COUNTER.FEED BLOCK 60000 FROM "+at)); len(changes) != 1 {
		t.Fatalf("got %q", changes)
	}
	for _, change := range []string{"ADD COLUMN weibo score hint=4", "FLUSHALL"} { // which nothing else syncs
		c.want(change, "+OK")
		if _, changes := feedOf(t, c.do("COUNTER.FEED BLOCK 10000 FROM "+at)); len(changes) == 0 {
			t.Fatalf("behind %s the log was not synced for the client", change)
		}
	}
}

// replPair starts a primary, which has one post, and its replica.
func replPair(t *testing.T, sync counter.SyncPolicy) (primary, replica *replNode) {
	t.Helper()
	primary, replica = newReplNode(t), newReplNode(t)
	primary.opts.AppendFsync = sync
	primary.start("")
	primary.dial().want("SET 1.cntcm 1", "+OK")
	replica.start(primary.addr())
	return primary, replica
}

// TestFeedReplica: positions of a primary are good on its replica and the other way round, nothing is shown that the primary's
// crash may take back, and after a failover the feed goes on.
func TestFeedReplica(t *testing.T) {
	primary, replica := replPair(t, counter.SyncEverySec)
	p, r := primary.dial(), replica.dial()
	var at string
	var changes []string
	until(t, "the change on the replica", func() bool {
		v := r.do("COUNTER.FEED FROM OLDEST")
		if v.Kind == '-' {
			return false
		}
		at, changes = feedOf(t, v)
		return len(changes) == 2 && changes[1] == `[["set" "weibo" :1 "comment" :1]]`
	})
	p.want("SET 1.cntcm 2", "+OK")
	if next, got := feedOf(t, p.do("COUNTER.FEED BLOCK 60000 FROM "+at)); len(got) != 1 {
		t.Errorf("the primary shows %q", got)
	} else if next2, got := feedOf(t, r.do("COUNTER.FEED BLOCK 60000 FROM "+at)); len(got) != 1 || next2 != next {
		t.Errorf("the replica shows %q up to %s, the primary up to %s", got, next2, next)
	} else {
		at = next
	}
	if got := p.do("COUNTER.FEED SAFE 2 FROM OLDEST"); len(got.List) != 2 || len(got.List[1].List) != 0 {
		t.Errorf("safe on two replicas, of which there is one: got %s", got)
	}
	until(t, "changes that the replica has", func() bool {
		_, changes = feedOf(t, p.do("COUNTER.FEED SAFE 1 FROM OLDEST"))
		return len(changes) == 3
	})
	if v := r.do("COUNTER.FEED SAFE 1 FROM OLDEST"); !strings.HasPrefix(v.Text, "ERR SAFE is answered by a primary only") {
		t.Errorf("got %s", v)
	}
	r.want("REPLICAOF NO ONE", "+OK")
	r.want("SET 1.cntcm 3", "+OK")
	if _, got := feedOf(t, r.do("COUNTER.FEED BLOCK 60000 FROM "+at)); len(got) != 1 || got[0] != `[["set" "weibo" :1 "comment" :3]]` {
		t.Errorf("after the failover: %q", got)
	}
	p.want("REPLICAOF "+replica.addr(), "+OK")
	until(t, "the old primary to follow", func() bool {
		v := p.do("COUNTER.FEED BLOCK 100 FROM " + at)
		return v.Kind == '*' && len(v.List[1].List) == 1
	})
}

// TestFeedReplicaHurries: a client that waits at a replica, or at a replica of a replica, is shown a change although nothing else has the primary
// sync its log.
func TestFeedReplicaHurries(t *testing.T) {
	primary, replica := replPair(t, counter.SyncNo)
	last := newReplNode(t)
	last.start(replica.addr())
	p := primary.dial()
	p.want("CONFIG SET appendfsync no", "+OK") // it was everysec since the start
	for i, node := range []*replNode{replica, last} {
		r := node.dial()
		var at string
		until(t, "a position", func() bool {
			v := r.do("COUNTER.FEED FROM NOW")
			if v.Kind == '-' {
				return false
			}
			at, _ = feedOf(t, v)
			return true
		})
		p.want(fmt.Sprintf("SET %d.cntcm 5", 2+i), "+OK")
		for want, shown := fmt.Sprintf(`[["set" "weibo" :%d "comment" :5]]`, 2+i), false; !shown; {
			var changes []string
			if at, changes = feedOf(t, r.do("COUNTER.FEED BLOCK 60000 FROM "+at)); len(changes) == 0 {
				t.Fatalf("replica %d does not show %s", i, want)
			}
			shown = slices.Contains(changes, want)
		}
	}
}

// TestCursorCommand: a cursor is on the primary and its replica, INFO tells how far it is behind, and the next primary has it.
func TestCursorCommand(t *testing.T) {
	primary, replica := replPair(t, counter.SyncAlways)
	p, r := primary.dial(), replica.dial()
	at, _ := feedOf(t, p.do("COUNTER.FEED FROM NOW"))
	p.want("COUNTER.CURSOR LIST", "[]")
	p.want("COUNTER.CURSOR GET search", "nil")
	p.want("COUNTER.CURSOR DEL search", ":0")
	p.want("COUNTER.CURSOR SET search "+at, "+OK")
	p.want("COUNTER.CURSOR GET search", strconv.Quote(at))
	until(t, "the cursor on the replica", func() bool { return r.do("COUNTER.CURSOR GET search").Text == at })
	if got := r.do("COUNTER.CURSOR SET other " + at).Text; !strings.HasPrefix(got, "READONLY") {
		t.Errorf("set on a replica: %q", got)
	}
	ahead, err := counter.ParseFeedPosition(at)
	if err != nil {
		t.Fatal(err)
	}
	ahead.Frame += 1 << 20
	newer := ahead // by a primary of which this one does not know yet
	newer.Before, newer.Since, newer.Epoch = ahead.Term, ahead.Offset(), ahead.Epoch+1
	newer.Term[0]++
	for text, want := range map[string]string{ahead.String(): "-ERR not a position", newer.String(): "-TRYAGAIN"} {
		if got := p.do("COUNTER.CURSOR SET other " + text).String(); !strings.HasPrefix(got, want) {
			t.Errorf("set where the log has not come to yet: %q, want %q", got, want)
		}
	}
	p.want("FLUSHALL", "+OK")
	p.want("SET 1.cntcm 2", "+OK")
	until(t, "the changes behind it on the replica", func() bool {
		v := r.do("COUNTER.CURSOR LIST")
		return len(v.List) == 1 && v.List[0].List[7].N > 0 && v.List[0].List[11].N == 0
	})
	until(t, "INFO", func() bool {
		line := infoField(t, p, "cursor_search")
		return infoField(t, p, "feed_cursors") == "1" && strings.HasPrefix(line, "lag_bytes=") && !strings.HasPrefix(line, "lag_bytes=0,") && strings.HasSuffix(line, ",lost=0")
	})
	r.want("REPLICAOF NO ONE", "+OK")
	r.want("COUNTER.CURSOR GET search", strconv.Quote(at))
	r.want("COUNTER.CURSOR DEL search", ":1")
	r.want("COUNTER.CURSOR LIST", "[]")
}

// cursorBehind starts a primary with a cursor, behind which it has log for the cursor alone. at is the cursor's position.
func cursorBehind(t *testing.T) (primary *replNode, p *wireClient, at string) {
	t.Helper()
	primary = newReplNode(t)
	keepsForCursors(primary)
	primary.start("")
	p = primary.dial()
	p.want("SET 1.cntcm 1", "+OK")
	at, _ = feedOf(t, p.do("COUNTER.FEED FROM NOW"))
	p.want("COUNTER.CURSOR SET search "+at, "+OK")
	p.want("ADD COLUMN weibo late hint=8 max=20", "+OK")
	for i := range 600 {
		p.want(fmt.Sprintf("SET %d.cntcm 3", 10+i%50), "+OK")
	}
	p.want("DROP COLUMN weibo late", "+OK")
	for range 2 {
		p.do("INCR 1.cntcm")
		p.want("SAVE", "+OK")
	}
	if m := primary.opens.Store().Replication().Manifests(); len(m) == 0 {
		t.Fatal("no snapshot was made")
	}
	return primary, p, at
}

// keepsForCursors has a node keep log for cursors alone.
func keepsForCursors(n *replNode) {
	n.opts.SegmentBytes, n.opts.RetainBytes, n.opts.FeedRetainBytes, n.opts.AppendFsync = 4096, 0, 1<<30, counter.SyncAlways
}

// feedBehind returns all changes of a feed behind a position.
func feedBehind(t *testing.T, c *wireClient, from string) (all []string) {
	t.Helper()
	for {
		next, changes := feedOf(t, c.do("COUNTER.FEED FROM "+from))
		if all = append(all, changes...); len(changes) == 0 {
			return all
		}
		from = next
	}
}

// TestCursorFullCopy: a node that took a full copy has the log from the oldest cursor on, so a consumer goes on there when it leads directly behind
// the copy, and so it is with a replica of that node.
func TestCursorFullCopy(t *testing.T) {
	primary, p, at := cursorBehind(t)
	want := feedBehind(t, p, at)
	if len(want) < 600 {
		t.Fatalf("%d changes", len(want))
	}
	from := primary
	for range 2 {
		replica := newReplNode(t)
		keepsForCursors(replica)
		r := replica.start(from.addr()).dial()
		until(t, "the copy", func() bool { return r.do("COUNTER.CURSOR GET search").Text == at })
		until(t, "the end of the log", func() bool { return infoField(t, r, "slave_repl_offset") == infoField(t, p, "master_repl_offset") })
		from = replica
	}
	r := from.dial()
	r.want("REPLICAOF NO ONE", "+OK")
	if got := feedBehind(t, r, at); !slices.Equal(got, want) {
		t.Errorf("the feed of the next primary has %d changes behind the cursor, want %d", len(got), len(want))
	}
	if line := infoField(t, r, "cursor_search"); !strings.HasSuffix(line, ",lost=0") {
		t.Errorf("the cursor is %q", line)
	}
}

// TestCursorFullCopyDamaged: log that the primary cannot read, and that only a cursor needs, keeps no replica from its copy.
func TestCursorFullCopyDamaged(t *testing.T) {
	primary, p, _ := cursorBehind(t)
	log := primary.opens.Store().Replication()
	segs, err := logfile.Segments(vfs.OS(), primary.dir)
	if err != nil || segs[2].End > log.Manifests()[0].Replay {
		t.Fatalf("%+v, %v", segs, err)
	}
	damageFile(t, segs[1].Path, func(path string, text []byte) error {
		text[format.SegmentHeaderLen+format.FrameHeaderLen] ^= 1
		return os.WriteFile(path, text, 0o640)
	})
	replica := newReplNode(t)
	keepsForCursors(replica)
	r := replica.start(primary.addr()).dial()
	until(t, "the copy", func() bool { return infoField(t, r, "slave_repl_offset") == infoField(t, p, "master_repl_offset") })
	if !replica.said(repl.CopyWithoutCursors) {
		t.Error("the replica does not say that it gives the log up")
	}
	r.want("GET 1.cntcm", `"3"`)
	until(t, "the state of the cursor", func() bool { return strings.HasSuffix(infoField(t, r, "cursor_search"), ",lost=1") })
}

// provokeFeeds: positions that cannot be continued.
func provokeFeeds(p provoker) {
	s := feedServe(p.T)
	c := wireDial(p, s, 2)
	begin, _ := feedOf(p, c.do("COUNTER.FEED FROM OLDEST COUNT 1 BLOCK 60000")) // behind a change: all logs agree at offset 0
	for _, words := range []string{"", " FROM", " FROM x", " FROM NOW COUNT 0", " FROM NOW COUNT x", " FROM NOW BLOCK -1", " FROM NOW SAFE 0", " FROM NOW FROM NOW", " FROM NOW COUNTERS", " FROM NOW COUNTERS nosuch",
		" FROM NOW COLUMNS nosuch", " FROM NOW COUNTERS weibo COLUMNS nosuch", " FROM NOW MID > 5", " FROM NOW MID >= x", " FROM NOW MID < 0", " FROM NOW MID >= 1 MID >= 2", " FROM NOW WITH OLD", " FROM NOW WITH", " FROM NOW WITH NEW", " FROM NOW WITH OLD WITH OLD", " FROM NOW COUNTERS weibo WITH OLD", " COUNT 5", " FROM " + begin[:len(begin)-1],
		" FROM NOW COUNT 10001", " FROM NOW MID >= 1 AND", " FROM NOW MID >= 1 AND COUNT 5", " FROM NOW MID >= 1 AND 5", " FROM NOW AND MID >= 1", " FROM NOW MID >= 1 AND AND MID < 5"} {
		p.refused(s, c, "COUNTER.FEED"+words, "ERR ")
	}
	p.refused(s, c, "COUNTER.FEED FROM NOW COLUMNS nosuch", "ERR syntax error: got 'nosuch' behind COLUMNS, want columns that one of the counters has")
	p.refused(s, c, "COUNTER.FEED FROM NOW COUNTERS weibo COLUMNS nosuch", "ERR no column 'nosuch' in counter 'weibo' (see SCHEMA)")
	p.refused(s, c, "COUNTER.FEED FROM NOW WITH", "ERR syntax error: got the end behind WITH, want OLD")
	p.refused(s, c, "COUNTER.FEED FROM NOW COUNTERS weibo WITH OLD", "ERR the log has no old values of counter 'weibo', which WITH OLD asks for: run ALTER COUNTER weibo old=on")
	p.refused(s, c, "COUNTER.FEED WITH OLD FROM NOW", "ERR the log has no old values of any counter, which WITH OLD asks for: run ALTER COUNTER weibo old=on")
	c.want("ADD COLUMN weibo hot decay=1h of=repost*2+comment", "+OK")
	p.refused(s, c, "COUNTER.FEED FROM NOW COUNTERS weibo COLUMNS comment hot",
		"ERR syntax error: got 'hot' behind COLUMNS, want columns that are not derived: hot has no changes of its own, and counts the additions to repost, comment")
	other, err := counter.ParseFeedPosition(begin)
	if err != nil {
		p.Fatal(err)
	}
	own := other.Term
	other.Term[0]++
	p.refused(s, c, "COUNTER.FEED FROM "+other.String(), "POSHISTORY - ")
	other.Before, other.Since = own, other.Offset()
	other.Into = 1 // which only the other history has
	for range 100 {
		c.do("INCR 1.cntcm")
	}
	p.refused(s, c, "COUNTER.FEED FROM "+other.String(), "POSHISTORY 1-")
	for range 4 {
		for range 200 {
			c.do("INCR 1.cntcm")
		}
		if err := s.Store().Snapshot(); err != nil {
			p.Fatal(err)
		}
	}
	p.refused(s, c, "COUNTER.FEED FROM "+begin, "POSGONE 1-")
	p.refused(s, c, "COUNTER.CURSOR SET search "+begin, "POSGONE 1-")
	p.refused(s, c, "COUNTER.CURSOR SET search x", "ERR ")
	now, _ := feedOf(p, c.do("COUNTER.FEED FROM NOW"))
	p.refused(s, c, "COUNTER.CURSOR SET sea:rch "+now, "ERR a cursor's name")
	for i := range format.MaxCursors {
		c.want(fmt.Sprintf("COUNTER.CURSOR SET c%d %s", i, now), "+OK")
	}
	p.refused(s, c, "COUNTER.CURSOR SET search "+now, "ERR there are 64 cursors")
	replica := newReplNode(p.T).start(newReplNode(p.T).start("").addr())
	r := replica.dial()
	until(p.T, "a link", func() bool { return replica.srv.Store().Replica() })
	p.heard(r.do("COUNTER.FEED SAFE 1 FROM OLDEST").String(), "ERR SAFE is answered by a primary only")
}

// TestRests: short rests of a connection are put together, and none is forgotten but for a wait.
func TestRests(t *testing.T) {
	var r rests
	for i, c := range []struct{ due, want time.Duration }{
		{0, 0}, {leastRest / 2, 0}, {leastRest / 4, 0}, {leastRest / 2, leastRest * 5 / 4}, {leastRest / 2, 0}, {3 * leastRest, leastRest * 7 / 2}, {leastRest, leastRest},
	} {
		if got := r.next(c.due); got != c.want {
			t.Errorf("rest %d: got %v, want %v", i, got, c.want)
		}
	}
	c := new(client)
	half := func() time.Duration { return onFeed(c).(feedConn).c.rests.next(leastRest / 2) }
	if first, second := half(), half(); first != 0 || second != leastRest {
		t.Errorf("two commands of a connection: got %v and %v, want nothing and %v", first, second, leastRest)
	}
	half()
	if c.rests.wait(); half() != 0 {
		t.Error("a command that has waited for changes rests for what was before")
	}
}

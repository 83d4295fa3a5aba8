package feed

import (
	"bufio"
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/persist/vfs"
)

// conn is a Conn without a connection.
type conn struct {
	t     *testing.T
	call  items.Call
	store *counter.Store
	safe  func(looks int) uint64
	stop  context.CancelFunc // the client goes away

	idle, stuck  bool // Busy runs nothing; Turn runs nothing
	looks, turns int
	inTurn       bool
}

func (c *conn) Call() *items.Call     { return &c.call }
func (c *conn) Store() *counter.Store { return c.store }
func (c *conn) GiveWay()              {}
func (c *conn) Hurry()                {}

func (c *conn) Safe(int) (uint64, error) {
	if c.looks++; c.inTurn {
		c.t.Error("it looks how far the log is safe, and may wait then, while it keeps queries out")
	}
	return c.safe(c.looks), nil
}

func (c *conn) WithStore(_ bool, f func(*counter.Batch) error) error {
	b := c.store.NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	err := f(b)
	b.End()
	return err
}

func (c *conn) Busy(work func(context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if c.stop = stop; c.idle {
		return
	}
	work(ctx)
}

func (c *conn) Turn(_ context.Context, work func()) {
	if c.turns++; c.stuck {
		return
	}
	c.inTurn = true
	work()
	c.inTurn = false
}

func (c *conn) Await(_ time.Duration, wait func(context.Context)) bool {
	c.Busy(wait)
	return false
}

// do executes a command.
func (c *conn) do(words ...string) resptest.Value {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	c.looks, c.turns = 0, 0
	from := c.call.Out.Len()
	run(c, args)
	v, err := resptest.Read(bufio.NewReader(bytes.NewReader(c.call.Out.From(from))), 2)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// TestTurns: a command keeps queries out for a step at a time, and not while it waits.
func TestTurns(t *testing.T) {
	const changes = 3 * perTurn
	store := fedStore(t, changes)
	c := &conn{t: t, store: store}
	c.safe = func(looks int) uint64 { // nothing is known to be safe, until the client has gone
		if looks == 4 {
			c.stop()
		}
		return 0
	}
	if v := c.do("COUNTER.FEED", "FROM", "NOW"); v.Kind != '-' || c.looks < 4 {
		t.Errorf("now that is not known: got %s after %d looks", v, c.looks)
	}
	c.safe = func(looks int) uint64 { return store.Replication().Durable() }
	if v := c.do("COUNTER.FEED", "FROM", "OLDEST", "COUNT", "10000"); len(v.List) != 2 || len(v.List[1].List) < changes || c.turns < 3 {
		t.Errorf("got %.80s in %d turns", v, c.turns)
	}
	c.safe = func(looks int) uint64 { // safe only while the client waits
		if looks < 5 {
			return 0
		}
		return store.Replication().Durable()
	}
	if v := c.do("COUNTER.FEED", "FROM", "OLDEST", "COUNT", "10000", "BLOCK", "0"); len(v.List) != 2 || len(v.List[1].List) < changes || c.turns < 3 {
		t.Errorf("it waited: got %.80s in %d turns", v, c.turns)
	}
}

// TestEndsBeforeItsTurn: a command whose connection ends before its turn comes answers no position, from which a consumer would go on.
func TestEndsBeforeItsTurn(t *testing.T) {
	store := fedStore(t, 3)
	for _, c := range []*conn{{idle: true}, {stuck: true}} {
		c.t, c.store, c.safe = t, store, func(int) uint64 { return store.Replication().Durable() }
		for _, from := range []string{"OLDEST", "NOW"} {
			if v := c.do("COUNTER.FEED", "FROM", from); !strings.HasPrefix(v.Text, "LOADING") {
				t.Errorf("from %s: got %s, want LOADING", from, v)
			}
		}
	}
}

// TestOldestIsSafe: a position that a consumer is to go on from, where the log no longer has its beginning, is told when no failover takes it
// back. A log may begin behind the safe offset.
func TestOldestIsSafe(t *testing.T) {
	store, err := counter.Open("data", counter.Options{FS: vfs.NewSim(), Manual: true, SnapshotGrowth: -1, AppendFsync: counter.SyncAlways, SegmentBytes: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=32 suffix=cntcm\n"); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := store.Incr("1.cntcm", 1); err != nil {
			t.Fatal(err)
		}
		if i%60 == 59 {
			if err := store.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if store.Replication().First() == 0 {
		t.Fatal("the log has its beginning")
	}
	c := &conn{t: t, store: store}
	for from, want := range map[string]string{"OLDEST": "", (counter.FeedPosition{}).String(): "POSGONE"} {
		c.safe = func(looks int) uint64 { // a failover may take everything back until the fourth look
			if looks < 4 {
				return 0
			}
			return store.Replication().Durable()
		}
		if v := c.do("COUNTER.FEED", "FROM", from); c.looks < 4 || !strings.HasPrefix(v.Text, want) {
			t.Errorf("from %s: got %.80s after %d looks", from, v, c.looks)
		}
		c.safe = func(looks int) uint64 {
			if looks == 4 {
				c.stop()
			}
			return 0
		}
		if v := c.do("COUNTER.FEED", "FROM", from); !strings.HasPrefix(v.Text, "TRYAGAIN") {
			t.Errorf("from %s, which is not safe: got %.80s", from, v)
		}
	}
}

// TestPromoted: a client that waits at a replica has the log synced for the changes that the node makes once it is the primary.
func TestPromoted(t *testing.T) { synctest.Test(t, testPromoted) }

func testPromoted(t *testing.T) {
	store, err := counter.Open("data", counter.Options{FS: vfs.NewSim(), SnapshotGrowth: -1, AppendFsync: counter.SyncNo})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=32 suffix=cntcm\n"); err != nil {
		t.Fatal(err)
	}
	c := &conn{t: t, store: store, safe: func(int) uint64 { return store.Replication().Durable() }}
	now := c.do("COUNTER.FEED", "FROM", "NOW")
	if err := store.Replication().Yield(); err != nil {
		t.Fatal(err)
	}
	reply := make(chan resptest.Value, 1)
	go func() { reply <- c.do("COUNTER.FEED", "FROM", now.List[0].Text, "BLOCK", "0") }()
	synctest.Wait()
	if _, err := store.Replication().Lead(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Incr("1.cntcm", 1); err != nil {
		t.Fatal(err)
	}
	wantOneChange(t, c, reply)
}

// TestNowIsNow: NOW is behind the changes that were acknowledged before, also where nothing has synced them yet.
func TestNowIsNow(t *testing.T) { synctest.Test(t, testNowIsNow) }

func testNowIsNow(t *testing.T) {
	for _, policy := range []counter.SyncPolicy{counter.SyncNo, counter.SyncEverySec, counter.SyncAlways} {
		store, err := counter.Open("data", counter.Options{FS: vfs.NewSim(), SnapshotGrowth: -1, AppendFsync: policy})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=32 suffix=cntcm\n"); err != nil {
			t.Fatal(err)
		}
		c := &conn{t: t, store: store, safe: func(int) uint64 { return store.Replication().Durable() }}
		begun := time.Now()
		c.do("COUNTER.FEED", "FROM", "NOW") // and the schema is synced
		if took := time.Since(begun); took > 0 {
			t.Errorf("%v: NOW came after %v", policy, took)
		}
		if _, err := store.Incr("1.cntcm", 1); err != nil {
			t.Fatal(err)
		}
		now := c.do("COUNTER.FEED", "FROM", "NOW")
		if err := store.Replication().Sync(); err != nil {
			t.Fatal(err)
		}
		if v := c.do("COUNTER.FEED", "FROM", now.List[0].Text); len(v.List) != 2 || len(v.List[1].List) > 0 {
			t.Errorf("%v: behind NOW comes %s, which was acknowledged before", policy, v)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// wantOneChange waits for the reply to a client that is given one change.
func wantOneChange(t *testing.T, c *conn, reply <-chan resptest.Value) {
	t.Helper()
	time.Sleep(time.Hour)
	synctest.Wait()
	if len(reply) == 0 {
		t.Error("the client still waits")
		c.stop()
	}
	if v := <-reply; len(v.List) != 2 || len(v.List[1].List) != 1 {
		t.Errorf("got %s, want one change", v)
	}
}

// TestWaitsWithoutFile: clients keep no file of the log open while they wait, although they have read changes of other posts. Each is given the next
// change of its posts.
func TestWaitsWithoutFile(t *testing.T) { synctest.Test(t, testWaitsWithoutFile) }

func testWaitsWithoutFile(t *testing.T) {
	sim := vfs.NewSim()
	store, err := counter.Open("data", counter.Options{FS: sim, SnapshotGrowth: -1, AppendFsync: counter.SyncAlways})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=32 suffix=cntcm\n"); err != nil {
		t.Fatal(err)
	}
	change := func(key string) {
		t.Helper()
		if _, err := store.Incr(key, 1); err != nil {
			t.Fatal(err)
		}
	}
	conns := make([]*conn, 4)
	for i := range conns {
		conns[i] = &conn{t: t, store: store, safe: func(int) uint64 { return store.Replication().Durable() }}
	}
	now := conns[0].do("COUNTER.FEED", "FROM", "NOW").List[0].Text
	replies := make([]chan resptest.Value, len(conns))
	for i, c := range conns {
		replies[i] = make(chan resptest.Value, 1)
		go func() { replies[i] <- c.do("COUNTER.FEED", "FROM", now, "MID", "<", "8", "BLOCK", "0") }()
	}
	for range 3 {
		change("9.cntcm")
		time.Sleep(time.Second)
		synctest.Wait()
		open := slices.DeleteFunc(sim.Leaks(), func(what string) bool { return !strings.HasSuffix(what, ".aof") })
		if len(open) > 2 { // the file that the log writes, and a file for the next reader
			t.Errorf("%q are open while %d clients wait", open, len(conns))
		}
	}
	change("7.cntcm")
	for i, c := range conns {
		wantOneChange(t, c, replies[i])
	}
}

// TestReplicaSyncs: a client that waits at a replica is given a change that nothing else has the log synced for.
func TestReplicaSyncs(t *testing.T) { synctest.Test(t, testReplicaSyncs) }

func testReplicaSyncs(t *testing.T) {
	open := func(sync counter.SyncPolicy) *counter.Store {
		store, err := counter.Open("data", counter.Options{FS: vfs.NewSim(), SnapshotGrowth: -1, AppendFsync: sync})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	primary, replica := open(counter.SyncAlways), open(counter.SyncNo)
	defer primary.Close()
	defer replica.Close()
	if err := primary.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=32 suffix=cntcm\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := replica.Replication().Follow(primary.Replication().Lineage()); err != nil {
		t.Fatal(err)
	}
	follow := func() {
		t.Helper()
		frames, err := primary.Replication().NewFollower(replica.Replication().Position())
		if err != nil {
			t.Fatal(err)
		}
		defer frames.Close()
		for frame, err := frames.TryNext(); frame != nil || err != nil; frame, err = frames.TryNext() {
			if err != nil {
				t.Fatal(err)
			}
			end, err := replica.Replication().Replicate(frame.Raw)
			if err == nil {
				err = replica.Replication().CommitHere(end)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	follow()
	if err := replica.Replication().Sync(); err != nil {
		t.Fatal(err)
	}
	c := &conn{t: t, store: replica, safe: func(int) uint64 { return replica.Replication().Durable() }}
	now := c.do("COUNTER.FEED", "FROM", "NOW")
	reply := make(chan resptest.Value, 1)
	go func() { reply <- c.do("COUNTER.FEED", "FROM", now.List[0].Text, "BLOCK", "0") }()
	synctest.Wait()
	if _, err := primary.Incr("1.cntcm", 1); err != nil {
		t.Fatal(err)
	}
	follow()
	wantOneChange(t, c, reply)
}

// TestNapGrows: thousands of clients may wait for hours for a replica that is not there.
func TestNapGrows(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	pause := lookAt
	for range 10 {
		nap(ctx, &pause)
	}
	if pause != lookLast {
		t.Errorf("the last pause is %v, want %v", pause, lookLast)
	}
}

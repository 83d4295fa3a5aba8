package persist

import (
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestDoubts: while the disk takes nothing, the items whose changes a crash takes back are in doubt, and no others;
// none are when it is well, nor at a start on such a disk whose log was durable.
func TestDoubts(t *testing.T) {
	l, faulty, c := openFaulty(t, func(o *LogOptions) { o.Policy, o.SegmentBytes = SyncAlways, 64<<10 })
	for mid := range uint64(100) {
		l.AppendSet(1, 1, mid, 1)
	}
	must(t, l.Commit(l.Position()))
	in := map[uint64]bool{}
	check := func(when string, failing, all bool) {
		t.Helper()
		if l.Doubtful() != failing {
			t.Errorf("%s: failing %v", when, l.Doubtful())
		}
		for mid := range uint64(110) {
			if got := l.Doubts(1, mid, l.Visible(), l.Position()); got != (in[mid] || all) {
				t.Errorf("%s: item %d in doubt: %v", when, mid, got)
			}
			if l.Doubts(2, mid, l.Visible(), l.Position()) != all || l.Doubts(1, mid, l.Visible(), l.Durable()) {
				t.Errorf("%s: another counter's item, or an old one, is in doubt", when)
			}
		}
	}
	check("well", false, false)
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
	l.AppendSet(1, 1, 3, 2)
	l.AppendDelete(1, 4)
	if l.Commit(l.Position()) == nil {
		t.Fatal("committed")
	}
	in[3], in[4] = true, true
	check("failing", true, false)
	if !l.Doubts(1, 50, l.Durable()-1, l.Position()) {
		t.Error("what the tail has no more of is not in doubt")
	}
	_, err := l.AppendItem(1, 105, []format.ColumnValue{{Column: 1, Value: 1}, {Column: 2, Value: 2}}) // was let in before the trouble
	must(t, err)
	in[105] = true
	check("one more", true, false)
	for range 3 { // attempts that fail
		c.At = c.At.Add(maxHealDelay)
		l.Tick()
	}
	check("still failing", true, false)
	l.AppendFlush()
	check("a flush", true, true)
	faulty.Clear()
	c.At = c.At.Add(maxHealDelay)
	l.Tick()
	clear(in)
	check("well again", false, false)
	must(t, l.Close())
}

// TestManyDoubts: a tail that changes very many items puts all in doubt, until the disk is well again.
func TestManyDoubts(t *testing.T) {
	l, faulty, c := openFaulty(t, func(o *LogOptions) { o.Policy, o.SegmentBytes = SyncAlways, 64<<20 })
	for mid := range uint64(maxDoubted + 1) {
		l.AppendSet(1, 1, mid, 1)
	}
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
	if l.Commit(l.Position()) == nil {
		t.Fatal("committed")
	}
	if !l.Doubts(1, 1<<40, l.Visible(), l.Position()) {
		t.Error("not in doubt")
	}
	faulty.Clear()
	c.At = c.At.Add(maxHealDelay)
	l.Tick()
	must(t, l.Commit(l.Position()))
	safe := l.Visible()
	l.AppendSet(1, 1, 7, 7)
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
	if l.Commit(l.Position()) == nil {
		t.Fatal("committed")
	}
	if !l.Doubts(1, 7, safe, l.Position()) || l.Doubts(1, 8, safe, l.Position()) {
		t.Error("the disk was well in between: the changed post alone should be in doubt")
	}
	faulty.Clear()
	must(t, l.Close())
}

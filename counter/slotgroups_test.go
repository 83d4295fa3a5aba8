// Scenario: posts by groups of hash slots, of which clients may touch some.

package counter

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

var allGroups = slot.AllGroups()

// fewGroups turns a mid into one of three groups of hash slots, near 100 times the mid, or leaves it where that is too
// high: so that a store made of groups has several blocks in each.
func fewGroups(mid uint64) uint64 {
	if mid > 1<<55 {
		return mid
	}
	return slot.Least([]uint8{slot.Group(0), 3, 200}[mid%3], 100*mid)
}

// TestOwn has a store of which clients may touch a random half of the groups: what is there of others is not changed, not
// read, not listed and not counted, hot and cold, and all of it is there again when they may.
func TestOwn(t *testing.T) {
	rng := newRand(t)
	s, err := Open("/data", Options{FS: vfs.NewSim(), Manual: true, BlockItems: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.AlterScript("add counter weibo\nadd column weibo repost hint=4 max=32 suffix=cntrn\nadd column weibo comment hint=4 max=32"); err != nil {
		t.Fatal(err)
	}
	const posts = 1000
	for mid := uint64(1); mid <= posts; mid++ {
		if err := s.Set(fmt.Sprintf("%d.cntrn", mid), mid); err != nil {
			t.Fatal(err)
		}
	}
	for mid := uint64(1); mid < posts/2; mid += 40 {
		if err := s.Admin().Demote("weibo", mid); err != nil && !errors.Is(err, ErrNoBlock) {
			t.Fatal(err)
		}
	}
	var set slot.Set
	for group := range slot.Groups {
		if rng.IntN(2) == 0 {
			set.Add(uint8(group))
		}
	}
	s.Groups().Own(set)
	if got := s.Groups().Owned(); got != set {
		t.Fatalf("Owned: got %x, want %x", got, set)
	}
	var owned []uint64
	sum := uint64(0)
	for mid := uint64(1); mid <= posts; mid++ {
		if set.Has(slot.Group(mid)) {
			owned = append(owned, mid)
			sum += mid
		}
	}
	check := func(what string, got, want []uint64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %d posts, want %d: %v, %v", what, len(got), len(want), got[:min(20, len(got))], want[:min(20, len(want))])
		}
	}
	def := s.Schema().Counter("weibo")

	// One by one, and several at a time in one batch.
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	for mid := uint64(1); mid <= posts; mid++ {
		b.Add(Op{Kind: []OpKind{OpGet, OpRead, OpExists, OpAdd, OpDelete}[mid%5], Counter: def, Mid: mid})
	}
	b.Run()
	var taken []uint64
	for i := range b.Len() {
		op := b.Op(i)
		var refused *NotOwnedError
		switch {
		case op.Err == nil && op.Found:
			taken = append(taken, op.Mid)
		case !errors.As(op.Err, &refused) || !errors.Is(op.Err, ErrNotOwned) || refused.Slot != slot.Of(op.Mid) || op.Found || op.Done:
			t.Fatalf("mid %d: got %v, found %v, done %v", op.Mid, op.Err, op.Found, op.Done)
		}
	}
	check("operations", taken, owned)
	b.Reset()
	var read []uint64
	for mid := uint64(1); mid <= posts; mid++ {
		ReadPosts(b, def, []uint64{mid}, []uint8{slot.Group(mid)})
	}
	b.Run()
	for i := range b.Len() {
		if op := b.Op(i); op.Found && op.Err == nil && !slices.Equal(b.Row(op), []uint64{op.Mid, 0}) {
			t.Errorf("mid %d: got row %d", op.Mid, b.Row(op))
		} else if op.Found {
			read = append(read, op.Mid)
		} else if !errors.Is(op.Err, ErrNotOwned) && op.Mid%5 != 4 {
			t.Errorf("mid %d: got found %v, error %v", op.Mid, op.Found, op.Err)
		}
	}
	left := slices.DeleteFunc(slices.Clone(owned), func(mid uint64) bool { return mid%5 == 4 }) // which were deleted
	check("reads with their groups", read, left)
	b.Reset()
	for _, mid := range owned { // as it was
		b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Arg: mid})
	}
	b.Run()

	// Groups of operations: refused whole, whatever number they have.
	for _, kinds := range [][2]OpKind{{OpSet, OpSet}, {OpGet, OpRead}, {OpAdd, OpAdd}} {
		b.Reset()
		var ours, theirs uint64
		for mid := uint64(1); ours == 0 || theirs == 0; mid++ {
			if set.Has(slot.Group(mid)) {
				ours = mid
			} else {
				theirs = mid
			}
		}
		for i, mid := range []uint64{ours, theirs} {
			b.Add(Op{Kind: kinds[i], Counter: def, Mid: mid, Arg: 77})
		}
		b.ChangeSet(0)
		b.Run()
		if op := b.Op(0); !errors.Is(op.Err, ErrNotOwned) || op.Done || op.Found {
			t.Errorf("a group with a post of another: got %+v", op)
		}
	}
	b.End()
	theirs := uint64(1)
	for set.Has(slot.Group(theirs)) {
		theirs++
	}
	for _, ops := range [][]Op{{{Kind: OpAdd, Mid: theirs, Arg: 1}}, {{Kind: OpAdd, Mid: theirs, Arg: 1}, {Kind: OpAdd, Mid: owned[0], Arg: 1}}} {
		if o, _ := numbered(t, s, Once{Producer: pa, Seq: 1, Make: answers}, ops...); !errors.Is(o.Err, ErrNotOwned) || o.Repeat {
			t.Errorf("a numbered change: got %+v", o)
		}
	}

	// What lists and counts.
	var listed []uint64
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		items, next, err := s.Scan(cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			listed = append(listed, it.Mid)
		}
		cursor = next
	}
	slices.Sort(listed) // SCAN goes group by group where not all are owned
	check("SCAN", listed, slices.Sorted(slices.Values(owned)))
	for _, desc := range []bool{false, true} {
		var found []uint64
		if err := s.Find(query.Query{Counter: def, To: 1 << 62, Desc: desc}, func(mid uint64, _ []uint64) bool {
			found = append(found, mid)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if desc {
			slices.Reverse(found)
		}
		check("Find", found, owned)
	}
	if _, n, _, err := s.Aggregate(query.Query{Counter: def, To: 1 << 62}, query.Count, 0); err != nil || n != uint64(len(owned)) {
		t.Errorf("Count: got %d, %v, want %d", n, err, len(owned))
	}
	if _, n, _, err := s.Aggregate(query.Query{Counter: def, To: 1 << 62}, query.Sum, 0); err != nil || n != sum {
		t.Errorf("Sum: got %d, %v, want %d", n, err, sum)
	}
	top, err := s.Top(query.Query{Counter: def, To: 1 << 62}, 0, 3)
	if err != nil || top.Len() != 3 {
		t.Fatal(err)
	}
	if mid, _ := top.At(0); mid != owned[len(owned)-1] {
		t.Errorf("Top: got %d, want %d", mid, owned[len(owned)-1])
	}
	if changed, err := s.Update(query.Query{Counter: def, To: 1 << 62}, []Change{{Kind: OpAdd, Column: 1, Arg: 1}}, ReturnNothing, nil); err != nil || changed != len(owned) {
		t.Errorf("Update: got %d, %v, want %d", changed, err, len(owned))
	}
	digests, err := s.Admin().Digests("weibo", 0, 1<<63, 1)
	if err != nil || digests[0].Items != uint64(len(owned)) {
		t.Errorf("Digests: got %v, %v, want %d items", digests, err, len(owned))
	}
	if n, err := s.Len(); err != nil || n == posts || n == 0 {
		t.Errorf("Len: got %d, %v", n, err)
	}

	s.Groups().Own(allGroups)
	if n, err := s.Len(); err != nil || n != posts {
		t.Errorf("Len of all: got %d, %v", n, err)
	}
	for mid := uint64(1); mid <= posts; mid++ {
		if v, found, err := s.Get(fmt.Sprintf("%d.cntrn", mid)); v != mid || !found || err != nil {
			t.Fatalf("%d: got %d, %v, %v", mid, v, found, err)
		}
	}
}

// TestSlotGroupsStay opens directories again with another Options.SlotGroups: they stay what they were made as, as soon as
// there is a snapshot, with all posts, hot, cold and in the log. Empty groups have no files.
func TestSlotGroupsStay(t *testing.T) {
	for _, slotGroups := range []bool{false, true} {
		opts := Options{FS: vfs.NewSim(), Manual: true, BlockItems: 16, SlotGroups: slotGroups}
		m := model{"weibo": {}}
		s := openDir(t, "/data", opts, "add counter weibo\nadd column weibo repost hint=4 max=32 suffix=cntrn")
		put := func(from, to uint64) {
			for i := from; i < to; i++ {
				mid := fewGroups(i)
				if err := s.Set(fmt.Sprintf("%d.cntrn", mid), i); err != nil {
					t.Fatal(err)
				}
				m["weibo"][mid] = map[string]uint64{"repost": i}
			}
		}
		put(0, 300)
		for i := range uint64(100) {
			if err := s.Admin().Demote("weibo", fewGroups(i)); err != nil && !errors.Is(err, ErrNoBlock) {
				t.Fatal(err)
			}
		}
		put(290, 320)
		put(50, 60)
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
		put(320, 330)
		kept := s.data.Dir.Manifests()[0]
		groups := map[uint8]bool{}
		for _, b := range kept.Counters[0].Blocks {
			groups[b.Group] = true
		}
		if want := map[bool]int{false: 1, true: 3}[slotGroups]; kept.SlotGroups != slotGroups || len(groups) != want {
			t.Errorf("SlotGroups %v: the snapshot is %v, with blocks of %d groups, want %d", slotGroups, kept.SlotGroups, len(groups), want)
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			opts.SlotGroups = !opts.SlotGroups
			var err error
			if s, err = Open("/data", opts); err != nil {
				t.Fatal(err)
			}
			if s.SlotGroups() != slotGroups {
				t.Errorf("made with SlotGroups %v, opened again it is %v", slotGroups, s.SlotGroups())
			}
			checkStore(t, s, m)
		}
		posts := int64(0)
		for mid := range m["weibo"] {
			if slot.Group(mid) == 200 {
				posts++
			}
		}
		if st := s.Groups().Stats(200); slotGroups && (st.Posts != posts || st.Bytes == 0) {
			t.Errorf("group 200 of %d posts: got %+v", posts, st)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOwnReplica has a replica that owns nothing: it takes all that its primary sends, and shows none of it.
func TestOwnReplica(t *testing.T) {
	s, err := Open("/data", Options{FS: vfs.NewSim(), Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.Groups().Own(slot.Set{})
	primary, err := Open("/primary", Options{FS: vfs.NewSim(), Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { primary.Close() })
	if _, err := s.Replication().Follow(primary.Replication().Lineage()); err != nil {
		t.Fatal(err)
	}
	if err := primary.AlterScript("add counter weibo\nadd column weibo repost hint=4 max=32 suffix=cntrn"); err != nil {
		t.Fatal(err)
	}
	for mid := range 100 {
		if _, err := primary.Incr(fmt.Sprintf("%d.cntrn", mid), 1); err != nil {
			t.Fatal(err)
		}
	}
	ship(t, primary, s)
	if _, _, err := s.Get("7.cntrn"); !errors.Is(err, ErrNotOwned) {
		t.Errorf("got %v", err)
	}
	s.Groups().Own(allGroups)
	if n, err := s.Len(); err != nil || n != 100 {
		t.Errorf("got %d posts, %v", n, err)
	}
}

// TestOwnWaits changes posts while groups go and come: behind Own no batch changes one that is gone.
func TestOwnWaits(t *testing.T) {
	s := open(t, Options{BlockItems: 16}, "add counter weibo\nadd column weibo repost hint=4 max=32 suffix=cntrn")
	const posts = 20
	var wg sync.WaitGroup
	var made atomic.Int64
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			b := s.NewBatch()
			for {
				select {
				case <-stop:
					return
				default:
				}
				b.Reset()
				if err := b.Begin(); err != nil {
					t.Error(err)
					return
				}
				for mid := range uint64(posts) {
					b.Add(Op{Kind: OpAdd, Counter: b.Schema().Counter("weibo"), Mid: mid, Arg: 1})
				}
				b.Run()
				for i := range posts {
					if b.Op(i).Err == nil {
						made.Add(1)
					}
				}
				b.End()
			}
		})
	}
	inside := s.data.NewCarrier() // sees all
	sum := func() (n int64) {
		inside.Reset()
		if err := inside.Begin(); err != nil {
			t.Fatal(err)
		}
		defer inside.End()
		for mid := range uint64(posts) {
			inside.Add(Op{Kind: OpGet, Counter: inside.Schema().Counter("weibo"), Mid: mid})
		}
		inside.Run()
		for i := range posts {
			n += int64(inside.Op(i).Value)
		}
		return n
	}
	for range 50 {
		s.Groups().Own(slot.Set{})
		before := sum()
		if n := made.Load(); n != before {
			t.Fatalf("%d changes were acknowledged, %d are there", n, before)
		}
		runtime.Gosched()
		if after := sum(); after != before {
			t.Fatalf("%d changes behind Own", after-before)
		}
		s.Groups().Own(allGroups)
		for made.Load() == before {
			runtime.Gosched()
		}
	}
	close(stop)
	wg.Wait()
}

// TestOpenBlocksShrink: the open blocks of 256 groups are no reason for memory to stay above its limit.
func TestOpenBlocksShrink(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	s, err := Open("/data", Options{FS: vfs.NewSim(), Manual: true, SlotGroups: true, BlockItems: 1024})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AlterScript(seedScript); err != nil {
		t.Fatal(err)
	}
	mids := fillRows(t, s, 60_000, 1, (*stream).together)
	def := s.Schema().Counter("weibo")
	sum := func() (hi, lo uint64) {
		hi, lo, _, err := s.Aggregate(query.Query{Counter: def, To: schema.MaxMid}, query.Sum, 1)
		if err != nil {
			t.Fatal(err)
		}
		return hi, lo
	}
	hi, lo := sum()
	limit := s.tiers.Memory() / 2
	s.tiers.Limit.Store(limit)
	for s.tiers.Shrink() {
	}
	if got := s.tiers.Memory(); got > limit {
		t.Errorf("memory is %d of a limit of %d, and nothing is done", got, limit)
	}
	s.tiers.Limit.Store(0)
	if h, l := sum(); h != hi || l != lo {
		t.Errorf("the sum of all posts became %d, %d from %d, %d", h, l, hi, lo)
	}
	for _, mid := range mids[len(mids)-100:] {
		if err := s.Set(fmt.Sprintf("%d.cntcm", mid), 7); err != nil {
			t.Fatal(err)
		}
	}
}

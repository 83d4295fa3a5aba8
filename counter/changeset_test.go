// Scenario: changes of several posts stand or fall together, beside readers, without memory, and over crashes.

package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// span are the numbers of operations that are a change set.
type span struct{ from, to int }

// addGroup adds a change set of random operations to b: changes that set, changes that remove, additions, whole rows, or reads.
// One in eight columns of the first kind gets a value out of its range, and so do additions.
func addGroup(rng *rand.Rand, b *Batch, mid func() uint64) span {
	from, kind := b.Len(), rng.IntN(5)
	for range 1 + rng.IntN(12) {
		op := randomOp(rng, b, mid)
		if op.Column < 0 && kind < 3 {
			op.Column = int16(rng.IntN(len(op.Counter.Columns)))
		}
		switch kind {
		case 0:
			op.Kind, op.Cond, op.Arg = OpSet, Always, rng.Uint64()&op.Counter.Columns[op.Column].Limit()
			if rng.IntN(8) == 0 {
				op.Arg = op.Counter.Columns[op.Column].Limit() + 1
			}
		case 1:
			op.Kind = []OpKind{OpReset, OpDelete, OpReset, OpDelete, OpGet, OpRead}[rng.IntN(6)]
		case 2:
			if op.Kind == OpAddWithin {
				break
			}
			op.Kind, op.Arg = OpAdd, rng.Uint64N(40)-15
			if rng.IntN(8) == 0 {
				op.Arg = rng.Uint64()
			}
		case 3:
			op = randomRow(rng, b, op.Counter, op.Mid)
		default:
			op.Kind = []OpKind{OpRead, OpExists, OpGet}[rng.IntN(3)]
			op.Column = int16(rng.IntN(len(op.Counter.Columns)))
		}
		b.Add(op)
	}
	b.ChangeSet(from)
	return span{from: from, to: b.Len()}
}

// checkGroup compares the results of a change set with the model, and that one which was refused has changed nothing.
func checkGroup(t *testing.T, b *Batch, g span, full bool, m model) {
	t.Helper()
	var refused error
	tooLarge := false
	for i := g.from; i < g.to; i++ {
		op := b.Op(i)
		tooLarge = tooLarge || op.Kind == OpSet && op.Arg > op.Counter.Columns[op.Column].Limit() || op.Kind == OpSetRow && !rowOf(op).fits(op.Counter)
		if op.Err != nil && (op.Kind != OpAdd || op.Err != ErrOutOfRange) {
			refused = op.Err
		}
	}
	if tooLarge && refused == nil {
		t.Fatalf("a group with a value out of range: got no error")
	}
	if refused == nil {
		for i := g.from; i < g.to; i++ {
			checkOp(t, b, b.Op(i), m)
		}
		return
	}
	if !(tooLarge && errors.Is(refused, ErrOutOfRange)) && !(full && errors.Is(refused, ErrMaxMemory)) {
		t.Fatalf("got %v (value out of range: %v, no new rows: %v)", refused, tooLarge, full)
	}
	for i := g.from; i < g.to; i++ {
		if b.Op(i).Done {
			t.Fatalf("operation %d of a group that was refused, %v, is done", i-g.from, refused)
		}
	}
}

// TestChangeSetRefused: the last operation of a change set cannot be done, as its page is damaged, there is no room for new
// rows, or its value is out of range. None of the operations before it is done, which make rows in several blocks and
// in an overlay, and split blocks; nothing of it is in the log.
func TestChangeSetRefused(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	dir := t.TempDir()
	opts := Options{BlockItems: 8192, SnapshotGrowth: -1}
	s := openDir(t, dir, opts, seedScript+"\nadd counter n\nadd column n v hint=8 max=32")
	mids := fill(t, s, 40_000, 3)
	if err := s.Admin().Demote("weibo", mids[0]); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"n:1.v", "n:2.v"} {
		if err := s.Set(key, 7); err != nil {
			t.Fatal(err)
		}
	}
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
		_, err = f.WriteAt([]byte{0xff, 0xff, 0xff}, info.Size()/4)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	bad, good := uint64(0), uint64(0) // on the damaged page, and of the same file and not
	for _, mid := range mids[:8000] {
		switch _, _, err := s.Get(fmt.Sprintf("%d.cntrn", mid)); {
		case errors.Is(err, block.ErrCold):
			bad = mid
		case err == nil:
			good = mid
		}
	}
	if bad == 0 || good == 0 {
		t.Fatalf("got %d on the damaged page, %d elsewhere", bad, good)
	}
	state := func() map[string]uint64 {
		all := map[string]uint64{}
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		defer b.End()
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			var items []ScanItem
			items, cursor, _ = NewReader(b).Scan(nil, cursor, 1000) // the error is the damaged page
			b.Reset()
			for _, it := range items {
				b.Add(Op{Kind: OpRead, Counter: it.Counter, Mid: it.Mid})
			}
			b.Run()
			for i := range b.Len() {
				for c, v := range b.Row(b.Op(i)) { // none for those that cannot be read
					all[fmt.Sprint(b.Op(i).Counter.Name, b.Op(i).Mid, c)] = v
				}
			}
		}
		return all
	}
	before, log := state(), s.data.Log.Position()
	end := mids[len(mids)-1]
	fresh := func(set bool) (ops []Op) {
		b := s.Schema()
		n, weibo := b.Counter("n"), b.Counter("weibo")
		kind := OpSet
		if !set {
			kind = OpDelete
		}
		for _, mid := range []uint64{1, 2, 3} {
			ops = append(ops, Op{Kind: kind, Counter: n, Mid: mid, Arg: 9})
		}
		for i := range uint64(9000) { // as many as split the blocks they go to
			ops = append(ops, Op{Kind: kind, Counter: weibo, Mid: end + i, Arg: i}, Op{Kind: kind, Counter: weibo, Mid: mids[30_000] + i, Arg: i})
		}
		return append(ops, Op{Kind: kind, Counter: weibo, Mid: good + 1, Arg: 5}, Op{Kind: kind, Counter: weibo, Mid: good, Arg: 5})
	}
	weibo := s.Schema().Counter("weibo")
	for name, c := range map[string]struct {
		set  bool
		last Op
		full bool
		err  error
	}{
		"set, no memory":       {true, Op{Kind: OpSet, Counter: weibo, Mid: end, Arg: 1}, false, ErrNoMemory},
		"set, damaged page":    {true, Op{Kind: OpSet, Counter: weibo, Mid: bad, Arg: 1, Before: true}, false, block.ErrCold},
		"delete, damaged page": {false, Op{Kind: OpGet, Counter: weibo, Mid: bad}, false, block.ErrCold},
		"reset, damaged page":  {false, Op{Kind: OpReset, Counter: weibo, Mid: bad}, false, block.ErrCold},
		"set, out of range":    {true, Op{Kind: OpSet, Counter: weibo, Mid: end, Arg: 1 << 40}, false, ErrOutOfRange},
		"set, no new rows":     {true, Op{Kind: OpSet, Counter: weibo, Mid: end, Arg: 1}, true, ErrMaxMemory},
	} {
		t.Run(name, func(t *testing.T) {
			b := s.NewBatch()
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			for _, op := range fresh(c.set) {
				b.Add(op)
			}
			for i := range uint64(9000) {
				if c.err == ErrNoMemory { // a block that no other case has made larger
					b.Add(Op{Kind: OpSet, Counter: weibo, Mid: mids[20_000] + i, Arg: i})
				}
			}
			b.Add(c.last)
			b.ChangeSet(0)
			s.data.Full.Store(c.full)
			if c.err == ErrNoMemory {
				s.data.Arena.SetLimit(s.data.Arena.Used() + 16<<10) // some blocks can grow, others not
				defer s.data.Arena.SetLimit(0)
			}
			b.Run()
			s.data.Full.Store(false)
			b.End()
			refused := 0
			for i := range b.Len() {
				op := b.Op(i)
				if op.Done {
					t.Fatalf("operation %d is done", i)
				}
				if op.Err != nil {
					refused++
					if !errors.Is(op.Err, c.err) {
						t.Errorf("got %v, want %v", op.Err, c.err)
					}
				}
			}
			if refused != 1 {
				t.Errorf("got %d errors, want one", refused)
			}
			if got := s.data.Log.Position(); got != log {
				t.Errorf("%d bytes were logged", got-log)
			}
			after := state()
			for key, v := range after {
				if was, ok := before[key]; !ok || was != v {
					t.Fatalf("%s: got %d, want %d (there before: %v)", key, v, was, ok)
				}
			}
			if len(after) != len(before) {
				t.Fatalf("got %d values, want %d", len(after), len(before))
			}
		})
	}
}

// TestChangeSetAtomic: change sets give many items one value each, and remove them all, while others read them in change sets, and
// blocks split, are demoted, merged and promoted: nobody sees a part.
func TestChangeSetAtomic(t *testing.T) {
	rng := newRand(t)
	opts := Options{BlockItems: 16, FS: vfs.NewSim(), Manual: true}
	s := openDir(t, "data", opts, "add counter a\nadd column a v hint=2 max=40 suffix=v top=2\nadd column a w hint=2 max=40 suffix=w\nadd counter b\nadd column b x hint=2 max=40")
	def, other := s.Schema().Counter("a"), s.Schema().Counter("b")
	mids := make([]uint64, 60)
	for i := range mids {
		mids[i] = rng.Uint64N(1 << 20)
	}
	var done atomic.Bool
	var writing, reading sync.WaitGroup
	writer := func(who uint64) {
		rng := rand.New(rand.NewPCG(*seed, who))
		b := s.NewBatch()
		for round := range uint64(400) {
			if err := b.Begin(); err != nil {
				t.Error(err)
				return
			}
			b.Reset()
			b.Add(Op{Kind: OpAdd, Counter: def, Mid: rng.Uint64N(1 << 20), Column: 1, Arg: 1}) // splits blocks; v may stay 0 of an item of ours, w is not looked at
			first := b.Len()
			for _, i := range rng.Perm(len(mids)) {
				for _, op := range []Op{{Counter: def, Mid: mids[i]}, {Counter: other, Mid: mids[i]}} {
					if op.Kind, op.Arg = OpSet, who<<20+round; round%8 == 7 {
						op.Kind = OpReset
					}
					b.Add(op)
				}
			}
			b.ChangeSet(first)
			b.Run()
			for i := range b.Len() {
				if err := b.Op(i).Err; err != nil {
					t.Error(err)
				}
			}
			b.End()
			if err := b.Commit(); err != nil {
				t.Error(err)
			}
		}
	}
	reader := func(who uint64, together bool) (seen int) {
		rng := rand.New(rand.NewPCG(*seed, who))
		b := s.NewBatch()
		last := uint64(0)
		for !done.Load() {
			if err := b.Begin(); err != nil {
				t.Error(err)
				return
			}
			b.Reset()
			for _, i := range rng.Perm(len(mids)) {
				b.Add(Op{Kind: OpGet, Counter: def, Mid: mids[i]})
				b.Add(Op{Kind: OpRead, Counter: other, Mid: mids[i]})
			}
			if together {
				b.ChangeSet(0)
			}
			b.Run()
			first, rows := b.Op(0).Value, 0
			for i := range b.Len() {
				op := b.Op(i)
				if op.Kind == OpRead {
					if rows++; op.Found {
						op.Value = b.Row(op)[0]
					}
				}
				if op.Err != nil {
					t.Error(op.Err)
				}
				if together && op.Value != first {
					t.Errorf("operation %d: got %d, want %d as the others", i, op.Value, first)
					done.Store(true)
				}
			}
			if first != last {
				seen++
			}
			last = first
			b.End()
		}
		return seen
	}
	var seen atomic.Int64
	for i := range uint64(2) {
		writing.Go(func() { writer(i + 1) })
		reading.Go(func() { seen.Add(int64(reader(10+i, true))) })
	}
	reading.Go(func() { reader(20, false) })
	reading.Go(func() {
		rng := rand.New(rand.NewPCG(*seed, 30))
		for !done.Load() {
			change := s.Admin().Demote
			if rng.IntN(3) == 0 {
				change = s.Admin().Promote
			}
			if err := change([]string{"a", "b"}[rng.IntN(2)], rng.Uint64N(1<<20)); err != nil && !errors.Is(err, ErrNoBlock) {
				t.Error(err)
				return
			}
		}
	})
	writing.Wait()
	done.Store(true)
	reading.Wait()
	t.Logf("%d changes seen by readers", seen.Load())
}

// TestChangeSetOrder: who has seen one change of a change set by a read of its own sees the others by the next.
func TestChangeSetOrder(t *testing.T) {
	newRand(t)
	s := open(t, Options{BlockItems: 16}, "add counter a\nadd column a v hint=2 max=40")
	def := s.Schema().Counter("a")
	for i := range uint64(500) {
		if err := s.Set(fmt.Sprintf("a:%d.v", i), 0); err != nil {
			t.Fatal(err)
		}
	}
	mids := [2]uint64{20, 400}
	var done atomic.Bool
	var readers sync.WaitGroup
	for who := range uint64(2) {
		rng := rand.New(rand.NewPCG(*seed, who))
		readers.Go(func() {
			b := s.NewBatch()
			for !done.Load() {
				first, values := rng.IntN(2), [2]uint64{}
				for i := range values {
					if err := b.Begin(); err != nil {
						t.Error(err)
						return
					}
					b.Reset()
					b.Add(Op{Kind: OpGet, Counter: def, Mid: mids[first^i]})
					b.Run()
					values[i] = b.Op(0).Value
					b.End()
				}
				if values[1] < values[0] {
					t.Errorf("got %d of mid %d, then %d of mid %d", values[0], mids[first], values[1], mids[first^1])
					return
				}
			}
		})
	}
	b := s.NewBatch()
	for value := range uint64(30_000) {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		for _, mid := range mids {
			b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Arg: value})
		}
		b.ChangeSet(0)
		b.Run()
		b.End()
	}
	done.Store(true)
	readers.Wait()
}

// TestCrashChangeSet lets the power fail after every operation of the file system while change sets give many items one value,
// and others commit what there is of the log between them: what is recovered is never a part of a change set, and never a
// part of an item's columns.
func TestCrashChangeSet(t *testing.T) {
	const items = 600
	points := 0
	for at := 0; ; at++ {
		sim := vfs.NewSim()
		sim.TornCrashAt(at, []int{0, 50, 100}[at%3])
		acknowledged := uint64(0)
		opts := Options{FS: sim, Manual: true, HashSeed: 1}
		s, err := Open("data", opts)
		if err == nil {
			err = s.AlterScript("add counter n\nadd column n v hint=8 max=63\nadd column n w hint=8 max=63 suffix=w")
		}
		for value := uint64(1); err == nil && value <= 5; value++ {
			b := s.NewBatch()
			if err = b.Begin(); err != nil {
				break
			}
			def := b.Schema().Counter("n")
			for i := range uint64(items) {
				b.Add(Op{Kind: OpSet, Counter: def, Mid: i << 40, Arg: value})
				b.Add(Op{Kind: OpSet, Counter: def, Mid: i << 40, Arg: value, Column: 1})
			}
			b.ChangeSet(0)
			var done atomic.Bool
			var other sync.WaitGroup
			running := make(chan struct{})
			other.Go(func() {
				for i := 0; !done.Load(); i++ {
					_ = s.data.Log.Commit(s.data.Log.Position()) // its error is the crash
					if i == 10 {
						close(running)
					}
				}
			})
			<-running
			b.Run()
			done.Store(true)
			other.Wait()
			b.End()
			if err = b.Commit(); err == nil {
				acknowledged = value
			}
		}
		crashed := sim.Crashed()
		if err != nil && !crashed {
			t.Fatal(err)
		}
		for i, left := range []*vfs.Sim{sim.Kill(), sim.Crash(uint64(at), 0), sim.Crash(uint64(at), 30), sim.Crash(uint64(at), 70), sim.Crash(uint64(at), 100)} {
			r, err := Open("data", Options{FS: left, Manual: true, HashSeed: 1})
			if err != nil {
				t.Fatalf("crash at %d: %v", at, err)
			}
			values := make(map[string]int)
			if r.Schema().Counter("n") != nil {
				for mid := range items {
					for _, suffix := range []string{".v", ".w"} {
						v, _, err := r.Get(fmt.Sprintf("n:%d%s", mid<<40, suffix))
						if err != nil {
							t.Fatal(err)
						}
						values[fmt.Sprint(v)]++
					}
				}
			}
			if len(values) > 1 {
				t.Errorf("crash at %d, case %d: a part of a group: values and how many columns have them: %v", at, i, values)
			}
			if i == 0 && acknowledged > 0 && values[fmt.Sprint(acknowledged)]+values[fmt.Sprint(acknowledged+1)] != 2*items {
				t.Errorf("kill at %d: got %v, acknowledged %d", at, values, acknowledged)
			}
			must(t, r.Close())
			points++
		}
		if s != nil {
			_ = s.Close() // after a crash it cannot
		}
		if !crashed {
			break
		}
	}
	t.Logf("%d crash points", points)
}

// TestNoMemoryChangesNothing: where there is no memory for the first block of every counter, a change of the schema and
// FLUSHALL change none of them.
func TestNoMemoryChangesNothing(t *testing.T) {
	s := open(t, Options{}, "add counter a\nadd column a v hint=8 max=32\nadd counter b\nadd column b w hint=8 max=32\nadd counter c\nadd column c x hint=8 max=32")
	for _, key := range []string{"a:1.v", "b:1.w", "c:1.x"} {
		must(t, s.Set(key, 7))
	}
	text, used := s.Schema().String(), s.data.Arena.Used()
	block := used / 3
	for room := int64(0); room < 3*block; room += block / 2 {
		s.data.Arena.SetLimit(used + room)
		err := s.AlterScript("add counter d\nadd column d vd hint=8 max=32\nadd counter e\nadd column e ve hint=8 max=32\nadd counter f\nadd column f vf hint=8 max=32\nadd column a va hint=8 max=32")
		b := s.NewBatch()
		must(t, b.BeginExclusive())
		cleared := b.Whole().Clear()
		b.End()
		s.data.Arena.SetLimit(0)
		if !errors.Is(err, ErrNoMemory) || !errors.Is(cleared, ErrNoMemory) {
			t.Fatalf("with %d bytes: got %v for the schema, %v for FLUSHALL, want no memory", room, err, cleared)
		}
		if got := s.Schema().String(); got != text {
			t.Errorf("with %d bytes: got the schema\n%s", room, got)
		}
		if n, err := s.Len(); n != 3 || err != nil {
			t.Errorf("with %d bytes: got %d items, %v, want 3", room, n, err)
		}
		if got := s.data.Arena.Used(); got != used {
			t.Errorf("with %d bytes: %d bytes are used, want %d", room, got, used)
		}
		for id, ks := range s.data.Spaces {
			if ks != nil && s.Schema().CounterByID(uint32(id)) == nil {
				t.Errorf("with %d bytes: a keyspace of counter %d, which does not exist", room, id)
			}
		}
	}
}

// TestLargeChangeSetBehindSplits: a large change set locks the blocks that its operations were located in, and others where
// operations before it in the same batch have split these.
func TestLargeChangeSetBehindSplits(t *testing.T) {
	s := openDir(t, "data", Options{BlockItems: 128, FS: vfs.NewSim(), Manual: true}, "add counter a\nadd column a v hint=4 max=40 suffix=v top=2")
	defer s.Close()
	def := s.Schema().CounterNamed([]byte("a"))
	set := func(b *Batch, mid uint64, v uint64) { b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Arg: v}) }
	b := s.NewBatch()
	for round := range uint64(4) {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		for i := range uint64(300) { // new posts among the old ones: blocks are split
			set(b, 16*i+round, 1)
		}
		first := b.Len()
		for i := range uint64(600) {
			set(b, 8*(599-i)+7, 100*round+i)
		}
		b.ChangeSet(first)
		b.Run()
		b.End()
		for i := range b.Len() {
			if op := b.Op(i); op.Err != nil || !op.Done {
				t.Fatalf("round %d, operation %d: %v", round, i, op.Err)
			}
		}
		for i := range uint64(600) {
			if got, _, err := s.Get(fmt.Sprintf("%d.v", 8*(599-i)+7)); err != nil || got != 100*round+i {
				t.Fatalf("round %d: got %d, %v, want %d", round, got, err, 100*round+i)
			}
		}
	}
}

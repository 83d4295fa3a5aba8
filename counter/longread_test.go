// Scenario: reads of very many posts are of one moment, beside change sets and changes of the schema.

package counter

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// family is a set of posts that always have the same number in a column: changes give them all a new one.
type family struct{ mids []uint64 }

// families are in a store of small blocks, spread over all of them.
func families(t *testing.T, rng *rand.Rand, s *Store, n, size int) []family {
	list, all := make([]family, n), rng.Perm(1<<20)
	for i := range list {
		for range size {
			list[i].mids = append(list[i].mids, uint64(all[0]))
			all = all[1:]
		}
	}
	b := s.NewBatch()
	for _, f := range list {
		f.set(t, b, 0)
	}
	return list
}

// set gives all posts of f a value, as one change set.
func (f family) set(t *testing.T, b *Batch, v uint64) {
	b.Reset()
	if err := b.Begin(); err != nil {
		t.Error(err)
		return
	}
	defer b.End()
	f.add(b, v)
	b.ChangeSet(0)
	b.Run()
	for i := range b.Len() {
		if err := b.Op(i).Err; err != nil {
			t.Error(err)
		}
	}
}

// slice is how many operations a long read runs between two pauses.
const slice = 256

func (f family) add(b *Batch, v uint64) {
	for _, mid := range f.mids {
		b.Add(Op{Kind: OpSet, Counter: b.Schema().Counter("n"), Mid: mid, Arg: v})
	}
}

// transact gives all posts of f a value in a transaction of many runs.
func (f family) transact(t *testing.T, b *Batch, v uint64) {
	b.Reset()
	if err := b.BeginExclusive(); err != nil {
		t.Error(err)
		return
	}
	defer b.End()
	for _, mid := range f.mids {
		b.Add(Op{Kind: OpDelete, Counter: b.Schema().Counter("n"), Mid: mid})
		b.Add(Op{Kind: OpSet, Counter: b.Schema().Counter("n"), Mid: mid, Arg: v})
		b.Run()
		b.Reset()
	}
}

// readFamilies reads all posts of all families by one long read, and tells of families seen in part.
func readFamilies(t *testing.T, rng *rand.Rand, b *Batch, list []family, pause func()) {
	t.Helper()
	type place struct{ of, i int }
	places := make(map[place]int)
	b.Reset()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	var order []place
	for of, f := range list {
		for i := range f.mids {
			order = append(order, place{of, i})
		}
	}
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, p := range order {
		kind := OpGet
		if p.i%2 == 0 {
			kind = OpRead
		}
		places[p] = b.Add(Op{Kind: kind, Counter: b.Schema().Counter("n"), Mid: list[p.of].mids[p.i]})
	}
	done, err := b.RunLong(pause)
	if !done || err != nil {
		t.Fatalf("got %v, %v", done, err)
	}
	for of, f := range list {
		values := make(map[uint64]int)
		for i := range f.mids {
			op := b.Op(places[place{of, i}])
			v := op.Value
			if op.Kind == OpRead {
				v = b.Row(op)[0]
			}
			if op.Err != nil || !op.Found {
				t.Fatalf("got %+v", *op)
			}
			values[v]++
		}
		if len(values) > 1 {
			t.Fatalf("a part of a change is seen: values of a family, and how many have them: %v", values)
		}
	}
}

// longReads is how many long reads a test makes: with the race detector each takes ten times as long.
func longReads() int {
	if testing.Short() {
		return 4
	}
	return 12
}

const familyScript = "add counter n\nadd column n v hint=8 max=63 suffix="

// TestLongRead makes changes of many posts in every pause of a long read: it sees each whole or not at all. Some towns
// change so much that only the read under all locks ends.
func TestLongRead(t *testing.T) {
	rng := newRand(t)
	r2 := rand.New(rand.NewPCG(rng.Uint64(), 1))
	for _, always := range []bool{false, true} {
		s := open(t, Options{BlockItems: 512}, familyScript)
		list := families(t, r2, s, 40, 50)
		reader, writer, pauses := s.NewBatch(), s.NewBatch(), 0
		for range longReads() {
			readFamilies(t, r2, reader, list, func() {
				if pauses++; !always && r2.IntN(8) > 0 {
					return
				}
				switch f := list[r2.IntN(len(list))]; r2.IntN(4) {
				case 0:
					f.transact(t, writer, uint64(pauses))
				default:
					f.set(t, writer, uint64(pauses))
				}
				if r2.IntN(4) == 0 { // blocks are sealed and split
					for range 200 {
						if _, err := s.Incr(fmt.Sprintf("n:%d", 1<<20+r2.Uint64N(1<<20)), 1); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		if pauses == 0 {
			t.Error("no pauses")
		}
	}
}

// TestLongReadBeside has goroutines change families while others read them all.
func TestLongReadBeside(t *testing.T) {
	rng := newRand(t)
	s := open(t, Options{BlockItems: 512}, familyScript)
	list := families(t, rand.New(rand.NewPCG(rng.Uint64(), 1)), s, 40, 50)
	var stop atomic.Bool
	var writers sync.WaitGroup
	for i := range 2 {
		r := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
		writers.Go(func() {
			b := s.NewBatch()
			for v := uint64(1); !stop.Load(); v++ {
				if f := list[r.IntN(len(list))]; r.IntN(10) == 0 {
					f.transact(t, b, v)
				} else {
					f.set(t, b, v)
				}
				runtime.Gosched()
			}
		})
	}
	b, r := s.NewBatch(), rand.New(rand.NewPCG(rng.Uint64(), 9))
	defer writers.Wait()
	defer stop.Store(true)
	for range longReads() {
		readFamilies(t, r, b, list, runtime.Gosched)
	}
}

// TestLongReadOfAnotherSchema changes the schema, and then all posts, in a pause.
func TestLongReadOfAnotherSchema(t *testing.T) {
	s := open(t, Options{BlockItems: 512}, familyScript)
	b := s.NewBatch()
	plan := func() {
		b.Reset()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		for mid := range uint64(2 * slice) {
			b.Add(Op{Kind: OpExists, Counter: b.Schema().Counter("n"), Mid: mid})
		}
	}
	for mid := range uint64(2 * slice) {
		if _, err := s.Incr(fmt.Sprintf("n:%d", mid), 1); err != nil {
			t.Fatal(err)
		}
	}
	plan()
	if done, err := b.RunLong(func() {
		if err := s.AlterScript("add column n w hint=8 max=8 suffix=w"); err != nil {
			t.Error(err)
		}
	}); done || err != nil {
		t.Errorf("got %v, %v for a schema that changed", done, err)
	}
	b.End()
	plan()
	once := sync.OnceFunc(func() {
		clear := s.NewBatch()
		if err := clear.BeginExclusive(); err != nil {
			t.Fatal(err)
		}
		if err := clear.Whole().Clear(); err != nil {
			t.Error(err)
		}
		clear.End()
	})
	if done, err := b.RunLong(once); !done || err != nil {
		t.Errorf("got %v, %v", done, err)
	}
	for i := range b.Len() {
		if b.Op(i).Found {
			t.Errorf("operation %d saw what was there before all was cleared, and others did not", i)
			break
		}
	}
	b.End()
}

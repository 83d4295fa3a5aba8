// Scenario: numbered changes are made once, whatever comes between them and their repeats.

package counter

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// answers is a result that holds what each operation of a change set said.
func answers(b *Batch, _ *Once, first, n int) Result {
	var blob []byte
	for i := first; i < first+n; i++ {
		op := b.Op(i)
		blob = fmt.Appendf(blob, "%d %v;", op.Value, op.Err)
	}
	return Result{Kind: ResultBlob, Blob: blob}
}

// numbered runs operations on a store's "weibo" as one change of a producer. Operations without a counter get that.
func numbered(t testing.TB, s *Store, o Once, ops ...Op) (Once, []Op) {
	t.Helper()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		if op.Counter == nil {
			op.Counter = b.Schema().Counter("weibo")
		}
		b.Add(op)
	}
	p, i := b.Once(0)
	*p = o
	b.Run()
	b.End()
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	var done []Op
	for i := range ops {
		done = append(done, *b.Op(i))
	}
	return *b.OnceAt(i), done
}

// wantResult compares what a numbered change answered, and whether it was a repeat.
func wantResult(t testing.TB, what string, o Once, repeat bool, want Result) {
	t.Helper()
	if o.Err != nil || o.Repeat != repeat || o.Result.Kind != want.Kind || o.Result.N != want.N || string(o.Result.Blob) != string(want.Blob) {
		t.Errorf("%s: got repeat %v, %+v, %v, want repeat %v, %+v", what, o.Repeat, o.Result, o.Err, repeat, want)
	}
}

func wantValue(t testing.TB, s *Store, key string, want uint64) {
	t.Helper()
	if v, _, err := s.Get(key); err != nil || v != want {
		t.Errorf("%s: got %d, %v, want %d", key, v, err, want)
	}
}

var pa = []byte("a") // a producer

// TestOnce repeats each kind of numbered change: it is made once and answered the same each time, also after a restart.
func TestOnce(t *testing.T) {
	for _, inMemory := range []bool{true, false} {
		dir := ""
		if !inMemory {
			dir = t.TempDir()
		}
		s := openDir(t, dir, Options{}, seedScript)
		blob := func(text string) Result { return Result{Kind: ResultBlob, Blob: []byte(text)} }
		room := func(r Result) func(*Batch, *Once, int, int) Result {
			return func(*Batch, *Once, int, int) Result { return r }
		}
		cases := []struct {
			what string
			o    Once
			ops  []Op
			want Result
		}{
			{"INCR", Once{Seq: 1}, []Op{{Kind: OpAdd, Mid: 7, Column: 1, Arg: 5}}, Result{Kind: ResultInt, N: 5}},
			{"INCR again", Once{Seq: 2}, []Op{{Kind: OpAdd, Mid: 7, Column: 1, Arg: 5}}, Result{Kind: ResultInt, N: 10}},
			{"INCRBY 0", Once{Seq: 3}, []Op{{Kind: OpAdd, Mid: 8, Column: 1}}, Result{Kind: ResultInt}},
			{"SET", Once{Seq: 4, Make: room(Result{Kind: ResultOK})}, []Op{{Kind: OpSet, Mid: 9, Column: 1, Arg: 77}}, Result{Kind: ResultOK}},
			{"SETNX, not met", Once{Seq: 5, Make: room(Result{Kind: ResultInt})}, []Op{{Kind: OpSet, Cond: IfAbsent, Mid: 9, Column: 1, Arg: 78}}, Result{Kind: ResultInt}},
			{"GETDEL", Once{Seq: 6, Make: func(b *Batch, _ *Once, first, _ int) Result { return Result{Kind: ResultBulk, N: b.Op(first).Value} }},
				[]Op{{Kind: OpReset, Mid: 9, Column: 1}}, Result{Kind: ResultBulk, N: 77}},
			{"GETDEL of nothing", Once{Seq: 7, Make: room(Result{Kind: ResultNil})}, []Op{{Kind: OpReset, Mid: 1000, Column: 1}}, Result{Kind: ResultNil}},
			{"GETDEL of a key that there is not", Once{Seq: 8, Make: room(Result{Kind: ResultNil})}, nil, Result{Kind: ResultNil}},
			{"DEL", Once{Seq: 9, Make: room(Result{Kind: ResultInt, N: 1})}, []Op{{Kind: OpDelete, Mid: 8}}, Result{Kind: ResultInt, N: 1}},
			{"MINCRBY", Once{Seq: 10, Room: 1000, Each: true, Make: answers}, []Op{
				{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1}, {Kind: OpAdd, Mid: 20, Column: 1, Arg: math.MaxUint64}, {Kind: OpAdd, Mid: 7, Column: 1, Arg: 1},
				{Kind: OpAdd, Mid: 7, Column: 2, Arg: 1}, {Kind: OpAdd, Mid: 3 << 50, Column: 0, Arg: 1}, {Kind: OpAdd, Mid: 21, Column: 1, Arg: math.MaxUint64}, {Kind: OpAdd, Mid: 21, Column: 1, Arg: 4}},
				blob("11 <nil>;0 counter: value out of range;12 <nil>;1 <nil>;1 <nil>;0 counter: value out of range;4 <nil>;")},
			{"MINCRBY of one, out of range", Once{Seq: 11, Room: 1000, Each: true, Make: answers}, []Op{{Kind: OpAdd, Mid: 20, Column: 1, Arg: math.MaxUint64}},
				blob("0 counter: value out of range;")},
			{"MINCRBY with a long answer", Once{Seq: 12, Room: 10, Each: true, Make: answers}, []Op{{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1}, {Kind: OpAdd, Mid: 8, Column: 1, Arg: 1}},
				Result{Kind: ResultGone}},
			{"MSET", Once{Seq: 13, Make: room(Result{Kind: ResultOK})}, []Op{{Kind: OpSet, Mid: 30, Column: 1, Arg: 1}, {Kind: OpSet, Mid: 31, Column: 1, Arg: 2}}, Result{Kind: ResultOK}},
			{"GETDEL of an item", Once{Seq: 14, Make: func(b *Batch, _ *Once, first, _ int) Result { return Result{Kind: ResultBulk, N: b.Op(first).Value} }},
				[]Op{{Kind: OpGet, Mid: 31, Column: 1}, {Kind: OpDelete, Mid: 31}}, Result{Kind: ResultBulk, N: 2}},
		}
		var want map[string]string
		check := func(what string, repeat bool) {
			for _, c := range cases {
				c.o.Producer, c.o.Hash = pa, uint32(c.o.Seq*77)
				o, ops := numbered(t, s, c.o, c.ops...)
				wantResult(t, what+": "+c.what, o, repeat, c.want)
				for i := range ops {
					if repeat && ops[i].Done {
						t.Errorf("%s: %s: operation %d of a repeat was done", what, c.what, i)
					}
				}
			}
			if got := dump(t, s); repeat && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %v, want %v", what, got, want)
			} else if !repeat {
				want = got
			}
			if st := s.Admin().ProducerStats(); st.Producers != 1 || st.Entries != len(cases) {
				t.Errorf("%s: got %+v", what, st)
			}
		}
		check("first", false)
		wantValue(t, s, "7.cntrn", 13)
		wantValue(t, s, "9.cntrn", 0)
		if _, found, _ := s.Get("20.cntrn"); found {
			t.Error("an addition that was out of range made its item")
		}
		check("again", true)
		if inMemory {
			continue
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openDir(t, dir, Options{}, "")
		check("after a restart", true)
	}
}

// TestOnceRefused: what a numbered change is refused for, and that nothing was changed.
func TestOnceRefused(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{Producers: ProducerLimits{Producers: 2}}, seedScript)
	incr := Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1}
	run := func(o Once) error {
		if o.Producer == nil {
			o.Producer = pa
		}
		o, ops := numbered(t, s, o, incr)
		if o.Repeat || o.Err != nil && ops[0].Done || ops[0].Err != nil {
			t.Errorf("got %+v, operation %+v", o, ops[0])
		}
		return o.Err
	}
	if err := run(Once{Seq: 1, Hash: 5}); err != nil {
		t.Fatal(err)
	}
	if err := run(Once{Seq: 1, Hash: 6}); !errors.Is(err, ErrMismatch) {
		t.Errorf("another hash: got %v", err)
	}
	for i := range uint64(200) {
		if err := run(Once{Seq: 10 + 2*i}); err != nil {
			t.Fatal(err)
		}
	}
	if o, ops := numbered(t, s, Once{Producer: pa, Seq: 1, Hash: 5}, incr); !o.Repeat || o.Result.Kind != ResultGone || ops[0].Done {
		t.Errorf("a number whose result is not kept: got %+v", o)
	}
	if err := run(Once{Seq: 9}); err != nil {
		t.Errorf("a late number: got %v", err)
	}
	for i := range uint64(700) { // far from each other: not all are kept
		if err := run(Once{Seq: 1000 * (i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	var expired *ExpiredError
	if err := run(Once{Seq: 1, Hash: 5}); !errors.As(err, &expired) || expired.Lowest <= 1 {
		t.Errorf("an old number: got %v", err)
	}
	if err := run(Once{Seq: 500_001}); err != nil {
		t.Errorf("a gap in the window: got %v", err)
	}
	if err := run(Once{Seq: 800_000, Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	var fenced *FencedError
	if err := run(Once{Seq: 800_001, Epoch: 2}); !errors.As(err, &fenced) || fenced.Want != 3 {
		t.Errorf("an old epoch: got %v", err)
	}
	if err := run(Once{Seq: 1, Producer: []byte("b")}); err != nil {
		t.Fatal(err)
	}
	var full *ProducersFullError
	if err := run(Once{Seq: 1, Producer: []byte("c")}); !errors.As(err, &full) || full.Bytes {
		t.Errorf("a third producer of two: got %v", err)
	}
	for _, id := range []string{"", "123456789012345678901234567890123"} {
		if err := run(Once{Seq: 1, Producer: []byte(id)}); err == nil {
			t.Errorf("producer %q: got no error", id)
		}
	}
	wantValue(t, s, "7.cntrn", 905)

	// A change that is refused leaves no entry: it can be made later.
	for range 2 {
		o, ops := numbered(t, s, Once{Producer: pa, Epoch: 3, Seq: 900_000}, Op{Kind: OpAdd, Mid: 9, Column: 1, Arg: math.MaxUint64})
		if o.Err != nil || o.Repeat || !errors.Is(ops[0].Err, ErrOutOfRange) {
			t.Errorf("got %+v, operation %+v", o, ops[0])
		}
		o, ops = numbered(t, s, Once{Producer: pa, Epoch: 3, Seq: 900_000, Make: answers}, Op{Kind: OpSet, Mid: 9, Column: 1, Arg: 3}, Op{Kind: OpSet, Mid: 9, Column: 1, Arg: 1 << 60})
		if o.Err != nil || o.Repeat || !errors.Is(ops[1].Err, ErrOutOfRange) || ops[0].Done {
			t.Errorf("got %+v, operations %+v", o, ops)
		}
	}
	o, _ := numbered(t, s, Once{Producer: pa, Epoch: 3, Seq: 900_000}, Op{Kind: OpAdd, Mid: 9, Column: 1, Arg: 2})
	wantResult(t, "made later", o, false, Result{Kind: ResultInt, N: 2})
}

// TestOnceNoResult: a command that finds out only then that it is refused keeps nothing, and takes nothing back of what
// the block's log offset was. One that has made its change has none to keep either, and is known to be made.
func TestOnceNoResult(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{}, seedScript)
	none := func(*Batch, *Once, int, int) Result { return Result{} }
	if err := s.Set("7.cntrn", 1); err != nil {
		t.Fatal(err)
	}
	b := s.data.Spaces[s.Schema().Counter("weibo").ID][0].Dir.Load().Find(7)
	before := b.Logged
	for range 2 {
		for _, ops := range [][]Op{nil, {{Kind: OpExists, Mid: 7}}, {{Kind: OpExists, Mid: 7}, {Kind: OpGet, Mid: 7, Column: 1}}} {
			if o, _ := numbered(t, s, Once{Producer: pa, Seq: 1, Make: none}, ops...); o.Repeat || o.Err != nil {
				t.Errorf("%d operations: got %+v", len(ops), o)
			}
		}
	}
	if b.Logged != before || s.Admin().ProducerStats().Producers != 0 {
		t.Errorf("the block's log offset is %d, want %d; %+v", b.Logged, before, s.Admin().ProducerStats())
	}
	set := Op{Kind: OpSet, Mid: 7, Column: 1, Arg: 9}
	for i, ops := range [][]Op{{set}, {set, set}} {
		for again := range 2 {
			o, _ := numbered(t, s, Once{Producer: pa, Seq: uint64(i + 1), Make: none}, ops...)
			wantResult(t, fmt.Sprint(len(ops), " changes"), o, again == 1, Result{Kind: ResultGone})
		}
	}
}

// transaction runs f in a transaction of a producer.
func transaction(t testing.TB, s *Store, o *Once, f func(b *Batch) Result) {
	t.Helper()
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	if b.TryOnce(o) {
		b.KeepOnce(o, f(b))
	}
	b.End()
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestOnceTransaction repeats a transaction, also after a restart.
func TestOnceTransaction(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{}, seedScript)
	exec := func(b *Batch) Result {
		def := b.Schema().Counter("weibo")
		for range 3 {
			b.Reset()
			b.Add(Op{Kind: OpAdd, Counter: def, Mid: 7, Column: 1, Arg: 1})
			b.Add(Op{Kind: OpAdd, Counter: def, Mid: 8, Column: 1, Arg: 2})
			b.Run()
		}
		result := answers(b, nil, 0, 2)
		b.Reset()
		o, _ := b.Once(0)
		o.Producer = []byte("other")
		if b.Run(); o.Err == nil {
			t.Error("a numbered change within a numbered transaction: got no error")
		}
		if _, err := b.Producers().Fence(pa); err == nil {
			t.Error("a fence within a numbered transaction: got no error")
		}
		return result
	}
	want := Result{Kind: ResultBlob, Blob: []byte("3 <nil>;6 <nil>;")}
	for i := range 3 {
		o := Once{Producer: pa, Seq: 9, Room: MaxResult}
		transaction(t, s, &o, exec)
		wantResult(t, fmt.Sprint("try ", i), o, i > 0, want)
		wantValue(t, s, "7.cntrn", 3)
		wantValue(t, s, "8.cntrn", 6)
		if i == 1 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openDir(t, dir, Options{}, "")
		}
	}
}

// TestOnceFence: a fence, and a write or a repeat with a higher epoch, shut out those with a lower one; it survives a
// restart. Numbers go on.
func TestOnceFence(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{}, seedScript)
	incr := Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1}
	fence := func(want uint64) {
		t.Helper()
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		epoch, err := b.Producers().Fence(pa)
		b.End()
		if err := errors.Join(err, b.Commit()); err != nil || epoch != want {
			t.Errorf("got epoch %d, %v, want %d", epoch, err, want)
		}
	}
	check := func(seq, epoch uint64, fenced bool) {
		t.Helper()
		o, _ := numbered(t, s, Once{Producer: pa, Seq: seq, Epoch: epoch}, incr)
		var f *FencedError
		if errors.As(o.Err, &f) != fenced || !fenced && o.Err != nil {
			t.Errorf("number %d, epoch %d: got %v", seq, epoch, o.Err)
		}
	}
	last := func(want uint64) {
		t.Helper()
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		defer b.End()
		if seq, ok, err := b.Producers().Last(pa); err != nil || ok != (want > 0) || seq != want {
			t.Errorf("last: got %d, %v, %v, want %d", seq, ok, err, want)
		}
	}
	last(0)
	fence(1)
	last(0)
	check(1, 0, true)
	check(1, 1, false)
	last(1)
	fence(2)
	check(1, 1, true)
	check(1, 2, false) // a repeat
	check(1, 5, false) // a repeat that fences
	check(2, 4, true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{}, "")
	check(2, 4, true)
	check(2, 5, false)
	fence(6)
	last(2)
	wantValue(t, s, "7.cntrn", 2)
}

// TestOnceParallel has many goroutines try the same numbers at the same time: each is made once, and all are answered
// the same.
func TestOnceParallel(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{}, seedScript)
	const seqs, tries = 100, 8
	var results [tries][seqs]uint64
	var wg sync.WaitGroup
	for g := range tries {
		wg.Go(func() {
			for i := range seqs {
				o, _ := numbered(t, s, Once{Producer: pa, Seq: uint64(i)}, Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 3})
				if o.Err != nil {
					t.Error(o.Err)
				}
				results[g][i] = o.Result.N
			}
		})
	}
	wg.Wait()
	wantValue(t, s, "7.cntrn", 3*seqs)
	for g := range tries {
		if results[g] != results[0] {
			t.Errorf("answers differ: %v and %v", results[g], results[0])
		}
	}
}

// TestOnceParallelBatches: batches of numbered additions, each sent twice, on blocks that are sealed, split, demoted and
// promoted meanwhile, beside additions without a number, change sets, snapshots and reads: the sums are exact.
func TestOnceParallelBatches(t *testing.T) {
	const writers, batches, size, posts = 4, 40, 16, 300
	s := openDir(t, t.TempDir(), Options{BlockItems: 16, SnapshotGrowth: -1}, seedScript)
	var want [posts]atomic.Int64
	var wg, background sync.WaitGroup
	done := make(chan struct{})
	for g := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(*seed, uint64(g)))
			b := s.NewBatch()
			for i := range batches {
				var mids [size]uint64
				for k := range mids {
					mids[k] = rng.Uint64N(posts)
					want[mids[k]].Add(1)
				}
				for try := range 2 {
					if err := b.Begin(); err != nil {
						t.Error(err)
						return
					}
					b.Reset()
					def := b.Schema().Counter("weibo")
					numbered := 0
					for k, mid := range mids {
						b.Add(Op{Kind: OpAdd, Counter: def, Column: 1, Mid: mid, Arg: 1})
						if i%5 == 0 && k%2 == 0 {
							continue // a change set of two
						}
						numbered++
						o, _ := b.Once(b.Len() - 1 - (k % 2 * (1 - min(i%5, 1))))
						o.Producer, o.Seq, o.Each, o.Room = []byte{byte('a' + g)}, uint64(i*size+k+1), true, 200
						if o.N > 1 {
							o.Make = answers
						}
					}
					b.Run()
					b.End()
					if err := b.Commit(); err != nil {
						t.Error(err)
					}
					for n := range numbered {
						if o := b.OnceAt(n); o.Err != nil || o.Repeat != (try == 1) {
							t.Errorf("producer %s, number %d, try %d: got repeat %v, %v", o.Producer, o.Seq, try, o.Repeat, o.Err)
						}
					}
				}
			}
		})
	}
	for g := range 3 {
		background.Go(func() {
			rng := rand.New(rand.NewPCG(*seed, uint64(100+g)))
			for {
				select {
				case <-done:
					return
				default:
				}
				mid := rng.Uint64N(posts)
				var err error
				switch k := rng.IntN(20); {
				case k == 0:
					err = except(s.Snapshot(), ErrBusy)
				case k < 3:
					err = except(s.Admin().Demote("weibo", mid), ErrNoBlock)
				case k == 3:
					err = except(s.Admin().Promote("weibo", mid), ErrNoBlock)
				case k < 10:
					_, err = s.Incr(fmt.Sprint(mid, ".cntrn"), 1)
					want[mid].Add(1)
				default:
					_, err = s.MGet(fmt.Sprint(mid, ".cntrn"), fmt.Sprint(posts-mid, ".cntrn"))
				}
				if err != nil && !errors.Is(err, ErrBusy) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(done)
	background.Wait()
	for mid := range want {
		wantValue(t, s, fmt.Sprint(mid, ".cntrn"), uint64(want[mid].Load()))
	}
}

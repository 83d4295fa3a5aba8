// Scenario: derived columns, changed by several batches at once, or in a way that is refused.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// TestWindowsConcurrent adds, updates, deletes and reads from many goroutines, as change sets and numbered changes and alone, in small blocks
// that split all the time, while the clock ticks and spaces are swept. Nothing waits for ever, and each window counts each addition once.
func TestWindowsConcurrent(t *testing.T) {
	rounds := 300
	if racetest.Enabled {
		rounds = 60
	}
	for _, groups := range []bool{false, true} {
		start := int64(1_795_000_000)
		s := openDir(t, "data", Options{FS: vfs.NewSim(), BlockItems: 40, SlotGroups: groups, Now: func() time.Time { return time.Unix(start, 0) }}, `add counter a
add column a v hint=2 max=40 suffix=v
add column a w hint=2 max=40 suffix=w
add counter b
add column b x hint=4 max=40 suffix=x
add column a v1h window=1h/1m of=v
add column a w1h window=1h/5m of=w
add column b x1h window=2h/2m of=x`)
		if err := s.Windows().Tick(time.Unix(start, 0), nil); err != nil {
			t.Fatal(err)
		}
		var writers, others sync.WaitGroup
		stop := make(chan struct{})
		others.Add(1)
		go func() {
			defer others.Done()
			for i := int64(1); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := s.Windows().Tick(time.Unix(start+min(i, 1800), 0), nil); err != nil {
					t.Error(err)
				}
				for _, def := range s.Schema().Counters() {
					for k := range def.Derived {
						if _, err := s.Windows().Sweep(&def.Derived[k], nil); err != nil {
							t.Error(err)
						}
					}
				}
				if _, err := s.Top(Query{Counter: s.Schema().Counter("a"), To: schema.MaxMid}, 2, 10); err != nil {
					t.Error(err)
				}
			}
		}()
		for w := range 4 {
			rng := rand.New(rand.NewPCG(*seed, uint64(w)))
			writers.Add(1)
			go func() {
				defer writers.Done()
				b := s.NewBatch()
				for round := range rounds {
					if rng.IntN(20) == 0 {
						from := rng.Uint64N(300)
						u, err := NewUpdate(Query{Counter: s.Schema().Counter("a"), From: from, To: from + 20}, []Change{{Kind: OpAdd, Column: 1, Arg: 1}, {Kind: OpAdd, Arg: 2}}, ReturnNothing)
						if err == nil {
							err = s.steps(u.Step, func() bool { return true })
						}
						if err != nil {
							t.Error(err)
						}
						continue
					}
					begin, exclusive := b.Begin, rng.IntN(10) == 0
					if exclusive {
						begin = b.BeginExclusive
					}
					if err := begin(); err != nil {
						t.Error(err)
						return
					}
					b.Reset()
					for range 1 + rng.IntN(10) {
						def := b.Schema().Counter([]string{"a", "b"}[rng.IntN(2)])
						first := b.Len()
						switch kind := rng.IntN(8); {
						case kind == 0:
							b.Add(Op{Kind: OpRead, Counter: def, Mid: rng.Uint64N(400), Column: -1})
						case kind == 1:
							b.Add(Op{Kind: OpGet, Counter: def, Mid: rng.Uint64N(400), Column: int16(len(def.Columns))})
						case kind == 2:
							b.Add(Op{Kind: OpDelete, Counter: def, Mid: 400 + rng.Uint64N(100)})
						case kind == 3:
							b.Add(Op{Kind: OpAdd, Counter: def, Mid: 400 + rng.Uint64N(100), Arg: 1})
						default:
							for range 1 + rng.IntN(5) {
								b.Add(Op{Kind: OpAdd, Counter: def, Mid: rng.Uint64N(400), Column: int16(rng.IntN(len(def.Columns))), Arg: uint64(1 + rng.IntN(3))})
							}
							if kind == 4 {
								b.ChangeSet(first)
							} else if kind == 5 && !exclusive && b.Len() == first+1 {
								o, _ := b.Once(first)
								o.Producer, o.Seq = fmt.Appendf(nil, "p%d", w), uint64(round*100+first)
							}
						}
					}
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
			}()
		}
		writers.Wait()
		close(stop)
		others.Wait()
		for _, def := range s.Schema().Counters() {
			err := s.Find(Query{Counter: def, To: schema.MaxMid}, func(mid uint64, values []uint64) bool {
				for k := range def.Derived {
					if got, want := values[len(def.Columns)+k], values[def.Derived[k].Sources[0].At]; got != want {
						t.Errorf("%s %d: %s counts %d, want %d", def.Name, mid, def.Derived[k].Name, got, want)
					}
				}
				return true
			})
			if err != nil {
				t.Error(err)
			}
		}
		s.Close()
	}
}

// TestWindowsRefuse: only additions to its source change a derived column, alone and in change sets, and an update by conditions neither sets nor reads
// it.
func TestWindowsRefuse(t *testing.T) {
	s := open(t, Options{}, "add counter a\nadd column a v hint=2 max=40 suffix=v\nadd column a v1h window=1h/5m of=v")
	def := s.Schema().Counter("a")
	if n, err := s.Incr("1.v", 5); err != nil || n != 5 {
		t.Fatal(n, err)
	}
	for _, kind := range []OpKind{OpSet, OpAdd, OpReset} {
		for _, set := range []bool{false, true} {
			b := s.NewBatch()
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			b.Add(Op{Kind: kind, Counter: def, Mid: 1, Arg: 1})
			b.Add(Op{Kind: kind, Counter: def, Mid: 1, Column: 1, Arg: 1})
			if set {
				b.ChangeSet(0)
			}
			b.Run()
			b.End()
			if !errors.Is(b.Op(1).Err, ErrDerived) || set != errors.Is(b.Op(0).Err, ErrDerived) {
				t.Errorf("operation %d, in a change set %v: got %v and %v, want %v", kind, set, b.Op(0).Err, b.Op(1).Err, ErrDerived)
			}
		}
	}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	copy(b.SetRow(def, 1, b.Shape([]int16{0, 1}, 1)), []uint64{7, 7})
	b.Run()
	b.End()
	if err := b.Op(0).Err; !errors.Is(err, ErrDerived) {
		t.Errorf("a row with a derived column: got %v, want %v", err, ErrDerived)
	}
	var wrong *QueryError
	for _, q := range []Query{{Counter: def, Where: []Condition{{Column: 1}}}, {Counter: def, Columns: []int16{1}}} {
		if _, err := NewUpdate(q, []Change{{Kind: OpAdd, Arg: 1}}, ReturnOld); !errors.As(err, &wrong) {
			t.Errorf("an update with a derived column: got %v, want a query error", err)
		}
	}
	if _, err := NewUpdate(Query{Counter: def}, []Change{{Kind: OpSet, Column: 1, Arg: 1}}, ReturnNothing); !errors.As(err, &wrong) {
		t.Errorf("an update of a derived column: got %v, want a query error", err)
	}
}

// TestWindowsUnconfirmed: a tick that others may lack keeps nobody from reading what all have. It did: readers waited for ticks as for changes of the
// schema.
func TestWindowsUnconfirmed(t *testing.T) {
	s := openElected(t, vfs.NewSim(), nil)
	defer close1(t, s)
	r := s.Replication()
	if _, err := r.LeadAt(1); err != nil {
		t.Fatal(err)
	}
	r.Confirm(Everywhere)
	if err := r.AdmitCursors(); err != nil {
		t.Fatal(err)
	}
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n\nadd column w h window=1h/5m of=n suffix=h"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Incr("1.n", 5); err != nil {
		t.Fatal(err)
	}
	r.Confirm(r.Position())
	r.Doubt(errors.New("nobody is there")) // instead of waiting for ever
	was := s.Windows().Time()
	var uncertain *UncertainError
	if err := s.Windows().Tick(time.Unix(was+1, 0), nil); !errors.As(err, &uncertain) || s.Windows().Time() != was+1 {
		t.Fatalf("a tick that nobody has: %v, time %d", err, s.Windows().Time())
	}
	for _, key := range []string{"1.n", "1.h"} {
		if v, _, err := s.Get(key); v != 5 || err != nil {
			t.Errorf("%s beside a tick that others may lack: %d, %v", key, v, err)
		}
	}
	if _, err := s.Incr("1.n", 1); !errors.As(err, &uncertain) {
		t.Fatal(err)
	}
	for _, key := range []string{"1.n", "1.h"} {
		if v, _, err := s.Get(key); !errors.As(err, &uncertain) {
			t.Errorf("%s that others may lack is told: %d, %v", key, v, err)
		}
	}
}

// TestWindowsOnBadDisk: while the disk fails, the counts of a post can be read unless they are not durable themselves. They could not where those of
// another post were not.
func TestWindowsOnBadDisk(t *testing.T) {
	s, faulty := openShow(t, SyncAlways)
	err := errors.Join(s.Replication().AdmitCursors(), s.AlterScript("add column a x hint=8 max=32 suffix=x\nadd column a w window=1h/5m of=x suffix=w"))
	for _, key := range []string{"2.x", "3.x"} {
		_, incr := s.Incr(key, 1)
		err = errors.Join(err, incr)
	}
	if err != nil {
		t.Fatal(err)
	}
	faulty.Inject(vfs.Rule{Ops: vfs.OpSync | vfs.OpSyncDir | vfs.OpCreate | vfs.OpWrite, Every: 1, Err: errIO})
	var uncertain *UncertainError
	if _, err := s.Incr("2.x", 1); !errors.As(err, &uncertain) {
		t.Fatalf("a change with a disk that fails: %v", err)
	}
	if v, _, err := s.Get("3.w"); v != 1 || err != nil {
		t.Errorf("counts that are durable: %d, %v", v, err)
	}
	if v, _, err := s.Get("2.w"); !errors.As(err, &uncertain) {
		t.Errorf("counts that are not durable: %d, %v", v, err)
	}
	faulty.Clear()
	recovers(t, s)
}

// TestWindowsRemovalWithoutMemory: a post that cannot be removed, as there is no memory to note in its file's overlay that it is gone, keeps its
// counts. They went, in memory and in the log, while the post stayed.
func TestWindowsRemovalWithoutMemory(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, update := range []bool{false, true} {
		sim := vfs.NewSim()
		opts := Options{FS: sim, BlockItems: 64, Manual: true}
		s := openDir(t, "data", opts, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd column a v1h window=1h/5m of=v suffix=vh")
		if err := s.Windows().Tick(time.Unix(1_800_000_000, 0), nil); err != nil {
			t.Fatal(err)
		}
		def := s.Schema().Counter("a")
		for mid := range uint64(200) {
			if _, err := s.Incr(fmt.Sprintf("%d.v", mid), int64(1+mid)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Admin().Demote("a", 0); err != nil {
			t.Fatal(err)
		}
		same := func(what string) {
			t.Helper()
			for _, key := range []string{"7.v", "7.vh"} {
				if got, ok, err := s.Get(key); err != nil || !ok || got != 8 {
					t.Errorf("update=%v, %s: %s is %d, %v, %v, want 8", update, what, key, got, ok, err)
				}
			}
		}
		same("before")
		s.data.Arena.SetLimit(s.data.Arena.Used())
		var err error
		b := s.NewBatch()
		if update {
			var u *Update
			if u, err = NewUpdate(Query{Counter: def, From: 7, To: 8}, []Change{{Kind: OpDelete}}, ReturnNothing); err != nil {
				t.Fatal(err)
			}
			if err = b.Begin(); err != nil {
				t.Fatal(err)
			}
			err = allSteps(u, b)
		} else {
			if err = b.Begin(); err != nil {
				t.Fatal(err)
			}
			b.Add(Op{Kind: OpDelete, Counter: def, Mid: 7})
			b.Run()
			err = b.Op(0).Err
		}
		b.End()
		if !errors.Is(err, ErrNoMemory) {
			t.Fatalf("update=%v: got %v, want %v", update, err, ErrNoMemory)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		s.data.Arena.SetLimit(0)
		same("behind the refusal")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openDir(t, "data", opts, "")
		same("behind a start")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWindowsOfUpdateBehindNumbered: an update logs its own counts alone. It logged those of a numbered addition, which the same batch had made before it,
// a second time, so that replicas and starts took back what others had added meanwhile.
func TestWindowsOfUpdateBehindNumbered(t *testing.T) {
	opts := Options{FS: vfs.NewSim(), Manual: true, AppendFsync: SyncAlways}
	s := openDir(t, "data", opts, "")
	if err := s.repl.AdmitCursors(); err != nil {
		t.Fatal(err)
	}
	if err := s.AlterScript(windowSchema); err != nil {
		t.Fatal(err)
	}
	def := s.Schema().Counter("a")
	run := func(b *Batch, seq uint64) {
		t.Helper()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		b.Add(Op{Kind: OpAdd, Counter: def, Mid: 7, Arg: 1})
		if seq > 0 {
			o, _ := b.Once(0)
			o.Producer, o.Seq, o.Hash = []byte("p"), seq, 1
		}
		b.Run()
		if err := b.Op(0).Err; err != nil {
			t.Fatal(err)
		}
		b.End()
	}
	b, other := s.NewBatch(), s.NewBatch()
	b.Begin()
	b.Add(Op{Kind: OpSet, Counter: s.Schema().Counter("b"), Mid: 9, Arg: 1})
	b.Run()
	b.End()
	run(b, 1)
	run(other, 0)
	u, err := NewUpdate(Query{Counter: s.Schema().Counter("b"), From: 9, To: 9}, []Change{{Kind: OpSet, Arg: 5}}, ReturnNothing)
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		if done, err = u.Step(b); err != nil {
			t.Fatal(err)
		}
		b.End()
	}
	if err := errors.Join(b.Commit(), other.Commit()); err != nil {
		t.Fatal(err)
	}
	want := spaceRows(t, s, &def.Derived[0])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openDir(t, "data", opts, "")
	defer again.Close()
	if got := spaceRows(t, again, &again.Schema().Counter("a").Derived[0]); !maps.Equal(got, want) {
		t.Errorf("a start finds %v, want %v", got, want)
	}
}

// allSteps makes all steps of an update in b, which is open. One step may end before it has found anything, as it stops behind query.StepTime.
func allSteps(u *Update, b *Batch) error {
	for {
		if done, err := u.Step(b); done || err != nil {
			return err
		}
	}
}

// TestWindowsNoMemoryForCounts: a post is not removed where there is no memory to note in a file's overlay that its counts are gone, alone, by an update or in a change set, of
// which nothing is made. The post went and its counts stayed, in the top list of their column and for the next post with this id.
func TestWindowsNoMemoryForCounts(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, column := range []string{"h window=1h/5m of=v", "h decay=1h of=v"} {
		for _, how := range []string{"alone", "update", "set"} {
			opts := Options{FS: vfs.NewSim(), BlockItems: 64, Manual: true, AppendFsync: SyncAlways}
			s := openDir(t, "data", opts, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd column a "+column+" suffix=h top=4")
			if err := s.Windows().Tick(time.Unix(1_800_000_000, 0), nil); err != nil {
				t.Fatal(err)
			}
			for mid := range uint64(200) {
				if _, err := s.Incr(fmt.Sprintf("%d.v", mid), int64(1+(mid+190)%200)); err != nil {
					t.Fatal(err)
				}
			}
			def := s.Schema().Counter("a")
			if err := s.tiers.Demote(s.data.Spaces[def.Derived[0].Space.ID][0], 0); err != nil {
				t.Fatal(err)
			}
			s.tops.All()
			same := func(when string) {
				t.Helper()
				for key, want := range map[string]uint64{"9.v": 200, "9.h": 200, "8.v": 199, "8.h": 199} {
					if got, ok, err := s.Get(key); err != nil || !ok || got != want {
						t.Errorf("%s, %s, %s: %s is %d, %v, %v, want %d", column, how, when, key, got, ok, err, want)
					}
				}
				if top, ok, err := s.TopOf(s.TopLists()[0]); err != nil || !ok || len(top) != 4 || top[0] != (TopEntry{Value: 200, Mid: 9}) || top[1] != (TopEntry{Value: 199, Mid: 8}) {
					t.Errorf("%s, %s, %s: the list has %v, %v, %v", column, how, when, top, ok, err)
				}
			}
			remove := func() (err error) {
				b := s.NewBatch()
				if how == "update" {
					u, err := NewUpdate(Query{Counter: def, From: 9, To: 10}, []Change{{Kind: OpDelete}}, ReturnNothing)
					if err != nil {
						t.Fatal(err)
					}
					if err := b.Begin(); err != nil {
						t.Fatal(err)
					}
					err = allSteps(u, b)
					b.End()
					return errors.Join(err, b.Commit())
				}
				if err := b.Begin(); err != nil {
					t.Fatal(err)
				}
				if how == "set" {
					b.Add(Op{Kind: OpAdd, Counter: def, Mid: 8, Arg: 1})
				}
				b.Add(Op{Kind: OpDelete, Counter: def, Mid: 9})
				if how == "set" {
					b.Add(Op{Kind: OpDelete, Counter: def, Mid: 8})
					b.ChangeSet(0)
				}
				b.Run()
				for i := range b.Len() {
					err = errors.Join(err, b.Op(i).Err)
				}
				b.End()
				return errors.Join(err, b.Commit())
			}
			s.data.Arena.SetLimit(s.data.Arena.Used())
			if err := remove(); !errors.Is(err, ErrNoMemory) {
				t.Fatalf("%s, %s: got %v, want %v", column, how, err, ErrNoMemory)
			}
			s.data.Arena.SetLimit(0)
			same("behind the refusal")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openDir(t, "data", opts, "")
			s.tops.All()
			same("behind a start")
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			gone := []string{"9.h"}
			if how == "set" {
				gone = append(gone, "8.h")
			}
			for _, key := range gone {
				if err := s.Set(key[:1]+".v", 0); err != nil { // the post is made again
					t.Fatal(err)
				}
				if got, _, err := s.Get(key); got != 0 || err != nil {
					t.Errorf("%s, %s: %s of another post is %d, %v, want 0", column, how, key, got, err)
				}
			}
			if top, ok, err := s.TopOf(s.TopLists()[0]); err != nil || !ok || len(top) != 4 || top[0].Mid != 9-uint64(len(gone)) {
				t.Errorf("%s, %s: the list has %v, %v, %v", column, how, top, ok, err)
			}
			checkTops(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Scenario: reads wait for the log of the change they saw.

package counter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// showScript makes a counter whose column has few values, so that one more is out of range.
const showScript = "add counter a\nadd column a v hint=4 max=4 suffix=v top=2"

// openShow opens a store on a simulated disk that can be made to fail, with some posts.
func openShow(t *testing.T, policy SyncPolicy) (*Store, *vfs.Faulty) {
	t.Helper()
	faulty := vfs.NewFaulty(vfs.NewSim())
	s := openDir(t, "data", Options{FS: faulty, AppendFsync: policy, Manual: true, BlockItems: 16}, showScript)
	for _, key := range []string{"1.v", "2.v"} {
		if err := s.Set(key, 15); err != nil {
			t.Fatal(err)
		}
	}
	s.tops.All()
	return s, faulty
}

// unwritten makes a change that is in memory only, as one is between its effect and its writer's Commit.
func unwritten(t *testing.T, s *Store, change func(b *Batch)) *Batch {
	t.Helper()
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	change(b)
	b.End()
	if s.data.Log.Visible() >= s.data.Log.Position() {
		t.Fatal("the change is on disk already")
	}
	return b
}

// shows are all the ways to look at a store.
var shows = map[string]func(s *Store, b *Batch) error{
	"get":      func(s *Store, _ *Batch) error { _, _, err := s.Get("2.v"); return err },
	"overflow": func(s *Store, _ *Batch) error { _, err := s.Incr("2.v", 1); return except(err, ErrOutOfRange) },
	"len":      func(s *Store, _ *Batch) error { _, err := s.Len(); return err },
	"digests":  func(s *Store, _ *Batch) error { _, err := s.Admin().Digests("a", 0, 1<<63, 3); return err },
	"read":     func(s *Store, b *Batch) error { return runOne(b, OpRead) },
	"exists":   func(s *Store, b *Batch) error { return runOne(b, OpExists) },
	"delete":   func(s *Store, b *Batch) error { return runOne(b, OpReset) },
	"scan": func(s *Store, b *Batch) error {
		return with(b, func() error { NewReader(b).Scan(nil, 0, 10); return nil })
	},
	"items":  func(s *Store, b *Batch) error { return with(b, func() error { b.Items(); return nil }) },
	"schema": func(s *Store, b *Batch) error { return with(b, func() error { b.Schema(); return nil }) },
	"digest": func(s *Store, b *Batch) error {
		return with(b, func() error { _, err := NewReader(b).Digest("a", 0, 9); return err })
	},
	"find": func(s *Store, _ *Batch) error {
		return s.Find(showQuery(s, query.GreaterEqual, 0), func(uint64, []uint64) bool { return true })
	},
	"find in a list": func(s *Store, _ *Batch) error {
		q := showQuery(s, query.GreaterEqual, 0)
		q.Mids = []uint64{2}
		return s.Find(q, func(uint64, []uint64) bool { return true })
	},
	"find nothing": func(s *Store, _ *Batch) error {
		return s.Find(showQuery(s, query.Equal, 3), func(uint64, []uint64) bool { return true })
	},
	"top": func(s *Store, _ *Batch) error { _, err := s.Top(showQuery(s, query.Less, 99), 0, 3); return err },
	"top of a list": func(s *Store, _ *Batch) error {
		s.tops.All()
		_, err := s.Top(query.Query{Counter: s.Schema().Counter("a"), To: schema.MaxMid}, 0, 2)
		return err
	},
	"a list": func(s *Store, _ *Batch) error {
		s.tops.All()
		_, ok, err := s.TopOf(s.TopLists()[0])
		if !ok {
			return errors.New("the list was not built")
		}
		return err
	},
	"aggregate": func(s *Store, _ *Batch) error {
		_, _, _, err := s.Aggregate(showQuery(s, query.Less, 99), query.Sum, 0)
		return err
	},
	"update nothing": func(s *Store, _ *Batch) error {
		_, err := s.Update(showQuery(s, query.Equal, 15), []Change{{Kind: OpAdd, Arg: 1}}, ReturnNothing, nil)
		return err
	},
	"block of": func(s *Store, b *Batch) error {
		return with(b, func() error { NewReader(b).BlockOf(b.Schema().Counter("a"), 2); return nil })
	},
}

func showQuery(s *Store, op query.Compare, v uint64) query.Query {
	return query.Query{Counter: s.Schema().Counter("a"), To: 9, Where: []query.Condition{{Column: 0, Op: op, Value: v}}}
}

func except(err, but error) error {
	if errors.Is(err, but) {
		return nil
	}
	return err
}

func with(b *Batch, f func() error) error {
	if err := b.Begin(); err != nil {
		return err
	}
	err := f()
	b.End()
	return errors.Join(err, b.Commit())
}

func runOne(b *Batch, kind OpKind) error {
	b.Reset()
	return with(b, func() error {
		b.Add(Op{Kind: kind, Counter: b.Schema().Counter("a"), Mid: 2})
		b.Run()
		return b.Op(0).Err
	})
}

// TestShow: what one sees of another's change is not told before the log holds it: in its file, where a kill of the
// process does not take it back, and under appendfsync always on the disk.
func TestShow(t *testing.T) {
	changes := map[string]func(b *Batch){
		"set": func(b *Batch) {
			b.Add(Op{Kind: OpSet, Counter: b.Schema().Counter("a"), Mid: 2, Arg: 15})
			b.Run()
		},
		"delete": func(b *Batch) {
			b.Add(Op{Kind: OpDelete, Counter: b.Schema().Counter("a"), Mid: 2})
			b.Run()
		},
		"clear": func(b *Batch) { _ = b.Whole().Clear() },
		"alter": func(b *Batch) { _ = b.Whole().AlterScript("add column a w hint=4 max=4 suffix=w") },
	}
	for _, policy := range []SyncPolicy{SyncAlways, SyncEverySec, SyncNo} {
		for change, make := range changes {
			for name, show := range shows {
				s, _ := openShow(t, policy)
				unwritten(t, s, make)
				before := s.data.Log.Position()
				if name == "a list" && change == "alter" || name == "schema" && (change == "set" || change == "delete") {
					continue // nothing of it is seen
				}
				if err := show(s, s.NewBatch()); err != nil {
					t.Fatalf("%v: %s after %s: %v", policy, name, change, err)
				}
				if at := s.data.Log.Visible(); at < before {
					t.Errorf("%v: %s was told after %s, up to log offset %d, and a crash goes back to %d", policy, name, change, before, at)
				}
			}
		}
	}
}

// TestShowReplica: a replica's readers wait for the replica's own log, and its primary's followers see what a crash of
// that does not take back.
func TestShowReplica(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncEverySec} {
		for name, show := range shows {
			if name == "overflow" || name == "delete" || name == "update nothing" { // changes
				continue
			}
			a, _ := openShow(t, policy)
			b, err := Open("replica", Options{FS: vfs.NewSim(), AppendFsync: policy, Manual: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			if _, err := b.repl.Follow(a.repl.Lineage()); err != nil {
				t.Fatal(err)
			}
			ship(t, a, b)
			w := unwritten(t, a, func(w *Batch) { _ = w.Whole().AlterScript("add column a w hint=4 max=4 suffix=w") })
			w.Reset()
			if err := with(w, func() error {
				w.Add(Op{Kind: OpDelete, Counter: w.Schema().Counter("a"), Mid: 2})
				w.Run()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			r, err := a.data.Log.NewFollower(b.data.Log.Position())
			if err != nil {
				t.Fatal(err)
			}
			for {
				f, err := r.TryNext()
				if err != nil {
					t.Fatal(err)
				}
				if f == nil {
					break
				}
				if end := f.Start + uint64(len(f.Raw)); end > a.data.Log.Visible() {
					t.Errorf("%v: a follower gets what ends at %d, a crash goes back to %d", policy, end, a.data.Log.Visible())
				}
				if _, err := b.repl.Replicate(f.Raw); err != nil {
					t.Fatal(err)
				}
			}
			r.Close()
			if b.data.Log.Visible() == b.data.Log.Position() || b.data.Log.Position() != a.data.Log.Position() {
				t.Fatalf("the replica's log ends at %d, visible to %d; the primary's at %d", b.data.Log.Position(), b.data.Log.Visible(), a.data.Log.Position())
			}
			if err := show(b, b.NewBatch()); err != nil {
				t.Fatal(err)
			}
			if b.data.Log.Visible() != b.data.Log.Position() {
				t.Errorf("%v: %s was told by a replica whose crash takes it back", policy, name)
			}
		}
	}
}

// recovers lets the log try until it takes changes: it waits longer after each time.
func recovers(t *testing.T, s *Store) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.data.Log.Ready() != nil; time.Sleep(time.Millisecond) {
		if s.data.Log.Tick(); time.Now().After(deadline) {
			t.Fatal(s.data.Log.Ready())
		}
	}
}

// TestFollowerWaits: under appendfsync always a follower gets a frame when it is durable, and is woken then, or when
// the policy changes.
func TestFollowerWaits(t *testing.T) {
	s, faulty := openShow(t, SyncAlways)
	r, err := s.data.Log.NewFollower(s.data.Log.Position())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	faulty.Inject(vfs.Rule{Ops: vfs.OpSync | vfs.OpSyncDir | vfs.OpCreate, Every: 1, Err: errIO})
	if err := s.Set("1.v", 3); !errors.As(err, new(*UncertainError)) {
		t.Fatal("a change with a disk that fails:", err)
	}
	if f, err := r.TryNext(); f != nil || err != nil {
		t.Errorf("a follower of a disk that fails gets %v, %v", f, err)
	}
	got := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		f, err := r.Next(ctx)
		if err == nil && f.Start+uint64(len(f.Raw)) > s.data.Log.Visible() {
			err = errors.New("a frame that is not visible")
		}
		got <- err
	}()
	faulty.Clear()
	recovers(t, s)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestShowOnBadDisk: what was durable is read while the disk fails; and where only a kill counts, everything is.
func TestShowOnBadDisk(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncEverySec} {
		s, faulty := openShow(t, policy)
		if err := s.data.Log.Sync(); err != nil {
			t.Fatal(err)
		}
		faulty.Inject(vfs.Rule{Ops: vfs.OpSync | vfs.OpSyncDir | vfs.OpCreate | vfs.OpWrite, Every: 1, Err: errIO})
		names := []string{"get", "len", "digests", "read", "scan"}
		for _, name := range names {
			if err := shows[name](s, s.NewBatch()); err != nil {
				t.Errorf("%v: %s of what is durable, with a disk that fails: %v", policy, name, err)
			}
		}
		if err := s.Set("2.v", 3); !errors.As(err, new(*UncertainError)) {
			t.Fatalf("%v: a change with a disk that fails: %v", policy, err)
		}
		for _, name := range names {
			err := shows[name](s, s.NewBatch())
			if uncertain := errors.As(err, new(*UncertainError)); uncertain != (policy == SyncAlways) || !uncertain && err != nil {
				t.Errorf("%v: %s of what is not durable, with a disk that fails: %v", policy, name, err)
			}
		}
		if err := s.Set("2.v", 3); !errors.Is(err, ErrNotReady) || strings.Contains(err.Error(), "are made") {
			t.Errorf("%v: a change while none is taken: %v", policy, err)
		}
		faulty.Clear()
		recovers(t, s)
	}
}

// TestShowGoesWithBlock: who replaces a block hands on how far the log must be for what the block holds to be told.
func TestShowGoesWithBlock(t *testing.T) {
	for _, change := range []func(s *Store) error{
		func(s *Store) error { return s.Admin().Demote("a", 2) },
		func(s *Store) error { return errors.Join(s.Admin().Demote("a", 2), s.Admin().Promote("a", 2)) },
	} {
		s, _ := openShow(t, SyncEverySec)
		for mid := range 100 { // the last block stays in memory
			if err := s.Set(fmt.Sprintf("%d.v", 3+mid), 1); err != nil {
				t.Fatal(err)
			}
		}
		unwritten(t, s, func(b *Batch) {
			b.Add(Op{Kind: OpSet, Counter: b.Schema().Counter("a"), Mid: 2, Arg: 9})
			b.Run()
		})
		end := s.data.Log.Position()
		if err := change(s); err != nil {
			t.Fatal(err)
		}
		var logged []uint64
		for _, b := range s.data.Spaces[s.Schema().Counter("a").ID][0].Dir.Load().Blocks {
			logged = append(logged, b.Logged)
		}
		if !slices.Contains(logged, end) {
			t.Errorf("a change up to log offset %d; its blocks now say %v", end, logged)
		}
	}
}

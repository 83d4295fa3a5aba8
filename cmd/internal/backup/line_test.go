package backup

import (
	"github.com/counterd/counterd/cmd/internal/backup/bucket"

	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// from makes a backup that says where it was made.
func (s *source) from(to Store, where string) *Index {
	s.t.Helper()
	m := NewMaker(to, Options{Source: where, Cold: counter.ColdVerifier})
	x, err := m.Make(s.t.Context(), datadir.NewView(vfs.OS(), s.dir), s.dir)
	s.must(err)
	return x
}

// restart ends the store and opens it again: a new term begins.
func (s *source) restart() {
	s.t.Helper()
	s.must(s.store.Close())
	var err error
	s.store, err = counter.Open(s.dir, counter.Options{BlockItems: 64, Manual: true})
	s.must(err)
}

// TestTwoStores keeps backups of two stores in one place, a directory and a bucket: each removes only its own backups,
// whether it was restarted meanwhile, moved to another machine, or is an index of a program that did not note the past.
func TestTwoStores(t *testing.T) {
	racetest.Skip(t, "TestBackupWhileWriting has two sides at work")
	_, s3 := serveBucket(t)
	dir, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]Store{"directory": dir, "bucket": s3} {
		for _, old := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				a, b := newSource(t), newSource(t)
				var ofA, ofB []*Index
				took := func(x *Index) *Index {
					if old {
						x.Past = ""
						a.must(x.write(t.Context(), to))
					}
					return x
				}
				for i := range 3 {
					a.change(20)
					ofA = append(ofA, took(a.from(to, []string{"one:/a", "one:/a", "two:/a"}[i])))
					a.restart()
					b.change(20)
					ofB = append(ofB, took(b.from(to, "one:/b")))
					if i == 1 {
						b.restart() // and nothing is written in the term before the next
						b.restart()
					}
				}
				names := func(list []*Index) (names []string) {
					for _, x := range list {
						names = append(names, x.Name)
					}
					return names
				}
				check := func(done Pruned, err error, others int, want ...*Index) {
					t.Helper()
					list, _, lerr := List(t.Context(), to)
					if err != nil || lerr != nil || !slices.Equal(names(list), names(want)) || len(done.Others) != others {
						t.Fatalf("left %v, want %v; %+v, %v, %v", names(list), names(want), done, err, lerr)
					}
					for _, x := range list {
						if err := Fetch(t.Context(), to, x, "", nil); err != nil {
							t.Error(err)
						}
					}
				}
				done, err := Prune(t.Context(), to, 1, ofB[2])
				check(done, err, 1, ofA[0], ofA[1], ofA[2], ofB[2])
				stores, err := Stores(t.Context(), to, []*Index{ofA[0], ofA[1], ofA[2], ofB[2]})
				if err != nil || !slices.Equal(names(stores), names([]*Index{ofA[2], ofB[2]})) {
					t.Errorf("stores %v, %v", names(stores), err)
				}
				done, err = Prune(t.Context(), to, 2, nil) // of each
				check(done, err, 0, ofA[1], ofA[2], ofB[2])
				done, err = Prune(t.Context(), to, 1, ofA[2])
				check(done, err, 1, ofA[2], ofB[2])
				for _, x := range []*Index{ofA[2], ofB[2]} {
					a.must(to.Remove(t.Context(), indexPrefix+x.Name+indexSuffix))
				}
				a.must(errors.Join(a.store.Close(), b.store.Close()))
			})
		}
	}
}

// TestForkedStores: a directory that was restored from a backup lives on beside the one it comes from, and both are
// backed up in one place. The other store keeps objects that one removes, also those of their common past.
func TestForkedStores(t *testing.T) {
	to, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := newSource(t)
	a.change(30)
	past := a.from(to, "one:/a")
	fork := &source{t: t, dir: filepath.Join(t.TempDir(), "fork"), rng: a.rng}
	_, err = datadir.Restore(datadir.NewView(vfs.OS(), a.dir), a.dir, vfs.OS(), fork.dir, datadir.Target{Offset: past.End}, datadir.RestoreOptions{})
	a.must(err)
	fork.store, err = counter.Open(fork.dir, counter.Options{BlockItems: 64, Manual: true})
	a.must(err)
	a.change(10)
	mine := a.from(to, "one:/a")
	fork.change(10)
	other := fork.from(to, "two:/fork")
	if _, err := Prune(t.Context(), to, 1, other); err != nil {
		t.Fatal(err)
	}
	if list, _, err := List(t.Context(), to); err != nil || len(list) != 3 {
		t.Fatalf("%d backups are left, want all 3: %v", len(list), err)
	}
	if _, err := Prune(t.Context(), to, 1, nil); err != nil {
		t.Fatal(err)
	}
	list, _, err := List(t.Context(), to)
	if err != nil || len(list) != 2 || list[0].Name != mine.Name || list[1].Name != other.Name {
		t.Errorf("%d backups are left, %v", len(list), err)
	}
	a.must(errors.Join(a.store.Close(), fork.store.Close()))
}

// TestWindowOfRest: a snapshot that is made long after the last change does not turn the window around.
func TestWindowOfRest(t *testing.T) {
	x := &Index{LogFrom: 100, End: 900, EndMS: 1000, Snapshots: []Snapshot{{900, 5000}, {900, 6000}}}
	if from, to, ok := x.Window(); !ok || from != (Snapshot{900, 5000}) || to != (Snapshot{900, 5000}) {
		t.Errorf("got %+v to %+v, %v", from, to, ok)
	}
	x.Snapshots = nil
	if _, _, ok := x.Window(); ok {
		t.Error("a window without a snapshot")
	}
}

// TestUntil: a moment that passed while the backup was made, behind the reading of the log, is not in it.
func TestUntil(t *testing.T) {
	to, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := newSource(t)
	s.change(10)
	x, err := s.create(to, false)
	s.must(err)
	if x.Until.IsZero() || x.Until.After(x.Created) || x.Reaches(0, x.Until) || !x.Reaches(0, x.Until.Add(-1)) {
		t.Errorf("until %v, created %v", x.Until, x.Created)
	}
	s.must(s.store.Close())
}

// TestLogEndsEarly damages the last segment of a directory whose log was ended: there is no backup of it.
func TestLogEndsEarly(t *testing.T) {
	racetest.Skip(t, "TestBackupWhileWriting has two sides at work")
	s := newSource(t)
	s.change(50)
	s.must(s.store.Close())
	segments, err := logfile.Segments(vfs.OS(), s.dir)
	s.must(err)
	last := segments[len(segments)-1].Path
	data, err := os.ReadFile(last)
	s.must(err)
	s.must(os.WriteFile(last, flip(data, 500), 0o600))
	to, err := bucket.Open(t.TempDir())
	s.must(err)
	var bad *format.CorruptError
	if x, err := s.create(to, false); !errors.As(err, &bad) || bad.File != last {
		t.Errorf("%+v, %v", x, err)
	}
	if list, _, err := List(t.Context(), to); len(list) > 0 || err != nil {
		t.Errorf("%d backups, %v", len(list), err)
	}
}

// TestBackupOfBegun: while a node takes over a primary's data there is nothing to back up, and HISTORY is not damaged.
// A directory of which the next start finishes that is seen as it will be: without a change, in this test.
func TestBackupOfBegun(t *testing.T) {
	s := newSource(t)
	s.change(50)
	s.must(s.store.Close())
	to, err := bucket.Open(t.TempDir())
	s.must(err)
	lineage, err := logfile.ReadLineage(vfs.OS(), s.dir)
	s.must(err)
	sim := vfs.NewFaulty(vfs.OS())
	in, err := past.BeginInstall(sim, s.dir, 0, lineage, nil)
	s.must(err)
	s.must(in.Stage())
	sim.Inject(vfs.Rule{Ops: vfs.OpRename, Glob: "*.aof*", Every: 1, Err: fs.ErrPermission}) // as a crash there
	if err := in.Finish(); !errors.Is(err, fs.ErrPermission) {
		t.Fatal(err)
	}
	m := NewMaker(to, Options{Source: "here"})
	var begun *BegunError
	if _, err := m.Make(t.Context(), datadir.NewView(vfs.OS(), s.dir), s.dir); !errors.As(err, &begun) || errors.Is(err, format.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	view, err := datadir.Settled(datadir.NewView(vfs.OS(), s.dir), s.dir)
	s.must(err)
	if x, err := m.Make(t.Context(), view, s.dir); !errors.As(err, &begun) || begun.What != "waiting for its first change" {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestBackupOfEmpty: there is no backup of a new replica, which has a history of its own until its primary's data has come. Such a backup
// would stand in the place as one of another store, and a restore would have to be told which of the two is wanted.
func TestBackupOfEmpty(t *testing.T) {
	s := newSource(t)
	s.change(50)
	place, err := bucket.Open(t.TempDir())
	s.must(err)
	x, err := NewMaker(place, Options{Source: "here"}).Make(t.Context(), datadir.NewView(vfs.OS(), s.dir), s.dir)
	s.must(err)
	dir := t.TempDir()
	empty, err := counter.Open(dir, counter.Options{})
	s.must(err)
	var begun *BegunError
	if x, err := NewMaker(place, Options{Source: "here"}).Make(t.Context(), datadir.NewView(vfs.OS(), dir), dir); !errors.As(err, &begun) {
		t.Errorf("%+v, %v", x, err)
	}
	s.must(empty.Close())
	list, _, err := List(t.Context(), place)
	s.must(err)
	if stores, err := Stores(t.Context(), place, list); err != nil || len(stores) != 1 || stores[0].Name != x.Name {
		t.Errorf("%v, %v", stores, err)
	}
}

// TestPastNeedsSnapshot: the history of a backup says that the log needs a snapshot, also if it has no terms, as counterctl repair leaves it of a damaged
// one, or cannot be read. An index without a history, of an older program, says nothing.
func TestPastNeedsSnapshot(t *testing.T) {
	id := format.ReplID{7}
	text := func(l format.Lineage) string { return string(l.AppendText(nil)) }
	for name, c := range map[string]struct {
		past string
		want bool
	}{
		"terms":            {text(format.Lineage{Terms: []format.Term{{ReplID: id, Epoch: 1}}}), false},
		"terms and mark":   {text(format.Lineage{Terms: []format.Term{{ReplID: id, Epoch: 1}}, NeedsSnapshot: true}), true},
		"no terms":         {text(format.Lineage{}), false},
		"the mark alone":   {text(format.Lineage{NeedsSnapshot: true}), true},
		"damaged":          {"counterd history 1\nend crc32c 00000000\n", true},
		"of older program": {"", false},
	} {
		past, err := Past(t.Context(), nil, &Index{History: id.String(), Past: c.past})
		if err != nil || past.NeedsSnapshot != c.want || len(past.Terms) != 1 || past.Terms[0].ReplID != id {
			t.Errorf("%s: %+v, %v, want a log that needs a snapshot: %t", name, past, err, c.want)
		}
	}
}

// Scenario: the role of a store and the lineage of its log.

package counter

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// twoTerms is a primary whose log has a second term, and the frames of both.
func twoTerms(t *testing.T) (a *Store, frames [][]byte) {
	t.Helper()
	a, err := Open("a", Options{FS: vfs.NewSim(), Manual: true, BlockItems: 16, SnapshotGrowth: -1, HashSeed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	if err := a.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if i == 10 {
			if err := a.repl.Yield(); err != nil {
				t.Fatal(err)
			}
			if _, err := a.repl.Lead(); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Set(fmt.Sprintf("%d.n", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.data.Log.Commit(a.data.Log.Position()); err != nil {
		t.Fatal(err)
	}
	eachFrame(t, a, 0, func(raw []byte) { frames = append(frames, raw) })
	return a, frames
}

// TestStrangeTerm: a replica takes no frame of a term that its history does not have, and takes it behind Follow, whether
// it was restarted in between or not. A start forgets terms that begin behind the log's end: with them no frame of the
// primary would be of a term that is known.
func TestStrangeTerm(t *testing.T) {
	a, frames := twoTerms(t)
	whole := a.repl.Lineage()
	second := whole.Terms[1].Start
	for _, c := range []struct {
		name     string
		past     format.Lineage
		restarts bool
	}{
		{"an older history", whole.Cut(second), false},
		{"the whole history, and a restart before its second term", whole, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Open("b", Options{FS: vfs.NewSim(), Manual: true, BlockItems: 16, SnapshotGrowth: -1, HashSeed: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			if _, err := b.repl.Follow(c.past); err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				at := b.data.Log.Position()
				if at+uint64(len(f)) == second && c.restarts { // the last one of the first term comes behind it
					c.restarts = false
					b = reopened(t, b)
				}
				_, err := b.repl.Replicate(f)
				if epoch := format.FrameEpoch(f); (err == nil) != (epoch == whole.Terms[0].Epoch) {
					t.Fatalf("a frame of epoch %d at %d: %v", epoch, at, err)
				}
				if err == nil {
					continue
				}
				var term *format.TermError
				if !errors.As(err, &term) || term.Offset != at || b.data.Log.Position() != at {
					t.Fatalf("%v, and the log ends at %d, want %d", err, b.data.Log.Position(), at)
				}
			}
			if _, err := b.repl.Follow(whole); err != nil {
				t.Fatal(err)
			}
			ship(t, a, b)
			if x, y := digestOf(t, a), digestOf(t, b); x != y {
				t.Fatalf("%s and %s", x, y)
			}
			if past := b.repl.Lineage(); !slices.Equal(past.Terms, whole.Terms) {
				t.Fatalf("the history is %v, want %v", past.Terms, whole.Terms)
			}
		})
	}
}

// reopened restarts a store.
func reopened(t *testing.T, s *Store) *Store {
	t.Helper()
	if err := s.data.Log.Commit(s.data.Log.Position()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(s.Path(), s.opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStrangeHistory starts on a directory whose HISTORY lacks the last term of its log, as one that somebody brought
// back would: the data is there, and no other node takes the log for its own.
func TestStrangeHistory(t *testing.T) {
	a, frames := twoTerms(t)
	whole := a.repl.Lineage()
	b, err := Open("b", Options{FS: vfs.NewSim(), Manual: true, BlockItems: 16, SnapshotGrowth: -1, HashSeed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if _, err := b.repl.Follow(whole); err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if _, err := b.repl.Replicate(f); err != nil {
			t.Fatal(err)
		}
	}
	if b = reopened(t, b); len(b.repl.Lineage().Terms) != 2 {
		t.Fatalf("a restart made the history %v", b.repl.Lineage().Terms)
	}
	old := whole.Cut(whole.Terms[1].Start)
	old.Replica = true
	if err := logfile.WriteLineage(b.opts.FS, b.Path(), &old); err != nil {
		t.Fatal(err)
	}
	b = reopened(t, b)
	past := b.repl.Lineage()
	if at, ok := whole.Common(a.data.Log.Written(), &past, b.data.Log.Position()); ok {
		t.Errorf("the logs agree up to %d, by the history %v", at, past.Terms)
	}
	if x, y := digestOf(t, a), digestOf(t, b); x != y {
		t.Errorf("%s and %s", x, y)
	}
	again := reopened(t, b)
	if b = again; !slices.Equal(b.repl.Lineage().Terms, past.Terms) {
		t.Errorf("the next start made the history %v of %v", b.repl.Lineage().Terms, past.Terms)
	}
}

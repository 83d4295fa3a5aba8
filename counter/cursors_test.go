// Scenario: named cursors of the feed keep log, and are the same behind crashes, on replicas and in snapshots.

package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// cursorsText is all cursors of a store.
func cursorsText(s *Store) string {
	var b strings.Builder
	for _, c := range s.data.Cursors.List() {
		fmt.Fprintf(&b, "%s=%s@%d set %d ", c.Name, c.Position, c.Offset, c.TimeMS)
	}
	return b.String()
}

// setCursor sets a cursor, as a server does it, without the commit.
func setCursor(s *Store, name string, at FeedPosition) error {
	c, err := s.Feeds().Cursor(name, at)
	if err == nil {
		err = s.repl.AdmitCursors()
	}
	if err != nil {
		return err
	}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	err = CursorsOf(b).Set(c)
	b.End()
	return errors.Join(err, b.Commit())
}

// deleteCursor removes a cursor.
func deleteCursor(s *Store, name string) error {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	err := CursorsOf(b).Delete(name)
	b.End()
	return errors.Join(err, b.Commit())
}

// playCursor sets a cursor to the end of the log, or removes one.
func playCursor(t testing.TB, rng *rand.Rand, s *Store) error {
	t.Helper()
	name := fmt.Sprintf("c%d", rng.IntN(3))
	if rng.IntN(4) == 0 {
		if err := deleteCursor(s, name); !errors.Is(err, ErrNoCursor) {
			return err
		}
		return nil
	}
	at, err := s.Feeds().Now(s.data.Log.Written())
	if errors.Is(err, ErrFeedUnsettled) {
		return nil
	}
	if err != nil {
		return err
	}
	return setCursor(s, name, at)
}

// TestCursorKeepsLog: log behind a cursor stays up to FeedRetainBytes; a cursor further behind is lost, and says so.
func TestCursorKeepsLog(t *testing.T) {
	s, _ := openFeed(t, func(o *Options) { o.RetainBytes, o.SegmentBytes, o.FeedRetainBytes = 0, 512, 1<<20 })
	feedIncr(t, s, "1.v", 1)
	at, err := s.Feeds().Now(s.data.Log.Durable())
	if err != nil {
		t.Fatal(err)
	}
	if err := setCursor(s, "search", at); err != nil {
		t.Fatal(err)
	}
	state := func() FeedCursorState {
		t.Helper()
		list := s.Cursors()
		if len(list) != 1 || list[0].Name != "search" || list[0].Position != at.String() {
			t.Fatalf("got %+v", list)
		}
		return list[0]
	}
	if c := state(); c.Lost || c.Bytes > 0 || !c.Since.IsZero() {
		t.Errorf("behind its own record: got %+v, want no lag", c)
	}
	work := func() {
		t.Helper()
		for i := range 180 {
			feedIncr(t, s, "1.v", 1)
			if i%60 == 59 {
				if err := s.Snapshot(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	work()
	if c := state(); c.Lost || c.Bytes < 180*10 || c.Since.IsZero() || c.Lag(c.Since.Add(time.Second)) != time.Second {
		t.Errorf("behind 180 changes: got %+v", c)
	}
	r := newFeedReader()
	r.at, r.sch, r.posts = at, s.Schema(), model{"a": {1: {"v": 1, "w": 2}}, "b": {}}
	if err := r.read(t, s, s.data.Log.Durable()); err != nil || len(r.shown) != 180 {
		t.Errorf("%d changes are behind the cursor, %v, want 180", len(r.shown), err)
	}
	s.Admin().SetFeedRetain(600)
	work()
	if c := state(); !c.Lost || !c.Since.IsZero() {
		t.Errorf("further behind than what is kept: got %+v, want it lost", c)
	}
	// A lost cursor keeps nothing.
	s.Admin().SetFeedRetain(1 << 40)
	first := s.repl.First()
	work()
	if s.repl.First() == first {
		t.Error("a lost cursor keeps log")
	}
	if err := setCursor(s, "search", at); !errors.As(err, new(*FeedGoneError)) {
		t.Errorf("set where it is lost: %v", err)
	}
	if err := deleteCursor(s, "search"); err != nil || len(s.Cursors()) > 0 {
		t.Errorf("%v, %v is left", err, s.Cursors())
	}
}

// TestPinRetainsLog: log behind a cursor stays for a replica that copies, also when the cursor is gone or the limit is lower, and not when the disk is
// almost full.
func TestPinRetainsLog(t *testing.T) {
	s, opts := openFeed(t, func(o *Options) { o.RetainBytes, o.SegmentBytes, o.FeedRetainBytes = 0, 512, 1<<20 })
	work := func() {
		t.Helper()
		for i := range 60 {
			feedIncr(t, s, "1.v", 1)
			if i%20 == 19 {
				if err := s.Snapshot(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	work()
	at, err := s.Feeds().Now(s.data.Log.Durable())
	if err == nil {
		err = setCursor(s, "search", at)
	}
	if err != nil {
		t.Fatal(err)
	}
	work()
	from, ok := CursorsFrom(s)
	pin, err := s.Pins().PinSnapshot()
	if err != nil || !ok || from != at.Frame || from >= pin.Manifest.Replay {
		t.Fatalf("a cursor needs the log from %d on, %t, %v", from, ok, err)
	}
	defer pin.Release()
	pin.RetainLog(from)
	s.Admin().SetFeedRetain(1)
	if err := deleteCursor(s, "search"); err != nil {
		t.Fatal(err)
	}
	if work(); s.repl.First() > from {
		t.Errorf("the log begins at %d, a replica copies it from %d on", s.repl.First(), from)
	}
	sim := opts.FS.(*vfs.Sim)
	sim.SetCapacity(1 << 20)
	s.snapshots.SnapshotIfDue()
	if first := s.repl.First(); first <= from || first > pin.Manifest.Replay {
		t.Errorf("on a full disk the log begins at %d, the snapshot that is copied needs it from %d on", first, pin.Manifest.Replay)
	}
	sim.SetCapacity(0)
	pin.Release()
	if work(); s.repl.First() <= pin.Manifest.Replay {
		t.Errorf("behind the copy the log begins at %d", s.repl.First())
	}
}

// TestCursorOfAnotherHistory: a cursor from which no feed goes on, as behind a restore of an older backup, is lost and keeps no log.
func TestCursorOfAnotherHistory(t *testing.T) {
	s, _ := openFeed(t, func(o *Options) { o.RetainBytes, o.SegmentBytes, o.FeedRetainBytes = 0, 512, 1<<40 })
	feedIncr(t, s, "1.v", 1)
	at, err := s.Feeds().Now(s.data.Log.Durable())
	if err != nil {
		t.Fatal(err)
	}
	at.Term[0]++
	if err := s.repl.AdmitCursors(); err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	err = CursorsOf(b).Set(format.Cursor{Name: "search", Position: at.String(), Offset: at.Frame})
	b.End()
	if err := errors.Join(err, b.Commit()); err != nil {
		t.Fatal(err)
	}
	if list := s.Cursors(); len(list) != 1 || !list[0].Lost {
		t.Fatalf("got %+v, want it lost", list)
	}
	first := s.repl.First()
	for i := range 180 {
		feedIncr(t, s, "1.v", 1)
		if i%60 == 59 {
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.repl.First() == first {
		t.Error("it keeps log")
	}
}

// TestCursorRefused: bad names, positions and too many cursors change nothing.
func TestCursorRefused(t *testing.T) {
	s, _ := openFeed(t)
	feedIncr(t, s, "1.v", 1)
	now, err := s.Feeds().Now(s.data.Log.Durable())
	if err != nil {
		t.Fatal(err)
	}
	inside, ahead, strange := now, now, now
	inside.Frame--
	ahead.Frame++
	strange.Term[0] ^= 1
	strange.Before = [8]byte{}
	for name, at := range map[string]FeedPosition{"inside": inside, "ahead": ahead, "strange": strange, "": now, "a b": now, strings.Repeat("x", 65): now, "a:b": now} {
		end := s.data.Log.Position()
		if err := setCursor(s, name, at); err == nil || s.data.Log.Position() != end || len(s.Cursors()) > 0 {
			t.Errorf("cursor %q at %s: %v, the log grew by %d", name, at, err, s.data.Log.Position()-end)
		}
	}
	for i := range format.MaxCursors {
		if err := setCursor(s, fmt.Sprint(i), now); err != nil {
			t.Fatal(err)
		}
	}
	var full *CursorsFullError
	if err := setCursor(s, "more", now); !errors.As(err, &full) {
		t.Errorf("one too many: %v", err)
	}
	if err := setCursor(s, "5", now); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if err := deleteCursor(s, "more"); !errors.Is(err, ErrNoCursor) {
		t.Errorf("one that is not there: %v", err)
	}
	before := cursorsText(s)
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	err = b.Whole().Clear()
	b.End()
	if err != nil || cursorsText(s) != before {
		t.Errorf("FLUSHALL: %v, and %s is left of %s", err, cursorsText(s), before)
	}
}

// TestCursorOlderProgram: HISTORY is of a version that older programs refuse from before the first cursor on, and not before that.
func TestCursorOlderProgram(t *testing.T) {
	s, opts := openFeed(t)
	version := func() string {
		t.Helper()
		text, err := vfs.ReadFile(opts.FS, format.LineagePath("data"), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return line
	}
	if got := version(); got != "counterd history 1" {
		t.Errorf("without cursors: %q", got)
	}
	feedIncr(t, s, "1.v", 1)
	now, err := s.Feeds().Now(s.data.Log.Durable())
	if err != nil {
		t.Fatal(err)
	}
	if err := setCursor(s, "search", now); err != nil {
		t.Fatal(err)
	}
	if got := version(); got != "counterd history 2" {
		t.Errorf("with a cursor: %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []bool{false, true} {
		if lost { // the log has the cursors, and HISTORY says so again
			for _, name := range []string{format.LineagePath("data"), format.LineagePath("data") + vfs.CopySuffix} {
				if err := opts.FS.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
		}
		s = openDir(t, "data", *opts, "")
		if l, err := logfile.ReadLineage(opts.FS, "data"); err != nil || !l.Cursors || !s.data.Cursors.Admitted.Load() {
			t.Errorf("HISTORY lost: %v: %+v, %v", lost, l, err)
		}
		if got := s.Cursors(); len(got) != 1 || got[0].Position != now.String() {
			t.Errorf("HISTORY lost: %v: cursors %+v", lost, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

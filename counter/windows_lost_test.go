// Scenario: additions count in windows of posts whose page, or whose counts, cannot be read.

package counter

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
)

// TestWindowsOfPartialRows: an addition to a column that was set while the post's page cannot be read counts in the windows of the
// column, alone and in a change set.
func TestWindowsOfPartialRows(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir, s, mids, cold := coldDir(t, 20_000)
	if err := s.repl.AdmitCursors(); err != nil {
		t.Fatal(err)
	}
	if err := s.AlterScript("add column weibo r1h window=1h/5m of=repost suffix=rh"); err != nil {
		t.Fatal(err)
	}
	flip(t, cold, 10_000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{Manual: true}, "")
	defer s.Close()
	i := slices.IndexFunc(mids, func(mid uint64) bool {
		_, _, err := s.Get(fmt.Sprintf("%d.cntrn", mid))
		return err != nil
	})
	if i < 0 {
		t.Fatal("no page is damaged")
	}
	key := fmt.Sprintf("%d.cntrn", mids[i])
	if err := s.Set(key, 40); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Incr(key, 3); err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	def := b.Schema().Counter("weibo")
	for _, n := range []uint64{2, 4} {
		b.Add(Op{Kind: OpAdd, Counter: def, Mid: mids[i], Column: int16(def.Derived[0].Sources[0].At), Arg: n})
	}
	b.ChangeSet(0)
	b.Run()
	if err := errors.Join(b.Op(0).Err, b.Op(1).Err); err != nil {
		t.Fatal(err)
	}
	b.End()
	if v, _, err := s.Get(key); v != 49 || err != nil {
		t.Errorf("the column has %d, %v, want 49", v, err)
	}
	if v, _, err := s.Get(fmt.Sprintf("%d.rh", mids[i])); v != 9 || err != nil {
		t.Errorf("the window has %d additions, %v, want 9", v, err)
	}
}

// TestWindowsLost: an addition to a post whose counts are known in part is refused, and changes nothing. It counted as the first one.
func TestWindowsLost(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	const posts = 200
	dir, now := t.TempDir(), time.Unix(1_795_000_000, 0)
	opts := Options{Manual: true, AppendFsync: SyncAlways, BlockItems: 16, Now: func() time.Time { return now }}
	var s *Store
	open := func(script string) {
		t.Helper()
		s = openDir(t, dir, opts, "")
		if err := s.repl.AdmitCursors(); err != nil {
			t.Fatal(err)
		}
		if err := s.AlterScript(script); err != nil {
			t.Fatal(err)
		}
	}
	incr := func() {
		t.Helper()
		for mid := range posts {
			if _, err := s.Incr(fmt.Sprintf("%d.v", mid), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(windowSchema)
	incr()
	if err := s.Close(); err != nil { // so that the log goes on in a new segment
		t.Fatal(err)
	}
	open("")
	for range 2 {
		if err := s.Set("1.w", 1); err != nil {
			t.Fatal(err)
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if s.data.Log.Stats().First == 0 {
		t.Fatal("the whole log is still there")
	}
	now = now.Add(5 * time.Minute)
	if err := s.Windows().Tick(now, nil); err != nil {
		t.Fatal(err)
	}
	incr()
	space := s.Schema().Counter("a").Derived[0].Space.ID
	var lost format.BlockFile // of a block that is not the last one
	_ = s.data.Dir.Manifests()[0].Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		if c.ID == space && b.Lo > 0 && b.Hi < posts {
			lost = *b
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	flip(t, lost.Path(dir), int64(lost.Bytes/2))
	open("")
	defer s.Close()
	check := func(when string) {
		t.Helper()
		if v, _, err := s.Get(fmt.Sprintf("%d.v1h", lost.Lo)); !errors.Is(err, ErrCold) {
			t.Errorf("%s: the window has %d additions, %v, want an error", when, v, err)
		}
		if v, _, err := s.Get(fmt.Sprintf("%d.v", lost.Lo)); v != 2 || err != nil {
			t.Errorf("%s: the column has %d, %v, want 2", when, v, err)
		}
	}
	check("opened")
	if v, err := s.Incr(fmt.Sprintf("%d.v", lost.Lo), 1); !errors.Is(err, ErrCold) {
		t.Errorf("an addition made %d, %v, want an error", v, err)
	}
	check("behind an addition")
	// A change set removes several of the posts while there is memory for some removals of counts only: all of them go, or none.
	b, refused := s.NewBatch(), 0
	for limit := s.data.Arena.Used(); ; limit += 64 {
		b.Reset()
		must(t, b.Begin())
		for mid := lost.Lo; mid < lost.Hi; mid++ {
			b.Add(Op{Kind: OpDelete, Counter: s.Schema().Counter("a"), Mid: mid})
		}
		b.ChangeSet(0)
		s.data.Arena.SetLimit(limit)
		b.Run()
		s.data.Arena.SetLimit(0)
		done, err := 0, error(nil)
		for i := range b.Len() {
			err = errors.Join(err, b.Op(i).Err)
			if b.Op(i).Done {
				done++
			}
		}
		b.End()
		must(t, b.Commit())
		if err == nil && done == b.Len() {
			break
		}
		if refused++; done > 0 || !errors.Is(err, ErrNoMemory) {
			t.Fatalf("%d of %d posts were removed, %v", done, b.Len(), err)
		}
		check("behind a removal without memory")
	}
	if refused == 0 {
		t.Error("no removal was refused")
	}
}

// Scenario: the largest changes that must be one frame of the log.

package counter

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/schema"
)

// TestOnceTransactionFrame: a transaction with as many changes as it may have, of the largest numbers, and the longest
// result is one frame of the log, so that a crash keeps all of it or none. So it is where each addition changes all buckets of eight windows.
func TestOnceTransactionFrame(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	const column = "add counter a\nadd column a n hint=63 max=63 suffix=n"
	t.Run("plain", func(t *testing.T) {
		s := openDir(t, t.TempDir(), Options{Manual: true, SnapshotGrowth: -1}, column)
		largestOnce(t, s, Op{Kind: OpSet, Arg: math.MaxInt64})
	})
	t.Run("windows", func(t *testing.T) {
		script := column
		for i := range 8 {
			script += fmt.Sprintf("\nadd column a w%d window=1h/1m of=n", i)
		}
		s := openDir(t, t.TempDir(), Options{Manual: true, SnapshotGrowth: -1}, script)
		tick := func(minute int64) {
			if err := s.Windows().Tick(time.Unix(1_000_000_020+60*minute, 0), nil); err != nil {
				t.Fatal(err)
			}
		}
		for minute := range int64(60) {
			tick(minute)
			b := s.NewBatch()
			if err := b.BeginExclusive(); err != nil {
				t.Fatal(err)
			}
			onceChanges(b, Op{Kind: OpAdd, Arg: 1 << 50})
			b.End()
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		tick(118)
		largestOnce(t, s, Op{Kind: OpAdd, Arg: 1 << 60})
		tick(177)
		largestUpdate(t, s)
	})
}

// onceChanges makes op on as many posts, with the highest ids, as a numbered transaction may change.
func onceChanges(b *Batch, op Op) {
	op.Counter = b.Schema().Counter("a")
	last := MaxOnceBytes/ChangeBytes(op.Counter, 0) - 1
	for i := range last + 1 {
		op.Mid = math.MaxInt64 - 1 - uint64(i)
		b.Add(op)
		if b.Len() == 1000 || i == last {
			b.Run()
			b.Reset()
		}
	}
}

// largestOnce makes op in the largest numbered transaction, which must be one frame of the log.
func largestOnce(t *testing.T, s *Store, op Op) {
	t.Helper()
	from := s.data.Log.Position()
	transaction(t, s, &Once{Producer: pa, Seq: 1, Room: MaxResult}, func(b *Batch) Result {
		onceChanges(b, op)
		return Result{Kind: ResultBlob, Blob: make([]byte, MaxResult)}
	})
	wantOneFrame(t, s, from)
}

// largestUpdate adds to as many posts as an update may change that is one change. There are more.
func largestUpdate(t *testing.T, s *Store) {
	t.Helper()
	q := Query{Counter: s.Schema().Counter("a"), To: schema.MaxMid}
	gather := func() (*Update, error) {
		u, err := NewUpdate(q, []Change{{Kind: OpAdd, Column: 0, Arg: 1 << 50}}, ReturnNothing)
		if err != nil {
			t.Fatal(err)
		}
		return u, s.steps(u.Gather, func() bool { return true })
	}
	var many *TooManyError
	if _, err := gather(); !errors.As(err, &many) {
		t.Fatalf("an update of all posts: got %v, want that they are too many", err)
	}
	q.Limit = many.Most
	u, err := gather()
	if err != nil {
		t.Fatal(err)
	}
	from, b := s.data.Log.Position(), s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	err = u.Apply(b)
	b.End()
	if err := errors.Join(err, b.Commit()); err != nil || u.Changed() != many.Most {
		t.Fatalf("%d posts were changed, %v, want %d", u.Changed(), err, many.Most)
	}
	wantOneFrame(t, s, from)
}

// wantOneFrame checks that the log has one frame from an offset on.
func wantOneFrame(t *testing.T, s *Store, from uint64) {
	t.Helper()
	r, err := s.repl.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := r.TryNext()
	if err != nil || f == nil {
		t.Fatalf("got %v, %v, want a frame", f, err)
	}
	if !f.Whole || f.End() != s.data.Log.Position() {
		t.Errorf("got a frame from %d to %d, one change: %v, want it from %d to %d", f.Start, f.End(), f.Whole, from, s.data.Log.Position())
	}
}

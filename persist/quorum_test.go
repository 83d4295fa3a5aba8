package persist

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// counted counts how often it was told.
type counted struct{ n atomic.Int32 }

func (c *counted) Resume() { c.n.Add(1) }

func quorumLog(t *testing.T) *Log {
	t.Helper()
	l, _, err := OpenLog(LogOptions{FS: vfs.NewSim(), Dir: "d", Create: true, Manual: true}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestAwait: who waits is told once, as soon as what it waits for is there or in doubt, and not before.
func TestAwait(t *testing.T) {
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	l := quorumLog(t)
	if l.Quorum().Required() || l.Quorum().Await(1<<60, 1<<60, nil) {
		t.Fatal("somebody waits where nobody is asked")
	}
	l.Quorum().Require(true)
	type asker struct {
		counted
		pos   uint64
		reads bool
	}
	var waiting []*asker
	confirmed, ceiling, doubt := uint64(0), uint64(everywhere), false
	for i := range 20_000 {
		switch rng.IntN(6) {
		case 0:
			confirmed = uint64(rng.IntN(1000)) // it may fall
			l.Quorum().Confirm(confirmed)
		case 1:
			if doubt = rng.IntN(3) == 0; doubt {
				l.Quorum().Doubt(errors.New("doubt"))
				ceiling = min(ceiling, confirmed)
			} else {
				l.Quorum().Doubt(nil)
				ceiling = everywhere
			}
		default:
			a := &asker{pos: uint64(rng.IntN(1200)), reads: rng.IntN(2) == 0}
			ack, shown := a.pos, uint64(0)
			if a.reads {
				ack, shown = 0, a.pos
			}
			if got, want := l.Quorum().Waits(ack, shown), a.pos > confirmed || ack > ceiling; got != want {
				t.Fatalf("seed %d, step %d: %d of a reader %v: waits %v, want %v, as %d is confirmed, and in doubt from %d", seed, i, a.pos, a.reads, got, want, confirmed, ceiling)
			}
			if got, want := l.Quorum().Await(ack, shown, a), a.pos > confirmed && !doubt; got != want {
				t.Fatalf("seed %d, step %d: waits for %d: %v, want %v, as %d is confirmed, doubt %v", seed, i, a.pos, got, want, confirmed, doubt)
			} else if got {
				waiting = append(waiting, a)
			}
		}
		var still []*asker
		for _, a := range waiting {
			told := a.pos <= confirmed || doubt
			if got := a.n.Load(); got != 1 && told || got != 0 && !told {
				t.Fatalf("seed %d, step %d: who waits for %d was told %d times, as %d is confirmed, doubt %v", seed, i, a.pos, got, confirmed, doubt)
			}
			if !told {
				still = append(still, a)
			}
		}
		if waiting = still; l.Quorum().Awaited() != (len(waiting) > 0) {
			t.Fatalf("seed %d, step %d: awaited %v, %d wait", seed, i, l.Quorum().Awaited(), len(waiting))
		}
	}
}

// TestCommitConfirmed: Commit and CommitRead return when everybody has what they were asked for, with others who wait at the
// same time; what is closed under them they tell of.
func TestCommitConfirmed(t *testing.T) {
	l := quorumLog(t)
	l.Quorum().Require(true)
	const n = 200
	ends := make([]uint64, n)
	for i := range ends {
		ends[i] = l.AppendSet(1, 1, uint64(i), 1)
	}
	if err := l.CommitHere(ends[n-1]); err != nil || l.Visible() != ends[n-1] {
		t.Fatalf("visible to replicas up to %d, %v, want %d", l.Visible(), err, ends[n-1])
	}
	var all sync.WaitGroup
	for i, end := range ends {
		all.Go(func() {
			f := l.Commit
			if i%2 == 0 {
				f = l.CommitRead
			}
			err := f(end)
			var unconfirmed *UnconfirmedError
			switch last := end == ends[n-1]; {
			case !last && (err != nil || l.Quorum().Confirmed() < end):
				t.Errorf("acknowledged up to %d, %v, as %d was confirmed", end, err, l.Quorum().Confirmed())
			case last && (!errors.As(err, &unconfirmed) || !errors.Is(err, format.ErrClosed)):
				t.Errorf("the last one, when the log was closed: %v", err)
			}
		})
	}
	for _, end := range ends[:n-1] {
		l.Quorum().Confirm(end)
	}
	for !l.Quorum().Awaited() { // the last one is there
		time.Sleep(time.Millisecond)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

// TestAwaitMeetsConfirm: an offset that is confirmed while Await waits for the lock is not waited for.
func TestAwaitMeetsConfirm(t *testing.T) {
	q := &quorumLog(t).quorum
	q.Require(true)
	const askers = 16
	var asked sync.WaitGroup
	waits := make(chan bool, askers)
	q.mu.Lock()
	for range askers {
		asked.Add(1)
		go func() {
			asked.Done()
			waits <- q.Await(100, 0, &counted{})
		}()
	}
	asked.Wait()
	time.Sleep(20 * time.Millisecond) // they wait for the lock now, or find the offset confirmed later: both are fine
	q.confirmed.Store(100)
	q.mu.Unlock()
	for range askers {
		if <-waits {
			t.Fatal("it waits for an offset that is confirmed: nobody tells it")
		}
	}
}

// TestEndStays: the end of a log answers callers whatever its owner says later.
func TestEndStays(t *testing.T) {
	q := &quorumLog(t).quorum
	q.Require(true)
	q.endWaits()
	q.Doubt(nil)
	if err := q.wait(t.Context(), 100, 0); !errors.Is(err, format.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if w := new(counted); q.Await(100, 0, w) {
		t.Error("somebody waits for a log that has ended")
	}
}

// TestConfirmedAlone: a change that a node confirms alone, as it stands for fewer copies than there must be, is shown and not acknowledged:
// neither to earlier callers nor to later ones. The change is acknowledged when others have it.
func TestConfirmedAlone(t *testing.T) {
	l := quorumLog(t)
	l.Quorum().Require(true)
	pos := l.AppendSet(1, 1, 1, 1)
	const waiters = 8
	early := make(chan error)
	for range waiters {
		go func() { early <- l.Commit(pos) }()
	}
	for !l.Quorum().Awaited() {
		time.Sleep(time.Millisecond)
	}
	few := errors.New("too few")
	l.Quorum().Doubt(few)
	l.Quorum().Require(false) // before those that waited have looked
	for range waiters {
		if err := <-early; !errors.Is(err, few) {
			t.Errorf("acknowledged: %v", err)
		}
	}
	if err := l.Commit(pos); !errors.Is(err, few) {
		t.Errorf("acknowledged later: %v", err)
	}
	if err := l.CommitRead(pos); err != nil {
		t.Errorf("not shown: %v", err)
	}
	l.Quorum().Require(true)
	l.Quorum().Doubt(nil)
	l.Quorum().Confirm(pos)
	if err := l.Commit(pos); err != nil {
		t.Error(err)
	}
}

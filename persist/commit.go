package persist

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/persist/format"
)

// Commit returns nil when the bytes below pos may be acknowledged: they were given to write(), under SyncAlways they are
// durable, and all nodes that must have them have them (Quorum). Callers that wait at the same time share one write and
// one sync.
//
// An error means that the bytes are not safe yet: they stay in memory and are written when the disk is well, but a
// crash before that loses them. An *UnconfirmedError means that another node may not have them. The change was made; it
// must not be acknowledged, nor reported as not made. Where the disk hangs the error matches ErrHang, and comes
// MaxUnsyncedAge after the start of the call that does not end.
func (l *Log) Commit(pos uint64) error {
	if err := l.CommitHere(pos); err != nil {
		return err
	}
	return l.quorum.wait(context.Background(), pos, 0)
}

// CommitHere is Commit for this node alone.
func (l *Log) CommitHere(pos uint64) error {
	if l.progress.reached(pos) {
		return nil
	}
	return l.committer.reach(pos, (*progress).reached)
}

// CommitWithin is Commit for callers that wait no longer than ctx lasts. It returns the error of ctx if ctx ends while the
// bytes below pos are not confirmed: they may be confirmed later.
func (l *Log) CommitWithin(ctx context.Context, pos uint64) error {
	if err := l.CommitHere(pos); err != nil {
		return err
	}
	return l.quorum.wait(ctx, pos, 0)
}

// CommitRead returns nil when the changes below pos may be shown to a reader: a kill of the process does not take them back,
// under SyncAlways a power failure does not, and neither does another node that replaces this one. CommitRead does what Commit
// does, except that it does not wait for a disk that fell behind: a reader adds no bytes.
//
// Under SyncAlways, and where the disk hangs, CommitRead returns the errors of Commit. It returns an *UnconfirmedError under
// any policy. Otherwise what is in memory is shown although the disk takes nothing: until the disk is well, a kill may take it
// back.
func (l *Log) CommitRead(pos uint64) error {
	if err := l.CommitReadHere(pos); err != nil {
		return err
	}
	return l.quorum.wait(context.Background(), 0, pos)
}

// CommitReadHere is CommitRead for this node alone.
func (l *Log) CommitReadHere(pos uint64) error {
	if l.progress.shown(pos) {
		return nil
	}
	err := l.committer.reach(pos, (*progress).shown)
	if l.Policy() != SyncAlways && errors.Is(err, format.ErrNotReady) && !errors.Is(err, ErrHang) {
		return nil
	}
	return err
}

// Waits reports whether CommitHere(pos) or CommitReadHere(shown) would wait for a sync, for healing or for a disk that stalls,
// not only for a write().
func (l *Log) Waits(pos, shown uint64) bool {
	p := &l.progress
	if p.reached(pos) && p.shown(shown) {
		return false
	}
	if p.syncPolicy() == SyncAlways || p.behind.Load() && !p.reached(pos) || p.failing.Load() != diskWell {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committer.calls.healing()
}

// AwaitDurable returns when bytes of a log behind pos are durable, ctx is done (its error) or the log is closed (ErrClosed).
func AwaitDurable(ctx context.Context, l *Log, pos uint64) error {
	return l.readers.awaitAt(ctx, l.committer.syncs, func() bool { return l.progress.durable.Load() > pos })
}

// hurry has the background sync before SyncEvery is over, for callers that wait until bytes are durable: feeds of changes. The
// background calls the disk, so a caller can leave when its context ends, also while the disk hangs.
//
// One sync serves all that wait, and hurryEvery bounds how many there are. A slow disk is asked less often: it has half of the time for others.
// The background itself waits until a sync may begin. A caller that waited first, and asked then, was woken up twice for each sync.
//
// Invariant: wanted says that a sync begins later than the call of ask that saw it. So a caller whose bytes were written before needs no other one.
type hurry struct {
	wanted atomic.Bool
	due    atomic.Bool  // the sync may begin
	after  atomic.Int64 // a monotonic.Moment, as the clock may be set: no hurried sync begins before. 0: there was none
	timer  *time.Timer  // tells the background when it may
}

// init makes the timer. No sync is wanted yet.
func (h *hurry) init() {
	h.timer = time.NewTimer(time.Hour)
	h.timer.Stop()
}

// hurryEvery is the shortest time from the beginning of a hurried sync to that of the next. A change waits for it, and for the sync: it
// is shown after 10 ms at most where a sync takes 5 ms at most.
const hurryEvery = 5 * time.Millisecond

// ask asks for a sync, unless one is wanted already. It tells whether the background has to be woken up: else the timer tells it.
func (h *hurry) ask(now time.Time) (wake bool) {
	if h.wanted.Swap(true) {
		return false
	}
	if after := h.after.Load(); after != 0 {
		if d := time.Duration(after - int64(monotonic.Of(now))); d > 0 {
			h.timer.Reset(d)
			return false
		}
	}
	h.due.Store(true)
	return true
}

// take tells whether a sync has to begin, and begins the time until the next one. last is how long the last sync took.
func (h *hurry) take(now time.Time, last time.Duration) bool {
	if !h.due.Swap(false) {
		return false
	}
	h.after.Store(int64(monotonic.Of(now.Add(max(hurryEvery, 2*last)))))
	h.wanted.Store(false) // behind after, which the next ask reads, and before the sync learns how far the log is written
	return true
}

// HurryDurable is AwaitDurable for a caller that wants the bytes soon. Where they wait for the sync of each SyncEvery, or for the
// kernel, it has them synced within milliseconds. A Manual log syncs at its Tick only.
func HurryDurable(ctx context.Context, l *Log, pos uint64) error {
	if err := l.readers.await(ctx, func() bool { return l.progress.written.Load() > pos }); err != nil {
		return err
	}
	Hurry(l, pos)
	return AwaitDurable(ctx, l, pos)
}

// Hurry is HurryDurable for a caller that does not wait. Bytes that are not written yet are left to the next call.
func Hurry(l *Log, pos uint64) {
	if lags(l, pos) && l.hurry.ask(l.opts.Now()) {
		wake(l.kick)
	}
}

// HurryNow is Hurry without the pause between hurried syncs: all clients may wait. The caller must not call it again for the same bytes: each call that
// comes during a sync is followed by another sync.
func HurryNow(l *Log, pos uint64) {
	if lags(l, pos) {
		l.hurry.due.Store(true)
		wake(l.kick)
	}
}

// lags tells whether bytes behind pos are written and wait for a sync of the background.
func lags(l *Log, pos uint64) bool {
	p := &l.progress
	return p.durable.Load() <= pos && p.written.Load() > pos && l.Policy() != SyncAlways && !l.opts.Manual
}

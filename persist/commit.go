package persist

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/counterd/counterd/persist/format"
)

// Commit returns nil when the bytes below pos may be acknowledged: they were given to write(), under SyncAlways are
// durable, and all who must have them do (Confirm). Callers that wait at the same time share one write and one sync.
//
// An error means that the bytes are not safe yet: they stay in memory and are written when the disk is well, but a
// crash before that loses them; or, an *UnconfirmedError, that another node may not have them. The change was made; it
// must not be acknowledged, nor reported as not made. Where the disk hangs the error matches ErrHang, and comes
// MaxUnsyncedAge after the call began that does not end.
func (l *Log) Commit(pos uint64) error {
	if err := l.CommitHere(pos); err != nil {
		return err
	}
	return l.quorum.wait(pos)
}

// CommitHere is Commit for this node alone.
func (l *Log) CommitHere(pos uint64) error { return l.reach(pos, (*progress).reached) }

// Quorum returns what acknowledgements wait for beside this node.
func (l *Log) Quorum() *Quorum { return &l.quorum }

// CommitWithin is Commit for callers that wait no longer than ctx lasts. It returns the error of ctx if ctx ends while the
// bytes below pos are not confirmed: they may be confirmed later.
func (l *Log) CommitWithin(ctx context.Context, pos uint64) error {
	if err := l.CommitHere(pos); err != nil {
		return err
	}
	return l.quorum.waitWithin(ctx, pos)
}

// Show returns nil when what the bytes below pos made may be shown: a crash does not take it back, which is a kill of
// the process, and under SyncAlways a power failure too, nor does another node that takes this one's place. It does
// what Commit does, but that it does not wait for a disk that fell behind, as who reads adds nothing.
//
// Errors as Commit, under SyncAlways, where the disk hangs, and an *UnconfirmedError. Otherwise what is in memory is
// shown although the disk takes nothing: until it is well, a kill may take it back.
func (l *Log) Show(pos uint64) error {
	if err := l.ShowHere(pos); err != nil {
		return err
	}
	return l.quorum.wait(pos)
}

// ShowHere is Show for this node alone.
func (l *Log) ShowHere(pos uint64) error {
	err := l.reach(pos, (*progress).shown)
	if l.Policy() != SyncAlways && errors.Is(err, format.ErrNotReady) && !errors.Is(err, ErrHang) {
		return nil
	}
	return err
}

// reach returns when done(pos), and writes and syncs for it.
func (l *Log) reach(pos uint64, done func(*progress, uint64) bool) error {
	if done(&l.progress, pos) {
		return nil
	}
	// Others that are ready to run may append too, and share the write: with 50 connections of one command each, 1.6 us a
	// command less. Nobody else ready: 0.1 us lost.
	runtime.Gosched()
	if done(&l.progress, pos) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	pos = min(pos, l.tail.position())
	for !done(&l.progress, pos) {
		var err error
		switch {
		case l.calls.closed:
			return fmt.Errorf("log: %w", format.ErrClosed)
		case l.calls.healing():
			err = l.await(&l.syncDone)
		case l.trouble != nil:
			return &NotReadyError{Reason: "the log cannot be written: " + l.trouble.Error(), Err: l.trouble}
		case l.written.Load() >= pos:
			if l.calls.syncing() {
				err = l.await(&l.syncDone)
			} else {
				l.syncOnce()
			}
		case l.calls.writing() || l.holding():
			err = l.await(&l.writeDone)
		default:
			l.writeOnce()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// await waits for others who call the disk; not any longer when it hangs. REQUIRES: mu.
func (l *Log) await(done *sync.Cond) error {
	if err := l.calls.hung(); err != nil {
		return err
	}
	done.Wait()
	return nil
}

// Waits reports whether CommitHere(pos) or ShowHere(shown) would wait for a sync, for healing or for a disk that stalls,
// not only for a write().
func (l *Log) Waits(pos, shown uint64) bool {
	if l.reached(pos) && l.shown(shown) {
		return false
	}
	if l.Policy() == SyncAlways || l.behind.Load() && !l.reached(pos) || l.failing.Load() != diskWell {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls.healing()
}

// Sync makes all bytes appended so far durable, whatever the policy: before an image is named by a manifest.
// Errors as Commit.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.syncTo(l.tail.position())
}

// syncTo writes and syncs up to pos. REQUIRES: mu.
func (l *Log) syncTo(pos uint64) error {
	for l.durable.Load() < pos {
		err := l.calls.hung() // whoever takes a free role of a disk that hangs may hang too
		switch {
		case err != nil:
		case l.calls.closed:
			return fmt.Errorf("log: %w", format.ErrClosed)
		case l.calls.healing():
			err = l.await(&l.syncDone)
		case l.trouble != nil:
			return &NotReadyError{Reason: "the log cannot be written: " + l.trouble.Error(), Err: l.trouble}
		case l.written.Load() < pos && (l.calls.writing() || l.holding()):
			err = l.await(&l.writeDone)
		case l.written.Load() < pos:
			l.writeOnce()
		case l.calls.syncing():
			err = l.await(&l.syncDone)
		default:
			l.syncOnce()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeOnce takes the writer's role and gives everything appended to write(). REQUIRES: mu, the role is free, no
// trouble. mu is released meanwhile.
func (l *Log) writeOnce() {
	l.calls.begin(roleWrite)
	l.tail.seal()
	from, to := l.written.Load(), l.tail.sealed
	pieces := l.tail.slices(l.pieces[:0], from, to)
	if l.since.IsZero() {
		l.since = l.opts.Now()
		l.judgeAge()
	}
	l.mu.Unlock()
	err := l.files.write(pieces, from)
	l.mu.Lock()
	clear(pieces)
	l.pieces = pieces[:0]
	if l.calls.end(roleWrite) {
		l.judgeStall()
	}
	if err == nil {
		l.written.Store(to)
		l.writtenChain = l.files.chain
		l.stats.Writes++
		l.stats.WrittenBytes += to - from
		l.stats.WriteSizes.add(to - from)
		l.judgeSize()
		if l.files.spaceErr != nil {
			l.judgeSpace()
		}
		if l.files.next == nil && !l.files.wantNext && l.files.active.Used > l.files.active.Capacity/2 {
			l.files.wantNext = true
			wake(l.prepare)
		}
	} else {
		l.fail(fmt.Errorf("write: %w", err))
	}
	l.writeDone.Broadcast()
	l.announce()
}

// syncOnce takes the syncer's role and makes everything written durable. REQUIRES: mu, the role is free, no trouble.
// mu is released meanwhile.
func (l *Log) syncOnce() {
	l.calls.begin(roleSync)
	start := l.opts.Now()
	target, chain := l.written.Load(), l.writtenChain
	retired := l.files.retired
	active, dirDirty := l.files.active, l.files.dirDirty
	l.mu.Unlock()
	err := l.files.sync(retired, active, dirDirty)
	l.mu.Lock()
	if l.calls.end(roleSync) {
		l.judgeStall()
	}
	took := l.opts.Now().Sub(start)
	l.stats.Syncs++
	l.stats.LastSync = took
	l.stats.MaxSync = max(l.stats.MaxSync, took)
	l.stats.SyncTimes.add(uint64(max(took, 0) / time.Microsecond))
	if err == nil {
		l.files.retired = l.files.retired[len(retired):]
		if active == l.files.active { // else a rotation made it dirty again
			l.files.dirDirty = false
		}
		l.becameDurable(target, chain, start)
	} else {
		l.stats.SyncErrors++
		l.fail(fmt.Errorf("sync: %w", err))
	}
	l.syncDone.Broadcast()
}

// becameDurable advances the durable offset, which is the end of a frame of checksum chain. Bytes behind it were
// written at asOf or later. REQUIRES: mu.
func (l *Log) becameDurable(pos uint64, chain uint32, asOf time.Time) {
	l.durable.Store(pos)
	l.durableChain = chain
	if l.Policy() == SyncAlways {
		l.announce()
	}
	l.tail.release(pos)
	if l.tail.position() == pos {
		l.since = time.Time{}
	} else {
		l.since = asOf
	}
	l.judgeAge()
	l.judgeSize()
}

// announce wakes readers that wait for more. REQUIRES: mu.
func (l *Log) announce() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

package persist

import (
	"errors"
	"time"

	"github.com/counterd/counterd/persist/format"
)

// syncLoop syncs each SyncEvery, and early when much is not durable or a feed waits for it, and heals after disk trouble.
func (l *Log) syncLoop() {
	defer l.loops.Done()
	ticker := time.NewTicker(l.opts.SyncEvery)
	defer ticker.Stop()
	defer l.hurry.timer.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			l.names.check()
			l.readers.spare.sweep(l.progress.layout.Load())
			l.tick(true)
		case <-l.kick:
			l.tick(false)
		case <-l.hurry.timer.C:
			l.hurry.due.Store(true)
			l.tick(false)
		}
	}
}

// Tick does what the background does each SyncEvery. REQUIRES: LogOptions.Manual.
func (l *Log) Tick() {
	l.preparer.makeSegment()
	l.names.check()
	l.readers.spare.sweep(l.progress.layout.Load())
	l.tick(true)
	l.preparer.makeClaim()
}

// tick syncs if it is time (due), much is not durable, or a feed waits (hurry).
func (l *Log) tick(due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.committer
	if l.opts.Manual {
		c.calls.sample()
		c.judgeStall()
	}
	if !c.calls.healing() && c.healer.due(l.opts.Now()) {
		c.heal()
	}
	early := l.hurry.take(l.opts.Now(), c.stats.LastSync)
	much := l.tail.position()-l.tail.durable > syncAtBytes || l.progress.behind.Load() || l.judge.late()
	if much || due && l.Policy() != SyncNo {
		_ = c.syncTo(l.tail.position()) // an error is kept in trouble and told by Ready
	} else if early {
		_ = c.syncTo(l.progress.written.Load())
	}
	if due && l.tail.position() == l.tail.durable {
		l.tail.free = nil
	}
	l.judge.age()
	if due && c.healer.trouble == nil && l.claims.judge(l.Durable()) || l.files.wantNext && l.files.next == nil {
		wake(l.preparer.wanted)
	}
}

// Close makes everything durable, claims that it is, and ends the log. If the disk fails it returns the error: then bytes that Commit
// acknowledged are in the segment files as the kernel has them.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.admission.closing() {
		l.mu.Unlock()
		return format.ErrClosed
	}
	l.admission.refuse(reasonClosed, format.ErrClosed)
	l.mu.Unlock()
	l.quorum.endWaits()
	l.readers.spare.end()
	if !l.opts.Manual {
		close(l.stop)
		l.loops.Wait()
		l.judge.watch.Stop()
		l.committer.calls.timer.Stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.committer
	c.awaitRoles() // also of a disk that hangs
	if c.healer.trouble != nil {
		c.heal()
	}
	err := c.syncTo(l.tail.position())
	c.awaitRoles()
	if claim := (format.Claim{Offset: l.Durable(), ReplID: l.files.history.ReplID, Closed: err == nil}); claim.Closed && claim.Offset > 0 && l.admission.refusals[reasonGone] == nil {
		l.claims.write(claim) // nobody appends any more: mu delays nobody
	}
	c.calls.closed = true
	l.writeDone.Broadcast()
	c.syncDone.Broadcast()
	c.announce()
	c.announceSync()
	for _, s := range append(l.files.retired, l.files.active) {
		if s != nil {
			err = errors.Join(err, s.File.Close())
		}
	}
	if l.files.next != nil {
		l.files.maker.Discard(l.files.next, l.files.next.Path)
	}
	_ = l.claims.file.Close() // what counts of it is durable
	return err
}

// wake sends on a channel of capacity 1 that nobody has to wait for.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

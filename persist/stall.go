package persist

import (
	"errors"
	"fmt"
	"time"
)

// A call of the disk may not end for a long time: a frozen file system, a network's file system that is away, a drive
// that tries again and again. The goroutine that made the call cannot be freed, but others must not wait for it without a
// bound:
//
//   - After stallSample the log stalls. Items whose last change is safe are shown although others of their block wait
//     (Doubts), and connections that would wait leave their event loop (Waits).
//   - After MaxUnsyncedAge the log hangs. Ready refuses changes, and callers that wait get an error that matches ErrHang.
//
// Both end when the call does. Nothing is lost: the bytes stay in memory, and the call may have written them or not.

// ErrHang says that a write or a sync of the log has not ended for MaxUnsyncedAge.
var ErrHang = errors.New("the disk hangs")

// stallSample is the interval at which calls of the disk are sampled while there are some.
const stallSample = 50 * time.Millisecond

// roleKind is a kind of calls of the disk. One of each kind is under way at most.
type roleKind int

const (
	roleWrite roleKind = iota
	roleSync
	roleHeal
	roleKinds
)

var roleNames = [roleKinds]string{roleWrite: "write", roleSync: "sync", roleHeal: "write of the bytes in memory to a new file"}

// diskCalls are the roles of a log: which calls of the disk are under way, and whether one does not end. It counts
// its samples of a call and reads no clock: a write costs one addition, and a process that was stopped for a while does not
// find that its disk hangs. It reaches nothing else of the log: committer tells it of calls, and applies what it finds
// (judgeStall).
// Log.mu guards it.
//
// Invariants: one call of each kind is under way at most. The timer runs while a call is under way. Once closed is set no
// role is taken.
type diskCalls struct {
	under    [roleKinds]bool // which roles are held
	closed   bool            // no role is taken any more
	timer    *time.Timer     // nil in a Manual log
	watching bool            // the timer runs
	calls    [roleKinds]uint64
	seen     [roleKinds]uint64 // number of the call at the last sample; 0: none was under way
	samples  [roleKinds]int    // that found this call under way, less one
	hang     error             // matches ErrHang; nil: no call has taken too long
}

// writing tells whether the writer's role is held. REQUIRES, as all methods of diskCalls: Log.mu.
func (c *diskCalls) writing() bool { return c.under[roleWrite] }

// syncing tells whether the syncer's role is held.
func (c *diskCalls) syncing() bool { return c.under[roleSync] }

// healing tells whether the bytes that are not durable are being written to a new segment.
func (c *diskCalls) healing() bool { return c.under[roleHeal] }

// takeRole notes that a call of the disk begins.
func (c *diskCalls) takeRole(r roleKind) {
	c.under[r] = true
	c.calls[r]++
	if !c.watching && c.timer != nil {
		c.watching = true
		c.timer.Reset(stallSample)
	}
}

// freeRole notes that the call has ended. It reports whether the call was known to stall: then judge has to be called.
func (c *diskCalls) freeRole(r roleKind) (stalled bool) {
	c.under[r] = false
	stalled = c.samples[r] > 0
	c.seen[r], c.samples[r] = 0, 0
	return stalled
}

// sample counts the calls of the disk that it finds under way, and reports whether there are any. judge says what follows.
func (c *diskCalls) sample() (any bool) {
	for r := range roleKinds {
		switch {
		case !c.under[r]:
			c.seen[r], c.samples[r] = 0, 0
		case c.seen[r] != c.calls[r]:
			c.seen[r], c.samples[r], any = c.calls[r], 0, true
		default:
			c.samples[r]++
			any = true
		}
	}
	return any
}

// judge says what follows from the samples, under a sync policy and a limit of MaxUnsyncedAge: stalls means that callers wait
// for a call longer than usual, and began means that the disk hangs since now.
func (c *diskCalls) judge(policy SyncPolicy, limit time.Duration) (stalls, began bool) {
	most := int(max(limit/stallSample, 1))
	var hang error
	for r := range roleKinds {
		// Syncs are waited for only under SyncAlways, and under SyncNo they may take as long as they like.
		stalls = stalls || c.samples[r] > 0 && (r != roleSync || policy == SyncAlways)
		if c.samples[r] >= most && (r != roleSync || policy != SyncNo) {
			hang = fmt.Errorf("%w: a %s has not ended after %v", ErrHang, roleNames[r], limit)
		}
	}
	began = hang != nil && c.hang == nil
	c.hang = hang
	return stalls, began
}

// hung is nil, or the error for a caller that would wait for a call that does not end.
func (c *diskCalls) hung() error {
	if c.hang == nil {
		return nil
	}
	return &NotReadyError{Reason: c.hang.Error(), Err: c.hang}
}

// judgeStall applies what the samples of the calls of the disk found. REQUIRES: the lock.
func (c *committer) judgeStall() {
	stalls, began := c.calls.judge(c.progress.syncPolicy(), c.maxAge)
	hang := c.calls.hang
	c.progress.hangs.Store(hang != nil)
	switch {
	case c.healer.trouble != nil: // fail and heal say how the disk is
		if hang != nil {
			c.progress.failing.Store(diskFailed)
		}
	case hang != nil:
		c.progress.failing.Store(diskHangs)
	case stalls:
		c.progress.failing.Store(diskStalls)
	default:
		c.progress.failing.Store(diskWell)
		c.doubts.forget()
	}
	c.admission.refuse(reasonHang, hang)
	if began {
		c.end.writeDone.Broadcast()
		c.syncDone.Broadcast()
	}
}

// watchCalls makes the timer that samples the calls of the disk. It does not run yet. REQUIRES: the lock.
func (c *committer) watchCalls() {
	c.calls.timer = time.AfterFunc(time.Hour, func() {
		c.end.mu.Lock()
		defer c.end.mu.Unlock()
		any := c.calls.sample()
		c.judgeStall()
		if c.calls.watching = any && !c.calls.closed; c.calls.watching {
			c.calls.timer.Reset(stallSample)
		}
	})
	c.calls.timer.Stop()
}

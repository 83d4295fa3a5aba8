package persist

import (
	"errors"
	"fmt"
	"time"
)

// A call of the disk may not end for a long time: a frozen file system, a network's file system that is away, a drive
// that tries again and again. Whoever called cannot be freed, but nobody else has to wait for it without a bound:
//
//   - After stallLook the log stalls. Items whose last change is safe are shown although others of their block wait
//     (Doubts), and connections that would wait leave their event loop (Waits).
//   - After MaxUnsyncedAge the log hangs. Ready refuses changes. Whoever waits gets an error that matches ErrHang.
//
// Both end when the call does. Nothing is lost: the bytes stay in memory, and the call may have written them or not.

// ErrHang says that a write or a sync of the log has not ended for MaxUnsyncedAge.
var ErrHang = errors.New("the disk hangs")

// stallLook is the interval at which calls of the disk are looked at while there are some.
const stallLook = 50 * time.Millisecond

// roleKind is a kind of calls of the disk. One of each kind is under way at most.
type roleKind int

const (
	roleWrite roleKind = iota
	roleSync
	roleHeal
	roleKinds
)

var roleNames = [roleKinds]string{roleWrite: "write", roleSync: "sync", roleHeal: "write of the bytes in memory to a new file"}

// diskCalls are the roles of a log: which calls of the disk are under way, and whether one does not end. It counts its own
// looks at a call and reads no clock: a write costs one addition, and a process that was stopped for a while does not find
// that its disk hangs. It reaches nothing else of the log: the log tells it of calls, and applies what it finds (judgeStall).
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
	seen     [roleKinds]uint64 // number of the call at the last look; 0: none was under way
	looks    [roleKinds]int    // that found this call under way, less one
	hang     error             // matches ErrHang; nil: no call has taken too long
}

// writing tells whether the writer's role is held. REQUIRES, as all methods of diskCalls: Log.mu.
func (c *diskCalls) writing() bool { return c.under[roleWrite] }

// syncing tells whether the syncer's role is held.
func (c *diskCalls) syncing() bool { return c.under[roleSync] }

// healing tells whether the bytes that are not durable are being written to a new segment.
func (c *diskCalls) healing() bool { return c.under[roleHeal] }

// begin takes a role: a call of the disk begins.
func (c *diskCalls) begin(r roleKind) {
	c.under[r] = true
	c.calls[r]++
	if !c.watching && c.timer != nil {
		c.watching = true
		c.timer.Reset(stallLook)
	}
}

// end gives a role up: the call has ended. It tells whether the call was known to stall, so that judge has to be asked.
func (c *diskCalls) end(r roleKind) (stalled bool) {
	c.under[r] = false
	stalled = c.looks[r] > 0
	c.seen[r], c.looks[r] = 0, 0
	return stalled
}

// look is one look at the calls of the disk. It tells whether there are any. judge says what follows.
func (c *diskCalls) look() (any bool) {
	for r := range roleKinds {
		switch {
		case !c.under[r]:
			c.seen[r], c.looks[r] = 0, 0
		case c.seen[r] != c.calls[r]:
			c.seen[r], c.looks[r], any = c.calls[r], 0, true
		default:
			c.looks[r]++
			any = true
		}
	}
	return any
}

// judge says what follows from the looks, under a sync policy and a limit of MaxUnsyncedAge: stalls means that callers wait
// for a call longer than usual, and began means that the disk hangs since now.
func (c *diskCalls) judge(policy SyncPolicy, limit time.Duration) (stalls, began bool) {
	most := int(max(limit/stallLook, 1))
	var hang error
	for r := range roleKinds {
		// Syncs are waited for only under SyncAlways, and under SyncNo they may take as long as they like.
		stalls = stalls || c.looks[r] > 0 && (r != roleSync || policy == SyncAlways)
		if c.looks[r] >= most && (r != roleSync || policy != SyncNo) {
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

// judgeStall applies what the looks at the calls of the disk found. REQUIRES: mu.
func (l *Log) judgeStall() {
	stalls, began := l.calls.judge(l.Policy(), l.opts.MaxUnsyncedAge)
	hang := l.calls.hang
	l.hangs.Store(hang != nil)
	switch {
	case l.trouble != nil: // fail and heal say how the disk is
		if hang != nil {
			l.failing.Store(diskFailed)
		}
	case hang != nil:
		l.failing.Store(diskHangs)
	case stalls:
		l.failing.Store(diskStalls)
	default:
		l.failing.Store(diskWell)
		l.doubt = nil
	}
	l.admission.refuse(reasonHang, hang)
	if began {
		l.writeDone.Broadcast()
		l.syncDone.Broadcast()
	}
}

// watchCalls is what the timer calls.
func (l *Log) watchCalls() {
	l.mu.Lock()
	defer l.mu.Unlock()
	any := l.calls.look()
	l.judgeStall()
	if l.calls.watching = any && !l.calls.closed; l.calls.watching {
		l.calls.timer.Reset(stallLook)
	}
}

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

// stall watches the calls of the disk. It counts its own looks at a call and reads no clock: a write costs one addition,
// and a process that was stopped for a while does not find that its disk hangs. Log.mu guards it.
//
// Invariant: the timer runs while a call is under way.
type stall struct {
	timer    *time.Timer // nil in a Manual log
	watching bool        // the timer runs
	calls    [roleKinds]uint64
	seen     [roleKinds]uint64 // number of the call at the last look; 0: none was under way
	looks    [roleKinds]int    // that found this call under way, less one
	hang     error             // matches ErrHang; nil: no call has taken too long
}

// begin notes that a call of the disk begins. REQUIRES: mu.
func (s *stall) begin(r roleKind) {
	s.calls[r]++
	if !s.watching && s.timer != nil {
		s.watching = true
		s.timer.Reset(stallLook)
	}
}

// End notes that the call has ended. REQUIRES: mu, as all that follows.
func (l *Log) end(r roleKind) {
	if l.stall.seen[r] = 0; l.stall.looks[r] > 0 {
		l.stall.looks[r] = 0
		l.judgeStall()
	}
}

// under tells whether a call is under way.
func (l *Log) under(r roleKind) bool {
	switch r {
	case roleWrite:
		return l.writing
	case roleSync:
		return l.syncing
	}
	return l.healing
}

// lookAtCalls is one look at the calls of the disk. It tells whether there are any.
func (l *Log) lookAtCalls() (any bool) {
	s := &l.stall
	for r := range roleKinds {
		switch {
		case !l.under(r):
			s.seen[r], s.looks[r] = 0, 0
		case s.seen[r] != s.calls[r]:
			s.seen[r], s.looks[r], any = s.calls[r], 0, true
		default:
			s.looks[r]++
			any = true
		}
	}
	l.judgeStall()
	return any
}

// judgeStall says what follows from the looks.
func (l *Log) judgeStall() {
	s := &l.stall
	most := int(max(l.opts.MaxUnsyncedAge/stallLook, 1))
	stalls := false
	var hang error
	for r := range roleKinds {
		// Syncs are waited for only under SyncAlways, and under SyncNo they may take as long as they like.
		stalls = stalls || s.looks[r] > 0 && (r != roleSync || l.Policy() == SyncAlways)
		if s.looks[r] >= most && (r != roleSync || l.Policy() != SyncNo) {
			hang = fmt.Errorf("%w: a %s has not ended after %v", ErrHang, roleNames[r], l.opts.MaxUnsyncedAge)
		}
	}
	began := hang != nil && s.hang == nil
	s.hang = hang
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
	l.refuse(reasonHang, hang)
	if began {
		l.writeDone.Broadcast()
		l.syncDone.Broadcast()
	}
}

// watchCalls is what the timer calls.
func (l *Log) watchCalls() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stall.watching = l.lookAtCalls() && !l.closed; l.stall.watching {
		l.stall.timer.Reset(stallLook)
	}
}

// hung is nil, or the error for whoever would wait for a call that does not end.
func (l *Log) hung() error {
	if l.stall.hang == nil {
		return nil
	}
	return &NotReadyError{Reason: l.stall.hang.Error(), Err: l.stall.hang}
}

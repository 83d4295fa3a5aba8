package role

import (
	"context"
	"sync"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// handover is FAILOVER at work. Its phases are those of Redis:
//
//	waiting-for-sync      changes wait (see pauses) until a replica has all there are; ABORT and TIMEOUT let them go on
//	                      as if nothing was
//	failover-in-progress  this node takes no changes any more, and the replica is told to lead. ABORT makes this node the
//	                      primary again, though the replica may have become one
//
// Then this node follows the replica, and changes that waited are refused as a replica's. Earlier acknowledged changes
// are in the log up to the offset where this node stopped, and the replica is told only when it has the log up to
// there, unless FORCE says otherwise.
type handover struct {
	mu     sync.Mutex
	phase  string // empty: none
	cancel context.CancelFunc
	stuck  bool          // the replica was told to lead and does not answer
	ceded  bool          // REPLICAOF has ended it: this node does not lead again by itself
	again  bool          // it goes on after a start: see resumption
	to     repl.Address  // the replica that is to lead; zero while it waits for one
	ended  chan struct{} // closed when it has ended
}

// Phases of a handover.
const (
	PhaseNone    = "no-failover"
	PhaseWaiting = "waiting-for-sync"
	PhaseTelling = "failover-in-progress"
)

// Failover is how far a failover is: its phase, and whether the replica was told to lead and does not answer.
func (n *Role) Failover() (phase string, stuck bool) { return n.handover.state(), n.handover.isStuck() }

func (h *handover) state() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == "" {
		return PhaseNone
	}
	return h.phase
}

// tells notes that a replica is to be told to lead.
func (h *handover) tells(to repl.Address) {
	h.mu.Lock()
	h.phase, h.to = PhaseTelling, to
	h.mu.Unlock()
}

// target is the replica that is to lead; zero if there is none.
func (h *handover) target() repl.Address {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.to
}

// begin claims the handover; false if there is one already.
func (h *handover) begin(cancel context.CancelFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != "" {
		return false
	}
	h.phase, h.cancel, h.ended = PhaseWaiting, cancel, make(chan struct{})
	h.stuck, h.ceded, h.again = false, false, false
	return true
}

// resume is begin for a handover that the end of the process interrupted. REPLICAOF ends it at any time.
func (h *handover) resume(cancel context.CancelFunc) bool {
	if !h.begin(cancel) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.stuck, h.again = PhaseTelling, true, true
	return true
}

// feeds tells whether this node, which gave its role up, has the newest log there is: the replica that is to lead may
// have lost its link before it had all.
func (h *handover) feeds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase == PhaseTelling && !h.again
}

// end notes that the handover has ended.
func (h *handover) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.to = "", repl.Address{}
	close(h.ended)
}

// isStuck tells whether the replica was told to lead and does not answer, nor may ever.
func (h *handover) isStuck() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase != "" && h.stuck
}

// cede ends a handover that is stuck, as somebody says who leads, and waits for its end. Else the replica would be told
// to lead as soon as it is back, next to the primary that took its place.
func (h *handover) cede() {
	h.mu.Lock()
	if h.phase == "" || !h.stuck {
		h.mu.Unlock()
		return
	}
	h.ceded = true
	h.cancel()
	ended := h.ended
	h.mu.Unlock()
	<-ended
}

func (h *handover) setStuck() {
	h.mu.Lock()
	h.stuck = true
	h.mu.Unlock()
}

func (h *handover) wasCeded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ceded
}

// abort ends a handover; false if there is none.
//
// It returns when it has ended, unless the caller holds the store and would wait for itself.
func (h *handover) abort(held bool) bool {
	h.mu.Lock()
	if h.phase == "" {
		h.mu.Unlock()
		return false
	}
	h.cancel()
	ended := h.ended
	h.mu.Unlock()
	if !held {
		<-ended
	}
	return true
}

package role

import (
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
)

// ErrHeld answers a change that came while changes are held, and passed the guard before or waited for too long.
const ErrHeld items.Refusal = "TRYAGAIN Changes wait while a role or the owner of posts changes"

// heldWrites are the holds in force.
type heldWrites struct {
	mu    sync.Mutex // guards the rest; outside of the store's gate and of the guard's locks
	n     int
	store *counter.Store // that refuses changes
}

// HoldWrites lets changes of clients wait until release is called, for most at most; from then on they are answered
// ErrHeld. None is under way on return, and none is made before release, whatever passed the guard before. Several may
// hold at a time. release may be called again.
func (n *Role) HoldWrites(most time.Duration) (release func()) {
	h := &n.held
	h.mu.Lock()
	defer h.mu.Unlock()
	n.pause(pausedByHold, guardPauseWrite, most)
	if h.n++; h.n == 1 {
		h.store = n.host.Store()
		h.store.Replication().Refuse(ErrHeld)
	}
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.n--; h.n == 0 {
			h.store.Replication().Refuse(nil)
			h.store = nil
			n.unpause(pausedByHold)
		}
	})
}

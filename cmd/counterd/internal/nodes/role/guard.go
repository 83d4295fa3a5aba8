package role

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// Guard is why commands are refused or wait now. All methods may be called concurrently.
type Guard struct {
	bits atomic.Uint32 // guard...: why, and those of the pauses in force

	mu     sync.Mutex // guards the rest, and is held while bits are brought up to date
	why    uint32     // guard..., but those of pauses
	pauses pauses     // has its own lock
}

// Bits of a Guard.
const (
	guardReplica    = 1 << iota // changes come from the primary only
	guardStale                  // a replica without its primary, and replica-serve-stale-data is no
	guardAwait                  // a primary that waits for Sentinel's word: see Role.awaiting
	guardDeposed                // a primary that heard that Sentinel named another
	guardFew                    // fewer replicas follow than min-replicas-to-write
	guardPauseWrite             // changes wait
	guardPauseAll               // everything waits
	guardHealing                // the data was damaged, and that of another node is not here yet; with guardReplica and guardStale
)

const (
	errMasterDown = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
	errHealing    = "MASTERDOWN The data of this node was damaged. It copies the data of another node, and answers when it has all of it."
	errFew        = "NOREPLICAS Not enough good replicas to write."
)

// Lets tells whether a command with such flags may pass: one load on the way of every command.
func (g *Guard) Lets(f command.Flags) bool {
	b := g.bits.Load()
	return b == 0 || b&(guardStale|guardPauseAll) == 0 && f&command.Write == 0
}

// Judge tells what becomes of a command with such flags: it is refused, for a reason, or held back until Unheld, or
// neither. replica is set where a replica sent it.
func (g *Guard) Judge(f command.Flags, replica bool) (refusal string, held bool) {
	b := g.bits.Load()
	if b == 0 {
		return "", false
	}
	if text := refused(b, f); text != "" {
		return text, false
	}
	// b may still have a pause that ended by itself. A held-back client that has closed its sending side is not waited
	// for.
	return "", holds(b, f, replica) && holds(g.pauses.bits(), f, replica)
}

// refused tells why a command with such flags may not pass; empty: it may.
func refused(b uint32, f command.Flags) string {
	switch {
	case f&command.Write != 0 && b&guardReplica != 0:
		return items.ErrReadOnly
	case b&guardHealing != 0 && f&command.Stale == 0:
		return errHealing
	case b&guardStale != 0 && f&command.Stale == 0:
		return errMasterDown
	case f&command.Write == 0:
		return ""
	case b&guardDeposed != 0:
		return ErrDeposed
	case b&guardAwait != 0:
		return ErrAwait
	case b&guardFew != 0:
		return errFew
	}
	return ""
}

// holds tells whether pauses make a command with such flags wait. Replicas must go on, and change nothing: a client
// that only claims to be a replica waits.
func holds(b uint32, f command.Flags, replica bool) bool {
	if replica && f&command.Write == 0 {
		return false
	}
	return b&guardPauseAll != 0 || b&guardPauseWrite != 0 && f&command.Write != 0
}

// Unheld waits while a pause holds back commands with such flags, and not for longer than ctx: then it returns false.
func (g *Guard) Unheld(ctx context.Context, f command.Flags, replica bool) bool {
	for {
		bits, news, next := g.pauses.look()
		if !holds(bits, f, replica) {
			g.refresh() // it still has the bits of a pause that ended by itself
			return true
		}
		if next == 0 {
			next = time.Hour
		}
		timer := time.NewTimer(next)
		select {
		case <-news:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// because updates the guard with the result of look. One call runs at a time.
func (g *Guard) because(look func() uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.why = look()
	g.bits.Store(g.why | g.pauses.bits())
}

// refresh brings it up to date with the pauses in force.
func (g *Guard) refresh() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bits.Store(g.why | g.pauses.bits())
}

// RoleChanged brings the guard up to date: role, link, replicas, Sentinel's word or the configuration may have changed.
func (n *Role) RoleChanged() {
	n.because(n.why)
	if n.changed != nil {
		n.changed()
	}
}

// why are the bits of the guard that the node's state asks for.
func (n *Role) why() uint32 {
	c := n.config.Get()
	link, linked := n.repl.Link()
	switch {
	case n.repl.Healing() != nil:
		return guardReplica | guardStale | guardHealing
	case linked || n.host.Store().Replica(): // a link may wait for the disk to make the store a replica
		if !c.ServeStale && link.State != repl.LinkConnected {
			return guardReplica | guardStale
		}
		return guardReplica
	case n.awaiting.Load() == awaitStarted:
		return guardAwait
	case n.awaiting.Load() == awaitDeposed:
		return guardDeposed
	case c.MinReplicas > 0 && c.MinReplicasMaxLag > 0 && n.repl.Peers().Good(time.Duration(c.MinReplicasMaxLag)*time.Second) < c.MinReplicas:
		return guardFew
	}
	return 0
}

// TooFew tells whether a refusal of Judge is for want of replicas that follow.
func TooFew(refusal string) bool { return refusal == errFew }

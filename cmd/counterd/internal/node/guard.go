package node

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/command"
	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/repl"
)

// Bits of Node.guard: why commands are refused.
const (
	guardReplica    = 1 << iota // changes come from the primary only
	guardStale                  // a replica without its primary, and replica-serve-stale-data is no
	guardAwait                  // a primary that waits for Sentinel's word: see Node.awaiting
	guardDeposed                // a primary that heard that Sentinel named another
	guardFew                    // fewer replicas follow than min-replicas-to-write
	guardPauseWrite             // changes wait
	guardPauseAll               // everything waits
)

const (
	errMasterDown = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
	errFew        = "NOREPLICAS Not enough good replicas to write."
)

// Lets tells whether a command with such flags may pass: one load on the way of every command.
func (n *Node) Lets(f command.Flags) bool {
	g := n.guard.Load()
	return g == 0 || g&(guardStale|guardPauseAll) == 0 && f&command.Write == 0
}

// Judge tells what becomes of a command with such flags: it is refused, for a reason, or held back until Unheld, or
// neither. replica is set where a replica sent it.
func (n *Node) Judge(f command.Flags, replica bool) (refusal string, held bool) {
	g := n.guard.Load()
	if g == 0 {
		return "", false
	}
	if text := refused(g, f); text != "" {
		return text, false
	}
	return "", holds(g, f, replica)
}

// refused tells why a command with such flags may not pass; empty: it may.
func refused(g uint32, f command.Flags) string {
	switch {
	case f&command.Write != 0 && g&guardReplica != 0:
		return items.ErrReadOnly
	case g&guardStale != 0 && f&command.Stale == 0:
		return errMasterDown
	case f&command.Write == 0:
		return ""
	case g&guardDeposed != 0:
		return ErrDeposed
	case g&guardAwait != 0:
		return ErrAwait
	case g&guardFew != 0:
		return errFew
	}
	return ""
}

// RoleChanged brings the guard up to date: role, link, replicas, Sentinel's word, pauses or the configuration may have
// changed.
func (n *Node) RoleChanged() {
	n.guardMu.Lock()
	defer n.guardMu.Unlock()
	c := n.config.Get()
	g := uint32(0)
	if n.host.Store().Replica() {
		g |= guardReplica
		if info, ok := n.repl.Link(); !c.ServeStale && (!ok || info.State != repl.LinkConnected) {
			g |= guardStale
		}
	} else if a := n.awaiting.Load(); a == awaitStarted {
		g |= guardAwait
	} else if a == awaitDeposed {
		g |= guardDeposed
	} else if c.MinReplicas > 0 && c.MinReplicasMaxLag > 0 && n.repl.Peers().Good(time.Duration(c.MinReplicasMaxLag)*time.Second) < c.MinReplicas {
		g |= guardFew
	}
	n.guard.Store(g | n.pauses.bits())
}

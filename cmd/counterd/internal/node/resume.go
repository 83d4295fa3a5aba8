package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/repl"
)

// A handover that the end of the process cut off is gone on with after the start. The node has no role then but to
// follow the replica that it was handing over to, and that one may lead, or follow this node: then nobody leads.

const (
	// resumeEvery is the pause between looks at the other node.
	resumeEvery = 200 * time.Millisecond
	// resumeAsk is what a look may take.
	resumeAsk = 5 * time.Second
)

// resumeHandover goes on with a handover until there is a primary, or this node is told its role: FAILOVER ABORT makes
// it the primary. ctx ends then, or with the server.
func (n *Node) resumeHandover(ctx context.Context, cancel func(), to repl.Address, forced bool) {
	defer cancel()
	defer n.handover.end()
	n.log.Warn("this node was handing its role over when it ended, and goes on with that", "to", to.String())
	for told := false; ctx.Err() == nil; {
		done, err := n.resumeStep(ctx, to, forced)
		if err != nil && !told && ctx.Err() == nil {
			told = true
			n.log.Warn("no changes are taken here until the node answers that this one was handing its role over to; REPLICAOF NO ONE makes this the primary",
				"to", to.String(), "error", err)
		}
		if done {
			if err := n.repl.ForgetHandover(); err != nil {
				n.log.Error("the note of a handover cannot be removed", "error", err)
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(resumeEvery):
		}
	}
	if n.life.ctx.Err() != nil || n.handover.wasCeded() { // the next start goes on, or somebody said who leads
		return
	}
	n.log.Warn("FAILOVER ABORT: this node leads again, and the other one may lead too", "to", to.String())
	err := n.resumeLead()
	if err == nil {
		n.awaiting.Store(awaitNothing)
		n.RoleChanged()
		err = n.repl.ForgetHandover()
	}
	if err != nil {
		n.log.Error("FAILOVER ABORT was not carried out", "error", err)
	}
}

// resumeLead makes this node the primary that it was.
func (n *Node) resumeLead() error {
	err := n.repl.Lead()
	if err == nil {
		n.setReplicaOf(repl.Address{})
	}
	n.RoleChanged()
	return err
}

// resumeStep looks where the handover stands and does what is next.
func (n *Node) resumeStep(ctx context.Context, to repl.Address, forced bool) (done bool, err error) {
	role, err := repl.AskRole(ctx, to, n.settings(), resumeAsk)
	if err == nil {
		err = ctx.Err() // this node was told its role meanwhile
	}
	if err != nil {
		return false, err
	}
	mayLead := forced || role.Offset >= n.host.Store().Replication().Position()
	link, _ := n.repl.Link()
	switch {
	case role.Primary:
		return link.Primary == to && link.State == repl.LinkConnected, nil
	case role.State == repl.LinkConnected: // to another, as this node feeds nobody
		n.log.Info("the node that this one was handing its role over to follows another", "primary", role.Of.String())
		n.setReplicaOf(role.Of)
		return true, n.repl.Follow(role.Of)
	case role.Of != repl.Address{} && !n.isMe(role.Of):
		return false, fmt.Errorf("it follows %s, and that one is not there", role.Of) // somebody will tell both
	case mayLead && n.leftToSentinel():
		return false, errors.New("this node was watched by Sentinel, which is to say who leads")
	case mayLead:
		// It may have been told to lead, and do so at any moment: to tell it again makes no second primary, to lead
		// here would.
		_, err := repl.Promote(ctx, to, n.settings())
		return false, err
	}
	// It has not all changes yet, so it was not told.
	n.log.Info("the replica has not all changes: this node leads again", "replica", to.String())
	if n.leftToSentinel() {
		n.awaiting.Store(awaitStarted) // as after any start
	}
	err = n.resumeLead()
	return err == nil, err
}

// leftToSentinel tells whether Sentinel watches: it may have named a third node meanwhile.
func (n *Node) leftToSentinel() bool {
	watched, err := n.host.Store().Replication().Monitored()
	return watched || err != nil
}

// isMe tells whether an address is this node's, as another names it.
func (n *Node) isMe(a repl.Address) bool {
	c := n.config.Get()
	if a.Port != c.Port && (c.AnnouncePort == 0 || a.Port != c.AnnouncePort) {
		return false
	}
	if a.Host == c.AnnounceIP && a.Host != "" {
		return true
	}
	hosts, err := net.LookupHost(a.Host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(addr net.Addr) bool {
		ip, _, err := net.ParseCIDR(addr.String())
		return err == nil && slices.ContainsFunc(hosts, func(h string) bool { return ip.Equal(net.ParseIP(h)) || net.ParseIP(h).IsLoopback() })
	})
}

package role

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// A handover that the end of the process cut off is gone on with after the start. The node has no role then but to
// follow the replica that it was handing over to, and that one may lead, or follow this node: then nobody leads.
// Another node may stand at that one's address by now, wiped or of other data: a node without this node's history is
// neither followed nor told to lead.

const (
	// resumeEvery is the pause between looks at the other node.
	resumeEvery = 200 * time.Millisecond
	// resumeAsk is how long a query may take.
	resumeAsk = 5 * time.Second
)

// resumption goes on with a handover.
type resumption struct {
	node   *Role
	ctx    context.Context // ends when this node is told its role, or with the server
	to     repl.Address
	forced bool // the note says that the replica may lead though it lacks changes
}

// resume begins to go on with a handover, in the background.
func (n *Role) resume(to repl.Address, forced bool) {
	ctx, cancel := context.WithCancel(n.life.ctx)
	if !n.handover.resume(cancel) {
		cancel()
		return
	}
	end := func() {
		n.handover.end()
		cancel()
	}
	if !n.life.start(func() {
		defer end()
		r := resumption{n, ctx, to, forced}
		r.run()
	}) {
		end()
	}
}

// run goes on until there is a primary, or this node is told its role: FAILOVER ABORT makes it the primary.
func (r *resumption) run() {
	r.node.log.Warn("resuming the handover that was in progress at the last shutdown", "replica", r.to.String())
	for told := false; r.ctx.Err() == nil; {
		done, err := r.step()
		if err != nil && !told && r.ctx.Err() == nil {
			told = true
			r.node.log.Warn("refusing changes until the target of the handover replies; "+
				"REPLICAOF NO ONE makes this node primary", "replica", r.to.String(), "error", err)
		}
		if done {
			if err := r.node.repl.ForgetHandover(); err != nil {
				r.node.log.Error("cannot remove the record of a handover", "error", err)
			}
			return
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(resumeEvery):
		}
	}
	if r.node.life.ctx.Err() != nil || r.node.handover.wasCeded() { // the next start goes on, or somebody said who leads
		return
	}
	r.node.log.Warn("FAILOVER ABORT: this node is primary again, and the other node may be primary, too", "replica", r.to.String())
	err := r.lead()
	if err == nil {
		r.node.awaiting.Store(awaitNothing)
		r.node.RoleChanged()
		err = r.node.repl.ForgetHandover()
	}
	if err != nil {
		r.node.log.Error("FAILOVER ABORT failed", "error", err)
	}
}

// lead makes this node the primary that it was.
func (r *resumption) lead() error {
	r.node.roles.Lock()
	defer r.node.roles.Unlock()
	err := r.node.repl.Lead()
	if err == nil {
		r.node.setReplicaOf(repl.Address{})
	}
	r.node.RoleChanged()
	return err
}

// step finds the state of the handover and does its next step.
func (r *resumption) step() (done bool, err error) {
	role, err := repl.AskRole(r.ctx, r.to, r.node.settings(), resumeAsk)
	if err == nil && role.Heals {
		err = repl.ErrHealing
	}
	if err == nil {
		err = r.ctx.Err() // this node was told its role meanwhile
	}
	if err != nil {
		return false, err
	}
	store := r.node.host.Store()
	mayLead := r.forced || role.Offset >= store.Replication().Position()
	link, _ := r.node.repl.Link()
	switch {
	case role.Primary && link.Error != "":
		return false, errors.New(link.Error)
	case role.Primary:
		return link.Primary == r.to && link.State == repl.LinkConnected, nil
	case role.State == repl.LinkConnected && !r.node.isMe(r.ctx, role.Of): // this node feeds nobody: a link to it has not noticed its end
		r.node.log.Info("the target of the handover follows another primary", "primary", role.Of.String())
		select {
		case <-r.node.pursue(role.Of):
			return true, nil
		case <-r.ctx.Done():
			return false, r.ctx.Err()
		}
	case role.Of != repl.Address{} && !r.node.isMe(r.ctx, role.Of):
		return false, fmt.Errorf("it follows %s, and that one is not there", role.Of) // somebody will tell both
	case !role.Kin(store) && (mayLead || role.Of == repl.Address{}):
		return false, repl.ErrForeign
	case mayLead && r.node.leftToSentinel():
		return false, errors.New("this node was monitored by Sentinel, which is to say who leads")
	case mayLead:
		// It may have been told to lead, and do so at any moment: to tell it again makes no second primary, to lead
		// here would.
		_, err := repl.Promote(r.ctx, r.to, r.node.settings())
		return false, err
	}
	// It has not all changes yet, so it was not told.
	r.node.log.Info("the replica lacks changes; this node is primary again", "replica", r.to.String())
	if r.node.leftToSentinel() {
		r.node.awaiting.Store(awaitStarted) // as after any start
	}
	err = r.lead()
	return err == nil, err
}

// leftToSentinel tells whether Sentinel watches: it may have named a third node meanwhile.
func (n *Role) leftToSentinel() bool {
	watched, err := n.host.Store().Replication().Monitored()
	return watched || err != nil
}

// isMe tells whether an address is this node's, as another names it. A name is looked up, until ctx ends at most.
func (n *Role) isMe(ctx context.Context, a repl.Address) bool {
	c := n.config.Get()
	if a.Port != c.Port && a.Port != c.TLS.Port && (c.AnnouncePort == 0 || a.Port != c.AnnouncePort) {
		return false
	}
	if a.Host == c.AnnounceIP && a.Host != "" {
		return true
	}
	hosts, err := n.names.LookupHost(ctx, a.Host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(addr net.Addr) bool {
		ip, _, err := net.ParseCIDR(addr.String())
		return err == nil && slices.ContainsFunc(hosts, func(h string) bool { return ip.Equal(net.ParseIP(h)) || net.ParseIP(h).IsLoopback() })
	})
}

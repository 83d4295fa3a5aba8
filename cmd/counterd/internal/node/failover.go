package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/counter"
)

// failoverPlan are the arguments of FAILOVER.
type failoverPlan struct {
	to      repl.Address // zero: any
	force   bool
	timeout time.Duration // 0: none
}

// ErrFailingOver refuses a second FAILOVER.
const ErrFailingOver = "ERR FAILOVER already in progress."

// failover: FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]. It answers when changes wait; INFO tells
// how it goes on.
func (n *Node) failover(c Conn, args [][]byte) {
	out := &c.Call().Out
	if len(args) == 2 && resp.EqualFold(args[1], "ABORT") {
		if !n.handover.abort(c.Executing()) {
			out.Error("ERR No failover in progress.")
			return
		}
		out.Status("OK")
		return
	}
	plan, text := parseFailover(args[1:])
	if text == "" {
		text = n.refuseFailover(&plan)
	}
	if text != "" {
		out.Error(text)
		return
	}
	ctx, cancel := context.WithCancel(n.life.ctx)
	if !n.handover.begin(cancel) {
		cancel()
		out.Error(ErrFailingOver)
		return
	}
	n.pause(pausedByFailover, guardPauseWrite, 0)
	if !n.life.start(func() {
		defer cancel()
		if err := n.handOver(ctx, plan); err != nil {
			n.log.Error("FAILOVER was not carried out", "error", err)
		}
		n.endFailover()
	}) {
		cancel()
		n.endFailover()
	}
	out.Status("OK")
}

// endFailover lets changes go on, and then the next failover: that one has a pause of its own.
func (n *Node) endFailover() {
	n.pauses.end(pausedByFailover)
	n.handover.end()
	n.RoleChanged()
}

// parseFailover reads the arguments behind the name. text is the error.
func parseFailover(args [][]byte) (plan failoverPlan, text string) {
	for i := 0; i < len(args); i++ {
		switch left := len(args) - i - 1; {
		case resp.EqualFold(args[i], "TIMEOUT") && left >= 1 && plan.timeout == 0:
			n, ok := resp.Number(args[i+1])
			if !ok {
				return plan, items.ErrNotInteger
			}
			if n <= 0 {
				return plan, "ERR FAILOVER timeout must be greater than 0"
			}
			plan.timeout = time.Duration(min(n, maxTimeout)) * time.Millisecond
			i++
		case resp.EqualFold(args[i], "TO") && left >= 2 && plan.to == repl.Address{}:
			port, ok := resp.Number(args[i+2])
			if !ok {
				return plan, items.ErrNotInteger
			}
			plan.to = repl.Address{Host: string(args[i+1]), Port: int(port)}
			i += 2
		case resp.EqualFold(args[i], "FORCE") && !plan.force:
			plan.force = true
		default:
			return plan, items.ErrSyntax
		}
	}
	return plan, ""
}

// refuseFailover tells why a plan cannot be carried out; empty: it can.
func (n *Node) refuseFailover(plan *failoverPlan) string {
	peers := n.repl.Peers().Infos()
	switch {
	case n.handover.state() != PhaseNone:
		return ErrFailingOver
	case n.host.Store().Replica():
		return "ERR FAILOVER is not valid when server is a replica."
	case len(peers) == 0:
		return "ERR FAILOVER requires connected replicas."
	case plan.force && (plan.to == repl.Address{} || plan.timeout == 0):
		return "ERR FAILOVER with force option requires both a timeout and target HOST and IP."
	case plan.to == repl.Address{}:
		return ""
	}
	for _, p := range peers {
		if p.IP == plan.to.Host && p.Port == plan.to.Port {
			if !p.Online {
				return "ERR FAILOVER target replica is not online."
			}
			return ""
		}
	}
	return "ERR FAILOVER target HOST and PORT is not a replica."
}

// handOver does it. ctx ends by ABORT, or with the server.
func (n *Node) handOver(ctx context.Context, plan failoverPlan) error {
	store := n.host.Store()
	wait := ctx
	if plan.timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, plan.timeout)
		defer cancel()
	}
	target, ok := n.caughtUp(wait, plan.to)
	if !ok && (!plan.force || ctx.Err() != nil) {
		return errors.New("no replica caught up in time, or FAILOVER ABORT: changes go on here")
	}
	if !ok {
		target = plan.to
	}
	n.handover.tells(target)
	if err := n.repl.NoteHandover(target, false); err != nil {
		return err
	}
	if err := store.Replication().Yield(); err != nil { // from here on nothing is added to the log
		return errors.Join(err, n.repl.ForgetHandover())
	}
	n.RoleChanged()
	// Changes that were under way when the pause began may have come behind what the replica had.
	last, cancel := context.WithTimeout(wait, yieldedWithin)
	_, ok = n.caughtUp(last, target)
	cancel()
	if !ok && (!plan.force || ctx.Err() != nil) {
		return n.leadAgain(errors.New("the replica is gone, or FAILOVER ABORT"))
	}
	if !ok {
		if err := n.repl.NoteHandover(target, true); err != nil {
			return n.leadAgain(err)
		}
	}
	n.log.Info("handing the role of the primary over", "to", target.String(), "offset", store.Replication().Position())
	leader, told := target, false
	for {
		var sent bool
		var err error
		if told {
			leader, err = n.leaderBy(ctx, target)
		}
		if err == nil && leader == target {
			sent, err = repl.Promote(ctx, target, n.settings())
		}
		if err == nil {
			break
		}
		if !told && !sent { // nothing has happened
			return n.leadAgain(err)
		}
		if !told {
			n.log.Warn("the replica was told to lead and does not answer: this node asks until it does; FAILOVER ABORT makes this the primary again, REPLICAOF a replica of another",
				"replica", target.String(), "error", err)
		}
		told = true
		n.handover.setStuck()
		select {
		case <-ctx.Done():
			if n.life.ctx.Err() != nil { // at the next start it goes on
				return err
			}
			if n.handover.wasCeded() {
				return fmt.Errorf("REPLICAOF ended it: %w", err)
			}
			n.log.Warn("FAILOVER ABORT after the replica was told to lead: there may be two primaries", "replica", target.String())
			return n.leadAgain(err)
		case <-time.After(promoteRetry):
		}
	}
	n.setReplicaOf(leader)
	if err := n.repl.Follow(leader); err != nil {
		return err
	}
	return n.repl.ForgetHandover()
}

// leaderBy asks a replica that was told to lead and did not answer who leads: itself, as far as nobody has made it a
// replica of a third node since.
func (n *Node) leaderBy(ctx context.Context, replica repl.Address) (repl.Address, error) {
	role, err := repl.AskRole(ctx, replica, n.settings(), resumeAsk)
	if err != nil || role.Primary || n.isMe(role.Of) {
		return replica, err
	}
	for _, p := range n.repl.Peers().Infos() {
		if p.Online && p.IP == replica.Host && p.Port == replica.Port { // it knows this node by another name
			return replica, nil
		}
	}
	if role.State != repl.LinkConnected {
		return replica, fmt.Errorf("it follows %s, and that one is not there", role.Of)
	}
	n.log.Warn("the replica that was told to lead follows another, as this node does now",
		"replica", replica.String(), "primary", role.Of.String())
	return role.Of, nil
}

// yieldedWithin is how long a replica that had all changes may take for the last ones, while nobody takes any. It may
// come again meanwhile.
const yieldedWithin = 10 * time.Second

// promoteRetry is the pause between attempts to learn whether a replica leads that was told to.
const promoteRetry = 100 * time.Millisecond

// caughtUp waits for a replica, any or the one at an address, that has the whole log.
func (n *Node) caughtUp(ctx context.Context, to repl.Address) (who repl.Address, ok bool) {
	log, peers := n.host.Store().Replication(), n.repl.Peers()
	peers.Wait(ctx, func() bool {
		end := log.Position()
		for _, p := range peers.Infos() {
			a := repl.Address{Host: p.IP, Port: p.Port}
			if p.Online && p.Applied >= end && (to == repl.Address{} || to == a) {
				who, ok = a, true
				return true
			}
		}
		return false
	})
	return who, ok
}

// leadAgain takes the role back. It returns err, and why it could not.
func (n *Node) leadAgain(err error) error {
	_, lerr := n.host.Store().Replication().Lead()
	if lerr == nil {
		lerr = n.repl.ForgetHandover()
	}
	n.repl.Peers().DisconnectAll()
	n.RoleChanged()
	return errors.Join(fmt.Errorf("this is the primary again: %w", err), lerr)
}

const (
	// aliveWithin is how fresh the primary's last word must be for it to be asked: it speaks each second.
	aliveWithin = 1500 * time.Millisecond
	// handOverWithin is what a primary that is asked to hand over may take. Sentinel looks after a second whether its
	// replica leads, and then each second.
	handOverWithin = time.Second
)

// leadForSentinel makes this node the primary as Sentinel wants it. Sentinel tells only the replica. Where the primary
// lives (SENTINEL FAILOVER, or Sentinel was wrong about it) it would go on to take changes until it hears of it, a
// second or two, and the other replica would go on to acknowledge them: 568 increments that WAIT 1 had acknowledged
// were lost in a trial. So the primary is asked to hand over, as by FAILOVER, which loses nothing; and if it does not,
// the node leads as it is.
func (n *Node) leadForSentinel() error {
	info, ok := n.repl.Link()
	if !ok || info.State != repl.LinkConnected || info.LastIO < 0 || info.LastIO > aliveWithin {
		return n.repl.Lead()
	}
	if err := repl.AskFailover(info.Primary, n.settings(), handOverWithin); err != nil {
		n.log.Warn("the primary does not hand over: what it takes from now on is lost", "primary", info.Primary.String(), "error", err)
		return n.repl.Lead()
	}
	for deadline := time.Now().Add(handOverWithin + handOverWithin/2); n.host.Store().Replica() && time.Now().Before(deadline); {
		select {
		case <-n.life.ctx.Done():
			return counter.ErrClosed
		case <-time.After(5 * time.Millisecond):
		}
	}
	return n.repl.Lead()
}

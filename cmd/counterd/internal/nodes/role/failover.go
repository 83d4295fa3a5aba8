package role

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// failover is a FAILOVER at work.
type failover struct {
	node *Role
	ctx  context.Context // ends by ABORT, or with the server
	failoverPlan
}

// run hands the role over.
func (f *failover) run() error {
	wait := f.ctx
	if f.timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(f.ctx, f.timeout)
		defer cancel()
	}
	target, ok := f.caughtUp(wait, f.to)
	if !ok && !f.forced() {
		return errors.New("no replica caught up in time, or FAILOVER ABORT: changes go on here")
	}
	if !ok {
		target = f.to
	}
	log := f.node.host.Store().Replication()
	f.node.handover.tells(target)
	if err := f.node.repl.NoteHandover(target, false); err != nil {
		return err
	}
	if err := log.Yield(); err != nil { // from here on nothing is added to the log
		return errors.Join(err, f.node.repl.ForgetHandover())
	}
	f.node.RoleChanged()
	// Changes in progress when the pause began may be after the end of the replica's log.
	last, cancel := context.WithTimeout(wait, yieldedWithin)
	_, ok = f.caughtUp(last, target)
	cancel()
	if !ok && !f.forced() {
		return f.leadAgain(errors.New("the replica is gone, or FAILOVER ABORT"))
	}
	if !ok {
		if err := f.node.repl.NoteHandover(target, true); err != nil {
			return f.leadAgain(err)
		}
	}
	f.node.log.Info("handing over the primary role", "replica", target.String(), "offset", log.Position())
	leader, err := f.tell(target)
	if err != nil {
		return err
	}
	up := f.node.pursue(leader)
	f.node.unpause(pausedByFailover) // waiting commands are refused, as all commands are from now on
	f.node.handover.setStuck()       // whatever keeps the link down must not keep REPLICAOF away
	select {
	case <-up:
		return f.node.repl.ForgetHandover()
	case <-f.ctx.Done():
		if f.node.life.ctx.Err() == nil && !f.node.handover.wasCeded() {
			f.node.log.Warn("FAILOVER ABORT came too late: the replica is primary, and this node follows it", "primary", leader.String())
		}
		return nil // the note stays: the next start goes on
	}
}

// forced tells whether a replica leads that lacks changes.
func (f *failover) forced() bool { return f.force && f.ctx.Err() == nil }

// tell tells the replica to lead until it is known who does, and returns that. On an error it is not, and the error
// says why: this node leads again, unless somebody said who does, or the server ends.
func (f *failover) tell(target repl.Address) (repl.Address, error) {
	for told := false; ; {
		leader, sent, err := target, false, error(nil)
		if told {
			leader, err = f.leaderBy(target)
		}
		if err == nil && leader == target {
			sent, err = repl.Promote(f.ctx, target, f.node.settings())
		}
		switch {
		case err == nil:
			return leader, nil
		case !told && !sent: // nothing has happened
			return repl.Address{}, f.leadAgain(err)
		case !told:
			f.node.log.Warn("the replica was promoted and does not reply; retrying. FAILOVER ABORT makes this node primary again, "+
				"REPLICAOF makes it a replica", "replica", target.String(), "error", err)
		}
		told = true
		f.node.handover.setStuck()
		select {
		case <-f.ctx.Done():
			return repl.Address{}, f.aborted(target, err)
		case <-time.After(promoteRetry):
		}
	}
}

// aborted ends a failover whose replica does not answer.
func (f *failover) aborted(target repl.Address, err error) error {
	if f.node.life.ctx.Err() != nil { // at the next start it goes on
		return err
	}
	if f.node.handover.wasCeded() {
		return fmt.Errorf("REPLICAOF ended it: %w", err)
	}
	f.node.log.Warn("FAILOVER ABORT after the replica was promoted: there may be two primaries", "replica", target.String())
	return f.leadAgain(err)
}

// leaderBy asks a replica that was told to lead and did not answer who leads: itself, as far as nobody has made it a
// replica of a third node since.
func (f *failover) leaderBy(replica repl.Address) (repl.Address, error) {
	role, err := repl.AskRole(f.ctx, replica, f.node.settings(), resumeAsk)
	if err == nil && !role.Primary && role.State != repl.LinkConnected && !role.Kin(f.node.host.Store()) {
		err = repl.ErrForeign
	}
	if err != nil || role.Primary || f.node.isMe(f.ctx, role.Of) {
		return replica, err
	}
	for _, p := range f.node.repl.Peers().Infos() {
		if p.Online && p.IP == replica.Host && p.Port == replica.Port { // it knows this node by another name
			return replica, nil
		}
	}
	if role.State != repl.LinkConnected {
		return replica, fmt.Errorf("it follows %s, and that one is not there", role.Of)
	}
	f.node.log.Warn("the promoted replica follows another primary; this node does the same",
		"replica", replica.String(), "primary", role.Of.String())
	return role.Of, nil
}

// yieldedWithin is how long a replica that had all changes may take for the last ones, while nobody takes any. It may
// come again meanwhile.
const yieldedWithin = 10 * time.Second

// promoteRetry is the pause between attempts to learn whether a replica leads that was told to.
const promoteRetry = 100 * time.Millisecond

// caughtUp waits for a replica, any or the one at an address, that has the whole log.
func (f *failover) caughtUp(ctx context.Context, to repl.Address) (who repl.Address, ok bool) {
	log, peers := f.node.host.Store().Replication(), f.node.repl.Peers()
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
func (f *failover) leadAgain(err error) error {
	_, lerr := f.node.host.Store().Replication().Lead()
	if lerr == nil {
		lerr = f.node.repl.ForgetHandover()
	}
	f.node.repl.Peers().DisconnectAll()
	f.node.RoleChanged()
	return errors.Join(fmt.Errorf("this is the primary again: %w", err), lerr)
}

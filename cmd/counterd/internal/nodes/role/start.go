package role

import (
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// Start takes the role of the configuration, when the store has come; without one, the role that the node had when it
// ended. A node of a cluster rests until it is told.
func (n *Role) Start() {
	n.life.start(func() { n.repl.Refill(n.life.ctx) })
	if n.elected != "" {
		n.RoleChanged()
		return
	}
	a, err := primaryOf(n.config.Get())
	if err != nil || a == (repl.Address{}) {
		a = n.lastRole()
	}
	to, forced, err := n.repl.Handover()
	if err != nil {
		n.log.Error("cannot read the record of a handover", "error", err)
	}
	if a != (repl.Address{}) {
		n.repl.Pursue(a, a == to && n.repl.Healing() == nil) // another may stand at the address of a handover by now
	}
	switch {
	case to == repl.Address{}:
	case to == a:
		n.resume(to, forced)
	default: // the configuration names another primary
		if err := n.repl.ForgetHandover(); err != nil {
			n.log.Error("cannot remove the record of a handover", "error", err)
		}
	}
	n.RoleChanged()
}

// lastRole returns the primary that the node followed when it ended; zero: it was one, or was not told whose replica it
// is.
func (n *Role) lastRole() repl.Address {
	a, err := n.repl.Remembered()
	if err != nil {
		n.log.Error("cannot read the record of the former primary", "error", err)
	}
	if to, _, _ := n.repl.Handover(); to != (repl.Address{}) { // an error is told of when it is gone on with
		n.setReplicaOf(to)
		return to
	}
	switch watched, err := n.host.Store().Replication().Monitored(); {
	case n.repl.Healer().From() != repl.Address{} && (a == repl.Address{} || a == n.repl.Healer().From()):
		a = n.repl.Healer().From()
		n.log.Info("copying the data of the node that has it", "from", a.String(), "leads_again", n.repl.Healer().LeadsAgain())
		if !n.repl.Healer().LeadsAgain() {
			n.setReplicaOf(a)
		} else if watched || err != nil {
			n.awaiting.Store(awaitStarted) // as after any start of a primary
		}
	case a != repl.Address{}:
		n.log.Info("starting as a replica, as before the shutdown; use REPLICAOF to change the role", "primary", a.String())
		n.setReplicaOf(a)
	case n.host.Store().Replica():
		n.log.Warn("this node was a replica and its primary is unknown; refusing changes until REPLICAOF NO ONE or REPLICAOF host port")
	case watched || err != nil:
		n.awaiting.Store(awaitStarted)
		n.log.Warn("this node was monitored by Sentinel; refusing changes until Sentinel confirms it as primary, or REPLICAOF", "error", err)
	}
	return a
}

// primaryOf is the primary that the configuration names; zero: it names none.
func primaryOf(conf config.Config) (repl.Address, error) {
	host, port, err := config.ParsePrimary(conf.ReplicaOf)
	return repl.Address{Host: host, Port: port}, err
}

// setReplicaOf notes the primary, for CONFIG GET and REWRITE.
func (n *Role) setReplicaOf(a repl.Address) { n.config.SetReplicaOf(settingOf(a)) }

// settingOf is a primary, or none, as the setting has it.
func settingOf(a repl.Address) string {
	if a == (repl.Address{}) {
		return ""
	}
	return a.Host + " " + strconv.Itoa(a.Port)
}

// pursue follows a primary and notes it: see repl.Node.Pursue.
func (n *Role) pursue(primary repl.Address) (up <-chan struct{}) {
	n.roles.Lock()
	defer n.roles.Unlock()
	n.setReplicaOf(primary)
	return n.repl.Pursue(primary, true)
}

package repl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/counter"
)

// The roles of a node that others elect (Settings.NodeID): it leads in an epoch, follows the node that leads in one, or
// rests. A link belongs to one epoch, in which both sides agree at its beginning: all its frames
// and acknowledgements are of that epoch. A node that has seen a higher epoch refuses, so nobody helps a primary that is none any
// more to acknowledge anything.
//
// The replica says
//
//	REPLCONF node-id <its id> epoch <n> to <id of the node it means>
//
// and is answered one of
//
//	+LEADS <n>     it leads in that epoch: the link goes on, and the replica acknowledges behind each batch of frames
//	+EPOCH <n>     it has seen a higher one: the replica has to learn the present primary
//	+RESTS <n>     it is not the node that is meant, or does not lead in that epoch, as far as it knows by now
const (
	saysLeads = "LEADS"
	saysEpoch = "EPOCH"
	saysRests = "RESTS"
)

// ErrNotLeading: the node at an address does not lead in the epoch that was meant.
var ErrNotLeading = errors.New("the node does not lead in this epoch, or is another one")

// LeadAt makes the node a primary in a term of an epoch, durably. It does nothing where it leads in that epoch already.
// Nothing is acknowledged until Require is called behind it. An epoch that is not above all seen gives a
// *counter.EpochError; then, as on any error, the node rests or keeps its role.
func (n *Node) LeadAt(epoch uint64) error {
	n.change.Lock()
	defer n.change.Unlock()
	if n.peers.quorum.leads() == epoch && epoch != 0 {
		return nil
	}
	if n.Healing() != nil {
		return ErrHealing
	}
	if err := n.enter(epoch); err != nil {
		return err
	}
	n.end()
	if n.Healing() != nil { // the link that has just ended opened the store again, and found damage
		n.host.RoleChanged()
		return ErrHealing
	}
	log := n.host.Store().Replication()
	at, err := log.LeadAt(epoch)
	if err != nil {
		n.host.RoleChanged()
		return err
	}
	n.peers.quorum.begin(epoch)
	n.peers.DisconnectAll() // those that came meanwhile learn of the term
	past := log.Lineage()
	n.logger.Info("primary", "epoch", epoch, "offset", at, "replid", past.Current().ReplID.String())
	n.host.RoleChanged()
	return nil
}

// BeginEmpty ends the healing of a node that is to lead a shard for the first time: nobody has led the shard before, so no node has data to
// copy. The files that were set aside stay. It does nothing where the node is not healing. Behind an error the node heals as before.
func (h *Healer) BeginEmpty() error {
	n := h.node
	n.change.Lock()
	defer n.change.Unlock()
	was := n.Healing()
	if was == nil {
		return nil
	}
	if err := h.end(n.host.Store().Path(), was, true); err != nil {
		return err
	}
	n.logger.Warn("this node is the first of a shard that nobody has led, so there is nothing to copy: it leads without its damaged data, which stays set aside", "reason", was.Reason)
	n.host.RoleChanged()
	return nil
}

// FollowAt makes the node a replica of the node of an id, which leads in an epoch. It returns when changes are refused, and
// all clients that waited for other nodes were answered; the link comes up in the background. An epoch below the highest one
// seen gives a *counter.EpochError, and nothing is changed.
func (n *Node) FollowAt(primary Address, id string, epoch uint64) error {
	n.change.Lock()
	defer n.change.Unlock()
	n.mu.Lock()
	l := n.link
	same := l != nil && l.primary == primary && l.id == id && l.epoch == epoch
	n.mu.Unlock()
	if same {
		return nil
	}
	if err := n.enter(epoch); err != nil {
		return err
	}
	n.end()
	if err := n.host.Store().Replication().Yield(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return counter.ErrClosed
	}
	n.wanted = primary
	n.link = newLink(n, primary, true, false, id, epoch)
	n.logger.Info("replica", "primary", primary.String(), "node", id, "epoch", epoch)
	go n.host.RoleChanged()
	return nil
}

// Rest makes the node neither primary nor replica: it refuses changes, answers the clients that wait for acknowledgements,
// and feeds no replica.
func (n *Node) Rest() error {
	n.change.Lock()
	defer n.change.Unlock()
	n.end()
	err := n.host.Store().Replication().Yield()
	n.host.RoleChanged()
	return err
}

// end gives the role up, whatever it is.
func (n *Node) end() {
	n.noteConfirmed()
	n.peers.quorum.begin(0)
	n.unlink()
	n.confirmed.note()
	n.peers.DisconnectAll()
}

// enter notes an epoch, unless a higher one was seen. REQUIRES: change.
func (n *Node) enter(epoch uint64) error {
	n.confirmed.open(n.fs, n.host.Store().Path())
	n.mu.Lock()
	defer n.mu.Unlock()
	if epoch < n.epoch {
		return &counter.EpochError{Got: epoch, Seen: n.epoch}
	}
	n.epoch = epoch
	return nil
}

// Epoch is the highest epoch given to LeadAt and FollowAt.
func (n *Node) Epoch() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epoch
}

// OnEpoch has f called, in a goroutine of its own, when another node names an epoch that is higher than Epoch. The code that
// decides on roles must then find the primary. REQUIRES: called before there are links.
func (n *Node) OnEpoch(f func(epoch uint64)) { n.learned = f }

// hear takes note that another node speaks of an epoch. It is no more than a reason to look who leads: anybody who reaches
// the port can say so, and a node that believed it would take part in nothing until etcd has come to that epoch. Nothing
// is lost by not believing it: the primary of a higher epoch is one of those that this one's changes wait for, and
// acknowledges none of them.
func (n *Node) hear(epoch uint64) {
	n.mu.Lock()
	higher := epoch > max(n.epoch, n.heard)
	if higher {
		n.heard = epoch
	}
	n.mu.Unlock()
	if higher {
		n.logger.Warn("another node reported a higher epoch; a new primary may have been elected", "epoch", epoch)
	}
	if n.learned != nil && epoch > n.Epoch() {
		go n.learned(epoch)
	}
}

// Require tells which nodes must have a change before it is acknowledged, this one aside. It is in force on return: from is
// a log offset: changes from there on are acknowledged by them alone. So a node that was added has all that was acknowledged
// when it has acknowledged from. It does nothing unless this node leads, and LeadAt begins without.
func (n *Node) Require(ids []string) (from uint64) {
	n.peers.quorum.require(ids)
	return n.host.Store().Replication().Position()
}

// Doubt has who waits for others to have a change answered UNCERTAIN, until it is called with nil or the node leads in
// another epoch.
func (n *Node) Doubt(err error) { n.host.Store().Replication().Doubt(err) }

// Welcome is the reply to REPLCONF, behind options that were taken.
func (p *Peer) Welcome() string {
	if p.to == "" || p.fed() {
		return "OK"
	}
	n := p.peers.node
	if n == nil || p.to != n.settings().NodeID || p.epoch == 0 {
		p.refused = true
		return saysRests + " 0"
	}
	n.hear(p.epoch)
	seen, leads := n.Epoch(), n.peers.quorum.leads()
	switch {
	case p.epoch < seen:
		p.refused = true
		return saysEpoch + " " + strconv.FormatUint(seen, 10)
	case p.epoch != leads:
		p.refused = true
		return saysRests + " " + strconv.FormatUint(leads, 10)
	}
	return saysLeads + " " + strconv.FormatUint(leads, 10)
}

// introduce agrees with the primary on the epoch.
func (s *session) introduce() error {
	if s.id == "" {
		return nil
	}
	line, err := s.ask("REPLCONF", "node-id", s.node.settings().NodeID, "epoch", strconv.FormatUint(s.epoch, 10), "to", s.id)
	if err != nil {
		return err
	}
	word, number, _ := strings.Cut(strings.TrimPrefix(line, "+"), " ")
	epoch, err := strconv.ParseUint(number, 10, 64)
	switch {
	case err != nil || word != saysLeads && word != saysEpoch && word != saysRests:
		return fmt.Errorf("%w: %.100q answers REPLCONF node-id", ErrProtocol, line)
	case word == saysEpoch && epoch > s.epoch:
		s.node.hear(epoch)
		return &counter.EpochError{Got: s.epoch, Seen: epoch}
	case word != saysLeads || epoch != s.epoch:
		return ErrNotLeading
	}
	return nil
}

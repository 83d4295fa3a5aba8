package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
)

// A primary that hands its role over notes to whom before it gives it up, so that its end at any moment leaves a node
// that knows how to go on. The file counts while the log is a replica's of that node or of none, and is removed when
// the link to the new primary is up, or the node leads again, or is told another role. If the note is forced, the replica
// may be told to lead though it lacks changes: the node must not lead again because it does.

// handoverName is the file: see addressNote.
const handoverName = "HANDOVER"

// NoteHandover notes, durably, to whom the role is about to be handed, and whether by force.
func (n *Node) NoteHandover(a Address, forced bool) error {
	if err := n.forget(); err != nil { // whom this node followed before it led says nothing about this
		return err
	}
	return n.note(handoverName, addressNote{a, forced})
}

// ForgetHandover removes the note.
func (n *Node) ForgetHandover() error { return n.unnote(handoverName) }

// Handover is to whom the role was being handed when the node ended, and whether by force; the zero value if to nobody.
func (n *Node) Handover() (to Address, forced bool, err error) {
	store := n.host.Store()
	if !store.Durable() {
		return Address{}, false, nil
	}
	if !store.Replica() {
		return Address{}, false, n.ForgetHandover()
	}
	note, err := n.noted(handoverName)
	if err != nil || note == (addressNote{}) {
		return Address{}, false, err
	}
	primary, err := n.noted(primaryName)
	if err == nil && primary != (addressNote{}) && primary.Address != note.Address { // it was told its role since
		return Address{}, false, n.ForgetHandover()
	}
	return note.Address, note.forced, nil
}

// Role is the role that another node reports.
type Role struct {
	Primary bool
	Of      Address   // of a replica
	State   LinkState // of a replica
	Offset  uint64
	Heals   bool // the data of the node was damaged, and is not there yet
	Waits   bool // the node is being opened, and waits for another node

	SecondEnd uint64    // log offset where the second term of history ended
	history   [2]string // ids of its history and of the one before
}

// Kin tells whether the node has something of a store's history, as far as its two newest terms tell: a replica has
// none of its own.
func (r *Role) Kin(store *counter.Store) bool {
	past := store.Replication().Lineage()
	return slices.ContainsFunc(past.Terms, func(t format.Term) bool { return slices.Contains(r.history[:], t.ReplID.String()) })
}

// In tells whether the node's log is in a term.
func (r *Role) In(term format.ReplID) bool { return r.history[0] == term.String() }

// Knows tells whether one of the node's two newest terms is that one.
func (r *Role) Knows(term format.ReplID) bool { return slices.Contains(r.history[:], term.String()) }

// AskRole asks a node for its role. A node that is loading gives an error, and Waits alone: it does not know its role yet.
func AskRole(ctx context.Context, a Address, c Settings, within time.Duration) (role Role, err error) {
	conn, err := dialNode(ctx, a, c, within)
	if err != nil {
		return role, err
	}
	defer conn.Close()
	conn.Out = wire.AppendCommand(wire.AppendCommand(wire.AppendCommand(conn.Out, "PING"), "ROLE"), "INFO", "replication")
	if err := conn.Flush(); err != nil {
		return role, err
	}
	var refused *wire.ServerError
	_, loading := conn.ReadValue() // to PING
	switch {
	case loading == nil:
	case !errors.As(loading, &refused):
		return role, loading
	case strings.HasPrefix(refused.Text, "MASTERDOWN "):
		loading = nil
	case !strings.HasPrefix(refused.Text, "LOADING "):
		return role, loading
	}
	reply, err := conn.ReadValue()
	if loading == nil {
		if err != nil {
			return role, err
		}
		if role, err = parseRole(reply); err != nil {
			return role, err
		}
	}
	if reply, err = conn.ReadValue(); err != nil {
		if loading != nil {
			err = loading
		}
		return role, err
	}
	for line := range strings.SplitSeq(reply.Text(), "\r\n") {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "master_replid":
			role.history[0] = value
		case "master_replid2":
			role.history[1] = value
		case "second_repl_offset":
			role.SecondEnd, _ = strconv.ParseUint(value, 10, 64) // -1: there is none
		case "counterd_healing":
			role.Heals = value == "1"
		case "counterd_healing_waits":
			role.Waits = value == "1"
		}
	}
	return role, loading
}

// parseRole reads a reply to ROLE.
func parseRole(reply wire.Value) (role Role, err error) {
	var words [5]string
	n := min(len(reply.Array), len(words))
	for i, v := range reply.Array[:n] {
		words[i] = v.Text()
	}
	switch {
	case n >= 2 && words[0] == "master":
		role.Primary = true
		role.Offset, err = strconv.ParseUint(words[1], 10, 64)
		return role, err
	case n < len(words) || words[0] != "slave":
		return role, fmt.Errorf("%w: %.100q answers ROLE", ErrProtocol, reply.Text())
	}
	role.Of.Host, role.State = words[1], LinkState(words[3])
	if role.Of.Port, err = strconv.Atoi(words[2]); err == nil {
		role.Offset, err = strconv.ParseUint(words[4], 10, 64)
	}
	return role, err
}

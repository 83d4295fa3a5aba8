package repl

import (
	"context"
	"errors"
	"fmt"
	"net"
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

	closedTerm string // Closed's
	closedEnd  uint64

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

// Closed tells whether the node is being opened, cannot open its data, and gives the frames of its log: in is whether that log is in a term, and end where it ends.
func (r *Role) Closed(term format.ReplID) (end uint64, in, ok bool) {
	return r.closedEnd, r.closedTerm == term.String(), r.closedTerm != ""
}

// AskRole asks a node for its role. A node that is loading gives an error, and Waits and Closed alone: it does not know its role yet.
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
		case "counterd_healing_history":
			role.closedTerm = value
		case "counterd_healing_offset":
			role.closedEnd, _ = strconv.ParseUint(value, 10, 64) // 0: it has nothing to give
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

// dial connects to another node and gives it the password. When ctx ends so does the connection.
func (c Settings) dial(ctx context.Context, a Address, o wire.Options) (*wire.Conn, error) {
	o.User, o.Password, o.Connect = c.MasterUser, c.MasterAuth, c.Connect
	if c.TLS != nil {
		var err error
		if o.TLS, err = c.TLS(a.Host); err != nil {
			return nil, err
		}
	}
	return wire.Dial(ctx, a.String(), o)
}

// Dial connects to another node as links do. When ctx ends so does the connection.
func (c Settings) Dial(ctx context.Context, a Address, o wire.Options) (*wire.Conn, error) {
	return c.dial(ctx, a, o)
}

// dialNode connects to another node to ask it something, which timeout bounds.
func dialNode(ctx context.Context, a Address, c Settings, timeout time.Duration) (*wire.Conn, error) {
	return c.dial(ctx, a, wire.Options{Timeout: timeout, Answer: timeout, Buffer: askBuffer})
}

// askBuffer is how many bytes are read of an answer at a time.
const askBuffer = 4 << 10

// Promote tells a replica to lead. On an error sent is whether it may have heard of it and not refused: then only its
// role tells what has happened. When ctx ends so does the connection.
func Promote(ctx context.Context, replica Address, c Settings) (sent bool, err error) {
	conn, err := dialNode(ctx, replica, c, dialTimeout)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	_, err = conn.Do("REPLICAOF", "NO", "ONE")
	var refused *wire.ServerError
	return !errors.As(err, &refused), err
}

// AskFailover asks a primary to hand its role to this node, one of its replicas, within a time. It returns when the
// primary has begun to: it then tells this node to lead, or stays what it is. When ctx ends so does the connection.
func AskFailover(ctx context.Context, primary Address, c Settings, within time.Duration) error {
	conn, err := dialNode(ctx, primary, c, within)
	if err != nil {
		return err
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr())
	if err != nil {
		return err
	}
	port := c.Port
	if c.AnnouncePort != 0 {
		port = c.AnnouncePort
	}
	if c.AnnounceIP != "" {
		host = c.AnnounceIP
	}
	_, err = conn.Do("FAILOVER", "TO", host, strconv.Itoa(port), "TIMEOUT", strconv.FormatInt(within.Milliseconds(), 10))
	return err
}

package repl

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// A primary that hands its role over notes to whom before it gives it up, so that its end at any moment leaves a node
// that knows how to go on. The file counts while the log is a replica's, and is removed when the link to the new
// primary is up, or the node leads again, or is told another role.

// handoverName is the file: as primaryName.
const handoverName = "HANDOVER"

// NoteHandover notes, durably, to whom the role is about to be handed.
func (n *Node) NoteHandover(a Address) error { return n.note(handoverName, a) }

// ForgetHandover removes the note.
func (n *Node) ForgetHandover() error { return n.unnote(handoverName) }

// Handover is to whom the role was being handed when the node ended; the zero value if to nobody.
func (n *Node) Handover() (Address, error) {
	store := n.host.Store()
	if !store.Durable() {
		return Address{}, nil
	}
	if !store.Replica() {
		return Address{}, n.ForgetHandover()
	}
	return n.noted(handoverName)
}

// Role is what another node says it is.
type Role struct {
	Primary bool
	Of      Address   // of a replica
	State   LinkState // of a replica
	Offset  uint64
}

// AskRole asks a node for its role. One that is loading gives an error: it does not know yet what it will be.
func AskRole(ctx context.Context, a Address, c Settings, within time.Duration) (role Role, err error) {
	conn, err := dialNode(ctx, a, c, within)
	if err != nil {
		return role, err
	}
	defer conn.Close()
	conn.Out = wire.AppendCommand(wire.AppendCommand(conn.Out, "PING"), "ROLE")
	if err := conn.Flush(); err != nil {
		return role, err
	}
	if _, err := conn.ReadValue(); err != nil { // to PING: an error while it is loading
		return role, err
	}
	reply, err := conn.ReadValue()
	if err != nil {
		return role, err
	}
	return parseRole(reply)
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

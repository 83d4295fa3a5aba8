package repl

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"time"
)

// A primary that hands its role over notes to whom before it gives it up, so that its end at any moment leaves a node that knows how to go on. The file counts
// while the log is a replica's, and is removed when the link to the new primary is up, or the node leads again, or is told another role.

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
	conn, r, err := dialNode(ctx, a, c, within)
	if err != nil {
		return role, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(appendCommand(appendCommand(nil, "PING"), "ROLE")); err != nil {
		return role, err
	}
	if _, err := readLine(r); err != nil {
		return role, err
	}
	return readRole(r)
}

// readRole reads a reply to ROLE: of a replica, or the beginning of a primary's.
func readRole(r *bufio.Reader) (role Role, err error) {
	if _, err := readLine(r); err != nil { // *3 or *5
		return role, err
	}
	var words [5]string
	for i := range words {
		if words[i], err = readWord(r); err != nil {
			return role, err
		}
		if i == 1 && words[0] == "master" {
			role.Primary = true
			role.Offset, err = strconv.ParseUint(words[1], 10, 64)
			return role, err
		}
	}
	if words[0] != "slave" {
		return role, fmt.Errorf("%w: %q answers ROLE", ErrProtocol, words[0])
	}
	role.Of.Host, role.State = words[1], LinkState(words[3])
	if role.Of.Port, err = strconv.Atoi(words[2]); err == nil {
		role.Offset, err = strconv.ParseUint(words[4], 10, 64)
	}
	return role, err
}

// readWord reads a bulk string or an integer.
func readWord(r *bufio.Reader) (string, error) {
	line, err := readLine(r)
	if err != nil || line[0] == ':' {
		return line[min(1, len(line)):], err
	}
	n, err := strconv.Atoi(line[1:])
	if line[0] != '$' || err != nil {
		return "", fmt.Errorf("%w: %q, want a bulk string or an integer", ErrProtocol, line)
	}
	word, err := readBlob(r, n, maxLine)
	return string(word), err
}

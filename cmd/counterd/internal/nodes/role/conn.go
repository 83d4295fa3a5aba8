package role

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// Conn is the part of a connection that the commands use. It is for the goroutine that executes the command.
type Conn interface {
	// Call has its replies.
	Call() *items.Call
	// Name is the name that the connection gave itself.
	Name() string
	// LocalAddr is the address that it reached this node by.
	LocalAddr() net.Addr
	// Executing tells whether the command is one of a transaction that EXEC runs with the store held: it must not wait.
	Executing() bool
	// Await runs wait, which may take its time: for d at most, or as long as it likes if that is 0. Its context ends
	// early with the connection, with the server, and when another connection says so: unblocked, if by an error. Earlier
	// replies are sent first. Of a connection that has ended meanwhile nothing more is executed.
	Await(d time.Duration, wait func(ctx context.Context)) (unblocked bool)
	// End closes it after all replies are sent.
	CloseConnection()
	// SendAway closes the connections of all other clients but replicas whose name is one of those, and returns how many.
	SendAway(named func(name string) bool) int
}

// PeerConn is the connection of a replica, or of a tool that behaves like one.
type PeerConn interface {
	Conn
	// Peer is the replica; nil: it has not said that it is one.
	Peer() *repl.Peer
	SetPeer(p *repl.Peer)
	// Shared tells whether it carries other than replies, or not all of them: it has subscriptions, or CLIENT REPLY is
	// off.
	Shared() bool
	// Confine lets it send only what a replica sends while the log is streamed to it.
	Confine()
	// Send sends the replies. An error says that the connection has ended.
	Send() error
	// Raw writes past the replies, each piece for as long as a reply may take.
	Raw() io.Writer
	// Socket is the connection itself.
	Socket() net.Conn
}

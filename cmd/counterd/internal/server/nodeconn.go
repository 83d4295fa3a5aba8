package server

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/node"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// nodeConn is a connection as package node sees it.
type nodeConn struct{ *client }

var _ node.PeerConn = nodeConn{}

// onNode gives the commands of replication what they work on.
func onNode(c *client) (*node.Node, node.PeerConn) { return c.srv.node, nodeConn{c} }

func (c nodeConn) Call() *items.Call   { return &c.client.call.Call }
func (c nodeConn) LocalAddr() net.Addr { return c.session.Conn().LocalAddr() }
func (c nodeConn) Executing() bool     { return c.call.executing }
func (c nodeConn) End()                { c.session.Closing = true }
func (c nodeConn) Peer() *repl.Peer    { return c.peer.Load() }
func (c nodeConn) Shared() bool        { return c.subs.Started() || c.silence.off }
func (c nodeConn) Confine()            { c.confined |= confinedReplica }
func (c nodeConn) Raw() io.Writer      { return &c.session }
func (c nodeConn) Send() error         { return c.session.Send() }
func (c nodeConn) Socket() net.Conn    { return c.session.Conn() }

func (c nodeConn) SetPeer(p *repl.Peer) {
	c.peer.Store(p)
	c.session.Share()
}

func (c nodeConn) Name() string {
	name, _, _ := c.info.names()
	return name
}

// Await lets CLIENT UNBLOCK end the wait.
func (c nodeConn) Await(d time.Duration, wait func(ctx context.Context)) (unblocked bool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	timed := context.Context(ctx)
	if d > 0 {
		var stop func()
		timed, stop = context.WithTimeout(ctx, d)
		defer stop()
	}
	c.unblock.Store(&cancel)
	defer c.unblock.Store(nil)
	c.block(timed, wait)
	return context.Cause(ctx) == errUnblocked
}

// SendAway closes connections as CLIENT KILL does by TYPE normal and pubsub.
func (c nodeConn) SendAway(named func(name string) bool) (n int) {
	for _, k := range c.srv.connected() {
		if kind := k.kind(); k != c.client && (kind == "normal" || kind == "pubsub") && named(nodeConn{k}.Name()) {
			k.session.Conn().Close()
			n++
		}
	}
	return n
}

package node

import (
	"io"
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/errclass"
)

// What replicas say, and tools that behave like one.

// peerOf is the replica of a connection, from now on.
func (n *Node) peerOf(c PeerConn) *repl.Peer {
	p := c.Peer()
	if p == nil {
		p = n.repl.Peers().NewPeer(c.Socket())
		c.SetPeer(p)
	}
	return p
}

// replconf: REPLCONF name value ..., and ACK and GETACK, which are not answered.
func (n *Node) replconf(c PeerConn, args [][]byte) {
	out := &c.Call().Out
	p := c.Peer()
	if len(args) >= 3 && resp.EqualFold(args[1], "ACK") {
		if p == nil {
			return
		}
		applied, err := strconv.ParseUint(string(args[2]), 10, 64)
		durable := uint64(0)
		if err == nil && len(args) == 5 && resp.EqualFold(args[3], "FACK") {
			durable, err = strconv.ParseUint(string(args[4]), 10, 64)
		}
		if err != nil {
			c.End() // there is no way to answer in the stream
			return
		}
		p.Ack(applied, durable)
		return
	}
	if len(args) == 3 && resp.EqualFold(args[1], "GETACK") {
		return
	}
	if p == nil {
		if n.host.Opening() {
			out.Error(items.ErrLoading)
			return
		}
		p = n.peerOf(c)
	}
	if len(args) == 4 && resp.EqualFold(args[1], "FETCH") {
		n.sendFile(c, p, string(args[2]), string(args[3]))
		return
	}
	if len(args)%2 == 0 {
		out.Error(items.ErrSyntax)
		return
	}
	for i := 1; i < len(args); i += 2 {
		if err := p.Configure(string(args[i]), args[i+1]); err != nil {
			out.Error("ERR " + err.Error())
			return
		}
	}
	out.Status(p.Welcome())
}

// sendFile answers REPLCONF fetch: straight from the file to the connection.
func (n *Node) sendFile(c PeerConn, p *repl.Peer, tier, name string) {
	out := &c.Call().Out
	file, size, err := p.Fetch(tier, name)
	if err != nil {
		out.Error(peerErrorText(err))
		return
	}
	defer file.Close() // only read
	out.BulkHead(size)
	if c.Send() != nil {
		c.End()
		return
	}
	err = copyFile(file, size, tier == counter.TierCold, func(part io.Reader) (int64, error) {
		n, err := io.Copy(c.Raw(), part)
		p.Heard() // it cannot be heard of otherwise: this goroutine reads what it says
		return n, err
	})
	if err != nil {
		c.End()
		c.Socket().Close() // half a file was announced as a whole one
		return
	}
	out.Raw([]byte("\r\n"))
}

// peerErrorText is the reply that package repl chose, or else the store's.
func peerErrorText(err error) string {
	if _, ok := errclass.Of(err.Error()); ok {
		return err.Error()
	}
	return items.ErrorText(err)
}

// psync: PSYNC replid offset.
func (n *Node) psync(c PeerConn, args [][]byte) {
	out := &c.Call().Out
	p := n.peerOf(c)
	if text := p.Refusal(); text != "" {
		out.Error(text)
		return
	}
	if c.Shared() {
		out.Error("ERR PSYNC needs a connection of its own")
		return
	}
	if p.SnapshotOnly() {
		n.sendArchive(c, true)
		return
	}
	if err := n.repl.Connected(); err != nil && !n.handover.feeds() {
		out.Error(peerErrorText(err))
		return
	}
	reply, stream, err := p.Sync(n.host.Store(), string(args[1]), string(args[2]))
	if err != nil {
		out.Error(peerErrorText(err))
		return
	}
	out.Raw([]byte(reply))
	if !stream {
		return
	}
	if c.Send() != nil {
		c.End()
		return
	}
	c.Confine()
	p.Feed()
	n.RoleChanged()
}

// sync: SYNC: an archive for redis-cli --rdb, the changes from now on for redis-cli --replica. A Redis that wants to
// be a replica is refused: it would drop its data for what it cannot read.
func (n *Node) sync(c PeerConn, _ [][]byte) {
	out := &c.Call().Out
	p := n.peerOf(c)
	text := p.SyncRefusal()
	switch {
	case text != "":
	case !n.host.Store().Durable():
		text = items.ErrMemoryOnly + ": there is nothing to send"
	case c.Shared():
		text = "ERR SYNC needs a connection of its own"
	case p.SnapshotOnly():
		n.sendArchive(c, false)
		return
	}
	if text != "" {
		out.Error(text)
		return
	}
	if c.Send() != nil {
		c.End()
		return
	}
	c.Confine()
	if err := p.Watch(n.host.Store()); err != nil {
		c.Call().StoreError(err)
		c.End()
	}
}

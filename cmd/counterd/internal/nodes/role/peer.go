package role

import (
	"io"
	"log/slog"
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/errclass"
)

// peerServer answers replicas, and tools that behave like one: REPLCONF, PSYNC, SYNC.
type peerServer struct {
	host        Host
	repl        *repl.Node
	log         *slog.Logger
	feeds       func() bool // whether this node has the newest log although it gave its role up: see handover
	roleChanged func()
}

// peerOf is the replica of a connection, from now on.
func (s *peerServer) peerOf(c PeerConn) *repl.Peer {
	p := c.Peer()
	if p == nil {
		p = s.repl.Peers().NewPeer(c.Socket())
		c.SetPeer(p)
	}
	return p
}

// replconf: REPLCONF name value ..., and ACK, GETACK and, behind PSYNC, HURRY, which are not answered.
func (s *peerServer) replconf(c PeerConn, args [][]byte) {
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
			c.CloseConnection() // there is no way to answer in the stream
			return
		}
		p.Ack(applied, durable)
		return
	}
	if len(args) >= 4 && resp.EqualFold(args[1], "COMPARE") {
		if p == nil || p.Compared(args[2:]) != nil {
			c.CloseConnection() // as above
		}
		return
	}
	if len(args) == 3 && resp.EqualFold(args[1], "GETACK") {
		return
	}
	if len(args) == 3 && resp.EqualFold(args[1], "HURRY") && p != nil {
		if offset, err := strconv.ParseUint(string(args[2]), 10, 64); err == nil && p.Hurry(offset) {
			return
		}
	}
	if len(args) > 2 && resp.EqualFold(args[1], "ROWS") {
		if s.host.Opening() {
			out.Error(items.ErrLoading)
			return
		}
		s.send(c, repl.Rows, args[2:])
		return
	}
	if len(args) > 2 && resp.EqualFold(args[1], "FRAMES") {
		if !s.host.Opening() {
			s.send(c, repl.Frames, args[2:])
		} else if raw, err := repl.ClosedFrames(s.repl, args[2:]); err == nil {
			out.Bulk(raw)
		} else {
			out.Error(items.ErrLoading) // the other node asks again
		}
		return
	}
	if len(args) > 2 && resp.EqualFold(args[1], "LAST-FRAMES") { // of a directory that cannot be opened
		s.send(c, repl.LastFrames, args[2:])
		return
	}
	if p == nil {
		if s.host.Opening() {
			out.Error(items.ErrLoading)
			return
		}
		p = s.peerOf(c)
	}
	if len(args) == 4 && resp.EqualFold(args[1], "FETCH") {
		s.sendFile(c, p, string(args[2]), string(args[3]))
		return
	}
	if len(args) == 4 && resp.EqualFold(args[1], "VERIFY") && resp.EqualFold(args[2], "COLD") {
		if err := p.Verify(string(args[3])); err != nil {
			out.Error(peerErrorText(err))
			return
		}
		out.Status("OK")
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

// send answers with a bulk string.
func (s *peerServer) send(c PeerConn, get func(*repl.Node, [][]byte) ([]byte, error), words [][]byte) {
	raw, err := get(s.repl, words)
	if err != nil {
		c.Call().Out.Error(peerErrorText(err))
		return
	}
	c.Call().Out.Bulk(raw)
}

// sendFile answers REPLCONF fetch: straight from the file to the connection.
func (s *peerServer) sendFile(c PeerConn, p *repl.Peer, tier, name string) {
	out := &c.Call().Out
	file, size, err := p.Fetch(tier, name)
	if err != nil {
		out.Error(peerErrorText(err))
		return
	}
	defer file.Close() // only read
	out.BulkHead(size)
	if c.Send() != nil {
		c.CloseConnection()
		return
	}
	err = copyFile(file.Streamer, size, tier == counter.TierCold, func(part io.Reader) (int64, error) {
		n, err := io.Copy(c.Raw(), part)
		p.Heard() // it cannot be heard of otherwise: this goroutine reads what it says
		return n, err
	})
	if err != nil {
		c.CloseConnection()
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
func (s *peerServer) psync(c PeerConn, args [][]byte) {
	out := &c.Call().Out
	p := s.peerOf(c)
	if text := p.Refusal(); text != "" {
		out.Error(text)
		return
	}
	if c.Shared() {
		out.Error("ERR PSYNC needs a connection of its own")
		return
	}
	if p.SnapshotOnly() {
		s.sendArchive(c, true)
		return
	}
	if err := s.repl.Connected(); err != nil && !s.feeds() && !s.repl.Healer().Restores(p) {
		out.Error(peerErrorText(err))
		return
	}
	reply, stream, err := p.Sync(s.host.Store(), string(args[1]), string(args[2]))
	if err == nil && s.repl.Healing() != nil {
		// The store was opened again since Connected, and damage has emptied it: Healing says so before Store gives it.
		err = repl.ErrFeedsNobody
	}
	if err != nil {
		out.Error(peerErrorText(err))
		return
	}
	out.Raw([]byte(reply))
	if !stream {
		return
	}
	if c.Send() != nil {
		c.CloseConnection()
		return
	}
	c.Confine()
	p.Feed()
	s.roleChanged()
}

// sync: SYNC: an archive for redis-cli --rdb, the changes from now on for redis-cli --replica. A Redis that wants to
// be a replica is refused: it would drop its data for a stream that it cannot read.
func (s *peerServer) sync(c PeerConn, _ [][]byte) {
	out := &c.Call().Out
	p, store := s.peerOf(c), s.host.Store()
	text := p.SyncRefusal()
	switch {
	case text != "":
	case s.repl.Healing() != nil: // behind Store, as in psync
		text = errHealing
	case !store.Durable():
		text = items.ErrMemoryOnly + ": there is nothing to send"
	case c.Shared():
		text = "ERR SYNC needs a connection of its own"
	case p.SnapshotOnly():
		s.sendArchive(c, false)
		return
	}
	if text != "" {
		out.Error(text)
		return
	}
	if c.Send() != nil {
		c.CloseConnection()
		return
	}
	c.Confine()
	if err := p.Watch(store); err != nil {
		c.Call().StoreError(err)
		c.CloseConnection()
	}
}

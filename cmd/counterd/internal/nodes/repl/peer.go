package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// Peer is a replica as the node that feeds it sees it: one connection. Its exported methods but Ack, Info and Close are
// for the goroutine that reads the connection.
type Peer struct {
	peers *Peers
	conn  net.Conn

	// Of REPLCONF, before PSYNC.
	port     int
	ip       string
	process  string // of the replica: its Node.process; empty: it did not say
	counterd bool
	// It takes messages of PUBLISH: a replica of an older build does not know them and would drop the link.
	takesMessages bool
	takesShard    bool // and those of SPUBLISH
	takesConfirm  bool // and those of how far the log is confirmed
	snapshotOnly  bool // of redis-cli --rdb
	takesEnd      bool // of redis-cli too: what it is sent may end with a mark, in place of a length before it
	lineage       persist.Lineage
	nodeID        string // of a cluster's node, which means the node of id to, in an epoch; else empty
	to            string
	epoch         uint64
	refused       bool // for its epoch

	// The feeder's once there is one (fed), before the goroutine's that reads the connection.
	pin    *counter.Pin    // the snapshot or log that is being sent
	reader *persist.Reader // of the stream
	store  *counter.Store  // that the answer to PSYNC was about
	told   []byte          // lineage, as the replica was told

	cancel context.CancelFunc
	done   chan struct{} // closed when the feeder has ended; nil: it was not started

	online           atomic.Bool
	watching         atomic.Bool
	copying          atomic.Bool // between FULLRESYNC and the stream
	applied, durable atomic.Uint64
	sent             atomic.Uint64
	acked            atomic.Int64 // when, unix ns
	wantAck          atomic.Bool
	published        published
	kick             atomic.Pointer[context.CancelFunc]
}

// PeerInfo is a replica as INFO and ROLE show it.
type PeerInfo struct {
	IP               string
	Port             int
	Online           bool
	Watching         bool   // it is sent commands and keeps nothing: redis-cli --replica
	Applied, Durable uint64 // log offsets
	Sent             uint64
	Lag              time.Duration // since the last acknowledgement
}

// Configure takes one pair of REPLCONF. The error is for the replica.
func (p *Peer) Configure(name string, value []byte) error {
	if p.fed() || p.pin != nil || p.reader != nil { // others read these fields by now
		return errors.New("REPLCONF options come before PSYNC")
	}
	switch strings.ToLower(name) {
	case "listening-port":
		n, err := strconv.Atoi(string(value))
		if err != nil || n < 0 || n > 65535 {
			return errors.New("value is not an integer or out of range")
		}
		p.port = n
	case "ip-address":
		if len(value) > 255 || strings.ContainsAny(string(value), " \r\n,=:") && net.ParseIP(string(value)) == nil {
			return errors.New("REPLCONF ip-address provided by replica instance is invalid")
		}
		p.ip = string(value)
	case "rdb-filter-only": // empty: of redis-cli --replica; functions: of redis-cli --functions-rdb
		if len(value) > 0 {
			return fmt.Errorf("this is counterd: its snapshot has no part %.128q that could be sent alone, as there are no functions. redis-cli --rdb sends all of it", value)
		}
	case "rdb-only": // of redis-cli --rdb
		p.snapshotOnly = string(value) == "1"
	case "process":
		if len(value) > 128 {
			return errors.New("REPLCONF process is longer than 128 bytes")
		}
		p.process = string(value)
	case "capa": // of Redis, where what counts is the version; and of what was added to the stream
		p.takesMessages = p.takesMessages || string(value) == capaPublish
		p.takesShard = p.takesShard || string(value) == capaShard
		p.takesConfirm = p.takesConfirm || string(value) == capaConfirm
		p.takesEnd = p.takesEnd || string(value) == "eof"
	case "node-id", "to":
		if len(value) == 0 || len(value) > 128 {
			return errors.New("REPLCONF node-id and to are of 1 to 128 bytes")
		}
		if strings.EqualFold(name, "to") {
			p.to = string(value)
		} else {
			p.nodeID = string(value)
		}
	case "epoch":
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil || n > counter.MaxEpoch {
			return fmt.Errorf("REPLCONF epoch: want one up to %d, got %.100q", uint64(counter.MaxEpoch), value)
		}
		p.epoch = n
	case "version":
		p.counterd = string(value) == "counterd"
	case "history":
		l, err := persist.ParseLineage("history", value)
		if err != nil {
			return err
		}
		p.lineage = l
	default:
		return fmt.Errorf("unrecognized REPLCONF option: %.128q", name)
	}
	return nil
}

// fed tells whether there is a feeder.
func (p *Peer) fed() bool { return p.done != nil }

// Refusal tells why a replica is not served; empty: it is. Who wants an archive only is none.
func (p *Peer) Refusal() string {
	if !p.counterd && (!p.snapshotOnly || p.port != 0) {
		return "ERR this is counterd: a Redis server cannot replicate from it, as the stream is not of Redis commands. " +
			"Use counterd as replica, or redis-cli --scan and counterctl dump to copy data"
	}
	if p.refused {
		return "ERR this node does not lead in the epoch of this link"
	}
	return ""
}

// diverged is the answer to a replica whose log must be cut.
type divergedError struct{ offset uint64 }

func (e *divergedError) Error() string { return "DIVERGED " + strconv.FormatUint(e.offset, 10) }

// notYetError is the answer to a replica that has more of the log than this one, a replica too: it may come again.
type notYetError struct{ end uint64 }

func (e *notYetError) Error() string { return "NOTYET " + strconv.FormatUint(e.end, 10) }

// Sync decides on a PSYNC. reply is to be sent to the replica; when stream is set Feed is to be called behind it. An
// error is to be answered.
func (p *Peer) Sync(store *counter.Store, replID, offset string) (reply []byte, stream bool, err error) {
	if !store.Durable() {
		return nil, false, errors.New("ERR data is kept in memory only (appendonly no): there is no log to replicate")
	}
	if p.fed() {
		return nil, false, errors.New("ERR the log is streamed on this connection already")
	}
	log := store.Replication()
	mine := log.Lineage()
	at, perr := strconv.ParseUint(offset, 10, 64)
	if p.pin != nil && replID == "?" && perr == nil { // behind FULLRESYNC
		if p.store != store {
			return nil, false, errors.New("ERR the snapshot that was announced is no more: send PSYNC on a new connection")
		}
		return p.proceed(log, &mine, at)
	}
	p.follow() // what an answer before was about
	p.store = store
	if replID != "?" && perr == nil {
		end := log.Written()
		common, ok := mine.Common(end, &p.lineage, at)
		switch first := log.First(); {
		case !ok:
			if at == 0 && first == 0 && len(log.Manifests()) == 0 {
				return p.proceed(log, &mine, 0)
			}
		case common < at && mine.Replica && mine.Begins(end, &p.lineage, at):
			// What comes here from this node's own primary may be just what the other has. A primary is never behind: its
			// term is one of its own.
			return nil, false, &notYetError{end}
		case common < at:
			return nil, false, &divergedError{common}
		case common >= first:
			p.pin = log.PinLog(at)
			if err = p.probe(log, at); err == nil {
				reply, stream, err = p.proceed(log, &mine, at)
			}
			if err == nil {
				p.peers.PartialOK.Add(1)
				return reply, stream, nil
			}
			p.pin.Release()
			p.pin = nil
			if !errors.Is(err, persist.ErrGone) && !errors.Is(err, persist.ErrCorrupt) {
				return nil, false, err
			}
		}
		p.peers.PartialErr.Add(1)
	}
	if p.pin, err = log.PinSnapshot(); err != nil {
		return nil, false, err
	}
	m := p.pin.Manifest
	if m == nil {
		if first := log.First(); first != 0 {
			return nil, false, fmt.Errorf("ERR there is no snapshot and the log begins at %d: send BGSAVE to this node", first)
		}
		m = &persist.Manifest{Generation: 1, History: mine.Current()}
	}
	p.peers.Full.Add(1)
	p.copying.Store(true)
	p.Heard()
	text, past := m.Text(), mine.AppendText(nil)
	reply = fmt.Appendf(nil, "+FULLRESYNC %s %d %d %d\r\n", mine.Current().ReplID, m.Replay, len(text), len(past))
	reply = append(append(reply, text...), "\r\n"...)
	reply = append(append(reply, past...), "\r\n"...)
	p.peers.add(p)
	return reply, false, nil
}

// probe reads the first frame that a replica would get. Where old log is damaged the replica takes a full copy: it would
// come to the same place again and again.
func (p *Peer) probe(log *counter.Replication, at uint64) error {
	r, err := log.NewReader(at)
	if err != nil {
		return err
	}
	_, err = r.TryNext()
	if errors.Is(err, persist.ErrCorrupt) {
		p.peers.logger.Error("the log that a replica needs is damaged: it is given a full copy", "replica", p.address(), "error", err)
	}
	return errors.Join(err, r.Close())
}

// proceed opens the log at an offset and answers CONTINUE.
func (p *Peer) proceed(log *counter.Replication, mine *persist.Lineage, at uint64) (reply []byte, stream bool, err error) {
	if p.reader, err = log.NewFollower(at); err != nil {
		return nil, false, err
	}
	p.sent.Store(p.reader.Pos())
	p.copying.Store(false)
	p.told = mine.AppendText(nil)
	reply = fmt.Appendf(nil, "+CONTINUE %s %d %d\r\n", mine.Current().ReplID, p.reader.Pos(), len(p.told))
	return append(append(reply, p.told...), "\r\n"...), true, nil
}

// lostReply begins the error that answers a fetch of a cold file that this node does not have any more.
const lostReply = "LOST "

// Fetch opens a file of the snapshot that FULLRESYNC announced. An image is verified before: memory still has what a
// damaged one had, so it is written anew. A cold file is given as it is, and one that is missing or cannot be opened is
// LOST: it must not keep replicas from all else.
func (p *Peer) Fetch(tier, name string) (file *os.File, size int64, err error) {
	if p.fed() || p.pin == nil {
		return nil, 0, errors.New("ERR no snapshot was announced: send PSYNC before")
	}
	path, ok := p.pin.Path(persist.Tier(tier), name)
	if !ok {
		return nil, 0, fmt.Errorf("ERR the snapshot has no file %.100q", name)
	}
	cold := persist.Tier(tier) == persist.TierCold
	want, err := p.verified(persist.Tier(tier), name)
	if err != nil {
		_ = p.pin.VerifyImages() // it may not be the only one
		return nil, 0, fmt.Errorf("ERR an image is damaged and is written anew, ask for the next snapshot: %w", err)
	}
	if file, err = os.Open(path); err != nil {
		if cold && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EIO)) {
			return nil, 0, fmt.Errorf(lostReply+"%w", err)
		}
		return nil, 0, fmt.Errorf("ERR %w", err)
	}
	info, err := file.Stat()
	if err == nil && cold && uint64(info.Size()) != want {
		err = fmt.Errorf(lostReply+"%s has %d bytes, want %d", path, info.Size(), want)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// verified checks an image of the announced snapshot, and returns the size of a file.
func (p *Peer) verified(tier persist.Tier, name string) (size uint64, err error) {
	if p.pin.Manifest == nil {
		return 0, nil
	}
	err = p.pin.Manifest.Files(func(c *persist.CounterFiles, b *persist.BlockFile) error {
		if b.Tier != tier || b.Name != name {
			return nil
		}
		if size = b.Bytes; tier == persist.TierCold {
			return nil
		}
		return persist.CheckBlock(vfs.OS(), p.store.Path(), c, b, nil)
	})
	return size, err
}

// Feed starts to stream, behind the bytes that were sent last. Whoever reads the connection goes on to do so for
// acknowledgements.
func (p *Peer) Feed() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	p.online.Store(true)
	p.acked.Store(time.Now().UnixNano())
	p.peers.add(p)
	p.peers.online.Add(1)
	p.peers.replace(p)
	p.peers.quorum.joined(p)
	if p.nodeID != "" && p.peers.quorum.leads() != p.epoch { // as below
		p.conn.Close()
	}
	if now := p.store.Replication().Lineage(); !bytes.Equal(now.AppendText(nil), p.told) {
		p.conn.Close() // it changed before DisconnectAll could see this peer: the replica must learn of it
	}
	go p.feed(ctx)
}

const (
	// pingEvery is how often a replica hears of the primary, whatever happens.
	pingEvery = time.Second
	// sendBuffer is what is collected for one write, unless the log has no more.
	sendBuffer = 64 << 10
	// confirmEvery is how soon a replica hears how far the log is confirmed, while it is not told by what is sent anyway.
	confirmEvery = 100 * time.Millisecond
)

// feed sends frames as they are written, until the connection or the log ends.
func (p *Peer) feed(ctx context.Context) {
	defer close(p.done)
	defer p.conn.Close()
	defer p.peers.online.Add(-1)
	out := make([]byte, 0, sendBuffer)
	send := func() error {
		if len(out) == 0 {
			return nil
		}
		_ = p.conn.SetWriteDeadline(time.Now().Add(p.peers.timeout()))
		_, err := p.conn.Write(out)
		if cap(out) > 4*sendBuffer {
			out = make([]byte, 0, sendBuffer)
		}
		out = out[:0]
		p.sent.Store(p.reader.Pos())
		return err
	}
	told, tells := uint64(0), p.nodeID != "" && p.takesConfirm && p.peers.node != nil
	confirm := func() {
		if now := confirmedBy(p.store.Replication()); tells && now > told {
			out, told = appendConfirmed(out, now), now
		}
	}
	nextPing := time.Now()
	for ctx.Err() == nil {
		out = p.published.take(out, p.reader.Pos())
		f, err := p.reader.TryNext()
		if err == nil && f != nil {
			out = append(append(out, msgFrame), f.Raw...)
			if len(out) >= sendBuffer {
				confirm()
				if err := send(); err != nil {
					return
				}
			}
			continue
		}
		if err != nil {
			p.peers.logger.Warn("a replica cannot be fed any more", "replica", p.address(), "error", err)
			return
		}
		p.follow()
		if p.wantAck.Swap(false) {
			out = append(out, msgGetAck)
		}
		now := time.Now()
		if !now.Before(nextPing) {
			out = appendPing(out, p.store.Replication().Written())
			nextPing = now.Add(pingEvery)
			if tells {
				p.peers.node.noteConfirmed()
			}
		}
		confirm()
		if send() != nil {
			return
		}
		next := nextPing
		if tells && told < p.reader.Pos() && now.Add(confirmEvery).Before(next) {
			next = now.Add(confirmEvery)
		}
		wait, cancel := context.WithDeadline(ctx, next)
		p.kick.Store(&cancel)
		if !p.wantAck.Load() && !p.published.due(p.reader.Pos()) {
			f, err = p.reader.Next(wait)
		}
		cancel()
		switch {
		case f != nil:
			out = append(append(out, msgFrame), f.Raw...)
		case err != nil && wait.Err() == nil:
			return // the log was closed
		}
	}
}

// follow lets the log that was sent go.
func (p *Peer) follow() {
	if p.pin != nil {
		p.pin.Release()
		p.pin = nil
	}
}

// getAck asks for an acknowledgement.
func (p *Peer) getAck() {
	p.wantAck.Store(true)
	p.wake()
}

// wake has the feeder look what there is to send beside the log.
func (p *Peer) wake() {
	if cancel := p.kick.Load(); cancel != nil {
		(*cancel)()
	}
}

// Ack notes what the replica says it has.
func (p *Peer) Ack(applied, durable uint64) {
	p.applied.Store(applied)
	p.durable.Store(durable)
	p.acked.Store(time.Now().UnixNano())
	if p.online.Load() { // not in the middle of a full copy
		p.peers.quorum.ack(p, applied, durable)
	}
	p.peers.changed()
}

// Heard notes a sign of life: bytes of a file were taken.
func (p *Peer) Heard() { p.acked.Store(time.Now().UnixNano()) }

// Lost tells whether a replica in the middle of a full copy was not heard of for the time of a silent link. The
// snapshot and all log behind it are kept for as long as it is connected, so one that hangs would fill this node's
// disk.
func (p *Peer) Lost() bool {
	return p.copying.Load() && time.Since(time.Unix(0, p.acked.Load())) > p.peers.timeout()
}

// address is for logs.
func (p *Peer) address() string {
	i := p.Info()
	return net.JoinHostPort(i.IP, strconv.Itoa(i.Port))
}

// Info describes the replica.
func (p *Peer) Info() PeerInfo {
	ip := p.ip
	if ip == "" {
		ip, _, _ = net.SplitHostPort(p.conn.RemoteAddr().String())
	}
	return PeerInfo{IP: ip, Port: p.port, Online: p.online.Load(), Watching: p.watching.Load(), Applied: p.applied.Load(), Durable: p.durable.Load(), Sent: p.sent.Load(),
		Lag: time.Since(time.Unix(0, p.acked.Load()))}
}

// Close ends the feeder and forgets the peer. The connection is closed by whoever opened it, or by now.
func (p *Peer) Close() {
	p.peers.remove(p)
	p.peers.quorum.left(p)
	if p.cancel != nil {
		p.cancel()
		p.conn.Close()
		<-p.done
	}
	if p.reader != nil {
		_ = p.reader.Close()
	}
	p.follow()
}

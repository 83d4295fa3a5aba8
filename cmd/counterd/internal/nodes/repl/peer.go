package repl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
)

// Peer is a replica as the node that feeds it sees it: one connection. Its exported methods but Ack, Info and Close are
// for the goroutine that reads the connection.
type Peer struct {
	peers *Peers
	conn  net.Conn

	// Of REPLCONF, before PSYNC.
	port     int
	ip       string
	heals    string // the term whose primary this is, with a damaged directory: see Restores; empty: it is not
	process  string // of the replica: its Node.process; empty: it did not say
	counterd bool
	// It takes messages of PUBLISH: a replica of an older build does not know them and would drop the link.
	takesMessages bool
	takesShard    bool // and those of SPUBLISH
	takesConfirm  bool // and those of how far the log is confirmed
	takesCompare  bool // and those of comparing
	snapshotOnly  bool // of redis-cli --rdb
	takesCursors  bool // behind a full copy it takes log from the oldest cursor on
	takesEnd      bool // of redis-cli too: a file sent to it may end with a mark, in place of a length before it
	lineage       format.Lineage
	nodeID        string // of a cluster's node, which means the node of id to, in an epoch; else empty
	to            string
	epoch         uint64
	refused       bool // for its epoch

	// The feeder's once there is one (fed), before the goroutine's that reads the connection.
	pin    *counter.Pin    // the snapshot or log that is being sent
	reader *persist.Reader // of the stream
	store  *counter.Store  // that the answer to PSYNC was about
	told   []byte          // lineage, as the replica was told

	comparing bool // it counts in Peers.comparer

	cancel context.CancelFunc
	done   chan struct{} // closed when the feeder has ended; nil: it was not started

	online           atomic.Bool
	watching         atomic.Bool
	copying          atomic.Bool // between FULLRESYNC and the stream
	applied, durable atomic.Uint64
	sent             atomic.Uint64
	acked            atomic.Int64 // a monotonic.Moment
	wantAck          atomic.Bool
	published        published
	asked            atomic.Uint64      // id of the question that waits for an answer
	answers          chan compareAnswer // to it; of 1
	gone             chan struct{}      // closed by Close, of a replica that compares
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
	case "capa": // of Redis, where what counts is the version; and of additions to the stream
		p.takesMessages = p.takesMessages || string(value) == capaPublish
		p.takesShard = p.takesShard || string(value) == capaShard
		p.takesConfirm = p.takesConfirm || string(value) == capaConfirm
		p.takesCompare = p.takesCompare || string(value) == capaCompare
		p.takesCursors = p.takesCursors || string(value) == capaCursors
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
	case "heal":
		if _, err := format.ParseReplID(string(value)); err != nil {
			return err
		}
		p.heals = string(value)
	case "hurry": // the replica asks whether it may send this behind PSYNC: see Hurry
	case "version":
		p.counterd = string(value) == "counterd"
	case "history":
		l, err := format.ParseLineage("history", value)
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

// Refusal is the reason why a replica is not served; empty: it is served. A client that wants only an archive is no replica.
func (p *Peer) Refusal() string {
	if !p.counterd && (!p.snapshotOnly || p.port != 0) {
		return "ERR this is counterd: a Redis server cannot replicate from it, because its replication stream has another format. " +
			"Use counterd as replica, or redis-cli --scan and counterctl dump to copy data"
	}
	if p.refused {
		return "ERR this node does not lead in the epoch of this link"
	}
	return ""
}

// Ack notes what the replica says it has.
func (p *Peer) Ack(applied, durable uint64) {
	p.applied.Store(applied)
	p.durable.Store(durable)
	p.acked.Store(int64(monotonic.Now()))
	if p.online.Load() { // not in the middle of a full copy
		p.peers.quorum.ack(p, applied, durable)
	}
	p.peers.changed()
}

// Heard notes a sign of life: bytes of a file were taken.
func (p *Peer) Heard() { p.acked.Store(int64(monotonic.Now())) }

// Lost tells whether a replica in the middle of a full copy was not heard of for the time of a silent link. The snapshot and
// all log after it are kept as long as the replica is connected, so a hanging replica would fill this node's disk.
func (p *Peer) Lost() bool {
	return p.copying.Load() && monotonic.Moment(p.acked.Load()).Age() > p.peers.timeout()
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
		Lag: monotonic.Moment(p.acked.Load()).Age()}
}

// Close ends the feeder and forgets the peer. The connection is closed by its opener, or is closed already.
func (p *Peer) Close() {
	p.peers.remove(p)
	p.peers.quorum.left(p)
	if p.comparing {
		p.comparing = false
		close(p.gone)
		p.peers.comparer.left()
	}
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

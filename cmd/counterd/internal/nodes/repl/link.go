package repl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
)

// Link is a replica's connection to its primary: it connects, agrees on an offset, and applies the stream, again and
// again until it is stopped.
type Link struct {
	node    *Node
	primary Address
	id      string // of the node at primary; empty: its role is no cluster's
	epoch   uint64 // that it leads in
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
	up      chan struct{} // closed when the primary goes on from this node's log for the first time

	// kin: a full copy is not taken of a node whose history has nothing of this one's. Until up is closed.
	kin atomic.Bool

	// The run goroutine's.
	begun   bool          // the node is a replica and has noted whose: nothing is taken before
	full    bool          // ask for a full copy
	whole   bool          // the log was cut, and lacked nothing before
	mending bool          // for posts that cannot be read here (mend.go)
	mends   int           // how often that was done
	fetched fetched       // of a snapshot
	lost    int           // cold files of the last copy that the primary could not read
	breaks  int           // copies with log for cursors of the feed that broke off in a row
	saved   ownData       // the archive that saveOwn made
	cramped string        // the last complaint about a disk without room for the copy
	doubts  bool          // the primary is to read its cold files before they come: see makeRoom
	rest    time.Duration // before the next connection, as the store was closed and opened again for nothing; 0: it was not

	mu        sync.Mutex // guards the rest
	state     LinkState
	downSince time.Time
	copied    int64 // bytes of the snapshot that have come, while copying
	total     int64
	lastErr   string
	refused   bool   // the last attempt to connect was refused: nobody listens there
	lacks     uint64 // the epoch of the last attempt's ConfirmedError; 0: it had none

	wantMend atomic.Bool // posts that cannot be read here could not be fetched range by range
	stalled  atomic.Bool // this node's log takes no changes: nothing is read, nothing acknowledged

	lastIO atomic.Int64  // a monotonic.Moment
	end    atomic.Uint64 // of the primary's log, as it last said
}

// ownData names the data of a node that takes no changes.
type ownData struct {
	history format.ReplID
	offset  uint64
}

// LinkState is how far a link is, in the words of ROLE.
type LinkState string

// States of a link.
const (
	LinkConnect    LinkState = "connect"    // waiting to connect
	LinkConnecting LinkState = "connecting" // in the handshake
	LinkSync       LinkState = "sync"       // copying a snapshot
	LinkConnected  LinkState = "connected"
)

const (
	firstRetry  = 50 * time.Millisecond
	maxRetry    = time.Second
	firstRest   = time.Second
	maxRest     = time.Minute
	dialTimeout = 5 * time.Second
	ackEvery    = 100 * time.Millisecond
	copyAlive   = time.Second // between two signs of life while a snapshot is copied
)

func newLink(n *Node, primary Address, begun, kin bool, id string, epoch uint64) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Link{node: n, primary: primary, id: id, epoch: epoch, ctx: ctx, cancel: cancel, done: make(chan struct{}), up: make(chan struct{}), begun: begun,
		state: LinkConnect, downSince: time.Now()}
	l.kin.Store(kin)
	go l.run()
	return l
}

func (l *Link) stop() {
	l.cancel()
	<-l.done
}

func (l *Link) set(s LinkState) {
	l.mu.Lock()
	if s == LinkConnected {
		l.downSince, l.lastErr, l.refused, l.lacks = time.Time{}, "", false, 0
	} else if l.state == LinkConnected {
		l.downSince = time.Now()
	}
	changed := l.state != s
	l.state = s
	l.mu.Unlock()
	if changed {
		l.node.host.RoleChanged()
	}
}

// run connects until it is stopped.
func (l *Link) run() {
	defer close(l.done)
	defer func() { l.fetched.discard(l.node.fs, l.node.host.Store().Path()) }()
	retry := firstRetry
	for l.ctx.Err() == nil {
		err := l.begin()
		if err == nil {
			err = l.once()
		}
		l.mu.Lock()
		wasUp := l.state == LinkConnected
		l.mu.Unlock()
		l.set(LinkConnect)
		if l.ctx.Err() != nil {
			return
		}
		if err != nil {
			l.mu.Lock()
			known := l.lastErr == err.Error()
			l.lastErr = err.Error()
			was := l.refused
			l.refused = errors.Is(err, syscall.ECONNREFUSED)
			news := l.refused && !was
			if lacking := new(ConfirmedError); errors.As(err, &lacking) {
				news, l.lacks = news || l.lacks == 0, lacking.Epoch
			}
			l.mu.Unlock()
			if news {
				l.node.host.RoleChanged()
			}
			if !known { // the same again is no news
				l.node.logger.Warn("replication link to the primary is down", "primary", l.primary.String(), "error", err)
			}
		}
		if wasUp {
			retry = firstRetry
		}
		select {
		case <-l.ctx.Done():
		case <-time.After(max(retry, l.rest)):
		}
		retry = min(2*retry, maxRetry)
	}
}

// begin makes the node a replica that has noted whose it is, if that is not done yet.
func (l *Link) begin() error {
	if l.begun {
		return nil
	}
	if err := l.node.remember(l.primary); err != nil {
		return fmt.Errorf("it cannot be noted whom this node follows: %w", err)
	}
	if err := l.node.host.Store().Replication().Yield(); err != nil {
		return err
	}
	l.node.peers.DisconnectAll()
	l.begun = true
	return nil
}

// hello says which additions to the stream this node takes.
func (l *Link) hello() []string {
	words := []string{"REPLCONF", "version", "counterd", "capa", "counterd1", "capa", capaPublish, "capa", capaShard, "capa", capaConfirm, "capa", capaCompare}
	if l.breaks < mostBreaks {
		words = append(words, "capa", capaCursors)
	}
	return words
}

// linkBuffer is how many bytes are read from the primary at a time.
const linkBuffer = 256 << 10

// once is one connection, from its beginning to its end.
func (l *Link) once() error {
	l.set(LinkConnecting)
	c := l.node.settings()
	conn, err := c.dial(l.ctx, l.primary, wire.Options{Timeout: dialTimeout, Answer: c.Timeout, Buffer: linkBuffer})
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &session{Link: l, conn: conn}
	if err = s.run(); err != nil && l.mending {
		l.mended(err)
	}
	return err
}

// agreed notes that the primary is one whose log goes on from this node's.
func (l *Link) agreed() {
	l.kin.Store(false)
	select {
	case <-l.up:
	default:
		close(l.up)
	}
}

// readyEvery is how often a log that takes no changes is asked whether it does again. It tries its disk each 50 ms to
// 2 s.
const readyEvery = 50 * time.Millisecond

// ready returns when the log takes changes. Nothing is read from the primary meanwhile, which keeps its log on its disk: so
// a disk here that fails or is full costs no memory, here or there. When the primary gives the connection up, another goes
// on from where this one was.
func (s *session) ready(store *counter.Store) error {
	err := store.Ready()
	if err == nil {
		return nil
	}
	s.stalled.Store(true)
	defer s.stalled.Store(false)
	began := time.Now()
	text := "nothing is taken from the primary until this node's log takes changes: " + err.Error()
	s.mu.Lock()
	s.lastErr = text
	s.mu.Unlock()
	s.node.logger.Error("replication paused: the log does not accept changes", "primary", s.primary.String(), "error", err)
	for ; err != nil; err = store.Ready() {
		if errors.Is(err, format.ErrClosed) {
			return err
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-time.After(readyEvery):
		}
	}
	s.mu.Lock()
	s.lastErr = ""
	s.mu.Unlock()
	s.node.logger.Info("replication continues", "primary", s.primary.String(), "stood_still", time.Since(began).Round(time.Millisecond))
	return nil
}

package repl

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

type logger = *slog.Logger

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Address is where a primary listens; the zero value is none.
type Address struct {
	Host string
	Port int
}

func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// ParseAddress is the inverse of String.
func ParseAddress(text string) (Address, error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return Address{}, err
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	return Address{Host: host, Port: int(port)}, err
}

// Settings are the settings of replication. They may change at any time.
type Settings struct {
	MasterAuth, MasterUser string
	Port                   int // that this node listens on
	AnnounceIP             string
	AnnouncePort           int
	Timeout                time.Duration // of a silent link
	CompareBudget          time.Duration // processor time a second that comparing posts with other nodes may take; 0: none
	// NodeID is the node's, where its roles are those of a cluster: see epoch.go. Empty: they are not.
	NodeID string
	// TLS is how connections to another node are encrypted; nil, or a nil config: they are not.
	TLS func(host string) (*tls.Config, error)
	// Connect makes connections to other nodes; nil: the system does.
	Connect wire.Connect
	// BootID is counter.Options'.
	BootID string
	// FS has the data directory; nil: the system's. It never changes.
	FS vfs.FS
}

// Host is the server around a node.
type Host interface {
	// Store is the one being served.
	Store() *counter.Store
	// Reopen closes the store, lets change work on its directory, and opens it again whatever change returned, which it
	// returns. Clients are answered LOADING meanwhile.
	Reopen(change func(dir string) error) error
	// RoleChanged tells that role or link changed.
	RoleChanged()
	// Publish gives the subscribers of this node, and of its replicas, a message of the primary; shard: one of SPUBLISH.
	// It does not wait.
	Publish(shard bool, channel string, message []byte)
}

// Node is a server's part in replication: primary or replica, and the replicas it feeds. All methods may be called
// concurrently.
type Node struct {
	host     Host
	settings func() Settings
	logger   *slog.Logger
	fs       vfs.FS
	peers    Peers
	process  string // random: by this a primary knows that two connections are of one replica

	learned   func(epoch uint64) // see OnEpoch
	confirmed confirmed
	told      atomic.Uint64 // the offset of the last C message, of the log that this node has; 0: none came. See Peers.Safe
	careful   atomic.Bool   // a replica acknowledges durable changes only: see Peers.Careful
	hurries   atomic.Bool   // a client waits for that offset to grow: see Peers.Hurry
	compared  compareStats
	healing   Healer
	refills   refiller
	replicas  replicas

	change sync.Mutex // held while the role changes; outermost

	mu      sync.Mutex // guards the rest
	epoch   uint64     // the highest that LeadAt and FollowAt were told
	heard   uint64     // the highest that other nodes spoke of: see hear
	wanted  Address    // zero: a primary, or a replica that was not told whose
	link    *Link      // nil unless wanted is set
	closed  bool
	cuts    int
	lastCut past.CutTail
}

// NewNode makes a node of a host whose store is being served.
func NewNode(host Host, settings func() Settings, log *slog.Logger) *Node {
	n := &Node{host: host, settings: settings, logger: log, fs: settings().FS, process: format.NewReplID().String()}
	if n.fs == nil {
		n.fs = vfs.OS()
	}
	n.peers.logger, n.peers.node = log, n
	n.peers.comparer = comparer{peers: &n.peers, node: n, pass: leastPass, rest: leastRest}
	n.confirmed.logger = log
	n.refills.node, n.healing.node, n.replicas.node = n, n, n
	n.refills.told = map[any]string{}
	n.refills.retry, n.refills.retryLog, n.refills.tries = map[counter.PostRange]time.Time{}, map[uint64]time.Time{}, map[counter.PostRange]int{}
	n.peers.quorum.store, n.peers.quorum.self = host.Store, func() string { return settings().NodeID }
	n.peers.timeout, n.peers.Pause = func() time.Duration { return settings().Timeout }, func() {}
	return n
}

// Process is a random name of this process, which its links tell.
func (n *Node) Process() string { return n.process }

// Peers are the replicas that this node feeds.
func (n *Node) Peers() *Peers { return &n.peers }

// Follow makes the node a replica of a primary. It returns when changes are refused; the link comes up in the
// background.
func (n *Node) Follow(primary Address) error {
	n.change.Lock()
	defer n.change.Unlock()
	if n.settings().NodeID != "" {
		return counter.ErrElected
	}
	if n.Follows(primary) {
		return nil
	}
	before := n.unlink()
	if err := n.remember(primary); err != nil {
		return n.goBack(before, err)
	}
	if err := n.host.Store().Replication().Yield(); err != nil {
		return err // it was a primary, and had no link
	}
	n.peers.DisconnectAll()
	if _, err := n.relink(primary, true, false); err != nil {
		n.logger.Warn("shutting down; the node follows the primary after its next start", "primary", primary.String())
		return nil // it is a replica, of whom is noted
	}
	n.logger.Info("replica", "primary", primary.String())
	n.host.RoleChanged()
	return nil
}

// Pursue is Follow for callers that cannot handle an error, at a start or after a handover: writes that the disk refuses
// are retried until they succeed. Changes are refused from now on, and nothing is taken of the primary before it is
// noted. With kin nothing is taken either of a node whose history has nothing of this one's (ErrForeign in the link's
// error): another may stand at the address by now. up is closed when the primary goes on from this node's log, unless
// the node is told another role before.
func (n *Node) Pursue(primary Address, kin bool) (up <-chan struct{}) {
	n.change.Lock()
	defer n.change.Unlock()
	n.mu.Lock()
	link, same := n.link, n.wanted == primary && n.link != nil
	n.mu.Unlock()
	if same {
		return link.up
	}
	n.unlink()
	link, err := n.relink(primary, false, kin)
	if err != nil { // the node is closed
		return nil
	}
	n.logger.Info("replica", "primary", primary.String())
	n.host.RoleChanged()
	return link.up
}

// Follows tells whether Follow has nothing to do.
func (n *Node) Follows(primary Address) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wanted == primary && n.link != nil && !n.link.kin.Load()
}

// Lead makes the node a primary: a new history begins at the log's end, and the one before is good up to there.
func (n *Node) Lead() error {
	n.change.Lock()
	defer n.change.Unlock()
	if n.settings().NodeID != "" {
		return counter.ErrElected
	}
	if n.Healing() != nil {
		return ErrHealing
	}
	before := n.unlink()
	if n.Healing() != nil { // the link that has just ended opened the store again, and found damage
		return n.goBack(before, ErrHealing)
	}
	store := n.host.Store()
	if store.Replica() {
		began := time.Now()
		at, err := store.Replication().Lead()
		if err != nil {
			return n.goBack(before, err)
		}
		// Not before: a process that ends in between would come back as a replica of nobody.
		if err := n.forget(); err != nil {
			n.logger.Warn("cannot remove the record of the former primary; ignoring it", "error", err)
		}
		n.replicas.renew(store)
		n.peers.DisconnectAll()
		past := store.Replication().Lineage()
		n.logger.Info("primary", "offset", at, "replid", past.Current().ReplID.String(), "took", time.Since(began).Round(time.Millisecond))
	}
	n.host.RoleChanged()
	return nil
}

// unlink ends the link, if there is one, and tells to whom it was.
func (n *Node) unlink() (primary Address) {
	n.mu.Lock()
	link := n.link
	primary = n.wanted
	n.link, n.wanted = nil, Address{}
	n.mu.Unlock()
	if link != nil {
		link.stop()
	}
	return primary
}

// goBack follows the former primary again, as the role could not be changed. The caller may turn to another node.
func (n *Node) goBack(before Address, err error) error {
	if before == (Address{}) {
		return err
	}
	rerr := n.remember(before)
	_, lerr := n.relink(before, rerr == nil && n.host.Store().Replica(), false)
	return errors.Join(err, rerr, lerr)
}

// relink begins a link. begun is set if the node is a replica already and has noted whose; kin as for Pursue.
func (n *Node) relink(primary Address, begun, kin bool) (*Link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, counter.ErrClosed
	}
	n.wanted = primary
	n.link = newLink(n, primary, begun, kin, "", 0)
	return n.link, nil
}

// Close ends the link and all feeders' connections. A link that opens the store, or waits for a disk that hangs, ends
// when it has done so: ctx ends the waiting for it, and its error is returned. A crash may interrupt the link's further
// work.
func (n *Node) Close(ctx context.Context) error {
	n.mu.Lock()
	n.closed = true
	if n.link != nil {
		n.link.cancel()
	}
	n.mu.Unlock()
	n.Doubt(counter.ErrClosed) // no node is left that could confirm a change
	n.peers.DisconnectAll()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.change.Lock()
		defer n.change.Unlock()
		n.noteConfirmed()
		n.unlink()
		n.confirmed.close()
		n.replicas.close()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *Node) noteCut(tail past.CutTail) {
	n.mu.Lock()
	n.cuts++
	n.lastCut = tail
	n.mu.Unlock()
}

// LinkInfo is a replica's link as INFO shows it.
type LinkInfo struct {
	Primary       Address
	State         LinkState
	LastIO        time.Duration // since the primary was last heard of; negative: never
	DownFor       time.Duration // while it is not connected
	End           uint64        // of the primary's log
	Copied, Total int64         // while copying
	Error         string        // why the link is down
	Refused       bool          // the last attempt to connect was refused: no process listens there
	Lacks         uint64        // the epoch in which something was confirmed that the primary lacks (ConfirmedError); 0: nothing is
}

// Link describes the link. ok is false if there is none: a primary, or a replica that was not told whose.
func (n *Node) Link() (info LinkInfo, ok bool) {
	n.mu.Lock()
	l := n.link
	n.mu.Unlock()
	if l == nil {
		return info, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	info = LinkInfo{Primary: l.primary, State: l.state, LastIO: -1, End: l.end.Load(), Copied: l.copied, Total: l.total, Error: l.lastErr, Refused: l.refused, Lacks: l.lacks}
	if at := l.lastIO.Load(); at != 0 {
		info.LastIO = monotonic.Moment(at).Age()
	}
	if l.state != LinkConnected {
		info.DownFor = time.Since(l.downSince)
	}
	return info, true
}

// Cuts is how often this node took changes back that its primary had not, and the last time.
func (n *Node) Cuts() (times int, last past.CutTail) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts, n.lastCut
}

// CutFiles is how many files in the data directory hold changes that were taken back: they stay until somebody has
// looked at them.
func (n *Node) CutFiles() int {
	names, err := n.fs.List(n.host.Store().Path())
	if !n.host.Store().Durable() || err != nil {
		return 0
	}
	files := 0
	for _, name := range names {
		if format.IsDiverged(name) {
			files++
		}
	}
	return files
}

// Connected tells whether the node may feed replicas: a primary, or a replica whose log is the primary's.
func (n *Node) Connected() error {
	if n.Healing() != nil {
		return ErrFeedsNobody
	}
	if !n.host.Store().Replica() {
		return nil
	}
	if info, ok := n.Link(); !ok || info.State != LinkConnected {
		return errors.New("NOMASTERLINK Can't SYNC while not connected with my master")
	}
	return nil
}

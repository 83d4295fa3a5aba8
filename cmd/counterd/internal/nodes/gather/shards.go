package gather

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/wire"
)

// Formats of links. The node that connects asks for PackedFormat. A node of an older version refuses that, and is asked for PlainFormat: it
// gets pages as text.
const (
	PlainFormat  = 1 // RESP
	PackedFormat = 2 // RESP with pages of packed ids and rows: see package resp
)

// Settings are those of links.
type Settings struct {
	User, Password string                                 // of the other nodes, empty: they ask for none
	TLS            func(host string) (*tls.Config, error) // nil, or what it returns is: not encrypted
	Connect        wire.Connect                           // makes connections; nil: the system does
	// Watch has the n-th event loop of the server read a connection, which is the trunk's then: the loop hands arriving bytes to arrived,
	// and keeps the bytes that arrived does not use. Without an error it may return nil: a goroutine is to read. nil: there are no loops.
	Watch func(n int, conn net.Conn, arrived func(b []byte) (used int, err error)) (Trunk, error)
	// Timeout is that of the cluster's nodes: a shard is without a primary for about so long when one is gone.
	Timeout time.Duration
}

// ReadWithin is how long a read waits for its shard, and ChangeWithin a change: it outlasts a failover, and waits for its
// outcome.
func (s Settings) ReadWithin() time.Duration   { return s.Timeout / 2 }
func (s Settings) ChangeWithin() time.Duration { return 2 * s.Timeout }

const (
	// dialTimeout is how long a node has to take a connection and to answer its first command.
	dialTimeout = 2 * time.Second
	// leastBackoff and mostBackoff are the time between two tries to connect.
	leastBackoff = 5 * time.Millisecond
	mostBackoff  = 500 * time.Millisecond
	// failedFor is for how long a failure says something of a shard. While links try, one fails at least each dialTimeout and mostBackoff.
	failedFor = 2 * (dialTimeout + mostBackoff)
	// idleAfter is when a link without anything to do is closed.
	idleAfter = 5 * time.Minute
	// tick is how often deadlines are looked at.
	tick = 50 * time.Millisecond
)

// Shards is the other shards of the cluster, and the links to them. All methods may be called by several goroutines at
// once.
type Shards struct {
	settings func() Settings
	log      *slog.Logger
	process  string        // random, of this process: lanes have it in their names
	further  atomic.Uint64 // lanes of links, but for the first of each
	view     atomic.Pointer[View]
	ctx      context.Context
	end      context.CancelFunc
	done     sync.WaitGroup

	mu      sync.Mutex // guards the rest; taken before the links' locks
	all     map[topology.ShardID]*Shard
	changed chan struct{} // closed with the next view
}

// View is which shard owns what, as far as this node knows. It is immutable.
type View struct {
	Map   *topology.Map // nil: nothing is known yet
	Self  topology.NodeID
	Local *Shard   // whose primary this node is; nil: it is none
	All   []*Shard // that own something, by id
	owner [slot.Groups]*Shard
	place [slot.Groups]uint16 // by group: the number of its owner in All, from 1 on; 0: nobody owns it
	alone bool                // Local owns all groups
}

// Alone tells whether this node is the primary of the only shard that owns groups, and of all of them: nothing is elsewhere.
func (v *View) Alone() bool { return v.alone }

// Owner is the shard that a post is of; nil: nobody owns it.
func (v *View) Owner(mid uint64) *Shard { return v.owner[slot.Group(mid)] }

// OfGroup is the shard that a group is of; nil: nobody owns it.
func (v *View) OfGroup(group uint8) *Shard { return v.owner[group] }

// Place is the number of OfGroup in All, from 1 on; 0: nobody owns the group.
func (v *View) Place(group uint8) uint16 { return v.place[group] }

// Groups are those that a shard owns in this view: no two shards of one view own the same.
func (v *View) Groups(s *Shard) slot.Set {
	if t := v.Map.Shard(s.ID); t != nil {
		return t.Groups
	}
	return slot.Set{}
}

// Whole tells whether all groups are owned, so that an answer for all can be given.
func (v *View) Whole() bool {
	for _, s := range v.owner {
		if s == nil {
			return false
		}
	}
	return true
}

// New makes the links of a node. Nothing is known until Follow.
func New(settings func() Settings, log *slog.Logger) *Shards {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	s := &Shards{settings: settings, log: log, process: hex.EncodeToString(id[:]), all: make(map[topology.ShardID]*Shard), changed: make(chan struct{})}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.view.Store(new(View))
	s.done.Add(1)
	go s.janitor()
	return s
}

// Settings are those in force.
func (s *Shards) Settings() Settings { return s.settings() }

// View is the newest.
func (s *Shards) View() *View { return s.view.Load() }

// Self is this node.
func (s *Shards) Self() topology.NodeID { return s.view.Load().Self }

// Changed is closed when there is a newer view than the newest one.
func (s *Shards) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Follow takes over how the cluster is now.
func (s *Shards) Follow(m *topology.Map, self topology.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &View{Map: m, Self: self}
	for _, t := range m.Shards {
		of := s.all[t.ID]
		if of == nil {
			of = s.newShard(t.ID)
			s.all[t.ID] = of
		}
		of.follow(m, t)
		if t.Primary == self {
			v.Local = of
		}
		if t.Groups.Empty() {
			continue
		}
		v.All = append(v.All, of)
		for g := range slot.Groups {
			if t.Groups.Has(uint8(g)) {
				v.owner[g], v.place[g] = of, uint16(len(v.All))
			}
		}
	}
	for id, of := range s.all {
		if m.Shard(id) == nil { // removed: no link goes on trying to reach it
			of.follow(m, &topology.Shard{ID: id})
		}
	}
	v.alone = v.Local != nil && len(v.All) == 1 && v.All[0] == v.Local && v.Whole()
	s.view.Store(v)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Close ends all links. What was asked and not answered is answered by errors.
func (s *Shards) Close() {
	s.Hurry()
	s.done.Wait()
}

// Hurry is Close that does not wait.
func (s *Shards) Hurry() {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.all {
		for _, l := range of.links {
			l.close()
		}
	}
}

// janitor looks at deadlines.
func (s *Shards) janitor() {
	defer s.done.Done()
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			s.mu.Lock()
			for _, of := range s.all {
				for _, l := range of.links {
					l.expire(now)
				}
			}
			s.mu.Unlock()
		case <-s.ctx.Done():
			return
		}
	}
}

// Shard is one of the cluster's, as seen from a node.
type Shard struct {
	ID topology.ShardID

	of      *Shards
	links   []*link // the last slowEach are for what may take long
	started sync.Once
	state   atomic.Pointer[shardState]
	down    atomic.Int64 // since when no link worked, a monotonic.Moment; 0: one does, or nobody tried
	last    atomic.Int64 // when a link failed last, a monotonic.Moment
	why     atomic.Pointer[error]
}

// shardState is what the map says of it.
type shardState struct {
	primary topology.NodeID
	address string // of the primary, as nodes reach it; empty: none is known
	shown   string // the same for clients
}

// same tells whether the primary, and its address, are those of another state.
func (s *shardState) same(other *shardState) bool {
	return s.primary == other.primary && s.address == other.address
}

func (s *Shards) newShard(id topology.ShardID) *Shard {
	of := &Shard{ID: id, of: s}
	for i := range linksEach + slowEach {
		loop := i
		if i >= linksEach {
			loop = -1 // its replies may be long
		}
		of.links = append(of.links, newLink(of, fmt.Sprintf("link:%s:%d:%d", s.process, id, i), loop))
	}
	of.state.Store(new(shardState))
	return of
}

// linksEach is how many links there are to a shard: as many as processors can read, few enough for 1,000 nodes that
// each talk to all others.
var linksEach = min(4, runtime.GOMAXPROCS(0))

// slowEach is how many links more there are for what may take long: two queries beside each other.
const slowEach = 2

// follow takes over what a map says. REQUIRES Shards.mu.
func (s *Shard) follow(m *topology.Map, t *topology.Shard) {
	next := &shardState{primary: t.Primary}
	if n := m.Nodes[t.Primary]; n != nil {
		next.shown = fmt.Sprintf("%s:%d", n.Host, n.Port)
	}
	if live := m.Live[t.Primary]; live != nil {
		next.address = live.Address
	}
	old := s.state.Swap(next)
	if old.same(next) && (next.address != "" || s.down.Load() != 0) { // a shard that was never led has no address from the beginning
		return
	}
	if s.down.Store(0); next.address == "" { // no link tries
		s.down.Store(int64(monotonic.Now()))
	}
	for _, l := range s.links {
		l.cut()
	}
}

// start has the links run from the first use on.
func (s *Shard) start() {
	s.started.Do(func() {
		s.of.done.Add(len(s.links))
		for _, l := range s.links {
			go l.run(s.of.ctx)
		}
	})
}

// Errors of links.
var (
	errClosed     = errors.New("the server ends")
	errReplaced   = errors.New("its connection was replaced")
	errNoPrimary  = errors.New("no primary of it is known")
	errNoAnswer   = errors.New("it does not answer")
	errUnfinished = errors.New("its connection ended")
)

// RefusedError: a node did not take a connection as a link.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return "it refused: " + e.Text }

// failed notes that no link works.
func (s *Shard) failed(why error) {
	now := int64(monotonic.Now())
	if old := s.last.Swap(now); time.Duration(now-old) > failedFor {
		s.down.Store(now) // nobody has tried meanwhile
	} else {
		s.down.CompareAndSwap(0, now)
	}
	s.why.Store(&why)
}

// works notes that one does.
func (s *Shard) works() { s.down.Store(0) }

// hopeless tells why nothing is to be asked of the shard now, as it has not answered for so long that who asks does not
// want to wait; nil: it may be asked.
func (s *Shard) hopeless(now time.Time) error {
	set := s.of.settings()
	at, since := int64(monotonic.Of(now)), s.down.Load()
	if since == 0 || time.Duration(at-since) <= set.ReadWithin() || s.state.Load().address != "" && time.Duration(at-s.last.Load()) > failedFor {
		return nil
	}
	return s.overdue()
}

// overdue is why it has not answered.
func (s *Shard) overdue() error {
	if s.state.Load().address == "" {
		return errNoPrimary
	}
	if why := s.why.Load(); s.down.Load() != 0 && why != nil {
		return *why
	}
	return errNoAnswer
}

// String names it in errors.
func (s *Shard) String() string {
	if shown := s.state.Load().shown; shown != "" {
		return fmt.Sprintf("shard %d (%s)", s.ID, shown)
	}
	return fmt.Sprintf("shard %d", s.ID)
}

// run connects where there is something to do, and reads, until the end.
func (l *link) run(ctx context.Context) {
	defer l.shard.of.done.Done()
	pause := time.Duration(0)
	for ctx.Err() == nil {
		to := l.shard.state.Load()
		if !l.busy() || to.address == "" {
			select {
			case <-l.wake:
			case <-l.moved:
			case <-ctx.Done():
			}
			continue
		}
		c, err := l.shard.of.dial(ctx, to.address, dialTimeout)
		if err == nil {
			err = l.watch(c)
		}
		if err == nil {
			if !l.connected(c, to) {
				c.close()
				continue
			}
			l.shard.works()
			pause = 0
			l.flush()
			err = l.read(c)
			c.close()
			l.lost(c, errUnfinished)
			if l.wasIdle() || !l.busy() { // nothing waits for the shard, whose primary may have changed or started again
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		l.tried()
		l.shard.of.log.Debug("link lost", "shard", l.shard.ID, "address", to.address, "error", err)
		l.shard.failed(err)
		pause = min(max(2*pause, leastBackoff), mostBackoff)
		select {
		case <-time.After(pause):
		case <-l.moved:
			pause = 0
		case <-ctx.Done():
		}
	}
}

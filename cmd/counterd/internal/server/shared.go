package server

import (
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/admin"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/aging"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/brake"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/tlsconf"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/hotlist"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/popular"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/slowlog"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/tracking"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/watch"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/version"
	"github.com/counterd/counterd/schema"
)

type (
	// row is one row of the command table. Commands that are not planned see the connection by what it is to its session,
	// which is always a client: see onClient. So what a row is does not depend on the client, whose parts have rows.
	row = command.Row[front.Handler]
	// commands is the command table of one server.
	commands = command.Table[front.Handler]
)

// shared is the state that all connections of a server share. A connection sees the server through it, and cannot reach
// how the server is assembled, started and ended.
type shared struct {
	front    *front.Front
	current  atomic.Pointer[counter.Store]
	progress loadProgress
	config   *config.Live
	log      *slog.Logger
	commands *commands
	users    *acl.Users
	denials  acl.Log
	guesses  *brake.Guesses // of passwords, by RESP and HTTP
	stats    stats.Totals
	slow     slowlog.Log
	sampler  stats.Sampler
	watches  watch.Table
	tracking tracking.Table
	monitors monitors
	popular  *popular.Posts
	pubsub   pubsub.Registry
	hotlists hotlist.Teller
	aging    *aging.Keeper
	windows  *aging.Windows
	role     *role.Role
	cluster  *serving.Member // nil: the server is not a node of a cluster
	shards   *gather.Shards  // the other shards; nil: the same

	tls           *tlsconf.Material
	runID         string // 40 hex digits, as Redis has it
	started       time.Time
	startupMemory int64 // bytes used when the server was made
	unsaved       unsaved

	admin   admin.Server                        // for the commands about the server
	observe func(parts facts.Part) *facts.State // collects facts for INFO
	queries chan struct{}                       // has an element for each step of a query that is taken now, of half of the processors at most: loops want the others
	walks   chan struct{}                       // the same for KEYS, from beginning to end
	pace    pace                                // of queries
}

// store is the one being served.
func (s *shared) store() *counter.Store { return s.current.Load() }

// memory is the memory that the process uses.
func (s *shared) memory() stats.Memory { return s.sampler.Memory(s.store().Admin().Memory()) }

// touchedRange says that posts of a counter with mids from from on and below to are gone.
func (s *shared) touchedRange(def *schema.Counter, from, to uint64) {
	s.watches.TouchRange(def, from, to)
	s.tracking.TouchRange(def, from, to)
}

// touchedAll says that any key may have changed.
func (s *shared) touchedAll() {
	s.watches.TouchAll()
	s.tracking.TouchAll()
}

// replicated tells clients that watch or may hold keys which the primary changed: see counter.Store.Observe.
func (s *shared) replicated(b *counter.Batch) {
	s.watches.Replicated(b)
	s.tracking.Replicated(b)
}

// Version is what INFO and HELLO report as the version of Redis whose commands and replies are followed: clients choose
// their commands by it. counterd's own is ServerVersion.
const Version = "7.0.15"

// ServerVersion is counterd's own version.
var ServerVersion = version.String()

// lastSave is when the newest snapshot was made, in unix seconds, as LASTSAVE has it.
func (s *shared) lastSave() int64 {
	if last := s.store().Admin().Snapshots().LastTime; !last.IsZero() {
		return last.Unix()
	}
	return s.started.Unix()
}

// unsaved counts the changing commands that this node has executed since the last snapshot was made, or since the start:
// rdb_changes_since_last_save. It is asked at least once a second, so commands of the second in which a snapshot was made
// may be missing. Changes that come from a primary are not counted.
type unsaved struct {
	mu         sync.Mutex // guards the rest
	generation uint64     // of the snapshot
	before     int64      // commands that were executed when it was seen
}

// commands is the number.
func (u *unsaved) commands(s *shared) int64 {
	generation, calls := s.store().Admin().Snapshots().Generation, int64(0)
	s.commands.Each(func(cmd *row) {
		if cmd.Flags&command.Write != 0 {
			calls += cmd.Calls()
		}
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.generation != generation {
		u.generation, u.before = generation, calls
	}
	if calls < u.before { // CONFIG RESETSTAT
		u.before = 0
	}
	return calls - u.before
}

// loadProgress is how far the store's recovery has come.
type loadProgress struct {
	openings atomic.Int32 // that have begun and not ended: a link may open the store anew while the first still ends

	mu          sync.Mutex
	began       time.Time
	what        string
	done, total uint64
	took        time.Duration
}

// active is one load for every command that is not planned.
func (l *loadProgress) active() bool { return l.openings.Load() > 0 }

func (l *loadProgress) beginLoading() {
	l.mu.Lock()
	l.began = time.Now()
	l.mu.Unlock()
	l.openings.Add(1)
}

func (l *loadProgress) endLoading() {
	l.mu.Lock()
	l.took = time.Since(l.began)
	l.mu.Unlock()
	l.openings.Add(-1)
}

// loadState is the state of loading for INFO.
type loadState struct {
	began       time.Time
	done, total uint64
	took        time.Duration
	eta         time.Duration
}

func (l *loadProgress) state() loadState {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := loadState{began: l.began, done: l.done, total: l.total, took: l.took}
	if l.done > 0 && l.total > l.done {
		st.eta = time.Duration(float64(time.Since(l.began)) / float64(l.done) * float64(l.total-l.done))
	}
	return st
}

// pace makes queries rest as long as they work while others are served. The processors may be fewer than they look: two
// of them, with a query and loops and 4 to 10 other busy programs, gave a GET a p99 of 8 to 14 ms beside a SUM in full
// swing, and of 1.6 to 2 ms, once of 8, beside one that rested behind every step (0.3 to 3.4 without queries). Alone a
// query does not rest; with that rule it was not measured on quiet processors.
type pace struct {
	mu    sync.Mutex // guards the rest
	bytes int64      // read from all connections at the last look
	busy  time.Time  // when they were more than before
}

// idleAfter is for how long nothing must have been read until queries go on without rest.
const idleAfter = 100 * time.Millisecond

// rest is for how long to rest after a step, with so many bytes read from connections so far.
func (p *pace) rest(now time.Time, bytes int64, worked time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes != p.bytes {
		p.bytes, p.busy = bytes, now
	}
	if now.Sub(p.busy) > idleAfter {
		return 0
	}
	return worked
}

// leastRest is for how long a reader of the feed rests at a time. A client that follows the feed works for 0.2 ms each 5 ms: to sleep and to wake up
// behind each of its turns took as much of a processor as the turns, and its reply waited meanwhile.
const leastRest = time.Millisecond

// rests puts the short rests of a connection together, of one command and of those behind it: a client that polls the feed with short commands rests
// as one does that reads long replies. It belongs to the goroutine that executes the command.
type rests struct{ owed time.Duration }

// wait says that the command waits for changes: the rests owed until then are forgotten.
func (r *rests) wait() { r.owed = 0 }

// next is for how long to sleep where one more rest is due: nothing, until leastRest is.
func (r *rests) next(d time.Duration) time.Duration {
	if r.owed += d; r.owed < leastRest {
		return 0
	}
	d, r.owed = r.owed, 0
	return d
}

// queryTurns is how many steps of queries are taken at the same time.
func queryTurns() int { return max(1, runtime.GOMAXPROCS(0)/2) }

package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/admin"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/brake"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/tlsconf"
	"github.com/counterd/counterd/cmd/counterd/internal/net/web"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/console"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/heap"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/popular"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/slowlog"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/tracking"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/watch"
	"github.com/counterd/counterd/counter"
)

// Server is a store that speaks the Redis protocol. Make one with New, start it with Listen, end it with Shutdown.
type Server struct {
	front    *front.Front
	current  atomic.Pointer[counter.Store]
	progress loadProgress
	config   *config.Live
	tls      *tlsconf.Material
	level    *slog.LevelVar
	log      *slog.Logger
	commands *commands
	users    *acl.Users
	denials  acl.Log
	guesses  *brake.Guesses // of passwords, by RESP and HTTP
	stats    stats.Totals
	slow     slowlog.Log
	sampler  stats.Sampler
	releaser heap.Releaser
	heap     heap.Limit
	watches  watch.Table
	tracking tracking.Table
	monitors monitors
	popular  *popular.Posts
	pubsub   pubsub.Registry
	role     *role.Role
	machine  role.Machine
	cluster  *serving.Member  // nil: it is of no cluster
	shards   *gather.Shards   // the other shards; nil: it is of no cluster
	web      *web.Server      // nil without metrics-addr
	console  *console.Monitor // the same
	ending   atomic.Bool      // Shutdown has begun
	// Open opens the store of the data directory: set it before Listen to let the server be a replica.
	Open func() (*counter.Store, error)

	admin         admin.Server // for the commands about the server
	unsaved       unsaved
	startupMemory int64 // bytes used when the server was made

	runID   string // 40 hex digits, as Redis has it
	started time.Time
	// queries has an element for each step of a query that is taken now, of half of the processors at most: loops want
	// the others.
	queries chan struct{}
	walks   chan struct{} // the same for KEYS, from beginning to end
	pace    pace
	// Terminate is called once when a client sends SHUTDOWN.
	Terminate  func()
	terminated sync.Once
}

// New makes a server. Until Serve gives it a store, it answers LOADING. The logger's level should be level, which
// CONFIG SET loglevel changes.
func New(conf config.Config, log *slog.Logger, level *slog.LevelVar) (*Server, error) {
	return NewOn(role.Machine{}, conf, log, level)
}

// NewOn is New on a machine that a test simulates. Open then gives the store the same file system.
func NewOn(machine role.Machine, conf config.Config, log *slog.Logger, level *slog.LevelVar) (*Server, error) {
	if err := conf.Validate(); err != nil {
		return nil, err
	}
	material, err := tlsconf.Load(conf.TLS)
	if err != nil {
		return nil, err
	}
	var id [20]byte
	_, _ = rand.Read(id[:]) // never fails
	s := &Server{
		machine: machine, config: config.NewLive(conf), tls: material, log: log, level: level, commands: command.NewTable(table()),
		runID: hex.EncodeToString(id[:]), started: time.Now(), Terminate: func() {},
		queries: make(chan struct{}, queryTurns()), walks: make(chan struct{}, queryTurns()), popular: popular.New(time.Now()),
		guesses: brake.NewGuesses(brake.FreeGuesses, brake.GuessEvery),
	}
	s.admin = adminOf(s)
	s.config.Prepare = s.prepare
	if err := s.openUsers(&conf); err != nil {
		return nil, err
	}
	s.front = front.New(host{s}, s.config, &s.stats, material.Server(), log)
	s.front.ListenBy(machine.Listen)
	s.role = role.New(s, s.config, s.runID, log)
	if conf.Cluster.Enabled {
		s.shards = gather.New(s.linkSettings, log)
		s.cluster = serving.New(host{s}, s.role, s.config, log)
	}
	empty, err := counter.Open("", counter.Options{}) // so that there is a store at any time; nobody gets to see it
	if err != nil {
		return nil, err
	}
	s.current.Store(empty)
	s.progress.begin()
	s.configured()
	s.startupMemory = s.memory().Used
	return s, s.openWeb(conf)
}

// store is the one being served.
func (s *Server) store() *counter.Store { return s.current.Load() }

// Serve ends the time of loading: store is what clients talk to from now on. The node has its role before: a change
// taken in between would be one too many.
func (s *Server) Serve(store *counter.Store) {
	store.Replication().Observe(s.replicated)
	empty := s.current.Swap(store)
	s.configured()
	s.role.Start()
	s.progress.end()
	if s.cluster != nil {
		s.cluster.Start()
	}
	_ = empty.Close() // nothing was ever done with it
}

// configured carries the configuration to where it is used on the way.
func (s *Server) configured() {
	c := s.config.Get()
	s.level.Set(c.Level())
	s.slow.Configure(c.SlowlogSlower, c.SlowlogMaxLen)
	s.denials.SetMost(c.ACLLogMaxLen)
	s.users.SetPubsubDefault(c.ACLPubsubDefault == config.AllChannels)
	s.tracking.SetLimit(c.TrackingMaxKeys)
	s.pubsub.SetLimit(pubsub.Limit(c.OutputLimits[config.Pubsub]))
	s.front.LimitOutput(c.OutputLimits[config.Normal])
	s.front.LimitMemory(c.MaxMemoryClients.Of(c.MaxMemory))
	if p, err := counter.ParseSyncPolicy(c.AppendFsync); err == nil {
		a := s.store().Admin()
		a.SetAppendFsync(p)
		a.SetMaxMemory(int64(c.MaxMemory))
		a.SetRetain(c.AOFRetain)
		a.SetCompressLog(c.AOFCompress)
		a.SetProducerLimits(c.Producers())
	}
}

// Cluster is this node's part in a cluster; nil: it is of none.
func (s *Server) Cluster() *serving.Member { return s.cluster }

// lastSave is when the newest snapshot was made, in unix seconds, as LASTSAVE has it.
func (s *Server) lastSave() int64 {
	if last := s.store().Admin().Snapshots().LastTime; !last.IsZero() {
		return last.Unix()
	}
	return s.started.Unix()
}

// adminOf is what the commands about the server see of it.
func adminOf(s *Server) admin.Server {
	return admin.Server{
		Config: s.config, Log: s.log, Slow: &s.slow, Popular: s.popular, Store: s.store, LastSave: s.lastSave, UserLines: s.userLines,
		Configured: func(password bool) {
			s.configured()
			if password {
				s.users.SetPassword(s.config.Get().RequirePass)
			}
			s.role.RoleChanged() // min-replicas-to-write, replica-serve-stale-data
		},
		ResetStats: func() {
			s.stats.Reset()
			s.commands.Each((*row).ResetStats)
		},
		Terminate: func() { s.terminated.Do(func() { go s.Terminate() }) },
	}
}

// Listen opens all listeners and serves them in the background. On error none is left open.
func (s *Server) Listen() error {
	if err := s.listenWeb(); err != nil {
		return err
	}
	err := s.front.Listen()
	if err != nil {
		_ = s.closeWeb(context.Background())
	}
	return err
}

// Addr is the address of the first listener.
func (s *Server) Addr() net.Addr { return s.front.Addr() }

// lastAnswers is how long other shards have for what sessions wait for when the server ends.
const lastAnswers = time.Second

// Shutdown stops accepting, lets every connection answer what it has read, and closes them. When ctx ends first, the
// connections that are left are cut.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.cluster != nil {
		if err := s.cluster.Leave(ctx); err != nil {
			s.log.Warn("cannot announce the shutdown to the cluster", "error", err)
		}
	}
	if !s.front.Stop() {
		return counter.ErrClosed
	}
	s.ending.Store(true)
	_ = s.role.Close(ctx) // its error is that of ctx, which ends the waiting below too
	if s.shards != nil {
		time.AfterFunc(lastAnswers, s.shards.Hurry)
		defer s.shards.Close()
	}
	err := s.front.Wait(ctx)
	s.role.Wait()
	return errors.Join(err, s.closeWeb(ctx))
}

// Material is the server's certificates, for whoever listens or connects beside it.
func (s *Server) Material() *tlsconf.Material { return s.tls }

// LinkTLS is how a connection to another node, at a host, is encrypted; nil: it is not.
func (s *Server) LinkTLS(host string) (*tls.Config, error) {
	if c := s.config.Get(); !c.TLS.Replication {
		return nil, nil
	}
	return s.tls.Client(host)
}

// Machine has the network and the file system.
func (s *Server) Machine() role.Machine { return s.machine }

// prepare does what may fail of CONFIG SET.
func (s *Server) prepare(old, next *config.Config) error {
	if old.TLS != next.TLS {
		if err := s.tls.Reload(next.TLS); err != nil {
			return err
		}
		s.certificatesRead()
	}
	return nil
}

// Reload is SIGHUP: the files of certificates and keys are read again. Connections that are open keep what they began
// with. Where a file is wrong everything stays as it was.
func (s *Server) Reload() {
	s.config.Hold(func(c *config.Config) {
		if !c.TLS.Given() {
			s.log.Warn("SIGHUP: nothing to reload, TLS certificates are not configured; use CONFIG SET to change settings")
			return
		}
		if err := s.tls.Reload(c.TLS); err != nil {
			s.log.Error("SIGHUP: cannot reload TLS certificates; the previous ones stay in use", "error", err)
			return
		}
		s.certificatesRead()
	})
}

// certificatesRead says what is in force now.
func (s *Server) certificatesRead() {
	subject, until := s.tls.Certificate()
	s.log.Info("TLS certificates loaded", "subject", subject, "valid_until", until)
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

func (l *loadProgress) begin() {
	l.mu.Lock()
	l.began = time.Now()
	l.mu.Unlock()
	l.openings.Add(1)
}

func (l *loadProgress) end() {
	l.mu.Lock()
	l.took = time.Since(l.began)
	l.mu.Unlock()
	l.openings.Add(-1)
}

// Loading notes progress: what is being read, bytes done and in all. It may be called from several goroutines.
func (s *Server) Loading(what string, done, total uint64) {
	l := &s.progress
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.what == what {
		done = max(done, l.done) // several goroutines
	} else {
		s.log.Info("loading", "what", what, "bytes", total)
	}
	l.what, l.done, l.total = what, done, total
}

// loadState is what INFO tells.
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

// Store is the one being served.
func (s *Server) Store() *counter.Store { return s.store() }

// Opening tells whether a store is being opened, and an empty one holds its place.
func (s *Server) Opening() bool { return s.progress.active() }

// Reopen closes the store, lets change work on its directory and opens it again; LOADING is answered meanwhile. If it
// cannot be opened the server ends: there is nothing to serve.
func (s *Server) Reopen(change func(dir string) error) error {
	if s.Open == nil {
		return errors.New("this server cannot open a store")
	}
	empty, err := counter.Open("", counter.Options{})
	if err != nil {
		return err
	}
	dir := s.store().Path()
	s.progress.begin()
	old := s.current.Swap(empty)
	err = old.Close() // waits for open batches
	if err == nil {
		err = change(dir)
	}
	store, oerr := s.Open()
	if oerr != nil {
		s.log.Error("cannot reopen the store; the server stops", "error", oerr)
		s.terminated.Do(func() { go s.Terminate() })
		return errors.Join(err, oerr)
	}
	store.Replication().Observe(s.replicated)
	if s.cluster != nil {
		store.Groups().Own(s.cluster.Now().Owned)
	}
	s.current.Store(store)
	s.touchedAll() // it may be other data
	s.popular.Forget(time.Now())
	s.configured()
	s.progress.end()
	_ = empty.Close() // nothing was ever done with it
	return err
}

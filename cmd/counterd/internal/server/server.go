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

	"github.com/counterd/counterd/cmd/counterd/internal/commands/admin"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/aging"
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
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/schema"
)

// Server is a store that speaks the Redis protocol. Make one with New, start it with Listen, end it with Shutdown.
type Server struct {
	shared
	level    *slog.LevelVar
	releaser heap.Releaser
	heap     heap.Limit
	machine  role.Machine
	web      *web.Server      // nil without metrics-addr
	console  *console.Monitor // the same
	links    gather.Settings  // the constant part of linkSettings: each of its functions is allocated
	ending   atomic.Bool      // Shutdown has begun
	// Open opens the store of the data directory: set it before Listen to let the server be a replica.
	Open func() (*counter.Store, error)

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
	s := &Server{machine: machine, level: level, Terminate: func() {}}
	s.runID, s.started, s.tls = hex.EncodeToString(id[:]), time.Now(), material
	s.config, s.log, s.commands = config.NewLive(conf), log, command.NewTable(allRows())
	s.queries, s.walks, s.popular = make(chan struct{}, queryTurns()), make(chan struct{}, queryTurns()), popular.New(time.Now())
	s.guesses = brake.NewGuesses(brake.FreeGuesses, brake.GuessEvery)
	s.admin, s.observe = adminOf(s), observer{&s.shared}.state
	s.config.Prepare = s.prepare
	if err := s.openUsers(&conf); err != nil {
		return nil, err
	}
	s.front = front.New(host{s}, s.config, &s.stats, material.Server(), log)
	s.pubsub.Pause = s.front.GiveWay
	s.hotlists.Store, s.hotlists.Registry, s.hotlists.Pause = s.store, &s.pubsub, s.front.GiveWay
	s.front.ListenBy(machine.Listen)
	s.aging = aging.NewKeeper(host{s}, log)
	s.windows = aging.NewWindows(host{s}, log)
	s.role = role.New(s, s.config, s.runID, log)
	if conf.Cluster.Enabled {
		s.links = gather.Settings{TLS: s.LinkTLS, Connect: s.machine.Connect, Watch: s.watchLink}
		s.shards = gather.New(s.linkSettings, log)
		s.cluster = serving.New(host{s}, s.role, s.config, log)
	}
	empty, err := counter.Open("", counter.Options{}) // so that there is a store at any time; nobody gets to see it
	if err != nil {
		return nil, err
	}
	s.current.Store(empty)
	s.progress.beginLoading()
	s.configured()
	s.startupMemory = s.memory().Used
	return s, s.openWeb(conf)
}

// Serve ends the time of loading: from now on clients use store. The node has its role before: a change taken in between
// would be one too many.
func (s *Server) Serve(store *counter.Store) {
	store.Replication().Observe(s.replicated)
	empty := s.current.Swap(store)
	s.configured()
	s.role.Start()
	s.progress.endLoading()
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
		a.SetFeedRetain(c.FeedRetain)
		a.SetCompressLog(c.AOFCompress)
		a.SetProducerLimits(c.Producers())
	}
}

// Cluster is this node's part in a cluster; nil: it is of none.
func (s *Server) Cluster() *serving.Member { return s.cluster }

// adminOf is the part of the server that commands about the server use.
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

// lastAnswers is how long sessions wait for replies of other shards when the server ends.
const lastAnswers = time.Second

// Shutdown stops accepting, lets every connection answer what it has read, and closes them. When ctx ends first, the
// connections that are left are cut.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.cluster != nil {
		if err := s.cluster.LeaveCluster(ctx); err != nil {
			s.log.Warn("cannot announce the shutdown to the cluster", "error", err)
		}
	}
	if !s.front.Stop() {
		return counter.ErrClosed
	}
	s.ending.Store(true)
	s.aging.Close(ctx)
	s.windows.Close(ctx)
	_ = s.role.Close(ctx) // its error is that of ctx, which ends the waiting below too
	if s.shards != nil {
		time.AfterFunc(lastAnswers, s.shards.Hurry)
		defer s.shards.Close()
	}
	err := s.front.Wait(ctx)
	s.role.Wait()
	s.hotlists.Close(ctx)
	return errors.Join(err, s.closeWeb(ctx))
}

// Material is the server's certificates, for other listeners and connections of the process.
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

// prepare does the part of CONFIG SET that may fail.
func (s *Server) prepare(old, next *config.Config) error {
	if old.TLS != next.TLS {
		if err := s.tls.Reload(next.TLS); err != nil {
			return err
		}
		s.certificatesRead()
	}
	return nil
}

// Reload is SIGHUP: the files of certificates and keys are read again. Open connections keep the configuration that they
// began with. Where a file is wrong everything stays as it was.
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

// certificatesRead logs the certificates in force now.
func (s *Server) certificatesRead() {
	subject, until := s.tls.Certificate()
	s.log.Info("TLS certificates loaded", "subject", subject, "valid_until", until)
}

// Loading notes progress: the name of the data being read, bytes done and in all. It may be called from several
// goroutines.
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

// Store is the one being served.
func (s *Server) Store() *counter.Store { return s.store() }

// Opening tells whether a store is being opened, and an empty one holds its place.
func (s *Server) Opening() bool { return s.progress.active() }

// OpenStore opens the store of the data directory by Open. A damaged directory does not prevent it where another node has
// the data.
func (s *Server) OpenStore() (*counter.Store, error) {
	store, err := s.role.Open(func() (*counter.Store, error) {
		if m := s.Cluster(); m != nil {
			m.NoteGone()
		}
		return s.Open()
	})
	if err == nil && s.Cluster() == nil && s.config.Get().ReplicaOf == "" { // else its role is not known yet
		store.Windows().Begin()
	}
	return store, err
}

// EndOpening ends the wait of OpenStore for another node that has the data of a damaged directory: the process is to end.
func (s *Server) EndOpening() { s.role.EndOpening() }

// Reopen closes the store, lets change work on its directory and opens it again; LOADING is answered meanwhile. If it
// cannot be opened the server ends: there is nothing to serve. The directory stays locked all the time, so that no tool that
// reads it comes in between.
func (s *Server) Reopen(change func(dir string) error) error {
	if s.Open == nil {
		return errors.New("this server cannot open a store")
	}
	empty, err := counter.Open("", counter.Options{})
	if err != nil {
		return err
	}
	dir := s.store().Path()
	defer persist.KeepDirLock(dir)()
	s.progress.beginLoading()
	old := s.current.Swap(empty)
	err = old.Close() // waits for open batches
	if err == nil {
		err = change(dir)
	}
	store, oerr := s.OpenStore()
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
	s.progress.endLoading()
	_ = empty.Close() // nothing was ever done with it
	return err
}

// host is the server as its front sees it.
type host struct{ srv *Server }

// NewSession makes the client of a connection that came.
func (s host) NewSession(trusted bool, port front.Port) *front.Session {
	return newClient(&s.srv.shared, trusted, port)
}

// NeedsPassword tells whether the user that every connection is at first has a password, or is off.
func (s host) NeedsPassword() bool { return !s.srv.users.Default().Open() }

// DiskHangs tells whether a write or a sync of the log does not end.
func (s host) DiskHangs() bool { return s.srv.store().DiskHangs() }

// EachSecond does the server's work of each second.
func (s host) EachSecond() {
	s.srv.sample()
	if !s.srv.machine.Crowded {
		s.srv.releaser.Look(s.srv.sampler.Rates().Commands)
		conf := s.srv.config.Get()
		s.srv.heap.Look(heap.Use{MaxMemory: int64(conf.MaxMemory), Posts: s.srv.store().Admin().TierCounts().Memory, Clients: conf.MaxMemoryClients.Of(conf.MaxMemory),
			Held: s.srv.front.Held() + s.srv.pubsub.Unread()})
	}
	if !s.srv.progress.active() {
		s.srv.aging.Look()
		s.srv.windows.Look()
		s.srv.hotlists.Look()
	}
	s.srv.pubsub.Look()
	s.srv.unsaved.commands(&s.srv.shared)
	s.srv.role.RoleChanged() // lags grow with time
}

// sample lets the sampler look at the totals and at the memory used.
func (s *Server) sample() {
	s.sampler.Sample(time.Now(), s.commands.Calls(), &s.stats)
	if !s.machine.Crowded {
		s.memory()
	}
}

// MayChange tells whether changes are taken now, and not held back by a pause.
func (s host) MayChange() bool {
	refusal, held := s.srv.role.Judge(command.Write, false)
	return refusal == "" && !held && (s.srv.cluster == nil || s.srv.cluster.Now().Writes == "")
}

// TouchRange says that posts of a counter with mids from from on and below to are gone.
func (s host) TouchRange(def *schema.Counter, from, to uint64) { s.srv.touchedRange(def, from, to) }

// Unread is how many bytes subscribers have not read.
func (s host) Unread() int64 { return s.srv.pubsub.Unread() }

// The rest of host is the server as a member of a cluster sees it: serving.Host.

var _ serving.Host = host{}

// Store is the one being served.
func (s host) Store() *counter.Store { return s.srv.store() }

// Follow tells the links to other shards of a new map.
func (s host) Follow(m *topology.Map, self topology.NodeID) { s.srv.shards.Follow(m, self) }

// TouchAll says that any key may have changed.
func (s host) TouchAll() { s.srv.touchedAll() }

// EndShardChannels ends subscriptions to shard channels.
func (s host) EndShardChannels(gone func(channel string) bool) { s.srv.pubsub.EndShard(gone) }

// Troubles are those that the server reports of itself.
func (s host) Troubles() []topology.Trouble { return s.srv.troubles() }

// CommandRate is how many commands a second are executed.
func (s host) CommandRate() float64 { return s.srv.sampler.Rates().Commands }

// linkSettings are those of links to other nodes: as replicas have them to their primary.
func (s *Server) linkSettings() gather.Settings {
	c, set := s.config.Get(), s.links
	set.User, set.Password = c.MasterUser, c.MasterAuth
	set.Timeout = time.Duration(c.Cluster.NodeTimeout) * time.Millisecond
	return set
}

// watchLink has a loop read a link: see gather.Settings.
func (s *Server) watchLink(n int, conn net.Conn, arrived func(b []byte) (used int, err error)) (gather.Trunk, error) {
	return s.front.Watch(n, conn, arrived)
}

// CheckUsers returns an error for invalid users of a configuration, or for invalid names of disabled commands, as New
// does.
func CheckUsers(c *config.Config) error {
	return (&shared{commands: command.NewTable(allRows())}).openUsers(c)
}

// GiveWay is for work outside of the loops: see front.Front.GiveWay.
func (s *Server) GiveWay() { s.front.GiveWay() }

// Publish takes a message of the primary: see repl.Host.
func (s *Server) Publish(shard bool, channel string, message []byte) {
	if shard {
		s.pubsub.PublishShard(channel, message, nil)
	} else {
		s.pubsub.Publish(channel, message, nil)
	}
	if store := s.store(); store.Durable() {
		s.role.Peers().Publish(store.Replication().Position(), shard, channel, message)
	}
}

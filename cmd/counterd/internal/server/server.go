package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/node"
	"github.com/counterd/counterd/cmd/counterd/internal/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/slowlog"
	"github.com/counterd/counterd/cmd/counterd/internal/stats"
	"github.com/counterd/counterd/cmd/counterd/internal/watch"
	"github.com/counterd/counterd/counter"
)

// Server is the RESP front end of a store. Make one with New, start it with Listen, end it with Shutdown.
type Server struct {
	current    atomic.Pointer[counter.Store]
	progress   loadProgress
	config     *config.Live
	level      *slog.LevelVar
	log        *slog.Logger
	commands   *commands
	stats      stats.Totals
	slow       slowlog.Log
	sampler    stats.Sampler
	watches    watch.Table
	pubsub     pubsub.Registry
	memoryHeld clientMemory
	node       *node.Node
	blocked    atomic.Int64 // connections that wait in a command
	// Open opens the store of the data directory: set it before Listen to let the server be a replica.
	Open func() (*counter.Store, error)

	scratches sync.Pool // of *scratch

	runID   string // 40 hex digits, as Redis has it
	started time.Time
	lastID  atomic.Int64

	clock atomic.Int64  // seconds since started, plus 1; coarse
	quit  chan struct{} // closed by Shutdown

	loops     []*loop    // one a processor; connections are dealt to them in turn
	listeners []listener // those for reads only come last
	mu        sync.Mutex // guards clients, readers and stopping
	clients   map[int64]*client
	readers   int // clients that came by a listener for reads only
	stopping  bool
	done      sync.WaitGroup // accept loops and connections
	// Terminate is called once when a client sends SHUTDOWN.
	Terminate  func()
	terminated sync.Once
}

// New makes a server. Until Serve gives it a store, it answers LOADING. The logger's level should be level, which
// CONFIG SET loglevel changes.
func New(conf config.Config, log *slog.Logger, level *slog.LevelVar) (*Server, error) {
	if err := conf.Validate(); err != nil {
		return nil, err
	}
	var id [20]byte
	_, _ = rand.Read(id[:]) // never fails
	s := &Server{
		config: config.NewLive(conf), log: log, level: level, commands: command.NewTable(table()),
		runID: hex.EncodeToString(id[:]), started: time.Now(), quit: make(chan struct{}), clients: make(map[int64]*client), Terminate: func() {},
	}
	s.clock.Store(1)
	s.memoryHeld.over = make(chan struct{}, 1)
	s.node = node.New(s, s.config, s.runID, log)
	empty, err := counter.Open("", counter.Options{}) // so that there is a store at any time; nobody gets to see it
	if err != nil {
		return nil, err
	}
	s.current.Store(empty)
	s.progress.begin()
	s.configured()
	return s, nil
}

// store is the one being served.
func (s *Server) store() *counter.Store { return s.current.Load() }

// Serve ends the time of loading: store is what clients talk to from now on.
func (s *Server) Serve(store *counter.Store) {
	store.Replication().Observe(s.watches.Replicated)
	empty := s.current.Swap(store)
	s.configured()
	s.progress.end()
	_ = empty.Close() // nothing was ever done with it
	s.node.Start()
}

// configured carries the configuration to where it is used on the way.
func (s *Server) configured() {
	c := s.config.Get()
	s.level.Set(c.Level())
	s.slow.Configure(c.SlowlogSlower, c.SlowlogMaxLen)
	s.pubsub.SetLimit(pubsub.Limit(c.OutputLimits[config.Pubsub]))
	s.memoryHeld.limit.Store(c.MaxMemoryClients.Of(c.MaxMemory))
	if p, err := counter.ParseSyncPolicy(c.AppendFsync); err == nil {
		s.store().SetAppendFsync(p)
		s.store().SetMaxMemory(int64(c.MaxMemory))
		s.store().SetRetain(c.AOFRetain)
	}
}

// Listen opens all listeners and serves them in the background. On error none is left open.
func (s *Server) Listen() error {
	c := s.config.Get()
	if err := s.listenTCP(c.Bind, c.Port, "port", false); err != nil {
		return err
	}
	if c.UnixSocket != "" {
		l, err := listenUnix(c.UnixSocket, fs.FileMode(c.UnixSocketPerm))
		if err != nil {
			s.closeListeners()
			return err
		}
		s.listeners = append(s.listeners, listener{l, false})
	}
	if len(s.listeners) == 0 {
		return fmt.Errorf("none of the addresses %v can be listened on", c.Bind)
	}
	if err := s.listenTCP(c.Bind, c.ReadonlyPort, "readonly-port", true); err != nil {
		return err
	}
	for range runtime.GOMAXPROCS(0) {
		l, err := newLoop(s)
		if err != nil {
			s.closeListeners()
			s.stopLoops()
			return err
		}
		s.loops = append(s.loops, l)
	}
	s.done.Add(1 + len(s.listeners))
	go s.janitor()
	for _, l := range s.listeners {
		go s.accept(l)
	}
	return nil
}

// listener is one, and whether it is for reads only.
type listener struct {
	net.Listener
	readonly bool
}

// listenTCP opens the listeners of a port, which a setting names; none if it is 0. On error it closes all.
func (s *Server) listenTCP(bind []string, port int, setting string, readonly bool) error {
	if port == 0 {
		return nil
	}
	for _, addr := range bind {
		optional := addr != "" && addr[0] == '-'
		if optional {
			addr = addr[1:]
		}
		network, addr := family(addr)
		l, err := net.Listen(network, net.JoinHostPort(addr, strconv.Itoa(port)))
		if err != nil {
			if optional && !errors.Is(err, syscall.EADDRINUSE) {
				continue
			}
			s.closeListeners()
			if errors.Is(err, syscall.EADDRINUSE) {
				return fmt.Errorf("port %d of %s is taken by another program: end that one, or choose a port with --%s: %w", port, addr, setting, err)
			}
			return err
		}
		s.listeners = append(s.listeners, listener{l, readonly})
	}
	return nil
}

// family tells which kind of addresses one of --bind is of, as Redis does: 0.0.0.0 is all of IPv4 and nothing of IPv6,
// which a firewall may not know.
func family(bind string) (network, addr string) {
	switch {
	case bind == "*":
		return "tcp4", "0.0.0.0"
	case bind == "::*":
		return "tcp6", "::"
	}
	ip, err := netip.ParseAddr(bind)
	switch {
	case err != nil: // a name
		return "tcp", bind
	case ip.Is4():
		return "tcp4", bind
	}
	return "tcp6", bind
}

// listenUnix takes over a socket file that nobody answers on.
func listenUnix(path string, perm fs.FileMode) (net.Listener, error) {
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("unix socket %s is taken by another program", path)
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, perm); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (s *Server) stopLoops() {
	for _, l := range s.loops {
		l.stop()
	}
}

// Addr is the address of the first listener.
func (s *Server) Addr() net.Addr { return s.listeners[0].Addr() }

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		l.Close()
	}
}

// accept serves one listener. Errors of accept (too many open files) are waited out, not spun on.
func (s *Server) accept(l listener) {
	defer s.done.Done()
	pause := time.Duration(0)
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("accept failed", "error", err, "retry_in", pause)
			time.Sleep(pause)
			continue
		}
		pause = 0
		s.admit(conn, l.readonly)
	}
}

// admit starts a connection, or refuses it in the words that clients know. Those for reads only and all others have a
// number of their own, so that neither kind can keep the other out.
func (s *Server) admit(conn net.Conn, readonly bool) {
	conf := s.config.Get()
	refusal := ""
	if conf.ProtectedMode && conf.RequirePass == "" && !fromHere(conn) {
		refusal = deniedText
	}
	s.mu.Lock()
	switch {
	case s.stopping:
		s.mu.Unlock()
		conn.Close()
		return
	case !readonly && len(s.clients)-s.readers >= conf.MaxClients, readonly && s.readers >= conf.ReadonlyClients, lastDescriptor(conn):
		refusal = "-ERR max number of clients reached\r\n"
	}
	if refusal != "" {
		s.mu.Unlock()
		s.stats.Rejected.Add(1)
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte(refusal))
		conn.Close()
		return
	}
	c, err := s.newClient(conn, conf, readonly)
	if err != nil { // too many open files
		s.mu.Unlock()
		s.stats.Rejected.Add(1)
		s.log.Warn("connection refused", "error", err)
		conn.Close()
		return
	}
	s.clients[c.id] = c
	if readonly {
		s.readers++
	}
	s.done.Add(1)
	s.mu.Unlock()
	s.stats.Connections.Add(1)
	if err := c.loop.add(c); err != nil {
		c.loop.end(c, err)
	}
}

const deniedText = "-DENIED counterd is running in protected mode: there is no password and this connection does not come from the machine itself. " +
	"Set a password with --requirepass, or turn protected mode off with --protected-mode no if the network is trusted.\r\n"

// fromHere tells whether a connection comes from this machine.
func fromHere(conn net.Conn) bool {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// remove forgets a connection that has ended.
func (s *Server) remove(c *client) {
	s.watches.Remove(&c.watch)
	s.mu.Lock()
	delete(s.clients, c.id)
	if c.readonly {
		s.readers--
	}
	s.mu.Unlock()
}

// drain is how long a connection may still bring commands that were sent before Shutdown.
const drain = 100 * time.Millisecond

// Shutdown stops accepting, lets every connection answer what it has read, and closes them. When ctx ends first, the
// connections that are left are cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return counter.ErrClosed
	}
	s.stopping = true
	close(s.quit)
	s.mu.Unlock()
	drained := time.AfterFunc(drain, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.clients {
			c.conn.finish()
		}
	})
	s.closeListeners()
	_ = s.node.Close(ctx) // its error is that of ctx, which ends the waiting below too
	ended := make(chan struct{})
	go func() {
		s.done.Wait()
		s.node.Wait()
		drained.Stop()
		s.stopLoops()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for _, c := range s.clients {
		c.conn.Close()
	}
	s.mu.Unlock()
	<-ended
	return ctx.Err()
}

package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
)

// Front is the listeners, the loops and the sessions of a server. Make one with New, start it with Listen, end it with
// Stop and Wait. All methods may be called by several goroutines at once, but for Listen.
type Front struct {
	host   Host
	config *config.Live
	totals *stats.Totals
	log    *slog.Logger

	scratches sync.Pool // of *scratch
	memory    memory
	output    atomic.Pointer[config.OutputLimit] // nil: none
	blocked   atomic.Int64                       // sessions in Block

	listen  func(network, address string) (net.Listener, error)
	started time.Time
	clock   atomic.Int64 // seconds since started, plus 1; coarse

	life context.Context // ends with Stop
	end  context.CancelCauseFunc
	quit <-chan struct{} // of life: closed by Stop

	handshakes *handshakes
	failed     stats.Every // handshakes, for the log

	loops     []*loop     // one a processor; connections are dealt to them in turn
	relief    relief      // of loops
	listeners []listener  // those for reads only come last
	drained   *time.Timer // ends what connections may still bring

	mu       sync.Mutex // guards the rest
	sessions map[int64]*Session
	readers  int   // of them those that came by a listener for reads only
	last     int64 // id given
	stopping bool

	done sync.WaitGroup // accept loops, the janitor, and connections
}

// Host is the server whose front it is.
type Host interface {
	// NeedsPassword tells whether a connection that comes must show that it may be here.
	NeedsPassword() bool
	// NewSession makes the session of a connection that came, bound to a handler: see Session.Bind. trusted tells
	// whether it needs no password, port by which listener it came.
	NewSession(trusted bool, port Port) *Session
	// EachSecond is called once a second.
	EachSecond()
	// DiskHangs tells whether a write or a sync of the log does not end. It takes no lock.
	DiskHangs() bool
	// Unread is how many bytes the outlets of all sessions hold.
	Unread() int64
}

// New makes a front of host that counts in totals. Connections that come by a port for TLS are as secure says.
func New(host Host, conf *config.Live, totals *stats.Totals, secure *tls.Config, log *slog.Logger) *Front {
	f := &Front{host: host, config: conf, totals: totals, log: log, listen: net.Listen, started: time.Now(), sessions: make(map[int64]*Session),
		handshakes: newHandshakes(secure), relief: newRelief()}
	f.clock.Store(1)
	f.life, f.end = context.WithCancelCause(context.Background())
	f.quit = f.life.Done()
	f.memory.over = make(chan struct{}, 1)
	return f
}

// ListenBy makes Listen open the listeners of TCP by listen, unless it is nil. Their connections need not be sockets where
// there is no epoll.
func (f *Front) ListenBy(listen func(network, address string) (net.Listener, error)) {
	if listen != nil {
		f.listen = listen
	}
}

// Session returns the one of a number, nil if there is none, or no more.
func (f *Front) Session(id int64) *Session {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[id]
}

// Everybody returns all sessions, in no order.
func (f *Front) Everybody() []*Session {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*Session, 0, len(f.sessions))
	for _, s := range f.sessions {
		list = append(list, s)
	}
	return list
}

// Sessions returns all sessions by their numbers.
func (f *Front) Sessions() []*Session {
	list := f.Everybody()
	slices.SortFunc(list, func(a, b *Session) int { return cmp.Compare(a.id, b.id) })
	return list
}

// Count is how many sessions there are, and how many of them came by a listener for reads only.
func (f *Front) Count() (all, readers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sessions), f.readers
}

// Blocked is how many sessions wait in a command.
func (f *Front) Blocked() int64 { return f.blocked.Load() }

// remove forgets a session that has ended.
func (f *Front) remove(s *Session) {
	f.mu.Lock()
	delete(f.sessions, s.id)
	if s.port == Readonly {
		f.readers--
	}
	f.mu.Unlock()
}

// ending tells whether Stop was called.
func (f *Front) ending() bool {
	select {
	case <-f.quit:
		return true
	default:
		return false
	}
}

// drain is how long a connection may still bring commands that were sent before Stop.
const drain = 100 * time.Millisecond

// Stop stops accepting and lets every session answer what it has read and then end, in the background: see Wait. Only
// the first call does that; all others return false.
func (f *Front) Stop() bool {
	f.mu.Lock()
	if f.stopping {
		f.mu.Unlock()
		return false
	}
	f.stopping = true
	f.end(errServerEnds)
	f.mu.Unlock()
	f.drained = time.AfterFunc(drain, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, s := range f.sessions {
			s.conn.finish()
		}
	})
	f.closeListeners()
	f.handshakes.stop()
	return true
}

// Wait waits until all sessions have ended. When ctx ends first, it cuts those that are left and returns the error of
// ctx. REQUIRES that Stop has returned.
func (f *Front) Wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		f.done.Wait()
		f.drained.Stop()
		f.stopLoops()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	for _, s := range f.sessions {
		s.conn.Close()
	}
	f.mu.Unlock()
	<-ended
	return ctx.Err()
}

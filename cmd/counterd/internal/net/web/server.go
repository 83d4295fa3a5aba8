package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/brake"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
)

const (
	maxConns        = 64
	maxHeaderBytes  = 16 << 10
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 60 * time.Second
	keepAlivePeriod = 30 * time.Second

	// requestBurst is how many requests are answered at once, and requestEvery how often one more.
	requestBurst = 100
	requestEvery = 2 * time.Millisecond
)

// Options are the options of a Server. Guard and Log are wanted, the rest is not.
type Options struct {
	Network, Addr string      // as of net.Listen
	TLS           *tls.Config // nil: plain HTTP
	Guard         Guard
	Log           *slog.Logger
	// Panicked is called once for each panic of a handler.
	Panicked func()
}

// Server answers HTTP. Give it handlers, then Listen, then Shutdown. Handlers run concurrently.
type Server struct {
	opts  Options
	mux   *http.ServeMux
	http  http.Server
	conns *conns
	words map[string]bool // paths of HandleAnyone
	addr  net.Addr
	done  chan struct{}
	end   context.CancelFunc // of the context of all requests

	// Requests wait here if there are too many: those for a word on a line of their own, so that no flood of others makes
	// a probe fail.
	wordLine, line *brake.Line
}

// New makes a server of o.
func New(o Options) *Server {
	if o.Panicked == nil {
		o.Panicked = func() {}
	}
	s := &Server{opts: o, mux: http.NewServeMux(), conns: newConns(maxConns), words: make(map[string]bool), done: make(chan struct{}),
		wordLine: brake.NewLine(requestBurst, requestEvery), line: brake.NewLine(requestBurst, requestEvery)}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // a connection of HTTP/2 would be as many requests at once as it likes
	base, end := context.WithCancel(context.Background())
	s.end = end
	s.http = http.Server{
		Handler: s, Protocols: protocols, ErrorLog: slog.NewLogLogger(errorLog{o.Log.Handler(), new(stats.Every)}, slog.LevelDebug),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ConnContext: s.conns.context,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	return s
}

// Handle adds a handler that only protected mode guards. pattern is a path, as of http.ServeMux.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, s.protected(h)) }

// HandleAnyone adds a handler that answers everybody with a word. path is one whole path.
func (s *Server) HandleAnyone(path string, h http.Handler) {
	s.words[path] = true
	s.mux.Handle(path, h)
}

// HandleUsers adds a handler for users that may run all of commands, "info" or "slowlog|get". For parts that want more
// it asks May.
func (s *Server) HandleUsers(pattern string, h http.Handler, commands ...string) {
	s.mux.Handle(pattern, s.protected(s.users(h, commands)))
}

// Listen opens the listener and serves it in the background.
func (s *Server) Listen() error {
	lc := net.ListenConfig{KeepAlive: keepAlivePeriod}
	l, err := lc.Listen(context.Background(), s.opts.Network, s.opts.Addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("metrics-addr: %s is taken by another program: end that one, or choose another port: %w", s.opts.Addr, err)
	case err != nil:
		return fmt.Errorf("metrics-addr: %w", err)
	}
	s.addr = l.Addr()
	l = &listener{l, s.conns}
	if s.opts.TLS != nil {
		l = tls.NewListener(l, s.opts.TLS)
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.opts.Log.Error("metrics endpoint stopped", "error", err)
		}
	}()
	return nil
}

// Addr is the address that is listened on.
func (s *Server) Addr() net.Addr { return s.addr }

// Shutdown stops accepting and waits for requests that are being answered until ctx ends; then they are cut. Their
// contexts end at once: a handler that goes on sending for as long as it is listened to stops then.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end()
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	if s.addr != nil {
		<-s.done
	}
	return err
}

// ServeHTTP does the part that is the same for all paths.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &writer{ResponseWriter: rw}
	s.conns.busy(r.Context())
	defer s.conns.waiting(r.Context())
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if s.pace(r) != nil {
		refuse(w, http.StatusServiceUnavailable, "the server ends") // or the client is gone, which reads no answer
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "only GET and HEAD are answered here")
		return
	}
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p) // the server's own word for: close this connection
		default:
			s.opts.Panicked()
			s.opts.Log.Error("panic in an HTTP request", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", stack())
			if w.begun {
				panic(http.ErrAbortHandler) // the connection ends: the bytes sent must not look like a complete reply
			}
			refuse(w, http.StatusInternalServerError, "this request failed: the server's log says why")
		}
	}()
	s.mux.ServeHTTP(w, r)
}

// pace lets a request wait for its turn. If the request's context ends first, pace returns the context's error.
func (s *Server) pace(r *http.Request) error {
	line := s.line
	if s.words[r.URL.Path] {
		line = s.wordLine
	}
	if line.TryTake() {
		return nil
	}
	defer Waiting(r)()
	return line.AwaitToken(r.Context())
}

// Waiting tells that a request has begun to wait for something other than a processor or its client; call end when the
// wait is over. Until then a new connection may take the place of the request's one.
func Waiting(r *http.Request) (end func()) {
	c, _ := r.Context().Value(connKey{}).(*conn)
	if c == nil {
		return func() {}
	}
	c.conns.waiting(r.Context())
	return func() { c.conns.busy(r.Context()) }
}

// refuse answers with one line of text.
func refuse(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/brake"
	"github.com/counterd/counterd/internal/testkit/tlstest"
)

// guard is one with a user that may run some commands.
type guard struct {
	protected, open bool
	may             []string
	logins          int
}

func (g *guard) Protected() bool { return g.protected }
func (g *guard) Open() bool      { return g.open }
func (g *guard) Anybody() User   { return g }
func (g *guard) Login(_ context.Context, user, password, remote string) (User, bool) {
	g.logins++
	return g, user == "ann" && password == "right" && remote != ""
}
func (g *guard) May(command string) bool { return slices.Contains(g.may, command) }

// buffer is a log that several goroutines write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// serve starts a server on a free port; add gives it handlers.
func serve(t *testing.T, g Guard, log io.Writer, add func(*Server)) *Server {
	t.Helper()
	s := New(Options{Network: "tcp", Addr: "127.0.0.1:0", Guard: g, Log: slog.New(slog.NewTextHandler(log, nil))})
	add(s)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if n := s.conns.count(); n != 0 {
			t.Errorf("%d connections keep their places behind the end", n)
		}
	})
	return s
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

// TestAccess: the answer of each kind of path to each kind of user.
func TestAccess(t *testing.T) {
	const here, there = "127.0.0.1:1234", "192.0.2.7:1234"
	for _, c := range []struct {
		what       string
		guard      guard
		path       string
		remote     string
		host       string
		user, pass string
		want       int
		says       string
	}{
		{"a word for anybody", guard{protected: true, open: true}, "/healthz", there, "x:1", "", "", 200, "hello"},
		{"metrics, from here", guard{protected: true, open: true}, "/metrics", here, "x:1", "", "", 200, "hello"},
		{"metrics, from IPv6 here", guard{protected: true, open: true}, "/metrics", "[::1]:9", "x:1", "", "", 200, "hello"},
		{"metrics, from IPv4 in IPv6", guard{protected: true, open: true}, "/metrics", "[::ffff:127.0.0.1]:9", "x:1", "", "", 200, "hello"},
		{"metrics, from elsewhere", guard{protected: true, open: true}, "/metrics", there, "x:1", "", "", 403, "DENIED"},
		{"metrics, not protected", guard{open: true}, "/metrics", there, "x:1", "", "", 200, "hello"},
		{"metrics, a password is set", guard{}, "/metrics", there, "x:1", "", "", 200, "hello"},
		{"page, from elsewhere", guard{protected: true, open: true}, "/", there, "x:1", "", "", 403, "DENIED"},
		{"page, nobody is asked", guard{open: true, may: []string{"info"}}, "/", here, "localhost:9121", "", "", 200, "hello"},
		{"page, by number", guard{open: true, may: []string{"info"}}, "/", here, "[::1]:9121", "", "", 200, "hello"},
		{"page, another site's name", guard{open: true, may: []string{"info"}}, "/", here, "evil.example:9121", "", "", 403, "localhost"},
		{"page, trusted network, by name", guard{open: true, may: []string{"info"}}, "/", there, "counters.lan:9121", "", "", 200, "hello"},
		{"page, who is it?", guard{may: []string{"info"}}, "/", here, "127.0.0.1", "", "", 401, "WRONGPASS"},
		{"page, wrong password", guard{may: []string{"info"}}, "/", here, "127.0.0.1", "ann", "wrong", 401, "WRONGPASS"},
		{"page, another site's name with a password", guard{may: []string{"info"}}, "/", here, "counters.lan", "ann", "right", 200, "hello"},
		{"page, may not", guard{}, "/", here, "127.0.0.1", "ann", "right", 403, "NOPERM this user may not run INFO"},
		{"page, not this command", guard{may: []string{"info"}}, "/slow", here, "127.0.0.1", "ann", "right", 403, "SLOWLOG GET"},
		{"nothing there", guard{}, "/wp-login.php", here, "127.0.0.1", "", "", 404, "not found"},
	} {
		s := New(Options{Guard: &c.guard, Log: slog.New(slog.DiscardHandler)})
		s.HandleAnyone("/healthz", http.HandlerFunc(hello))
		s.Handle("/metrics", http.HandlerFunc(hello))
		s.HandleUsers("/{$}", http.HandlerFunc(hello), "info")
		s.HandleUsers("/slow", http.HandlerFunc(hello), "info", "slowlog|get")
		r := httptest.NewRequest("GET", "http://"+c.host+c.path, nil)
		r.RemoteAddr = c.remote
		if c.user != "" {
			r.SetBasicAuth(c.user, c.pass)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: got %d %q, want %d and %q", c.what, w.Code, w.Body, c.want, c.says)
		}
		if got := w.Header().Get("WWW-Authenticate") != ""; got != (c.want == 401) {
			t.Errorf("%s: a password is asked for: %v", c.what, got)
		}
		if c.user == "" && c.guard.logins > 0 {
			t.Errorf("%s: somebody was looked up who gave no name", c.what)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: without nosniff", c.what)
		}
	}
}

// TestMay: a handler asks for its parts.
func TestMay(t *testing.T) {
	s := New(Options{Guard: &guard{open: true, may: []string{"info", "client|list"}}, Log: slog.New(slog.DiscardHandler)})
	var got []bool
	ask := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, May(r, "client|list"), May(r, "slowlog|get"))
	})
	s.HandleUsers("/a", ask, "info")
	s.Handle("/b", ask)
	for _, path := range []string{"/a", "/b"} {
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	if want := []bool{true, false, false, false}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: only who was let in as a user may do something", got, want)
	}
}

// TestMethods: only GET and HEAD come to a handler.
func TestMethods(t *testing.T) {
	s := New(Options{Guard: &guard{open: true}, Log: slog.New(slog.DiscardHandler)})
	s.Handle("/metrics", http.HandlerFunc(hello))
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "PUT": 405, "DELETE": 405, "OPTIONS": 405, "CONNECT": 405, "TRACE": 405, "X": 405} {
		r := httptest.NewRequest(method, "/metrics", strings.NewReader("body"))
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want || (want == 405) != (w.Header().Get("Allow") == "GET, HEAD") {
			t.Errorf("%s: got %d, Allow %q, want %d", method, w.Code, w.Header().Get("Allow"), want)
		}
	}
}

// TestPanic: a panic ends its request alone, with a reply, or with a cut where one has begun.
func TestPanic(t *testing.T) {
	var log buffer
	var panics atomic.Int32
	s := serve(t, &guard{open: true}, &log, func(s *Server) {
		s.opts.Panicked = func() { panics.Add(1) }
		s.Handle("/early", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			panic("the early one")
		}))
		s.Handle("/late", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat("x", 10_000))
			panic("the late one")
		}))
		s.Handle("/", http.HandlerFunc(hello))
	})
	get := func(path string) (int, string, error) {
		resp, err := http.Get("http://" + s.Addr().String() + path)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	if code, body, err := get("/early"); code != 500 || err != nil || !strings.Contains(body, "failed") {
		t.Errorf("early: got %d %q %v, want a reply of 500", code, body, err)
	}
	if code, body, err := get("/late"); err == nil {
		t.Errorf("late: got %d and %d bytes, want a reply that is cut", code, len(body))
	}
	if code, _, err := get("/"); code != 200 || err != nil {
		t.Errorf("behind them: %d %v", code, err)
	}
	if got := log.String(); panics.Load() != 2 || !strings.Contains(got, "the early one") || !strings.Contains(got, "the late one") || !strings.Contains(got, "/late") {
		t.Errorf("%d panics were counted, and the log says %s", panics.Load(), got)
	}
}

// TestPace: requests that come faster than they should wait for their turn, and requests for a word do not wait for
// others.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Guard: &guard{open: true}, Log: slog.New(slog.DiscardHandler)})
		s.HandleAnyone("/healthz", http.HandlerFunc(hello))
		s.Handle("/", http.HandlerFunc(hello))
		get := func(ctx context.Context, path string) int {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, nil))
			return w.Code
		}
		const flood = time.Second
		ctx, end := context.WithTimeout(t.Context(), flood)
		defer end()
		var answered atomic.Int32
		for range maxConns {
			go func() {
				for get(ctx, "/") == 200 && answered.Add(1) < 10*requestBurst { // without a pace no time passes here
				}
			}()
		}
		time.Sleep(flood / 2)
		if began := time.Now(); get(t.Context(), "/healthz") != 200 || time.Since(began) != 0 {
			t.Errorf("a word took %v beside others", time.Since(began))
		}
		if began := time.Now(); get(t.Context(), "/") != 200 || time.Since(began) > (maxConns+1)*requestEvery {
			t.Errorf("another request took %v", time.Since(began))
		}
		<-ctx.Done()
		synctest.Wait()
		if n, most := time.Duration(answered.Load()), requestBurst+flood/requestEvery; n > most || n < most-maxConns {
			t.Errorf("%d requests were answered in %v, want %d", n, flood, most)
		}
	})
}

// TestPlacesInLine: requests that wait for their turn hold no connection out.
func TestPlacesInLine(t *testing.T) {
	s := serve(t, &guard{open: true}, io.Discard, func(s *Server) {
		s.HandleAnyone("/healthz", http.HandlerFunc(hello))
		s.Handle("/", http.HandlerFunc(hello))
		s.line = brake.NewLine(1, time.Hour)
	})
	if !s.line.TryTake() {
		t.Fatal("the line has no token")
	}
	for range maxConns {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for begun := uint64(0); begun < 2*maxConns; time.Sleep(time.Millisecond) { // each has come and is with a handler, or beyond
		s.conns.mu.Lock()
		begun = s.conns.clock
		s.conns.mu.Unlock()
	}
	resp, err := http.Get("http://" + s.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); string(body) != "hello" || err != nil {
		t.Errorf("beside requests in line: %q %v", body, err)
	}
}

// TestPlaces: connections that are silent, that send a byte now and then, or that wait for a next request hold nobody
// out; those that are being answered are not cut for others.
func TestPlaces(t *testing.T) {
	begun, release := make(chan struct{}, maxConns), make(chan struct{})
	s := serve(t, &guard{open: true}, io.Discard, func(s *Server) {
		s.Handle("/", http.HandlerFunc(hello))
		s.Handle("/long", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			begun <- struct{}{}
			<-release
			fmt.Fprint(w, "long")
		}))
	})
	dial := func(send string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		return c
	}
	long := make([]net.Conn, maxConns/2)
	for i := range long {
		long[i] = dial("GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
		<-begun
	}
	for i := range 4 * maxConns { // each way of not asking anything
		dial([]string{"", "G", "GET / HTTP/1.1\r\nHost: x\r\nX: y\r\n"}[i%3])
	}
	for range maxConns {
		c := dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n") // and then it waits
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("beside slow ones: %v %v", resp, err)
		}
	}
	if n := s.conns.count(); n > maxConns {
		t.Errorf("%d connections have places, want %d at most", n, maxConns)
	}
	for range maxConns - len(long) {
		long = append(long, dial("GET /long HTTP/1.1\r\nHost: x\r\n\r\n"))
		<-begun
	}
	late := dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n") // now all are being answered
	if _, err := http.ReadResponse(bufio.NewReader(late), nil); err == nil {
		t.Error("one more than all places was answered")
	}
	close(release)
	for _, c := range long {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("one that was being answered: %v %v", resp, err)
		}
	}
}

// TestPlacesUnread: connections that ask and do not read the answers keep no others out either.
func TestPlacesUnread(t *testing.T) {
	s := serve(t, &guard{open: true}, io.Discard, func(s *Server) {
		s.http.WriteTimeout = 0 // its places come free by others' need alone
		s.Handle("/", http.HandlerFunc(hello))
		s.Handle("/much", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for b := make([]byte, 1<<20); ; {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}))
	})
	dial := func(path string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range maxConns {
		if _, err := dial("/much").Read(make([]byte, 1)); err != nil { // it is being answered
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) { // none may be in a write just now
		resp, err := http.ReadResponse(bufio.NewReader(dial("/")), nil)
		if err == nil && resp.StatusCode == 200 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("beside those that do not read: %v %v", resp, err)
		}
	}
}

// TestPlacesTLS: the same with TLS: the answered connections are known below TLS, and handshakes that do not end keep
// no others out.
func TestPlacesTLS(t *testing.T) {
	ca := tlstest.NewCA(t)
	pair := ca.Pair("web")
	begun, release := make(chan struct{}, maxConns), make(chan struct{})
	s := serve(t, &guard{open: true}, io.Discard, func(s *Server) {
		s.opts.TLS = &tls.Config{Certificates: []tls.Certificate{pair.Certificate}}
		s.Handle("/", http.HandlerFunc(hello))
		s.Handle("/long", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			begun <- struct{}{}
			<-release
			fmt.Fprint(w, "long")
		}))
	})
	get := func(path string) (string, error) {
		client := http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: ca.Client()}}
		defer client.CloseIdleConnections()
		resp, err := client.Get("https://" + s.Addr().String() + path)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if resp.ProtoMajor != 1 {
			t.Errorf("it speaks %s", resp.Proto)
		}
		return string(body), err
	}
	got := make(chan string, 1)
	go func() {
		body, err := get("/long")
		got <- fmt.Sprint(body, err)
	}()
	<-begun
	for range 2 * maxConns { // half a handshake each
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "\x16\x03\x01\x01"); err != nil {
			t.Fatal(err)
		}
	}
	if body, err := get("/"); body != "hello" || err != nil {
		t.Errorf("beside slow ones: %q %v", body, err)
	}
	if n := s.conns.count(); n > maxConns {
		t.Errorf("%d connections have places, want %d at most", n, maxConns)
	}
	close(release)
	if got := <-got; got != "long<nil>" {
		t.Errorf("one that was being answered: %s", got)
	}
}

// TestHeaderLimit: a header that does not end is cut, and a server that ends waits for the answers in progress.
func TestHeaderLimit(t *testing.T) {
	s := serve(t, &guard{open: true}, io.Discard, func(s *Server) { s.Handle("/", http.HandlerFunc(hello)) })
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n")
		for range 1 << 20 {
			if _, err := io.WriteString(c, "X: "+strings.Repeat("y", 1000)+"\r\n"); err != nil {
				return
			}
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d for a header without end", resp.StatusCode)
	}
}

// TestShutdown: a request that is being answered is answered; then nobody is let in.
func TestShutdown(t *testing.T) {
	s := New(Options{Network: "tcp", Addr: "127.0.0.1:0", Guard: &guard{open: true}, Log: slog.New(slog.DiscardHandler)})
	begun, release := make(chan struct{}), make(chan struct{})
	s.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
		fmt.Fprint(w, "whole")
	}))
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + s.Addr().String())
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		got <- string(b)
	}()
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	select {
	case err := <-ended:
		t.Fatalf("it ended, %v, with a request open", err)
	case <-time.After(20 * time.Millisecond): // it cannot be seen to wait; if it does not, this may show it
	}
	close(release)
	if b, err := <-got, <-ended; b != "whole" || err != nil {
		t.Errorf("got %q and %v", b, err)
	}
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
		c.Close()
		t.Error("a server that has ended lets connections in")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := New(Options{Guard: &guard{}, Log: slog.New(slog.DiscardHandler)}).Shutdown(ctx); err != nil {
		t.Errorf("one that never listened: %v", err)
	}
}

// TestTaken: a port that is taken is told in words.
func TestTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = New(Options{Network: "tcp", Addr: l.Addr().String(), Guard: &guard{}, Log: slog.New(slog.DiscardHandler)}).Listen()
	if err == nil || !strings.Contains(err.Error(), "taken by another program") {
		t.Errorf("got %v", err)
	}
}

package front

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/tlstest"
)

// A front of echoes, and clients of it.
//
//	PING, ECHO text   are answered at once
//	LATER text        is planned, and answered as ECHO is when it is flushed
//	SLOW text         cannot be executed in a loop, and is answered as ECHO is elsewhere
//	POUR n bytes      writes n pieces past the replies, and answers how many bytes were written since others had their turn
//	BLOCK             waits until the connection ends, or the server
//	BUSY              the same within a command that works, which ends a second later
//	RESERVE bytes     reserves memory, outside of the loop, and notes whether it got it
//	PANIC             panics
//	ASK text          asks the other side of echoes.trunk; all replies of the turn wait in the loop for the answer

// echoes is the host.
type echoes struct {
	*Front
	ca     *tlstest.CA // of a front of TLS; nil: it has none
	addr   string      // of its listener for TLS
	totals stats.Totals
	ended  atomic.Int64 // sessions

	reserved, refused atomic.Int64 // answers to RESERVE

	trunk   Trunk // for ASK
	asks    sync.Mutex
	waiting []*echo // one for each ASK that was sent, in order
}

// echo is the handler of one session.
type echo struct {
	Session
	host   *echoes
	out    resp.Replies
	last   string // the name of the last command
	later  []string
	unsafe bool // a reply of LATER is not settled
	memory *echoMemory
	due    atomic.Int64 // the text that Notices appends

	asked   [][]byte // texts of ASK: not copied, as the session keeps them
	sent    bool     // they were
	answers []string // guarded by host.asks
}

// echoMemory belongs to one echo at a time.
type echoMemory struct{ of atomic.Pointer[echo] }

// serve starts a front on a unix socket.
func serve(t testing.TB, change func(*config.Config)) *echoes {
	t.Helper()
	conf := config.Default()
	conf.Port, conf.UnixSocket = 0, filepath.Join(t.TempDir(), "s")
	if change != nil {
		change(&conf)
	}
	h := new(echoes)
	return h.serve(t, conf, nil)
}

// serveTLS is serve of TLS, beside the unix socket, with limits of handshakes as they are set.
func serveTLS(t testing.TB, change func(*config.Config), set ...func(*handshakes)) *echoes {
	t.Helper()
	conf := config.Default()
	conf.Port, conf.UnixSocket = 0, filepath.Join(t.TempDir(), "s")
	if change != nil {
		change(&conf)
	}
	h := &echoes{ca: tlstest.NewCA(t)}
	h.serve(t, conf, &tls.Config{Certificates: []tls.Certificate{h.ca.Pair("server").Certificate}, MinVersion: tls.VersionTLS12})
	h.addr = conf.UnixSocket + "-tls" // its buffers are small, so that unread bytes soon block it
	l, err := net.Listen("unix", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range set {
		s(h.handshakes)
	}
	secure := listener{Listener: l, tls: true}
	h.listeners = append(h.listeners, secure)
	h.done.Add(1)
	go h.accept(secure)
	return h
}

// both runs a test without TLS and with it.
func both(t *testing.T, change func(*config.Config), test func(t *testing.T, h *echoes)) {
	t.Run("plain", func(t *testing.T) { test(t, serve(t, change)) })
	t.Run("TLS", func(t *testing.T) { test(t, serveTLS(t, change)) })
}

func (h *echoes) serve(t testing.TB, conf config.Config, secure *tls.Config) *echoes {
	t.Helper()
	h.Front = New(h, config.NewLive(conf), &h.totals, secure, slog.New(slog.DiscardHandler))
	if err := h.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.Wait(ctx); err != nil {
			t.Error(err)
		}
		if n := h.totals.Connections.Load(); h.ended.Load() != n {
			t.Errorf("%d of %d sessions have ended", h.ended.Load(), n)
		}
		if n := h.Held(); n != 0 {
			t.Errorf("%d bytes are held in the end", n)
		}
	})
	return h
}

func (h *echoes) NeedsPassword() bool { return false }
func (h *echoes) NewSession(bool, Port) *Session {
	e := &echo{host: h}
	e.Bind(e, &e.out)
	return &e.Session
}

func (h *echoes) EachSecond()     {}
func (h *echoes) DiskHangs() bool { return false }
func (h *echoes) Unread() int64   { return 0 }

func (e *echo) Attach(memory any) {
	m, _ := memory.(*echoMemory)
	if m == nil {
		m = new(echoMemory)
	}
	if !m.of.CompareAndSwap(nil, e) {
		panic("memory that another works in")
	}
	e.memory = m
}

func (e *echo) Detach() any {
	m := e.memory
	e.memory = nil
	if !m.of.CompareAndSwap(e, nil) {
		panic("memory that another works in")
	}
	return m
}

// Joins takes a hundred of the commands that do not wait.
func (e *echo) Joins() int {
	switch e.last {
	case "ECHO", "LATER", "ASK":
		return 100
	}
	return 0
}

// Join takes the commands up to the first one whose argument says that it wants to come alone.
func (e *echo) Join(keys, lasts [][]byte) (taken int) {
	if lasts != nil { // which is all that it answers with
		keys = lasts
	}
	for i, arg := range keys {
		if strings.HasPrefix(string(arg), "alone") {
			return i
		}
		e.Command([][]byte{[]byte(e.last), arg})
	}
	return len(keys)
}

func (e *echo) Command(args [][]byte) {
	text := func() string { return string(args[len(args)-1]) }
	e.last = strings.ToUpper(string(args[0]))
	switch e.last {
	case "PING":
		e.Flush()
		e.out.Status("PONG")
	case "ECHO":
		e.Flush()
		e.out.BulkString(text())
	case "LATER":
		e.later = append(e.later, text())
	case "SLOW":
		if e.InLoop() {
			e.Postpone(args)
			return
		}
		e.Flush()
		e.out.BulkString(text())
	case "POUR":
		if e.InLoop() {
			e.Postpone(args)
			return
		}
		e.Flush()
		_ = e.Send()
		n, _ := strconv.Atoi(string(args[1]))
		bytes, _ := strconv.Atoi(text())
		for range n {
			_, _ = e.Write(make([]byte, bytes))
		}
		e.out.Status(fmt.Sprint(e.written))
	case "BLOCK":
		if e.InLoop() {
			e.Postpone(args)
			return
		}
		e.Commit()
		e.Block(context.Background(), func(ctx context.Context) { <-ctx.Done() })
	case "BUSY":
		if e.InLoop() {
			e.Postpone(args)
			return
		}
		e.Commit()
		e.Busy(func(ctx context.Context) {
			e.Block(context.Background(), func(ctx context.Context) { <-ctx.Done() })
			<-ctx.Done()
		})
	case "RESERVE":
		if e.InLoop() {
			e.Postpone(args)
			return
		}
		n, _ := strconv.Atoi(text())
		if e.Reserve(n) {
			e.host.reserved.Add(1)
		} else {
			e.host.refused.Add(1)
		}
	case "ASK":
		e.asked = append(e.asked, args[1])
	case "PANIC":
		panic("asked for")
	default:
		e.Flush()
		e.out.Error("ERR unknown command")
	}
}

func (e *echo) Malformed(err error) { e.out.Error("ERR " + err.Error()) }

func (e *echo) Flush() {
	for _, text := range e.later {
		e.out.BulkString(text)
		e.unsafe = true
	}
	e.later = e.later[:0]
}

func (e *echo) Committed() bool { return !e.unsafe }
func (e *echo) Asking() bool    { return len(e.asked) > 0 }

func (e *echo) Commit() {
	e.Flush()
	e.unsafe = false
	if !e.Asking() {
		return
	}
	h := e.host
	h.asks.Lock()
	defer h.asks.Unlock()
	for i := 0; i < len(e.asked) && !e.sent; i++ {
		h.waiting = append(h.waiting, e)
		_, _ = h.trunk.Offer(append(bytes.Clone(e.asked[i]), '\n'))
	}
	if e.sent = true; len(e.answers) < len(e.asked) {
		e.HoldReplies()
		return
	}
	for i, text := range e.asked {
		e.out.BulkString(string(text) + "=" + e.answers[i])
	}
	e.asked, e.answers, e.sent = nil, nil, false
}

// arrived takes answers to ASK.
func (h *echoes) arrived(b []byte) (used int, err error) {
	h.asks.Lock()
	defer h.asks.Unlock()
	for {
		answer, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			return used, nil
		}
		used, b = used+len(answer)+1, rest
		e := h.waiting[0]
		h.waiting = h.waiting[1:]
		if e.answers = append(e.answers, string(answer)); len(e.answers) == len(e.asked) {
			e.Resume()
		}
	}
}

func (e *echo) Notices() { e.out.Status(fmt.Sprint("note ", e.due.Load())) }

func (e *echo) Publish()               { e.Charge(0) }
func (e *echo) Locked() bool           { return false }
func (e *echo) Exemptions() Exemptions { return Exemptions{} }

func (e *echo) Disconnected() bool {
	e.host.ended.Add(1)
	return true
}

// wire is a client.
type wire struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

// patience is how long a test waits for an event that must come.
const patience = 3 * time.Minute

func dial(t testing.TB, h *echoes) *wire {
	t.Helper()
	var conn net.Conn
	var err error
	if h.ca != nil {
		client := h.ca.Client()
		client.DynamicRecordSizingDisabled = true // records as large as those of OpenSSL
		conn, err = tls.Dial("unix", h.addr, client)
	} else {
		conn, err = net.Dial("unix", h.config.Get().UnixSocket)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &wire{t: t, conn: conn, r: bufio.NewReader(conn)}
}

// line is the connection below TLS.
func (c *wire) line() net.Conn {
	if secure, ok := c.conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return c.conn
}

func (c *wire) read() resptest.Value {
	c.t.Helper()
	v, err := resptest.Read(c.r, 2)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// send sends bytes.
func (c *wire) send(text string) {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// want sends a line and checks its reply.
func (c *wire) want(line, reply string) {
	c.t.Helper()
	c.send(line + "\r\n")
	if got := c.read().String(); got != reply {
		c.t.Errorf("%s: got %s, want %s", line, got, reply)
	}
}

// closed checks that the other side has closed the connection.
func (c *wire) closed() {
	c.t.Helper()
	b, err := c.r.ReadByte()
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Errorf("got byte %q, error %v, want the end of the connection", b, err)
	}
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

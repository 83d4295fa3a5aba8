package harness

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// IoTimeout bounds every single read and write of a test: a server that stops answering fails the test
// instead of hanging it. It is far above any reply time, so that a busy machine never trips it.
const IoTimeout = time.Minute

// Conn is a bare connection. Its try methods return errors and may be used from any goroutine, one at a time;
// the others end the test and belong to the test's own goroutine.
type Conn struct {
	Nc net.Conn
	Br *bufio.Reader
	T  testing.TB
}

func DialTimeout(network, addr string, d time.Duration) (*Conn, error) {
	nc, err := net.DialTimeout(network, addr, d)
	if err != nil {
		return nil, err
	}
	return &Conn{Nc: nc, Br: bufio.NewReaderSize(nc, 64<<10)}, nil
}

// Dial connects to the server's TCP port; the connection is closed when the test ends. It belongs to the test's
// goroutine.
func (s *Server) Dial(t testing.TB) *Conn {
	t.Helper()
	c := DialAddr(t, "tcp", s.Addr)
	s.dialed = append(s.dialed, c)
	return c
}

// HangUp closes all connections that dial has made.
func (s *Server) HangUp() {
	for _, c := range s.dialed {
		c.Close()
	}
	s.dialed = nil
}

func DialAddr(t testing.TB, network, addr string) *Conn {
	t.Helper()
	c, err := DialTimeout(network, addr, IoTimeout)
	if err != nil {
		t.Fatal(err)
	}
	c.T = t
	t.Cleanup(c.Close)
	return c
}

func (c *Conn) Close() { c.Nc.Close() }

func (c *Conn) TryWrite(p []byte) error {
	if err := c.Nc.SetWriteDeadline(time.Now().Add(IoTimeout)); err != nil {
		return err
	}
	_, err := c.Nc.Write(p)
	return err
}

func (c *Conn) TryDo(args ...string) (resptest.Value, error) {
	if err := c.TryWrite(resptest.Append(nil, args...)); err != nil {
		return resptest.Value{}, err
	}
	return c.TryReply()
}

// TryReply reads one reply.
func (c *Conn) TryReply() (resptest.Value, error) {
	if err := c.Nc.SetReadDeadline(time.Now().Add(IoTimeout)); err != nil {
		return resptest.Value{}, err
	}
	return resptest.Read(c.Br, resptest.Any)
}

// Write sends bytes as they are.
func (c *Conn) Write(s string) {
	c.T.Helper()
	if err := c.TryWrite([]byte(s)); err != nil {
		c.T.Fatalf("write %.60q: %v", s, err)
	}
}

// Do sends a request and returns its reply.
func (c *Conn) Do(args ...string) resptest.Value {
	c.T.Helper()
	v, err := c.TryDo(args...)
	if err != nil {
		c.T.Fatalf("%.80q: %v", args, err)
	}
	return v
}

// Reply reads one reply.
func (c *Conn) Reply() resptest.Value {
	c.T.Helper()
	v, err := c.TryReply()
	if err != nil {
		c.T.Fatalf("reading a reply: %v", err)
	}
	return v
}

// Want sends a request and checks the exact bytes of its reply.
func (c *Conn) Want(raw string, args ...string) {
	c.T.Helper()
	if v := c.Do(args...); v.Raw != raw {
		c.T.Errorf("%s\n got %q\nwant %q", QuoteArgs(args), v.Raw, raw)
	}
}

// Save makes a snapshot. It waits while the server makes an automatic snapshot, because SAVE is refused beside that, as in Redis.
func (c *Conn) Save() {
	c.T.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		v := c.Do("SAVE")
		if v.Raw == "+OK\r\n" {
			return
		}
		if !strings.Contains(v.Raw, "already in progress") || time.Now().After(deadline) {
			c.T.Fatalf("SAVE\n got %q", v.Raw)
		}
	}
}

// WantEOF checks that the server closes the connection without sending anything more.
func (c *Conn) WantEOF() {
	c.T.Helper()
	if v, err := c.TryReply(); !IsClosed(err) {
		c.T.Errorf("got reply %q, error %v, want the connection closed", v.Raw, err)
	}
}

// IsClosed says that an error means: the server closed the connection (not: a deadline has passed).
func IsClosed(err error) bool {
	var ne net.Error
	return err != nil && !(errors.As(err, &ne) && ne.Timeout())
}

// QuoteArgs shows a request as it would be typed at a redis-cli prompt.
func QuoteArgs(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if a == "" || strings.ContainsAny(a, " \"'\\\r\n\t\x00") || !isPrintable(a) {
			b.WriteString(strconv.Quote(a))
		} else {
			b.WriteString(a)
		}
	}
	return b.String()
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// RefusedByDisk reports whether a reply refuses a change, which was not made, because a sync of the log takes over two seconds. The disk
// of a machine that runs many tests may need that long, so a test with a disk of the machine's own sends such a change again.
func RefusedByDisk(reply string) bool {
	return strings.HasPrefix(reply, "-MISCONF") && (strings.Contains(reply, "the disk is slow") || strings.Contains(reply, "the disk hangs"))
}

package e2e

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

// ioTimeout bounds every single read and write of a test: a server that stops answering fails the test
// instead of hanging it. It is far above any reply time, so that a busy machine never trips it.
const ioTimeout = 30 * time.Second

// conn is a bare connection. Its try methods return errors and may be used from any goroutine, one at a time;
// the others end the test and belong to the test's own goroutine.
type conn struct {
	nc net.Conn
	br *bufio.Reader
	t  testing.TB
}

func dialTimeout(network, addr string, d time.Duration) (*conn, error) {
	nc, err := net.DialTimeout(network, addr, d)
	if err != nil {
		return nil, err
	}
	return &conn{nc: nc, br: bufio.NewReaderSize(nc, 64<<10)}, nil
}

// dial connects to the server's TCP port; the connection is closed when the test ends. It belongs to the test's
// goroutine.
func (s *server) dial(t testing.TB) *conn {
	t.Helper()
	c := dialAddr(t, "tcp", s.addr)
	s.dialed = append(s.dialed, c)
	return c
}

// hangUp closes all connections that dial has made.
func (s *server) hangUp() {
	for _, c := range s.dialed {
		c.close()
	}
	s.dialed = nil
}

func dialAddr(t testing.TB, network, addr string) *conn {
	t.Helper()
	c, err := dialTimeout(network, addr, ioTimeout)
	if err != nil {
		t.Fatal(err)
	}
	c.t = t
	t.Cleanup(c.close)
	return c
}

func (c *conn) close() { c.nc.Close() }

func (c *conn) tryWrite(p []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(p)
	return err
}

func (c *conn) tryDo(args ...string) (resptest.Value, error) {
	if err := c.tryWrite(resptest.Append(nil, args...)); err != nil {
		return resptest.Value{}, err
	}
	return c.tryReply()
}

// tryReply reads one reply.
func (c *conn) tryReply() (resptest.Value, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(ioTimeout)); err != nil {
		return resptest.Value{}, err
	}
	return resptest.Read(c.br, resptest.Any)
}

// write sends bytes as they are.
func (c *conn) write(s string) {
	c.t.Helper()
	if err := c.tryWrite([]byte(s)); err != nil {
		c.t.Fatalf("write %.60q: %v", s, err)
	}
}

// do sends a request and returns its reply.
func (c *conn) do(args ...string) resptest.Value {
	c.t.Helper()
	v, err := c.tryDo(args...)
	if err != nil {
		c.t.Fatalf("%.80q: %v", args, err)
	}
	return v
}

// reply reads one reply.
func (c *conn) reply() resptest.Value {
	c.t.Helper()
	v, err := c.tryReply()
	if err != nil {
		c.t.Fatalf("reading a reply: %v", err)
	}
	return v
}

// want sends a request and checks the exact bytes of its reply.
func (c *conn) want(raw string, args ...string) {
	c.t.Helper()
	if v := c.do(args...); v.Raw != raw {
		c.t.Errorf("%s\n got %q\nwant %q", quoteArgs(args), v.Raw, raw)
	}
}

// wantEOF checks that the server closes the connection without sending anything more.
func (c *conn) wantEOF() {
	c.t.Helper()
	if v, err := c.tryReply(); !isClosed(err) {
		c.t.Errorf("got reply %q, error %v, want the connection closed", v.Raw, err)
	}
}

// isClosed says that an error means: the server closed the connection (not: a deadline has passed).
func isClosed(err error) bool {
	var ne net.Error
	return err != nil && !(errors.As(err, &ne) && ne.Timeout())
}

// quoteArgs shows a request as it would be typed at a redis-cli prompt.
func quoteArgs(args []string) string {
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

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
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

// value is one reply: its exact bytes and what they mean.
type value struct {
	raw   string  // the bytes as received
	kind  byte    // RESP type byte
	text  string  // line or bulk contents
	elems []value // of * % ~ > (keys and values of a map alternate)
	null  bool    // $-1, *-1 or _
}

func dialTimeout(network, addr string, d time.Duration) (*conn, error) {
	nc, err := net.DialTimeout(network, addr, d)
	if err != nil {
		return nil, err
	}
	return &conn{nc: nc, br: bufio.NewReaderSize(nc, 64<<10)}, nil
}

// dial connects to the server's TCP port; the connection is closed when the test ends. It belongs to the test's goroutine.
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

// appendRequest appends a request as an array of bulk strings.
func appendRequest(dst []byte, args ...string) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(args)), 10)
	dst = append(dst, '\r', '\n')
	for _, a := range args {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(a)), 10)
		dst = append(dst, '\r', '\n')
		dst = append(dst, a...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

func (c *conn) tryWrite(p []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(p)
	return err
}

func (c *conn) tryDo(args ...string) (value, error) {
	if err := c.tryWrite(appendRequest(nil, args...)); err != nil {
		return value{}, err
	}
	return c.tryReply()
}

// tryReply reads one reply.
func (c *conn) tryReply() (value, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(ioTimeout)); err != nil {
		return value{}, err
	}
	return readValue(c.br)
}

// write sends bytes as they are.
func (c *conn) write(s string) {
	c.t.Helper()
	if err := c.tryWrite([]byte(s)); err != nil {
		c.t.Fatalf("write %.60q: %v", s, err)
	}
}

// do sends a request and returns its reply.
func (c *conn) do(args ...string) value {
	c.t.Helper()
	v, err := c.tryDo(args...)
	if err != nil {
		c.t.Fatalf("%.80q: %v", args, err)
	}
	return v
}

// reply reads one reply.
func (c *conn) reply() value {
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
	if v := c.do(args...); v.raw != raw {
		c.t.Errorf("%s\n got %q\nwant %q", quoteArgs(args), v.raw, raw)
	}
}

// wantEOF checks that the server closes the connection without sending anything more.
func (c *conn) wantEOF() {
	c.t.Helper()
	if v, err := c.tryReply(); !isClosed(err) {
		c.t.Errorf("got reply %q, error %v, want the connection closed", v.raw, err)
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

// readValue reads one RESP2 or RESP3 reply.
func readValue(br *bufio.Reader) (value, error) {
	line, err := br.ReadString('\n')
	if err != nil {
		if len(line) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return value{raw: line}, err
	}
	v := value{raw: line, kind: line[0]}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return v, fmt.Errorf("reply line %q does not end in CR LF", line)
	}
	v.text = line[1 : len(line)-2]
	switch v.kind {
	case '+', '-', ':', '#', ',', '(':
		return v, nil
	case '_':
		v.null = true
		return v, nil
	case '$', '=', '!':
		n, err := replyLength(v.text)
		if err != nil || n < 0 {
			v.null = err == nil
			return v, err
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(br, body); err != nil {
			return v, io.ErrUnexpectedEOF
		}
		v.raw += string(body)
		if string(body[n:]) != "\r\n" {
			return v, fmt.Errorf("bulk reply %q does not end in CR LF", v.raw)
		}
		v.text = string(body[:n])
		return v, nil
	case '*', '%', '~', '>':
		n, err := replyLength(v.text)
		if err != nil || n < 0 {
			v.null = err == nil
			return v, err
		}
		if v.kind == '%' {
			n *= 2
		}
		var raw strings.Builder
		raw.WriteString(v.raw)
		for range n {
			e, err := readValue(br)
			if err != nil {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return v, err
			}
			raw.WriteString(e.raw)
			v.elems = append(v.elems, e)
		}
		v.raw = raw.String()
		return v, nil
	}
	return v, fmt.Errorf("reply line %q begins with no RESP type", line)
}

// replyLength parses the length of a reply; a reply above 64 Mi bytes or elements is a defect, not a test's data.
func replyLength(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < -1 || n > 64<<20 {
		return 0, fmt.Errorf("reply length %q", s)
	}
	return n, nil
}

// int returns an integer reply's value, or that of a bulk string of digits.
func (v value) int() (int64, error) {
	if v.kind != ':' && v.kind != '$' || v.null {
		return 0, fmt.Errorf("got reply %q, want an integer", v.raw)
	}
	return strconv.ParseInt(v.text, 10, 64)
}

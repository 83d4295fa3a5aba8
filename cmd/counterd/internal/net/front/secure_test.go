package front

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// splitConn writes in pieces.
type splitConn struct {
	net.Conn
	most int // bytes of a piece
	rnd  *rand.Rand
}

func (c splitConn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := c.Conn.Write(p[n:min(n+1+c.rnd.IntN(c.most), len(p))])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// dialLine connects to the port for TLS without it.
func dialLine(t testing.TB, h *echoes) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// TestRecords: however records are cut on their way, and however large and many they are, their contents come in order
// and complete.
func TestRecords(t *testing.T) {
	h := serveTLS(t, nil)
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, most := range []int{1, 7, 1 << 10, 1 << 20} {
			rnd := rand.New(rand.NewPCG(seed, uint64(most)))
			client := h.ca.Client()
			client.MaxVersion = version
			client.DynamicRecordSizingDisabled = most > 7
			secure := tls.Client(splitConn{dialLine(t, h), most, rnd}, client)
			c := &wire{t: t, conn: secure, r: bufio.NewReader(secure)}
			if err := secure.Handshake(); err != nil {
				t.Fatal(err)
			}
			texts := make([]string, 30)
			for i := range texts {
				texts[i] = strings.Repeat(fmt.Sprint(i), 1+rnd.IntN(min(100*most, 20_000)))
			}
			go func() { // rnd is its own from here on
				for i := 0; i < len(texts); {
					var batch strings.Builder
					for range 1 + rnd.IntN(5) {
						if i < len(texts) {
							fmt.Fprintf(&batch, "%s %s\r\n", []string{"ECHO", "LATER", "SLOW"}[rnd.IntN(3)], texts[i])
							i++
						}
					}
					if _, err := io.WriteString(secure, batch.String()); err != nil {
						t.Error(err)
						return
					}
				}
			}()
			for i := range texts {
				if got := c.read().Text; got != texts[i] {
					t.Fatalf("%s, pieces of %d: text %d has %d bytes, want %d", tls.VersionName(version), most, i, len(got), len(texts[i]))
				}
			}
			secure.Close()
		}
	}
	until(t, "all connections forgotten", func() bool { return len(h.Sessions()) == 0 })
}

// TestFirstCommandWithHandshake: a command in the same packet as the client's last message of the handshake is executed,
// though no more bytes come that would wake a loop.
func TestFirstCommandWithHandshake(t *testing.T) {
	h := serveTLS(t, nil)
	for range 50 {
		line := &joinedConn{Conn: dialLine(t, h)}
		c := tls.Client(line, h.ca.Client())
		line.hold = 1 // of the bytes after the ClientHello, until a command follows
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		if err := line.release(); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len("+PONG\r\n"))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "+PONG\r\n" {
			t.Fatalf("got %q, %v", b, err)
		}
		c.Close()
	}
}

// joinedConn holds back the bytes written after so many writes.
type joinedConn struct {
	net.Conn
	hold, writes int
	held         []byte
}

func (c *joinedConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes <= c.hold {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

func (c *joinedConn) release() error {
	c.hold = 1 << 30
	_, err := c.Conn.Write(c.held)
	return err
}

// TestLineBreaks: a line that is cut within a record, or brings bytes that are no record, ends its session and no other,
// and nothing of a record that is not whole is executed.
func TestLineBreaks(t *testing.T) {
	h := serveTLS(t, nil)
	other := dial(t, h)
	for name, end := range map[string]func(c *tls.Conn, line *joinedConn){
		"cut within a record": func(c *tls.Conn, line *joinedConn) {
			line.hold = 0
			_, _ = c.Write([]byte("PANIC\r\n"))
			_, _ = line.Conn.Write(line.held[:len(line.held)-1])
			line.Close()
		},
		"a record that was changed": func(c *tls.Conn, line *joinedConn) {
			line.hold = 0
			_, _ = c.Write([]byte("PANIC\r\n"))
			line.held[len(line.held)-1] ^= 1
			_, _ = line.Conn.Write(line.held)
		},
		"no records":         func(_ *tls.Conn, line *joinedConn) { _, _ = line.Conn.Write([]byte("PANIC\r\nPANIC\r\n")) },
		"too long a record":  func(_ *tls.Conn, line *joinedConn) { _, _ = line.Conn.Write([]byte{23, 3, 3, 255, 255, 0}) },
		"an end without one": func(_ *tls.Conn, line *joinedConn) { line.Close() },
		"a ClientHello":      func(c *tls.Conn, line *joinedConn) { _, _ = line.Conn.Write([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0}) },
	} {
		line := &joinedConn{Conn: dialLine(t, h), hold: 1 << 30}
		c := tls.Client(line, h.ca.Client())
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, len("+PONG\r\n"))); err != nil {
			t.Fatal(err)
		}
		end(c, line)
		until(t, name+": forgotten", func() bool { return len(h.Sessions()) == 1 })
		other.want("PING", "+PONG")
	}
	if n := h.totals.Panics.Load(); n != 0 {
		t.Errorf("%d commands were executed that had not come whole", n)
	}
}

// TestLastWord: the server says that nothing more comes (close_notify), behind all replies.
func TestLastWord(t *testing.T) {
	h := serveTLS(t, nil)
	c := dial(t, h)
	c.send("LATER a\r\n*x\r\n")
	all, err := io.ReadAll(c.conn)
	if want := "$1\r\na\r\n-ERR Protocol error: invalid multibulk length\r\n"; string(all) != want || err != nil {
		t.Errorf("got %q, %v", all, err)
	}
}

// TestNoHandshake: bytes that are no handshake, or a handshake that does not end, take no session.
func TestNoHandshake(t *testing.T) {
	h := serveTLS(t, nil, func(hs *handshakes) { hs.within = 3 * time.Second }) // a client on a busy machine may need one
	texts := map[string]string{
		"nothing":                   "",
		"RESP":                      "PING\r\n",
		"noise":                     "\x16" + strings.Repeat("noise", 1000),
		"SSL 2":                     "\x80\x2e\x01\x00\x02",
		"the beginning of a record": "\x16\x03\x01\x02\x00\x01",
		"a hello without end":       "\x16\x03\x01\x40\x00\x01\x00\xff\xff" + strings.Repeat("x", 100_000),
		"empty records":             strings.Repeat("\x16\x03\x01\x00\x00", 10_000),
		"an alert":                  "\x15\x03\x01\x00\x02\x02\x28",
	}
	lines := make(map[string]net.Conn)
	for name, text := range texts {
		line := dialLine(t, h)
		lines[name] = line
		go func() { _, _ = io.WriteString(line, text) }()
	}
	until(t, "all are refused", func() bool { return h.totals.FailedHandshakes.Load() == int64(len(texts)) })
	for name, line := range lines {
		answer, _ := io.ReadAll(line)
		if plain := bytes.HasPrefix(answer, []byte("-ERR this port accepts TLS connections only")); plain != (name == "RESP" || name == "SSL 2" || name == "an alert") {
			t.Errorf("%s: answered %q", name, answer)
		}
		line.Close()
	}
	if n := h.totals.Connections.Load(); n != 0 {
		t.Errorf("%d sessions were made", n)
	}
	dial(t, h).want("PING", "+PONG")
}

// TestHandshakesEndWithTheServer: a hanging handshake does not keep the server running, which the end of serveTLS
// checks.
func TestHandshakesEndWithTheServer(t *testing.T) {
	h := serveTLS(t, nil, func(hs *handshakes) { hs.within = time.Hour })
	line := dialLine(t, h)
	_, _ = line.Write([]byte{recordHandshake})
	until(t, "a handshake", func() bool {
		h.handshakes.mu.Lock()
		defer h.handshakes.mu.Unlock()
		return len(h.handshakes.all) == 1
	})
}

// TestHandshakePlaces: connections that stall give their places up, and those that are served leave none beyond
// maxclients.
func TestHandshakePlaces(t *testing.T) {
	h := serveTLS(t, func(c *config.Config) { c.MaxClients = 3 }, func(hs *handshakes) { hs.within, hs.stalls = time.Hour, 50*time.Millisecond })
	for range 10 {
		dialLine(t, h)
	}
	for range 3 {
		dial(t, h).want("PING", "+PONG")
	}
	until(t, "those that stall are closed, as there is no room left", func() bool {
		h.handshakes.mu.Lock()
		defer h.handshakes.mu.Unlock()
		return len(h.handshakes.all) <= 3
	})
	line := dialLine(t, h)
	if n, err := line.Read(make([]byte, 1)); err == nil {
		t.Errorf("a fourth: got %d bytes", n)
	}
}

// TestSecureHolds: the memory of records counts as held until they are sent.
func TestSecureHolds(t *testing.T) {
	h := serveTLS(t, nil)
	c := dial(t, h)
	c.want("PING", "+PONG")
	c.want("ECHO "+strings.Repeat("x", 12_000), `"`+strings.Repeat("x", 12_000)+`"`)
	until(t, "the buffer of a record counts", func() bool { return h.Held() >= 12_000 })
	s := h.Sessions()[0]
	go func() { _, _ = io.WriteString(c.conn, strings.Repeat("ECHO "+strings.Repeat("y", 60_000)+"\r\n", 50)) }()
	until(t, "a reply that does not fit", s.Activity.Writing)
	until(t, "it is kept", func() bool { return s.conn.secure.waits() })
	for range 50 {
		if got := c.read(); len(got.Text) != 60_000 {
			t.Fatalf("got %d bytes", len(got.Text))
		}
	}
	until(t, "nothing is kept", func() bool { return !s.conn.secure.waits() && s.conn.secure.holds() < 64<<10 })
}

// TestUnsentEnds: answers to KeyUpdates that nobody takes are no memory without end.
func TestUnsentEnds(t *testing.T) {
	h := serveTLS(t, nil)
	c := dial(t, h)
	c.want("PING", "+PONG")
	l := &h.Sessions()[0].conn.secure.line
	record := make([]byte, 1000)
	var err error
	n := 0
	for ; err == nil && n < 100_000; n++ {
		_, err = l.Write(record)
	}
	if err == nil || errors.Is(err, net.ErrClosed) || l.of.holds() > maxUnsent+l.of.input+16<<10 {
		t.Errorf("after %d records: %v, %d bytes are held", n, err, l.of.holds())
	}
}

// TestFrames: in whatever pieces records come, frames tells how many each piece completes, and whether it ends with one.
func TestFrames(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var all []byte
		ends := map[int]bool{0: true}
		for range 1 + rnd.IntN(8) {
			n := []int{0, 1, 5, 40, 300, 20_000, 65_535}[rnd.IntN(7)]
			all = append(all, 23, 3, 3, byte(n>>8), byte(n))
			all = append(all, bytes.Repeat([]byte{255}, n)...)
			ends[len(all)] = true
		}
		var f frames
		most := []int{1, 3, 6, 100, 50_000}[rnd.IntN(5)]
		for at := 0; at < len(all); {
			n := min(1+rnd.IntN(most), len(all)-at)
			whole := 0
			for end := at + 1; end <= at+n; end++ {
				if ends[end] {
					whole++
				}
			}
			f.follow(all[at : at+n])
			if at += n; f.whole != whole || f.atEnd() != ends[at] {
				t.Fatalf("the %d bytes up to %d: got %d whole records, at an end: %v; want %d, %v", n, at, f.whole, f.atEnd(), whole, ends[at])
			}
		}
	}
}

// gatherConn keeps written bytes in held while gather is set.
type gatherConn struct {
	net.Conn
	gather bool
	held   []byte
}

func (c *gatherConn) Write(p []byte) (int, error) {
	if c.gather {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestRecordsTogether: records of one command each that come together, cut at any byte, are all executed, though no more bytes come that would
// wake a loop. The second piece is sent when the commands of the first one are answered.
func TestRecordsTogether(t *testing.T) {
	h := serveTLS(t, nil)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := h.ca.Client()
		client.MaxVersion = version
		line := &gatherConn{Conn: dialLine(t, h)}
		c := tls.Client(line, client)
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		for cut := 1; ; cut += 3 {
			line.gather = true
			ends := []int{}
			for range 3 {
				if _, err := c.Write([]byte("PING\r\n")); err != nil {
					t.Fatal(err)
				}
				ends = append(ends, len(line.held))
			}
			line.gather = false
			all := line.held
			line.held = nil
			if cut >= len(all) {
				break
			}
			for _, piece := range [][2]int{{0, cut}, {cut, len(all)}} {
				if _, err := line.Conn.Write(all[piece[0]:piece[1]]); err != nil {
					t.Fatal(err)
				}
				answers := 0
				for _, end := range ends {
					if piece[0] < end && end <= piece[1] {
						answers++
					}
				}
				if _, err := io.ReadFull(c, make([]byte, answers*len("+PONG\r\n"))); err != nil {
					t.Fatalf("%s, cut at %d: %v", tls.VersionName(version), cut, err)
				}
			}
		}
	}
}

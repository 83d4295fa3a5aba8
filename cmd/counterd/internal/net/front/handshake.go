package front

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/counterd/counterd/internal/monotonic"
)

// handshakes are the connections whose TLS handshake is under way. Each has a goroutine, none is in a loop. They are
// bounded, so that strangers who begin one and stop cost little and keep nobody out:
//
//   - in time: 10 s each.
//   - in number: 512, and together with the sessions there are maxclients at most. When all places are taken, the one
//     that has waited for its client for longest gives its place up, once that is half a second. Who is waited for less
//     than that, and who waits for us, is left in peace: new ones wait in the backlog of the listener meanwhile.
//   - in processor time: half of the processors compute for them, the loops want the others. A handshake that waits for
//     its client gives its turn away.
//   - in memory: before its first byte a connection has the goroutine alone, and it may send 64 KiB, which is more than
//     any chain of certificates.
type handshakes struct {
	config *tls.Config
	within time.Duration // that one may take
	stalls time.Duration // how long one is waited for at least before it gives its place up
	turns  chan struct{} // has an element for each that computes

	mu    sync.Mutex // guards the rest; a leaf
	all   map[*handshake]struct{}
	ended chan struct{} // has an element when a place may have become free
	over  bool          // the front stops
}

const (
	handshakeTime  = 10 * time.Second
	maxHandshakes  = 512
	maxHello       = 64 << 10 // bytes
	stalledAfter   = 500 * time.Millisecond
	placeFreeAfter = 50 * time.Millisecond // how often a connection that waits for a place looks for a stalled handshake
)

func newHandshakes(config *tls.Config) *handshakes {
	return &handshakes{config: config, within: handshakeTime, stalls: stalledAfter, turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), all: make(map[*handshake]struct{}), ended: make(chan struct{}, 1)}
}

// handshake is one: the connection as crypto/tls sees it meanwhile.
type handshake struct {
	net.Conn
	turns   chan struct{}
	waiting atomic.Int64 // since when it waits for its client, a monotonic.Moment; 0: it does not
	read    int
}

// Read gives the turn away while there is nothing to be read.
func (h *handshake) Read(p []byte) (int, error) {
	if h.read >= maxHello {
		return 0, errHelloTooLong
	}
	<-h.turns
	h.waiting.Store(int64(monotonic.Now()))
	n, err := h.Conn.Read(p[:min(len(p), maxHello-h.read)])
	h.waiting.Store(0)
	h.turns <- struct{}{}
	h.read += n
	return n, err
}

var errHelloTooLong = fmt.Errorf("the client sent more than %d bytes before the end of its handshake", maxHello)

// enter takes a place for conn, for which so many others leave room, and waits for one where it must; nil: the front
// stops, or there is none as sessions take all.
func (hs *handshakes) enter(conn net.Conn, room func() int, quit <-chan struct{}) *handshake {
	h := &handshake{Conn: conn, turns: hs.turns}
	h.waiting.Store(int64(monotonic.Now()))
	for {
		left := room()
		hs.mu.Lock()
		switch {
		case hs.over || left <= 0:
			hs.mu.Unlock()
			return nil
		case len(hs.all) < min(left, maxHandshakes):
			hs.all[h] = struct{}{}
			hs.mu.Unlock()
			return h
		}
		hs.cut(time.Now().Add(-hs.stalls))
		hs.mu.Unlock()
		select {
		case <-hs.ended:
		case <-time.After(placeFreeAfter):
		case <-quit:
			return nil
		}
	}
}

// cut ends the handshake that has waited for its client for longest, if it began to wait before the time given.
// REQUIRES mu.
func (hs *handshakes) cut(before time.Time) {
	var longest *handshake
	since := int64(monotonic.Of(before))
	for h := range hs.all {
		if w := h.waiting.Load(); w != 0 && w < since {
			longest, since = h, w
		}
	}
	if longest != nil {
		longest.Close()
	}
}

// remove gives the place back.
func (hs *handshakes) remove(h *handshake) {
	hs.mu.Lock()
	delete(hs.all, h)
	hs.mu.Unlock()
	select {
	case hs.ended <- struct{}{}:
	default:
	}
}

// stop ends all, now and to come.
func (hs *handshakes) stop() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.over = true
	for h := range hs.all {
		h.Close()
	}
}

// shake makes the handshake.
func (hs *handshakes) shake(h *handshake) (*secure, error) {
	if err := h.SetDeadline(time.Now().Add(hs.within)); err != nil {
		return nil, err
	}
	switch first, err := firstByte(h.Conn); {
	case err != nil:
		return nil, err
	case first != recordHandshake:
		return nil, refusePlain(h.Conn, min(hs.within, time.Second))
	}
	hs.turns <- struct{}{}
	defer func() { <-hs.turns }()
	t := newSecure(h, hs.config)
	if err := t.conn.Handshake(); err != nil {
		return nil, err
	}
	return t, h.SetDeadline(time.Time{})
}

// recordHandshake is the first byte of a client that speaks TLS (RFC 8446, section 5.1).
const recordHandshake = 22

// plainText answers who speaks the Redis protocol where TLS is wanted: a client shows it, and its user knows.
const plainText = "-ERR this port accepts TLS connections only: use TLS (redis-cli --tls, rediss://) or another port\r\n"

// refusePlain says so. The client's data are read before the connection is closed, else the error might be lost.
func refusePlain(conn net.Conn, within time.Duration) error {
	_ = conn.SetDeadline(time.Now().Add(within))
	if _, err := conn.Write([]byte(plainText)); err != nil {
		return errors.Join(errPlain, err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, conn, maxHello) // until the client closes, or has had its time
	return errPlain
}

var errPlain = errors.New("the client does not speak TLS")

// firstByte waits for the first byte, and leaves it to be read.
func firstByte(conn net.Conn) (first byte, err error) {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var b [1]byte
	n, peekErr := 0, error(nil)
	err = raw.Read(func(fd uintptr) bool {
		n, _, peekErr = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return peekErr != syscall.EAGAIN && peekErr != syscall.EINTR
	})
	switch {
	case err != nil:
		return 0, err
	case peekErr != nil:
		return 0, os.NewSyscallError("recvfrom", peekErr)
	case n == 0:
		return 0, io.EOF
	}
	return b[0], nil
}

// greet lets a connection in behind its handshake, which goes on in the background.
func (f *Front) greet(conn net.Conn, l listener) {
	h := f.handshakes.enter(conn, func() int { return f.room(l.purpose) }, f.quit)
	if h == nil { // as in Redis there is nothing to say it by
		f.totals.Rejected.Add(1)
		conn.Close()
		return
	}
	f.done.Add(1)
	go func() {
		defer f.done.Done()
		t, err := f.handshakes.shake(h)
		f.handshakes.remove(h)
		if err != nil {
			f.totals.FailedHandshakes.Add(1)
			if others, ok := f.failed.Pass(time.Now()); ok {
				f.log.Warn("TLS handshake failed", "address", conn.RemoteAddr().String(), "error", err, "others", others)
			}
			conn.Close()
			return
		}
		f.admit(conn, l.purpose, t)
	}()
}

// room is how many more connections there may be.
func (f *Front) room(port Port) int {
	conf := f.config.Get()
	f.mu.Lock()
	defer f.mu.Unlock()
	if port == Readonly {
		return conf.ReadonlyClients - f.readers
	}
	return conf.MaxClients - (len(f.sessions) - f.readers)
}

// say writes a refusal to a connection that is closed then.
func say(conn net.Conn, t *secure, text string, log *slog.Logger) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	var err error
	if t == nil {
		_, err = conn.Write([]byte(text))
	} else if _, err = t.conn.Write([]byte(text)); err == nil {
		t.bye()
	}
	if err != nil {
		log.Debug("cannot send a refusal", "error", err)
	}
	conn.Close()
}

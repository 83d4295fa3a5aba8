package front

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// secure is the record layer of a connection by TLS: it stands between the session and its socket.
//
//	        plaintext                 records
//	session ◀── receive ── tls.Conn ◀── line.Read ◀── recv ── socket
//	        ── offer, write ─▶      ── line.Write ──▶ push ──▶   (what is not taken waits in unsent)
//
// It is in the loop, as reading and writing without waiting is all that crypto/tls needs of a connection: an error that
// is Temporary leaves a read where it was, in the middle of a record too. A write must take all, so what the socket does
// not take is kept, one record at most, and no more is encrypted until it is sent. crypto/tls writes while it reads, too
// (it answers a KeyUpdate), so line.Write waits for nobody: who waits for the socket does so outside of it, in flush.
//
// With 50 connections of one command each that takes 23 % less processor time than a goroutine a connection, with one
// connection 1 to 1,000 deep 2 to 14 % less (medians of 200 alternating bursts). A turn takes 2 to 3 µs more than
// without TLS. By cachegrind, BenchmarkSecureTurn: a turn of one command takes 10,200 instructions, the client's side included. It took
// 11,270 when tls.Conn was asked in each turn whether it had another record.
//
// An idle connection takes 9.4 KB, of 10,000 (redis-server 28.3, and without TLS 1.7 here). tls.Conn keeps the buffer
// that a record is decrypted in, which is as large as the largest that the client ever sent, 16 KiB and a half, twice
// that at worst. It counts as what the session holds. Buffers for writing are shared by all.
type secure struct {
	conn *tls.Conn
	line line

	// The owner's, as the socket's reads are.
	more bool  // tls.Conn may have something to be read that epoll tells nothing of
	err  error // of the next receive

	writing sync.Mutex // held by a writer that may wait, before mu

	mu       sync.Mutex // guards the rest; taken under tls.Conn's locks, before the socket's
	input    int        // bytes of the buffer that records are read into; the owner alone changes it
	unsent   []byte     // records that the socket did not take
	flushing bool       // somebody waits for the socket to take records that were in unsent
}

const (
	// recordSize is the plaintext of a record at most.
	recordSize = 16 << 10
	// maxUnsent is more than unsent may need: a record, and answers to KeyUpdates. A client that sends KeyUpdates
	// without end and reads nothing is closed.
	maxUnsent = 64 << 10
)

// errAgain is that of a read that found nothing. crypto/tls goes on behind it.
var errAgain error = againError{}

type againError struct{}

func (againError) Error() string   { return "nothing has arrived" }
func (againError) Timeout() bool   { return true }
func (againError) Temporary() bool { return true }

// newSecure makes the server's side of a connection, whose handshake is to be made on conn.
func newSecure(conn net.Conn, config *tls.Config) *secure {
	t := new(secure)
	t.line.of, t.line.handshake = t, conn
	t.conn = tls.Server(&t.line, config)
	return t
}

// over ends the handshake: records are those of a socket from now on.
func (t *secure) over(s *socket) {
	t.line.handshake, t.line.sock = nil, s
	t.more = true // a client need not wait with its first command
}

// receive is the socket's.
func (t *secure) receive(b []byte) (n int, err error) {
	if t.err != nil {
		return 0, t.err
	}
	t.more, t.line.drained = true, false
	for n < len(b) {
		t.line.enough = n > 0
		m, err := t.conn.Read(b[n:])
		n += m
		if m > 0 {
			t.line.partial = 0
		}
		switch {
		case err == nil && n < len(b) && t.line.taken():
			t.more = false
			return n, nil
		case err == errAgain:
			t.more = false
			return n, nil
		case err != nil && n > 0:
			t.err = err
			return n, nil
		case err != nil:
			return 0, err
		}
	}
	return n, nil
}

// offer encrypts as much as the socket takes at once, and not more than a record beyond it.
func (t *secure) offer(b []byte) (n int, err error) {
	if err := t.push(); err != nil {
		return 0, err
	}
	for n < len(b) && !t.waits() {
		m, err := t.conn.Write(b[n:min(n+recordSize, len(b))])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// write sends all unsent bytes and then all of b, and waits where it must.
func (t *secure) write(b []byte) (n int, err error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.flush(); err != nil {
		return 0, err
	}
	for n < len(b) {
		m, err := t.conn.Write(b[n:min(n+recordSize, len(b))])
		n += m
		if err == nil {
			err = t.flush()
		}
		if err != nil {
			return n, err
		}
	}
	t.mu.Lock()
	if len(t.unsent) == 0 {
		t.unsent = nil
	}
	t.mu.Unlock()
	return n, nil
}

// push sends what it can of unsent without waiting.
func (t *secure) push() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unsent) == 0 || t.flushing {
		return nil
	}
	n, err := t.line.push(t.unsent)
	if t.unsent = t.unsent[n:]; len(t.unsent) == 0 {
		t.unsent = nil
	}
	return err
}

// flush sends all of unsent. REQUIRES writing.
func (t *secure) flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.unsent) > 0 {
		b := t.unsent
		t.unsent, t.flushing = nil, true
		t.mu.Unlock()
		n, err := t.line.sock.drain(b)
		t.mu.Lock()
		t.flushing = false
		switch {
		case err != nil:
			t.unsent = append(b[n:], t.unsent...)
			return err
		case len(t.unsent) == 0:
			t.unsent = b[:0] // for the next record
		}
	}
	return nil
}

// waits tells whether there is something that the socket did not take.
func (t *secure) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.unsent) > 0 || t.flushing
}

// holds is how many bytes it holds in buffers.
func (t *secure) holds() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.input + cap(t.unsent)
}

// grown notes that records are read into so many bytes.
func (t *secure) grown(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.input = n
}

// bye tells the other side that nothing more comes, if the socket takes it at once. REQUIRES: nobody writes.
func (t *secure) bye() { _ = t.conn.CloseWrite() }

// line is the connection that tls.Conn reads records from and writes them to.
type line struct {
	of        *secure
	handshake net.Conn // until its end
	sock      *socket  // behind it

	partial int  // bytes of a record that has not come whole, which are in tls.Conn's buffer
	drained bool // the last read of sock took all that was there
	enough  bool // the session has something: to ask sock again would be a system call in vain
	records frames
}

func (l *line) Read(p []byte) (int, error) {
	if l.handshake != nil {
		n, err := l.handshake.Read(p)
		l.records.follow(p[:n])
		return n, err
	}
	if n := l.partial + len(p); n > l.of.input {
		l.of.grown(n)
	}
	if l.drained && l.enough {
		return 0, errAgain
	}
	n, err := l.sock.recv(p)
	switch {
	case err != nil:
		return n, err
	case n == 0:
		return 0, errAgain
	}
	l.drained = n < len(p)
	l.partial += n
	l.records.follow(p[:n])
	return n, nil
}

// taken tells whether nothing is left to be read, in tls.Conn or in sock. REQUIRES that a read of tls.Conn has just left room. The usual
// turn brings one record, and taken spares it a second read that finds nothing and allocates: see frames.
func (l *line) taken() bool { return l.drained && l.records.whole == 1 && l.records.atEnd() }

// Write takes all of p.
func (l *line) Write(p []byte) (n int, err error) {
	if l.handshake != nil {
		return l.handshake.Write(p)
	}
	t := l.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unsent) == 0 && !t.flushing {
		if n, err = l.push(p); err != nil {
			return n, err
		}
	}
	if n < len(p) {
		if len(t.unsent)+len(p)-n > maxUnsent {
			return n, errors.New("more records are waiting to be sent than there can be")
		}
		t.unsent = append(t.unsent, p[n:]...)
	}
	return len(p), nil
}

// push is the socket's, and counted: see socket.delivered.
func (l *line) push(p []byte) (int, error) {
	n, err := l.sock.push(p)
	l.sock.sent.Add(int64(n))
	return n, err
}

// The rest of net.Conn. Limits of time are the handshake's and the socket's own.

func (l *line) Close() error                     { return nil }
func (l *line) LocalAddr() net.Addr              { return nil }
func (l *line) RemoteAddr() net.Addr             { return nil }
func (l *line) SetDeadline(time.Time) error      { return nil }
func (l *line) SetReadDeadline(time.Time) error  { return nil }
func (l *line) SetWriteDeadline(time.Time) error { return nil }

// frames follows where records begin and end in the bytes that tls.Conn reads (RFC 8446, section 5.1):
//
//	type  version  length  contents      type  version  length ...
//	 1       2       2      length         1      2
//
// tls.Conn asks for more bytes only while it holds no whole record. So after its last read it holds as many whole records as these bytes
// completed, less the records that it has returned. It does not tell its users whether it holds one.
//
// The lengths are the other side's claims. They decide only whether tls.Conn is asked once more, and tls.Conn follows the same lengths.
type frames struct {
	header [2]byte // of the record that has begun, as far as it came: its length
	have   int     // bytes of its header
	left   int     // bytes of its contents that did not come yet
	whole  int     // records that the last bytes completed
}

// recordHeader is the length of a record's header.
const recordHeader = 5

// follow takes note of the next bytes.
func (f *frames) follow(b []byte) {
	for f.whole = 0; len(b) > 0; {
		if f.left > 0 {
			n := min(f.left, len(b))
			b = b[n:]
			if f.left -= n; f.left == 0 {
				f.whole++
			}
			continue
		}
		if f.have == 0 && len(b) >= recordHeader { // nearly always: 170 instructions less
			f.left = int(b[3])<<8 | int(b[4])
			b = b[recordHeader:]
			if f.left == 0 {
				f.whole++
			}
			continue
		}
		if at := f.have - (recordHeader - len(f.header)); at >= 0 {
			f.header[at] = b[0]
		}
		b = b[1:]
		if f.have++; f.have == recordHeader {
			f.have, f.left = 0, int(f.header[0])<<8|int(f.header[1])
			if f.left == 0 {
				f.whole++
			}
		}
	}
}

// atEnd tells whether the bytes end with a record.
func (f *frames) atEnd() bool { return f.have == 0 && f.left == 0 }

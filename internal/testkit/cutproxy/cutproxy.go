// Package cutproxy is a TCP proxy for tests, in front of a server. For replicas, whose links are streams, it ends each
// connection after a random number of bytes: in the handshake, within a frame or between two, whatever is there. For
// clients, whose links are requests and replies, it loses a part of the replies, or of the requests (Lose).
package cutproxy

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is one. Bytes of either direction may be the ones that are counted. It is safe for concurrent use.
type Proxy struct {
	l net.Listener

	mu     sync.Mutex // guards the rest
	to     string     // host:port of the primary
	rng    *rand.Rand
	smooth bool // cut no more
	shut   bool // refuse connections
	silent bool // Silent is one of the ways
	span   int  // the primary says at most 2^span bytes until the cut
	open   map[*net.TCPConn]struct{}

	lose  float64 // the part of replies that is lost; a tenth as many requests
	stall float64 // the part of replies behind which a connection is silent

	pause atomic.Int64 // ns before each piece of requests: see Slow

	cuts [Ways]atomic.Int64
	lost atomic.Int64
}

// Way is how a connection ends.
type Way int

// Ways, and how many there are.
const (
	Both   Way = iota // both directions are closed
	Reset             // both, and data in flight are dropped
	OneWay            // the direction that was counted is closed, the other stays until an end closes it
	Silent            // nothing more comes from the primary, and nobody says so
	Ways
)

// New starts a proxy to a port of this machine. It cuts nothing until Smoothly(false), and ends with the test. silent
// says whether a connection may end in the way Silent, which a replica finds out after repl-timeout.
func New(t testing.TB, port int, seed uint64, silent bool) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, to: local(port), rng: rand.New(rand.NewPCG(seed, 5)), smooth: true,
		silent: silent, span: 17, open: map[*net.TCPConn]struct{}{}}
	go p.accept()
	t.Cleanup(func() {
		l.Close()
		p.CutAll()
	})
	return p
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// SetPort sets where connections go from now on, as the server that is started anew has another port.
func (p *Proxy) SetPort(port int) {
	p.mu.Lock()
	p.to = local(port)
	p.mu.Unlock()
}

// Address is the address for REPLICAOF.
func (p *Proxy) Address() string {
	return "127.0.0.1 " + strconv.Itoa(p.Port())
}

// SetSpan sets that the primary says at most 2^span bytes on a connection from now on until the cut; 17 without it.
func (p *Proxy) SetSpan(span int) {
	p.mu.Lock()
	p.span = span
	p.mu.Unlock()
}

// Smoothly sets whether connections are left alone. Those that are open end now.
func (p *Proxy) Smoothly(smooth bool) {
	p.mu.Lock()
	p.smooth = smooth
	p.mu.Unlock()
	p.CutAll()
}

// Lose sets which part of the replies is lost from now on: one piece of the server's output goes no further, or only
// to a random byte in the middle, and the connection ends. A tenth as many requests end at a random byte. Where a
// client waits for each reply a piece is a reply.
func (p *Proxy) Lose(part float64) {
	p.mu.Lock()
	p.lose = part
	p.mu.Unlock()
}

// Stall sets which part of the replies never comes from now on, nor anything behind them, while the connection stays
// open. A client must find this out by its time limit.
func (p *Proxy) Stall(part float64) {
	p.mu.Lock()
	p.stall = part
	p.mu.Unlock()
}

// Slow makes each piece of requests, of at most 16 KiB, wait before it is passed on, from now on. So a load lasts as long as a test needs,
// however busy the machine is. 0: no piece waits.
func (p *Proxy) Slow(pause time.Duration) { p.pause.Store(int64(pause)) }

// Lost is how many pieces were lost, in whole or in part.
func (p *Proxy) Lost() int64 { return p.lost.Load() }

// losing says how much of a piece of n bytes is passed on: n, unless it is lost. silent: the connection stays open.
func (p *Proxy) losing(n int, reply bool) (pass int, silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reply && p.stall > 0 && p.rng.Float64() < p.stall {
		p.lost.Add(1)
		return 0, true
	}
	part := p.lose
	if !reply {
		part /= 10
	}
	if part == 0 || p.rng.Float64() >= part {
		return n, false
	}
	p.lost.Add(1)
	if p.rng.IntN(2) == 0 {
		return 0, false
	}
	return p.rng.IntN(n), false
}

// Port is where it listens on 127.0.0.1.
func (p *Proxy) Port() int { return p.l.Addr().(*net.TCPAddr).Port }

// Refuse sets whether nobody comes through. Connections that are open end now.
func (p *Proxy) Refuse(shut bool) {
	p.mu.Lock()
	p.shut = shut
	p.mu.Unlock()
	p.CutAll()
}

// CutAll ends the connections that are open. They do not count as cut.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
	clear(p.open)
}

// Cuts is how many connections were cut at their byte, in each way.
func (p *Proxy) Cuts() (cuts [Ways]int64) {
	for i := range p.cuts {
		cuts[i] = p.cuts[i].Load()
	}
	return cuts
}

// Total is how many connections were cut at their byte.
func (p *Proxy) Total() (n int64) {
	for _, cuts := range p.Cuts() {
		n += cuts
	}
	return n
}

func (p *Proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		to := p.to
		p.mu.Unlock()
		out, err := net.DialTimeout("tcp", to, time.Second)
		if err != nil {
			in.Close()
			continue
		}
		p.carry(in.(*net.TCPConn), out.(*net.TCPConn))
	}
}

// carry begins to copy, in both directions.
func (p *Proxy) carry(replica, primary *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		replica.Close()
		primary.Close()
		return
	}
	p.open[replica], p.open[primary] = struct{}{}, struct{}{}
	const never = 1 << 60
	up, down := plan{limit: never}, plan{limit: never, reply: true}
	if !p.smooth {
		way := []Way{Both, Both, Reset, Reset, OneWay, OneWay, OneWay}[p.rng.IntN(7)]
		if p.rng.IntN(30) == 0 && p.silent {
			way = Silent
		}
		// A handshake is some hundred bytes each way, a frame under load 50 to 5000.
		if p.rng.IntN(3) == 0 && way != Silent {
			up = plan{limit: 1 + p.rng.Int64N(1<<(1+p.rng.IntN(11))), way: way}
		} else {
			down = plan{limit: 1 + p.rng.Int64N(1<<(1+p.rng.IntN(p.span))), way: way, reply: true}
		}
		if p.rng.IntN(3) == 0 {
			up.delay = time.Duration(p.rng.Int64N(int64(10 * time.Millisecond)))
			down.delay = time.Duration(p.rng.Int64N(int64(10 * time.Millisecond)))
		}
	}
	go p.pipe(replica, primary, up)
	go p.pipe(primary, replica, down)
}

// plan is the faults of one direction of a connection.
type plan struct {
	limit int64
	way   Way
	delay time.Duration // before each piece that is passed on
	reply bool          // the direction from the server
}

func (p *Proxy) pipe(from, to *net.TCPConn, plan plan) {
	buf := make([]byte, 16<<10)
	for left := plan.limit; ; {
		n, err := from.Read(buf[:min(int64(len(buf)), left)])
		if n > 0 {
			time.Sleep(plan.delay)
			if !plan.reply {
				time.Sleep(time.Duration(p.pause.Load()))
			}
			pass, silent := p.losing(n, plan.reply)
			if silent {
				return // the other direction goes on until the client ends it
			}
			if _, werr := to.Write(buf[:pass]); werr != nil || pass < n {
				break
			}
		}
		if left -= int64(n); left == 0 {
			p.cuts[plan.way].Add(1)
			switch plan.way {
			case Reset:
				_ = from.SetLinger(0)
				_ = to.SetLinger(0)
			case OneWay:
				_ = to.CloseWrite()
				_ = from.CloseRead()
				return
			case Silent:
				return
			}
			break
		}
		if err != nil {
			break
		}
	}
	from.Close()
	to.Close()
	p.mu.Lock()
	delete(p.open, from)
	delete(p.open, to)
	p.mu.Unlock()
}

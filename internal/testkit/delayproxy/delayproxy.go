// Package delayproxy is a TCP proxy for tests that delays all bytes, in front of a server that is far away. Bytes stay in order,
// and pieces that follow each other are under way at the same time, as on a long line. A new connection is delayed too: its first
// bytes wait for a round trip more.
//
//	client ---- queue of (due, bytes) ----> server        due = arrival + delay +- jitter, and never before the piece ahead
//	client <--- queue of (due, bytes) ----- server
package delayproxy

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is one, on a port of 127.0.0.1. It is safe for concurrent use.
type Proxy struct {
	l  net.Listener
	to string

	mu     sync.Mutex // guards the rest
	rng    *rand.Rand
	delay  time.Duration // of one way
	jitter time.Duration // more or less
	open   map[net.Conn]struct{}
	ended  bool
}

// New starts a proxy to an address. It delays nothing before Set, and ends with the test.
func New(t testing.TB, to string, seed uint64) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, to: to, rng: rand.New(rand.NewPCG(seed, 11)), open: map[net.Conn]struct{}{}}
	go p.accept()
	t.Cleanup(p.end)
	return p
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Set makes a round trip take so long from now on, more or less by a jitter.
func (p *Proxy) Set(roundTrip, jitter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.jitter = roundTrip/2, jitter/2
}

// due is when bytes that arrive now go on.
func (p *Proxy) due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.delay
	if p.jitter > 0 {
		d += time.Duration(p.rng.Int64N(2*int64(p.jitter))) - p.jitter
	}
	return time.Now().Add(max(d, 0))
}

func (p *Proxy) end() {
	p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for c := range p.open {
		c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		go p.carry(in)
	}
}

// carry connects after a round trip, and copies in both directions.
func (p *Proxy) carry(in net.Conn) {
	time.Sleep(time.Until(p.due()))
	time.Sleep(time.Until(p.due()))
	out, err := net.DialTimeout("tcp", p.to, 5*time.Second)
	if err != nil {
		in.Close()
		return
	}
	p.mu.Lock()
	p.open[in], p.open[out] = struct{}{}, struct{}{}
	ended := p.ended
	p.mu.Unlock()
	if ended {
		in.Close()
		out.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pipe(in, out) })
	both.Go(func() { p.pipe(out, in) })
	both.Wait()
	p.mu.Lock()
	delete(p.open, in)
	delete(p.open, out)
	p.mu.Unlock()
}

// piece is bytes under way. Without bytes it is the end.
type piece struct {
	due   time.Time
	bytes []byte
}

// pipe copies one direction. The end of the sender arrives as late as its bytes.
func (p *Proxy) pipe(from, to net.Conn) {
	line := make(chan piece, 4096)
	go func() {
		defer close(line)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if n > 0 {
				line <- piece{p.due(), buf[:n]}
			}
			if err != nil {
				line <- piece{p.due(), nil}
				return
			}
		}
	}()
	for next := range line {
		time.Sleep(time.Until(next.due))
		if next.bytes == nil {
			break
		}
		if _, err := to.Write(next.bytes); err != nil {
			break
		}
	}
	from.Close()
	to.Close()
	for range line { // until the reader has noticed
	}
}

package e2e

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cutter is a TCP proxy in front of a primary that ends each connection after a random number of bytes: in the handshake, within a frame or between
// two, whatever is there. Bytes of either direction may be the ones that are counted.
type cutter struct {
	l  net.Listener
	to string // host:port of the primary

	mu     sync.Mutex // guards the rest
	rng    *rand.Rand
	smooth bool // cut no more
	shut   bool // refuse connections
	span   int  // the primary says at most 2^span bytes until the cut
	open   map[*net.TCPConn]struct{}

	cuts [cutWays]atomic.Int64
}

// cutWay is how a connection ends.
type cutWay int

const (
	cutBoth   cutWay = iota // both directions are closed
	cutReset                // both, and what is on its way is dropped
	cutOneWay               // the direction that was counted is closed, the other stays until an end closes it
	cutSilent               // nothing more comes from the primary, and nobody says so
	cutWays
)

// newCutter starts a proxy. It cuts nothing until smoothly(false).
func newCutter(t testing.TB, to int, seed uint64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{l: l, to: net.JoinHostPort("127.0.0.1", strconv.Itoa(to)), rng: rand.New(rand.NewPCG(seed, 5)), smooth: true, span: 17, open: map[*net.TCPConn]struct{}{}}
	go p.accept()
	t.Cleanup(func() {
		l.Close()
		p.cutAll()
	})
	return p
}

// address is what --replicaof takes.
func (p *cutter) address() string {
	return "127.0.0.1 " + strconv.Itoa(p.l.Addr().(*net.TCPAddr).Port)
}

// smoothly sets whether connections are left alone. Those that are open end now.
func (p *cutter) smoothly(smooth bool) {
	p.mu.Lock()
	p.smooth = smooth
	p.mu.Unlock()
	p.cutAll()
}

// refuse sets whether nobody comes through. Connections that are open end now.
func (p *cutter) refuse(shut bool) {
	p.mu.Lock()
	p.shut = shut
	p.mu.Unlock()
	p.cutAll()
}

func (p *cutter) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
	clear(p.open)
}

// total is how many connections were cut at their byte.
func (p *cutter) total() (n int64) {
	for i := range p.cuts {
		n += p.cuts[i].Load()
	}
	return n
}

func (p *cutter) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.DialTimeout("tcp", p.to, time.Second)
		if err != nil {
			in.Close()
			continue
		}
		p.carry(in.(*net.TCPConn), out.(*net.TCPConn))
	}
}

// carry begins to copy, in both directions.
func (p *cutter) carry(replica, primary *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		replica.Close()
		primary.Close()
		return
	}
	p.open[replica], p.open[primary] = struct{}{}, struct{}{}
	const never = 1 << 60
	up, down := cutPlan{limit: never}, cutPlan{limit: never}
	if !p.smooth {
		way := []cutWay{cutBoth, cutBoth, cutReset, cutReset, cutOneWay, cutOneWay, cutOneWay}[p.rng.IntN(7)]
		if p.rng.IntN(30) == 0 {
			way = cutSilent
		}
		// A handshake is some hundred bytes each way, a frame under load 50 to 5000.
		if p.rng.IntN(3) == 0 && way != cutSilent {
			up = cutPlan{limit: 1 + p.rng.Int64N(1<<(1+p.rng.IntN(11))), way: way}
		} else {
			down = cutPlan{limit: 1 + p.rng.Int64N(1<<(1+p.rng.IntN(p.span))), way: way}
		}
		if p.rng.IntN(3) == 0 {
			up.delay, down.delay = time.Duration(p.rng.Int64N(int64(10*time.Millisecond))), time.Duration(p.rng.Int64N(int64(10*time.Millisecond)))
		}
	}
	go p.pipe(replica, primary, up)
	go p.pipe(primary, replica, down)
}

// cutPlan is what happens to one direction of a connection.
type cutPlan struct {
	limit int64
	way   cutWay
	delay time.Duration // before each piece that is passed on
}

func (p *cutter) pipe(from, to *net.TCPConn, plan cutPlan) {
	buf := make([]byte, 16<<10)
	for left := plan.limit; ; {
		n, err := from.Read(buf[:min(int64(len(buf)), left)])
		if n > 0 {
			time.Sleep(plan.delay)
			if _, werr := to.Write(buf[:n]); werr != nil {
				break
			}
		}
		if left -= int64(n); left == 0 {
			p.cuts[plan.way].Add(1)
			switch plan.way {
			case cutReset:
				_ = from.SetLinger(0)
				_ = to.SetLinger(0)
			case cutOneWay:
				_ = to.CloseWrite()
				_ = from.CloseRead()
				return
			case cutSilent:
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

package server

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cutter is a TCP proxy that ends each connection after a random number of bytes.
type cutter struct {
	l      net.Listener
	to     string
	rng    *rand.Rand
	mu     sync.Mutex
	conns  map[net.Conn]bool
	cuts   atomic.Int64
	smooth atomic.Bool // cut no more
}

func newCutter(t *testing.T, to string, rng *rand.Rand) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{l: l, to: to, rng: rng, conns: make(map[net.Conn]bool)}
	t.Cleanup(func() { l.Close(); p.cutAll() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.to)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns[in], p.conns[out] = true, true
			limit := 1 + p.rng.Int64N(1<<(1+p.rng.IntN(16)))
			p.mu.Unlock()
			go p.pipe(in, out, limit*4)
			go p.pipe(out, in, limit)
		}
	}()
	return p
}

func (p *cutter) pipe(from, to net.Conn, limit int64) {
	var r io.Reader = from
	if !p.smooth.Load() {
		r = io.LimitReader(from, limit)
	}
	if n, _ := io.Copy(to, r); n == limit {
		p.cuts.Add(1)
	}
	from.Close()
	to.Close()
}

func (p *cutter) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

func (p *cutter) addr() string {
	return fmt.Sprintf("127.0.0.1 %d", p.l.Addr().(*net.TCPAddr).Port)
}

// TestCuts runs random commands on a primary whose replica's link is cut at random bytes, with restarts of either side, against a map: nothing is
// lost, doubled or copied in full, and the logs are the same bytes.
func TestCuts(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = time.Now().UnixNano() & (1<<40 - 1)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with -run '^TestCuts$' -seed %d", seed)
		}
	})
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	proxy := newCutter(t, fmt.Sprintf("127.0.0.1:%d", a.port), rand.New(rand.NewPCG(uint64(seed), 2)))
	proxy.smooth.Store(true)
	b.start(proxy.addr())
	same(t, a, b)
	proxy.smooth.Store(false)
	model := make(map[string]int64)
	for round := range rounds {
		w := a.dial()
		for range 300 {
			mid := rng.IntN(400)
			key := fmt.Sprintf("%d.cntcm", mid)
			switch op := rng.IntN(100); {
			case op < 80:
				model[key]++
				w.want("INCR "+key, ":"+strconv.FormatInt(model[key], 10))
			case op < 95:
				model[key] = rng.Int64N(1 << 30)
				w.want("SET "+key+" "+strconv.FormatInt(model[key], 10), "+OK")
			case op < 99:
				w.do("DEL " + strconv.Itoa(mid))
				delete(model, key)
			default:
				w.want("SAVE", "+OK")
			}
		}
		w.conn.Close()
		proxy.cutAll()
		switch rng.IntN(4) {
		case 0:
			b.stop()
			b.start(proxy.addr())
		case 1:
			a.stop()
			a.start("")
		case 2:
			_ = b.srv.Store().Snapshot()
		}
		if round%4 == 3 {
			proxy.smooth.Store(true)
			same(t, a, b)
			proxy.smooth.Store(false)
			r := b.dial()
			for key, v := range model {
				r.want("GET "+key, strconv.Quote(strconv.FormatInt(v, 10)))
			}
		}
		if n := a.info("sync_full"); n != "0" {
			t.Fatalf("%s full copies in round %d", n, round)
		}
	}
	t.Logf("%d cuts", proxy.cuts.Load())
}

// TestFullCopyResumes cuts a full copy at random bytes: it goes on file by file.
func TestFullCopyResumes(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	w := a.dial()
	for i := range 3000 {
		w.want(fmt.Sprintf("SET %d.cntcm %d", i, i*3), "+OK")
	}
	w.want("SAVE", "+OK")
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 4))
	proxy := newCutter(t, fmt.Sprintf("127.0.0.1:%d", a.port), rng)
	b.start(proxy.addr())
	until(t, "cuts", func() bool { return proxy.cuts.Load() > 20 || b.info("master_link_status") == "up" })
	proxy.smooth.Store(true)
	same(t, a, b)
	t.Logf("%d cuts, %s copies begun", proxy.cuts.Load(), a.info("sync_full"))
	if n, err := filepath.Glob(filepath.Join(b.dir, "rdb", "*.tmp")); err != nil || len(n) > 1 {
		t.Errorf("left behind: %v %v", n, err)
	}
}

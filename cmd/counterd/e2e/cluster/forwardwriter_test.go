package cluster

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/errclass"
)

// forwardWriter sends numbered INCRs to forward ports, one at a time. After an error that may pass, or a lost connection, it sends
// the same number again, to another node.
//
// Invariant: each answer is exact, because nobody else changes its posts.
type forwardWriter struct {
	name  string
	base  uint64
	nodes []string // forward ports
	rng   *rand.Rand
	at    int
	conn  *harness.Conn

	made    []forwarded
	values  [8]int64
	repeats int
	most    atomic.Int64 // that it makes; others may raise it
	count   atomic.Int64 // len(made)
}

// forwarded is an increment that was answered. Its number is its place.
type forwarded struct {
	mid  uint64
	want int64
}

// forwardPatience is how long one increment is repeated. A failover on a busy machine takes some seconds.
const forwardPatience = 2 * time.Minute

func newForwardWriter(c *cluster, i int, rng *rand.Rand) *forwardWriter {
	w := &forwardWriter{name: fmt.Sprintf("w%d", i), base: 9<<56 + uint64(i)<<32, rng: rand.New(rand.NewPCG(rng.Uint64(), 7))}
	w.reach(c)
	w.most.Store(1 << 40)
	return w
}

// startForwardWriters starts writers, which add until stop is closed.
func (c *cluster) startForwardWriters(work *sync.WaitGroup, n int, rng *rand.Rand, stop <-chan struct{}, pause time.Duration) (writers []*forwardWriter) {
	for i := range n {
		w := newForwardWriter(c, i, rng)
		writers = append(writers, w)
		work.Go(func() {
			if err := w.run(stop, pause); err != nil {
				c.t.Error(err)
			}
		})
	}
	return writers
}

// reach lets the writer send to a cluster from now on.
func (w *forwardWriter) reach(c *cluster) {
	w.hangUp()
	w.nodes = w.nodes[:0]
	for _, n := range c.nodes {
		w.nodes = append(w.nodes, fmt.Sprintf("%s:%d", n.host, n.forward))
	}
	w.at = w.rng.IntN(len(w.nodes))
}

func (w *forwardWriter) hangUp() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// post is the i-th of its posts. They are of any hash slots.
func (w *forwardWriter) post(i int) uint64 { return w.base + uint64(i)*7919 }

// run increments until stop is closed. The error is of an answer that is not exact, or of an error that does not pass.
func (w *forwardWriter) run(stop <-chan struct{}, gap time.Duration) error {
	defer w.hangUp()
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(gap):
		}
		if w.count.Load() >= w.most.Load() {
			continue
		}
		i := w.rng.IntN(len(w.values))
		w.values[i]++
		w.made = append(w.made, forwarded{w.post(i), w.values[i]})
		if err := w.send(len(w.made) - 1); err != nil {
			return err
		}
		w.count.Store(int64(len(w.made)))
	}
}

// send sends one increment until it is answered.
func (w *forwardWriter) send(number int) error {
	op := w.made[number]
	var last string
	for deadline := time.Now().Add(forwardPatience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if last != "" {
			w.repeats++
			w.hangUp()
			w.at = (w.at + 1) % len(w.nodes)
		}
		if w.conn == nil {
			conn, err := harness.DialTimeout("tcp", w.nodes[w.at], time.Second)
			if err != nil {
				last = err.Error()
				continue
			}
			w.conn = conn
		}
		_ = w.conn.Nc.SetDeadline(time.Now().Add(10 * time.Second))
		v, err := w.conn.TryDo("INCR", nKey(op.mid), "IDMP", w.name, strconv.Itoa(number))
		switch {
		case err != nil:
			last = err.Error()
			continue
		case v.Kind == '-':
			if class, known := errclass.Of(v.Text); known && (class == errclass.Transient || class == errclass.InDoubt) {
				last = v.Text
				continue
			}
		}
		if got, err := v.Int(); err != nil || got != op.want {
			return fmt.Errorf("increment %d of %s, of post %d, answered %q: want %d", number, w.name, op.mid, v.Raw, op.want)
		}
		return nil
	}
	return fmt.Errorf("increment %d of %s was not answered within %v: %s", number, w.name, forwardPatience, last)
}

// check reads its posts. Nobody writes.
func (w *forwardWriter) check() error {
	defer w.hangUp()
	for i, want := range w.values {
		got, err := w.read(w.post(i))
		if err != nil || got != want {
			return fmt.Errorf("post %d holds %d, %v: %d increments were made", w.post(i), got, err, want)
		}
	}
	return nil
}

// read is the value of a post, 0 if there is none.
func (w *forwardWriter) read(mid uint64) (int64, error) {
	conn, err := harness.DialTimeout("tcp", w.nodes[w.at], 10*time.Second)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	v, err := conn.TryDo("GET", nKey(mid))
	if err != nil || v.Null {
		return 0, err
	}
	return v.Int()
}

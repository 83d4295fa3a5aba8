package consumers

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// postsEach is how many posts a writer counts on.
const postsEach = 24

// Writers increment posts by 1 until they are stopped. Two of them number their changes and send each until it is answered, so the numbers of their posts are
// known exactly; the others send plain changes, of one post or two, and delete posts.
type Writers struct {
	Made atomic.Int64 // changes that were answered

	t     testing.TB
	nodes *Nodes
	each  []*writer
	stop  chan struct{}
	ended sync.WaitGroup
}

// writer belongs to one goroutine until it has ended.
type writer struct {
	all      *Writers
	rng      *rand.Rand
	first    int    // of its posts
	producer string // empty: its changes are plain
	seq      int
	sums     [postsEach]int64 // of numbered changes
	at       int              // the node that it sends to
	conn     *harness.Conn
}

// NewWriters starts the writers.
func NewWriters(t testing.TB, rng *rand.Rand, nodes *Nodes) *Writers {
	w := &Writers{t: t, nodes: nodes, stop: make(chan struct{})}
	for i := range 4 {
		one := &writer{all: w, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), first: 7_000_000 + 1000*i}
		if i%2 == 1 {
			one.producer = fmt.Sprintf("writer-%d", i)
		}
		w.each = append(w.each, one)
		w.ended.Go(one.run)
	}
	t.Cleanup(w.Stop)
	return w
}

// Stop waits until all writers have ended.
func (w *Writers) Stop() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.ended.Wait()
}

// key names the number of a post.
func (w *writer) key(i int) string { return strconv.Itoa(w.first+i) + ".n" }

// Posts returns the numbers that the nodes hold. A post with numbered changes must hold their sum.
func (w *Writers) Posts() map[string]int64 {
	w.t.Helper()
	all := map[string]int64{}
	for _, one := range w.each {
		for i := range postsEach {
			var text string
			harness.Eventually(w.t, harness.RepeatWithin, "a node answers GET", func() bool {
				v, ok := one.ask("GET", one.key(i))
				text = v
				return ok
			})
			n, err := strconv.ParseInt(text, 10, 64)
			if text != "" && err != nil {
				w.t.Fatal(err)
			}
			if text != "" {
				all[strconv.Itoa(one.first+i)] = n
			}
			if one.producer != "" && n != one.sums[i] {
				w.t.Errorf("%s: %s holds %d, want %d", one.producer, one.key(i), n, one.sums[i])
			}
		}
		one.hangUp()
	}
	return all
}

// run writes until the writers are stopped.
func (w *writer) run() {
	defer w.hangUp()
	for {
		select {
		case <-w.all.stop:
			return
		case <-time.After(time.Duration(2+w.rng.IntN(8)) * time.Millisecond):
		}
		if i := w.rng.IntN(postsEach); w.producer != "" {
			w.numbered(i)
		} else {
			w.plain(i)
		}
	}
}

// plain sends a change once.
func (w *writer) plain(i int) {
	words := []string{"INCR", w.key(i)}
	switch w.rng.IntN(40) {
	case 0:
		words = []string{"DEL", strconv.Itoa(w.first + i)}
	case 1, 2, 3, 4:
		words = []string{"COUNTER.MINCRBY", w.key(i), "1", w.key((i + 1) % postsEach), "1"}
	}
	if _, ok := w.ask(words...); ok {
		w.all.Made.Add(1)
	}
}

// numbered sends a change until it is answered, and is where no failover takes it back.
func (w *writer) numbered(i int) {
	w.seq++
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, ok := w.ask("INCRBY", w.key(i), "1", "IDMP", w.producer, strconv.Itoa(w.seq))
		if ok && w.all.nodes.Safe > 0 {
			n, answered := w.ask("WAIT", strconv.Itoa(w.all.nodes.Safe), "1000")
			copies, err := strconv.Atoi(n)
			ok = answered && err == nil && copies >= w.all.nodes.Safe
		}
		if ok {
			w.sums[i]++
			w.all.Made.Add(1)
			return
		}
		if time.Since(began) > harness.RepeatWithin {
			w.all.t.Errorf("%s: number %d was not answered within %v", w.producer, w.seq, harness.RepeatWithin)
			return
		}
	}
}

// ask sends a command to a node, and goes to the next one where it is refused or lost. text is empty for null.
func (w *writer) ask(words ...string) (text string, ok bool) {
	if w.conn == nil {
		c, err := harness.DialTimeout("tcp", w.all.nodes.Writes[w.at], time.Second)
		if err != nil {
			w.at = (w.at + 1) % len(w.all.nodes.Writes)
			return "", false
		}
		w.conn = c
	}
	v, err := w.conn.TryDo(words...)
	if err != nil || v.Kind == '-' {
		w.hangUp()
		w.at = (w.at + 1) % len(w.all.nodes.Writes)
		return "", false
	}
	if v.Raw == "$-1\r\n" {
		return "", true
	}
	if v.Kind == ':' {
		return strconv.FormatInt(v.N, 10), true
	}
	return v.Text, true
}

func (w *writer) hangUp() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

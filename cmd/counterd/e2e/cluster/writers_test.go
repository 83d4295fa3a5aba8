package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/counter/client"
	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/redis/go-redis/v9"
)

func groupOf(mid uint64) uint8 { return slot.Group(mid) }

// clusterConn sends commands to the owner of their key, and follows MOVED. It never sends again what may have been
// made: go-redis's ClusterClient does, so an INCR by it alone may count twice.
type clusterConn struct {
	seeds   []string
	timeout time.Duration
	owners  [slot.Groups]string // as MOVED told; empty: another node is asked
	good    string              // who answered last
	open    map[string]*harness.Conn
	rng     *rand.Rand
}

// outcome is what became of a command.
type outcome int

const (
	outMade    outcome = iota // acknowledged
	outRefused                // nothing was changed
	outInDoubt                // it may have been made, or may be yet
)

// do sends a command about a post once; only what was refused is sent again, to who is said to own it, three times.
func (c *clusterConn) do(mid uint64, args ...string) (v resptest.Value, o outcome) {
	owner := &c.owners[groupOf(mid)]
	for range 4 {
		to := *owner
		if to == "" {
			if to = c.good; to == "" {
				to = c.seeds[c.rng.IntN(len(c.seeds))]
			}
		}
		if v, o = c.once(to, args...); v.Kind == 0 { // nothing is sent there any more until it is named again
			for i := range c.owners {
				if c.owners[i] == to {
					c.owners[i] = ""
				}
			}
			c.good = ""
			return v, o
		}
		c.good = to
		if v.Kind != '-' {
			*owner = to
			return v, outMade
		}
		if words := strings.Fields(v.Text); len(words) == 3 && words[0] == "MOVED" {
			*owner = words[2]
			continue
		}
		*owner = ""
		if class, known := errclass.Of(v.Text); !known || class == errclass.InDoubt {
			return v, outInDoubt
		}
		return v, outRefused
	}
	return v, outRefused
}

// once sends a command to a node. Where no reply came, v is empty.
func (c *clusterConn) once(to string, args ...string) (v resptest.Value, o outcome) {
	link := c.open[to]
	if link == nil {
		var err error
		if link, err = harness.DialTimeout("tcp", to, c.timeout); err != nil {
			return v, outRefused
		}
		if c.open == nil {
			c.open = map[string]*harness.Conn{}
		}
		c.open[to] = link
	}
	_ = link.Nc.SetDeadline(time.Now().Add(c.timeout))
	_, err := link.Nc.Write(resptest.Append(nil, args...))
	if err == nil {
		v, err = resptest.Read(link.Br, resptest.Any)
	}
	if err != nil {
		link.Close()
		delete(c.open, to)
		return resptest.Value{}, outInDoubt
	}
	return v, outMade
}

func (c *clusterConn) hangUp() {
	for _, link := range c.open {
		link.Close()
	}
	c.open = nil
}

// plainWriter sends plain INCRs, one at a time, to the owners of posts or to a forward port. Half are of posts of its own, again and again, half of a new post each.
//
// Invariants, of each of its posts: acknowledged <= value <= acknowledged + in doubt; an answer is larger than the one
// before.
type plainWriter struct {
	clusterConn
	base   uint64 // its posts are from here on
	pause  *sync.RWMutex
	posts  [16]struct{ acked, doubt, last int64 }
	fates  []outcome // of the new posts since they were last checked
	first  uint64    // the first of these
	counts [3]atomic.Int64
	texts  sync.Map // errors that came, and how often
	fault  error
}

// post is the i-th of its own posts. They are of any slots.
func (w *plainWriter) post(i int) uint64 { return w.base + uint64(i)*7919 }

func (w *plainWriter) fresh(i int) uint64 { return w.first + uint64(i) }

func nKey(mid uint64) string { return "{" + strconv.FormatUint(mid, 10) + "}.n" }

func (w *plainWriter) run(stop <-chan struct{}, gap time.Duration) {
	defer w.hangUp()
	for {
		select {
		case <-stop:
			return
		case <-time.After(gap):
		}
		w.pause.RLock()
		o := w.once()
		w.pause.RUnlock()
		if w.fault != nil {
			return
		}
		if o != outMade {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

func (w *plainWriter) once() outcome {
	i, mid := -1, w.fresh(len(w.fates))
	if w.rng.IntN(2) == 0 {
		i = w.rng.IntN(len(w.posts))
		mid = w.post(i)
	}
	v, o := w.do(mid, "INCR", nKey(mid))
	w.counts[o].Add(1)
	if o != outMade && v.Text != "" {
		text := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, v.Text)
		n, _ := w.texts.LoadOrStore(text[:min(len(text), 70)], new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
	if i < 0 {
		w.fates = append(w.fates, o)
		if o == outMade && v.Raw != ":1\r\n" {
			w.fault = fmt.Errorf("the first INCR of post %d answered %q", mid, v.Raw)
		}
		return o
	}
	p := &w.posts[i]
	switch o {
	case outInDoubt:
		p.doubt++
	case outMade:
		p.acked++
		n, err := v.Int()
		if err != nil || n < p.acked || n > p.acked+p.doubt || n <= p.last {
			w.fault = fmt.Errorf("INCR of post %d answered %q behind %d: want %d to %d", mid, v.Raw, p.last, p.acked, p.acked+p.doubt)
		}
		p.last = n
	}
	return o
}

// found is what a check of plain writers saw.
type found struct{ Checked, Lost, Doubled int }

func (f *found) add(o found) {
	f.Checked, f.Lost, f.Doubled = f.Checked+o.Checked, f.Lost+o.Lost, f.Doubled+o.Doubled
}

// check compares its posts with what the cluster answers. Nobody writes. New posts are forgotten then.
func (w *plainWriter) check(get func(mid uint64) (int64, error)) (f found, err error) {
	if w.fault != nil {
		return f, w.fault
	}
	one := func(mid uint64, least, most int64) {
		if err != nil {
			return
		}
		var n int64
		if n, err = get(mid); err != nil {
			return
		}
		f.Checked++
		switch {
		case n < least:
			f.Lost += int(least - n)
			err = fmt.Errorf("post %d holds %d, %d were acknowledged", mid, n, least)
		case n > most:
			f.Doubled += int(n - most)
			err = fmt.Errorf("post %d holds %d, at most %d were made", mid, n, most)
		}
	}
	for i, p := range w.posts {
		one(w.post(i), p.acked, p.acked+p.doubt)
	}
	for i, o := range w.fates {
		least, most := int64(0), int64(0)
		switch o {
		case outMade:
			least, most = 1, 1
		case outInDoubt:
			most = 1
		}
		one(w.fresh(i), least, most)
	}
	if err == nil {
		w.first += uint64(len(w.fates))
		w.fates = w.fates[:0]
	}
	return f, err
}

// numberedWriter increments posts of its own by package client, over go-redis's cluster client: every answer must be
// exact.
type numberedWriter struct {
	client *client.Client
	base   uint64
	pause  *sync.RWMutex
	rng    *rand.Rand
	posts  [16]int64
	made   atomic.Int64
	worst  time.Duration
	fault  error
}

func (w *numberedWriter) run(ctx context.Context, gap time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(gap):
		}
		w.pause.RLock()
		i := w.rng.IntN(len(w.posts))
		began := time.Now()
		// It ends by itself: one that was cut off here would be in doubt.
		n, err := w.client.Incr(context.WithoutCancel(ctx), w.base+uint64(i)*7919, "repost")
		w.worst = max(w.worst, time.Since(began))
		w.posts[i]++
		w.made.Add(1)
		w.pause.RUnlock()
		if err != nil || n != w.posts[i] {
			w.fault = fmt.Errorf("a numbered increment of post %d answered %d, %v after %v: want %d", w.base+uint64(i)*7919, n, err, time.Since(began), w.posts[i])
			return
		}
	}
}

// clusterLoad is everybody who uses a cluster during faults.
type clusterLoad struct {
	c        *cluster
	pause    sync.RWMutex // held for reading around each command
	plain    []*plainWriter
	numbered []*numberedWriter
	rdb      *redis.ClusterClient
	counter  *client.Client
	rng      *rand.Rand
	stop     chan struct{}
	cancel   context.CancelFunc
	done     sync.WaitGroup
	history  uint64 // the next post of histories
}

// fill makes posts that nobody touches, so that there is something to copy and to move.
func (c *cluster) fill(posts int) {
	c.t.Helper()
	rdb := c.client()
	defer rdb.Close()
	const some = 500 // at a time: a busy machine answers them within the time limit of a client
	for at := 0; at < posts; at += some {
		harness.Eventually(c.t, time.Minute, "posts are set", func() bool {
			p := rdb.Pipeline()
			for i := at; i < at+some; i++ {
				p.Set(context.Background(), nKey(6<<56+uint64(i)*4000), i%7, 0)
			}
			_, err := p.Exec(context.Background())
			return err == nil
		})
	}
}

// client is go-redis's cluster client as an application has it, with time limits of a test.
func (c *cluster) client() *redis.ClusterClient {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr)
	}
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, DialerRetries: 1, PoolSize: 40,
		MinRetryBackoff: 5 * time.Millisecond, MaxRetryBackoff: 50 * time.Millisecond})
}

func (c *cluster) startLoad(rng *rand.Rand, plain, numbered int, gap time.Duration) (*clusterLoad, error) {
	l := &clusterLoad{c: c, stop: make(chan struct{}), rng: rng, rdb: c.client(), history: 4 << 56}
	var err error
	if l.counter, err = client.New(l.rdb, client.Options{Counter: "weibo", RetryBurst: 1_000_000, RetryFor: 5 * time.Minute}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for i := range plain {
		w := &plainWriter{base: 1<<56 + uint64(i)<<32, first: 3<<56 + uint64(i)<<40, pause: &l.pause}
		w.clusterConn = clusterConn{timeout: time.Second, rng: rand.New(rand.NewPCG(rng.Uint64(), 0))}
		for _, n := range c.nodes {
			if i%3 == 2 { // by any node, which passes it on
				w.seeds = append(w.seeds, net.JoinHostPort(n.host, strconv.Itoa(n.forward)))
			} else {
				w.seeds = append(w.seeds, n.Addr)
			}
		}
		l.plain = append(l.plain, w)
		l.done.Go(func() { w.run(l.stop, gap) })
	}
	for i := range numbered {
		w := &numberedWriter{client: l.counter, base: 2<<56 + uint64(i)<<32, pause: &l.pause, rng: rand.New(rand.NewPCG(rng.Uint64(), 1))}
		l.numbered = append(l.numbered, w)
		l.done.Go(func() { w.run(ctx, gap) })
	}
	c.t.Cleanup(l.end)
	return l, nil
}

// end stops everybody. It may be called again.
func (l *clusterLoad) end() {
	select {
	case <-l.stop:
		return
	default:
	}
	close(l.stop)
	l.cancel()
	l.done.Wait()
	l.rdb.Close()
}

// acked is how many increments were acknowledged.
func (l *clusterLoad) acked() (n int64) {
	for _, w := range l.plain {
		n += w.counts[outMade].Load()
	}
	for _, w := range l.numbered {
		n += w.made.Load()
	}
	return n
}

// check compares all posts with what was answered, while nobody writes.
func (l *clusterLoad) check() (f found, err error) {
	l.pause.Lock()
	defer l.pause.Unlock()
	c := clusterConn{seeds: l.plain[0].seeds, timeout: 5 * time.Second, rng: l.rng}
	defer c.hangUp()
	get := func(mid uint64) (int64, error) {
		var v resptest.Value
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			var o outcome
			if v, o = c.do(mid, "GET", nKey(mid)); o == outMade {
				break
			}
			if time.Now().After(deadline) {
				return 0, fmt.Errorf("GET of post %d: %q", mid, v.Raw)
			}
		}
		if v.Null {
			return 0, nil
		}
		return v.Int()
	}
	for _, w := range l.plain {
		one, err := w.check(get)
		f.add(one)
		if err != nil {
			return f, err
		}
	}
	for _, w := range l.numbered {
		if w.fault != nil {
			return f, w.fault
		}
		for i, want := range w.posts {
			mid := w.base + uint64(i)*7919
			got, err := get(mid)
			if err != nil {
				return f, err
			}
			f.Checked++
			f.Lost += int(max(0, want-got))
			f.Doubled += int(max(0, got-want))
			if got != want {
				return f, fmt.Errorf("post %d holds %d, %d numbered increments were made", mid, got, want)
			}
		}
	}
	return f, nil
}

// errors are refusals and doubts without their numbers, and how often they came.
func (l *clusterLoad) errors() string {
	sum := map[string]int64{}
	for _, w := range l.plain {
		w.texts.Range(func(word, n any) bool {
			sum[word.(string)] += n.(*atomic.Int64).Load()
			return true
		})
	}
	return fmt.Sprint(sum)
}

// record lets some goroutines change and read three posts that are new, until stop is closed, and gives what they saw.
func (l *clusterLoad) record(stop <-chan struct{}) (wait func() []porcupine.Operation) {
	const goroutines, posts, most = 5, 3, 120
	base := l.history
	l.history += posts * 7919
	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var work sync.WaitGroup
	for g := range goroutines {
		rng := rand.New(rand.NewPCG(l.rng.Uint64(), 2))
		work.Go(func() {
			for range most {
				in := harness.HistoryInput{Kind: []rune("+++++??-")[rng.IntN(8)], Post: base + 7919*rng.Uint64N(posts), N: 1 + rng.Int64N(9)}
				call := time.Since(began).Nanoseconds()
				out := harness.Operate(context.Background(), l.counter, in)
				op := porcupine.Operation{ClientId: g, Input: in, Call: call, Output: out, Return: time.Since(began).Nanoseconds()}
				if out.Lost {
					op.Return = int64(time.Hour)
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rng.IntN(60)) * time.Millisecond):
				}
			}
		})
	}
	return func() []porcupine.Operation {
		work.Wait()
		return history
	}
}

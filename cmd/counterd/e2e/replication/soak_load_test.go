package replication

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// flow is a connection that increments posts of its own in pipelines. It knows each value, so each reply is checked. Old posts are
// deleted and made anew as newer ones, as in a network whose posts have a lifetime: the number of posts stays the same, and memory that
// grows is a leak.
type flow struct {
	rng    *rand.Rand
	first  int64 // the mid that the flow makes next
	mids   []int64
	values [][3]int64
	out    []byte
	want   []byte
	chunk  [4 << 10]byte
	sent   *atomic.Int64
}

const (
	flowPosts = 4000
	flowDepth = 16
)

var flowColumns = [...]string{".cntcm", ".cntrn", ".cntan"}

func newFlow(id int, seed uint64, sent *atomic.Int64) *flow {
	f := &flow{rng: rand.New(rand.NewPCG(seed, uint64(id))), first: int64(1+id) << 40, sent: sent}
	f.mids, f.values = make([]int64, flowPosts), make([][3]int64, flowPosts)
	for i := range f.mids {
		f.mids[i] = f.nextMid()
	}
	return f
}

func (f *flow) nextMid() int64 {
	f.first += 1 + f.rng.Int64N(50)
	return f.first
}

// pipeline sends some changes and compares all replies, byte by byte.
func (f *flow) pipeline(c *harness.Conn) error {
	f.out, f.want = f.out[:0], f.want[:0]
	for range flowDepth {
		i := f.rng.IntN(flowPosts)
		if f.rng.IntN(200) == 0 {
			reply := ":0\r\n"
			if f.values[i] != [3]int64{} {
				reply = ":1\r\n"
			}
			f.out = resptest.Append(f.out, "DEL", "weibo:"+strconv.FormatInt(f.mids[i], 10))
			f.want = append(f.want, reply...)
			f.mids[i], f.values[i] = f.nextMid(), [3]int64{}
			continue
		}
		k, by := f.rng.IntN(len(flowColumns)), 1+f.rng.Int64N(9)
		f.values[i][k] += by
		f.out = resptest.Append(f.out, "INCRBY", strconv.FormatInt(f.mids[i], 10)+flowColumns[k], strconv.FormatInt(by, 10))
		f.want = append(strconv.AppendInt(append(f.want, ':'), f.values[i][k], 10), "\r\n"...)
	}
	if err := c.TryWrite(f.out); err != nil {
		return err
	}
	if err := f.read(c); err != nil {
		return err
	}
	f.sent.Add(flowDepth)
	return nil
}

// read reads the replies that want has.
func (f *flow) read(c *harness.Conn) error {
	if err := c.Nc.SetReadDeadline(time.Now().Add(harness.IoTimeout)); err != nil {
		return err
	}
	for rest := f.want; len(rest) > 0; {
		n, err := c.Br.Read(f.chunk[:min(len(rest), len(f.chunk))])
		if err != nil {
			return fmt.Errorf("%d bytes of replies are missing: %w", len(rest), err)
		}
		if !bytes.Equal(f.chunk[:n], rest[:n]) {
			return fmt.Errorf("%.500q answered %.300q, want %.300q", f.out, f.chunk[:n], rest[:n])
		}
		rest = rest[n:]
	}
	return nil
}

// sums adds up the columns of the flow's posts.
func (f *flow) sums() (sums [3]int64) {
	for _, v := range f.values {
		for k := range sums {
			sums[k] += v[k]
		}
	}
	return sums
}

// load is all flows on one server. They run, as fast as pace allows, or pause.
type load struct {
	server *harness.Server
	flows  []*flow
	sent   atomic.Int64
	pace   atomic.Int64 // nanoseconds for a pipeline of a flow; 0 is no limit
}

func newLoad(s *harness.Server, flows int, seed uint64) *load {
	l := &load{server: s}
	for id := range flows {
		l.flows = append(l.flows, newFlow(id, seed, &l.sent))
	}
	return l
}

// begin starts the flows. The function that it returns stops them, and returns the error of the first flow that saw a wrong reply.
func (l *load) begin() (end func() error) {
	stop := make(chan struct{})
	errs := make([]error, len(l.flows))
	var work sync.WaitGroup
	for id, f := range l.flows {
		c := l.server.Dial(l.server.T)
		work.Go(func() {
			defer c.Close()
			next := time.Now()
			for errs[id] == nil {
				select {
				case <-stop:
					return
				case <-time.After(time.Until(next)):
				}
				errs[id] = f.pipeline(c)
				if next = next.Add(time.Duration(l.pace.Load())); time.Since(next) > 0 {
					next = time.Now() // a late pipeline is not made up for: that would be more than half load
				}
			}
		})
	}
	return func() error {
		close(stop)
		work.Wait()
		for id, err := range errs {
			if err != nil {
				return fmt.Errorf("flow %d: %w", id, err)
			}
		}
		return nil
	}
}

// halfLoad measures how much the flows do at once, and halves it.
func (l *load) halfLoad(during time.Duration) (perSecond int64, err error) {
	from, began := l.sent.Load(), time.Now()
	end := l.begin()
	time.Sleep(during)
	if err := end(); err != nil {
		return 0, err
	}
	perSecond = int64(float64(l.sent.Load()-from) / time.Since(began).Seconds() / 2)
	l.pace.Store(int64(time.Second) * flowDepth * int64(len(l.flows)) / max(perSecond, 1))
	return perSecond, nil
}

// sums adds up the columns of all posts.
func (l *load) sums() (sums [3]int64) {
	for _, f := range l.flows {
		for k, n := range f.sums() {
			sums[k] += n
		}
	}
	return sums
}

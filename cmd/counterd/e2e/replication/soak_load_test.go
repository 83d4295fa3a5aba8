package replication

import (
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
	asked  []asked
	sent   *atomic.Int64
}

// asked is a change of a flow that was sent: by of a column of a post, or the deletion of the post.
type asked struct {
	post, column int
	by           int64 // 0: the post is deleted
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

// pipeline sends some changes and compares all replies. The last one may be a deletion: its post has another mid from then on.
func (f *flow) pipeline(c *harness.Conn) error {
	f.out, f.asked = f.out[:0], f.asked[:0]
	for n := range flowDepth {
		one := asked{f.rng.IntN(flowPosts), f.rng.IntN(len(flowColumns)), 1 + f.rng.Int64N(9)}
		mid := strconv.FormatInt(f.mids[one.post], 10)
		if n == flowDepth-1 && f.rng.IntN(200/flowDepth) == 0 {
			one.by = 0
			f.out = resptest.Append(f.out, "DEL", "weibo:"+mid)
		} else {
			f.out = resptest.Append(f.out, "INCRBY", mid+flowColumns[one.column], strconv.FormatInt(one.by, 10))
		}
		f.asked = append(f.asked, one)
	}
	if err := c.TryWrite(f.out); err != nil {
		return err
	}
	return f.read(c)
}

// read reads the replies, and takes over the changes that were made.
func (f *flow) read(c *harness.Conn) error {
	if err := c.Nc.SetReadDeadline(time.Now().Add(harness.IoTimeout)); err != nil {
		return err
	}
	for n, one := range f.asked {
		line, err := c.Br.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("%d replies are missing: %w", flowDepth-n, err)
		}
		if harness.RefusedByDisk(string(line)) {
			continue
		}
		sums := &f.values[one.post]
		want := sums[one.column] + one.by
		if one.by == 0 {
			want = 0
			if *sums != [3]int64{} {
				want = 1
			}
		}
		if string(line) != fmt.Sprintf(":%d\r\n", want) {
			return fmt.Errorf("command %d of %.500q answered %q, want %d", n, f.out, line, want)
		}
		if f.sent.Add(1); one.by == 0 {
			f.mids[one.post], *sums = f.nextMid(), [3]int64{}
		} else {
			sums[one.column] = want
		}
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

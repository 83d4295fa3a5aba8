package bench

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/bench/postgen"
	"github.com/counterd/counterd/internal/wire"
)

// Mode is how a client sends.
type Mode string

const (
	// Sync sends depth operations, waits for all their replies, and starts again, as a client library's pipeline does.
	Sync Mode = "sync"
	// Async keeps depth operations in flight: each reply makes room for the next operation.
	Async Mode = "async"
)

// client is one connection that plays a Stream. Between its runs nothing is in flight. It belongs to one goroutine, but
// for an open run, which has two: there the fields belong to the sender or to the receiver, as marked.
type client struct {
	conn  *wire.Conn
	model Model
	posts postgen.Posts
	fill  func(post int, row []uint64)
	rec   *recorder
	depth int

	// The sender's.
	stream Stream
	op     Op
	mids   []uint64
	row    []uint64
	ring   []flight      // the operations in flight, in the order of their replies; not of an open run
	head   int           // counts operations sent
	tail   int           // counts operations answered
	ended  bool          // the stream has no more
	newest int           // highest post set
	due    time.Duration // when the next operation of an open run is to start

	// The receiver's.
	page    []int64
	reads   int           // of the socket, when the clock was last looked at
	now     time.Duration // what it said
	latency time.Duration // of the operations answered last,
	equal   int64         // and how many of them are not yet recorded
	samples *samples      // of all operations; nil: they are not kept
	done    tally
	refused map[cell]int // increments that were refused
	first   error        // the first refusal
}

// flight is an operation in flight.
type flight struct {
	start time.Duration // on the generator's clock
	kind  OpKind
	col   int
	post  int
	posts int // how many it is about
}

// cell is one counter of one post.
type cell struct{ post, col int }

// tally counts what a client did.
type tally struct {
	ops     int64 // answered, refused ones included
	posts   int64 // that they were about
	absent  int64 // posts or counters read that were not there
	refused int64
}

func (t *tally) add(o tally) {
	t.ops += o.ops
	t.posts += o.posts
	t.absent += o.absent
	t.refused += o.refused
}

// epoch is the zero of the generator's clock.
var epoch = time.Now()

func clock() time.Duration { return time.Since(epoch) }

// newClient returns client number of clients, on a connection.
func newClient(conn *wire.Conn, model Model, w Workload, number, clients, columns, depth int, rec *recorder) *client {
	return &client{conn: conn, model: model, posts: w.Posts(), fill: w.Fill, stream: w.Stream(number, clients), rec: rec,
		depth: depth, row: make([]uint64, columns), ring: make([]flight, depth), refused: map[cell]int{}, newest: -1}
}

// run plays the stream until the end or until it is exhausted, and returns when all replies are there.
func (c *client) run(mode Mode, end *finish) error {
	if mode == Async {
		return c.runAsync(end)
	}
	return c.runSync(end)
}

func (c *client) runSync(end *finish) error {
	for c.now = clock(); end.before(c.now) && !c.ended; {
		start := c.now
		for range c.depth {
			if !c.send(start) {
				break
			}
		}
		if err := c.conn.Flush(); err != nil {
			return err
		}
		for c.tail < c.head {
			if err := c.receiveNext(); err != nil {
				return err
			}
		}
	}
	c.flushLatency()
	return nil
}

func (c *client) runAsync(end *finish) error {
	for c.now = clock(); ; {
		if end.before(c.now) {
			for c.head-c.tail < c.depth && c.send(c.now) {
			}
		}
		if c.head == c.tail {
			c.flushLatency()
			return nil
		}
		if len(c.conn.Out) > 0 {
			if err := c.conn.Flush(); err != nil {
				return err
			}
		}
		// Wait for one reply; take with it what came along.
		for first := true; c.tail < c.head && (first || c.conn.Buffered() > 0); first = false {
			if err := c.receiveNext(); err != nil {
				return err
			}
		}
	}
}

// send draws the next operation, appends its command, and notes it in the ring, where there must be room.
func (c *client) send(start time.Duration) bool {
	f, ok := c.append(start)
	if ok {
		c.ring[c.head%len(c.ring)] = f
		c.head++
	}
	return ok
}

// receiveNext receives the reply to the oldest operation in the ring.
func (c *client) receiveNext() error {
	err := c.receive(c.ring[c.tail%len(c.ring)])
	c.tail++
	return err
}

// append draws the next operation and appends its command. Its latency counts from start.
func (c *client) append(start time.Duration) (flight, bool) {
	op := &c.op
	if c.ended || !c.stream.Next(op) {
		c.ended = true
		return flight{}, false
	}
	f := flight{start: start, kind: op.Kind, col: op.Col, post: op.Post, posts: 1}
	switch op.Kind {
	case OpRow:
		c.fill(op.Post, c.row)
		c.newest = max(c.newest, op.Post)
		c.conn.Out = c.model.AppendRow(c.conn.Out, c.posts.MID(op.Post), c.row)
	case OpIncr:
		c.conn.Out = c.model.AppendIncr(c.conn.Out, c.posts.MID(op.Post), op.Col)
	case OpGet:
		c.conn.Out = c.model.AppendGet(c.conn.Out, c.posts.MID(op.Post), op.Col)
	case OpPage:
		c.mids = c.mids[:0]
		for _, post := range op.Page {
			c.mids = append(c.mids, c.posts.MID(post))
		}
		f.post, f.posts = op.Page[0], len(op.Page)
		c.conn.Out = c.model.AppendPage(c.conn.Out, c.mids)
	}
	return f, true
}

// receive waits for the reply to an operation and notes it. A refusal is no error here.
func (c *client) receive(f flight) error {
	if err := c.read(f); err != nil {
		var failed *wire.ServerError
		if !errors.As(err, &failed) || errors.Is(err, wire.ErrProtocol) {
			return err
		}
		c.done.refused++
		if f.kind == OpIncr {
			c.refused[cell{f.post, f.col}]++
		}
		if c.first == nil {
			c.first = fmt.Errorf("post %d: %w", c.posts.MID(f.post), err)
		}
	}
	c.done.ops++
	c.done.posts += int64(f.posts)
	if reads := c.conn.Reads(); reads != c.reads {
		// Reading the clock takes 40 ns. One reading for each read of the socket is enough, as all its bytes came at
		// once.
		c.reads, c.now = reads, clock()
	}
	latency := c.now - f.start
	if c.samples != nil {
		c.samples.add(f.start, latency)
	}
	if latency != c.latency {
		c.flushLatency()
		c.latency = latency
	}
	c.equal++
	return nil
}

// read reads the reply to an operation, and counts absent values.
func (c *client) read(f flight) (err error) {
	r := &c.conn.Reader
	switch f.kind {
	case OpRow:
		return c.model.ReadRow(r)
	case OpIncr:
		return c.model.ReadIncr(r)
	case OpGet:
		v, err := c.model.ReadGet(r, f.col)
		if err == nil && v == Absent {
			c.done.absent++
		}
		return err
	}
	c.page, err = c.model.ReadPage(r, c.page[:0], f.posts)
	for i := 0; i < len(c.page); i += len(c.row) {
		if c.page[i] == Absent {
			c.done.absent++
		}
	}
	return err
}

// flushLatency records the operations that were answered together.
func (c *client) flushLatency() {
	if c.equal > 0 {
		c.rec.record(c.latency, c.equal)
		c.equal = 0
	}
}

// finish is when clients end, on the generator's clock. It may be moved while they run: a window goes on until what it
// was made for is over. Any number of goroutines may use one.
type finish struct{ at atomic.Int64 }

// finishAt returns a finish at that time.
func finishAt(at time.Duration) *finish {
	f := &finish{}
	f.set(at)
	return f
}

func (f *finish) set(at time.Duration) { f.at.Store(int64(at)) }

// before tells whether a time is before the end.
func (f *finish) before(now time.Duration) bool { return int64(now) < f.at.Load() }

package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/testkit/feedview"
	"github.com/counterd/counterd/internal/feedjoin"
	"github.com/counterd/counterd/internal/wire"
)

// consumer follows COUNTER.FEED as a program does that keeps something current. It reads on any node that has the log, the primary or a
// replica, goes to another one now and then, and begins again at the position behind the last change that it has taken. Of a cluster it
// joins the feeds of all shards. In some runs a cursor follows it. Package feedview says what it must see.
type consumer struct {
	run   *Run
	stack *Stack
	dice  *Dice
	wants atomic.Pointer[Machine] // that a scene has it read on; nil: any

	mu       sync.Mutex
	view     *feedview.View
	position string
	faults   []string
	kept     map[uint64]uint64      // by shard: a place from which on the cursor keeps the log. INVARIANT: the log has the cursor's first record before it
	moved    time.Time              // when the cursor was moved last
	sets     int                    // how often
	silent   map[*Machine]time.Time // until when it does not read there
}

const (
	feedHost   = "10.0.3.1"
	cursorName = "simulated"
	avoids     = 10 * time.Second // how long the consumer does not read on a node without a reply
)

func newConsumer(r *Run) *consumer {
	return &consumer{run: r, stack: r.Net.Boot(feedHost, versionNow), dice: NewDice(r.Seed, "feed"), view: newView(r), position: feedjoin.Oldest,
		kept: make(map[uint64]uint64), silent: make(map[*Machine]time.Time)}
}

// newView is the view of a consumer that begins before the clients.
func newView(r *Run) *feedview.View {
	conf := &r.Config
	o := feedview.Options{Repeats: conf.Standalone, GiveUp: conf.MinIdle > 0, Undo: conf.Sentinel, Growing: conf.growing()}
	if !conf.Standalone {
		o.Shards = conf.Shards
	}
	for _, mid := range r.mids {
		o.Cells = append(o.Cells, feedview.Cell{Counter: "c", Mid: mid, Column: "n"})
	}
	for _, p := range r.pages {
		page := feedview.Page{Name: p.name, Owned: p.owner != ""}
		for _, mid := range p.mids {
			for _, column := range pageColumns {
				page.Cells = append(page.Cells, feedview.Cell{Counter: "p", Mid: mid, Column: column})
			}
		}
		o.Pages = append(o.Pages, page)
	}
	return feedview.New(o)
}

// fault notes a fault, once. It is a fault of the run unless the run may lose changes, which its end says.
func (c *consumer) fault(format string, args ...any) {
	text := "feed: " + fmt.Sprintf(format, args...)
	for _, known := range c.faults {
		if known == text {
			return
		}
	}
	c.faults = append(c.faults, text)
	c.run.Story.Say("feed", "%s", text)
}

// waits tells whether the consumer has no place in the log yet.
func (c *consumer) waits() string {
	if c.at() == feedjoin.Oldest {
		return "it has no position"
	}
	return ""
}

// at is the position behind the changes that were taken.
func (c *consumer) at() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.position
}

// follow reads the feed until ctx ends.
func (c *consumer) follow(ctx context.Context) {
	for ctx.Err() == nil {
		from := c.at()
		f, err := feedjoin.Open(ctx, c, feedjoin.Options{From: from})
		if err == nil {
			c.read(ctx, f)
			f.Close()
		} else if ctx.Err() == nil {
			c.run.Fault("feed: it does not begin at %s: %v", from, err)
			return
		}
	}
}

// read takes changes, until the consumer begins again.
func (c *consumer) read(ctx context.Context, f *feedjoin.Feed[feedview.Change]) {
	for left := 1 + c.dice.N(400); left > 0; {
		b, err := f.Next()
		if err != nil {
			if ctx.Err() == nil {
				c.ended(err)
			}
			return
		}
		left -= max(1, len(b.Changes))
		c.take(&b, f, max(0, len(b.Changes)+min(left, 0)))
		c.moveCursor(ctx)
	}
}

// take takes the first changes of a batch.
func (c *consumer) take(b *feedjoin.Batch[feedview.Change], f *feedjoin.Feed[feedview.Change], first int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range first {
		at, _ := feedjoin.Offset(b.Changes[i].Position)
		for _, fault := range c.view.Take(b.Shard, at, &b.Changes[i].Value) {
			c.fault("%s, in shard %d at %s", fault, b.Shard, b.Changes[i].Position)
		}
		c.position = b.Position(i)
	}
	if len(b.Changes) == 0 && f.Settled() {
		c.position = f.Position()
	}
}

// ended has the consumer go on behind an error that ends a feed.
func (c *consumer) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone, ok := errors.AsType[*feedjoin.PositionError](err)
	r := c.run
	r.Story.Say("feed", "at %s: %v", c.position, err)
	switch {
	case !ok:
		c.fault("it ended: %v", err)
		return
	case gone.History && !r.Config.Sentinel:
		c.fault("changes were shown and taken back: %v", err)
	case gone.History:
		r.Story.meet("simulation: a feed was told that changes were taken back")
	default:
		at, _ := feedjoin.Offset(feedPlace(gone.At, gone.Shard))
		if kept := c.kept[gone.Shard]; kept > 0 && at >= kept && r.keepsLogs() {
			c.fault("the log behind a cursor is gone in shard %d at %d, a cursor has kept it from %d on: %v", gone.Shard, at, kept, err)
		}
		r.Story.meet("simulation: a feed lacked a part of the log")
	}
	if gone.Next == "" {
		c.position = feedjoin.Oldest
		c.view.Forget()
		return
	}
	c.position = gone.Next
	if next, _ := feedjoin.Offset(feedPlace(gone.Next, gone.Shard)); gone.History {
		c.view.Undo(next)
	} else {
		c.view.Gap()
	}
}

// feedPlace is the place of a shard in a position.
func feedPlace(position string, shard uint64) string {
	p, err := feedjoin.ParsePosition(position)
	if err != nil {
		return ""
	}
	return p[shard]
}

// moveCursor moves the cursor behind the changes that were taken, each second or so.
func (c *consumer) moveCursor(ctx context.Context) {
	if !c.run.Config.Cursor || time.Since(c.moved) < time.Second {
		return
	}
	c.moved = time.Now()
	at := c.at()
	if at == feedjoin.Oldest || feedjoin.SetCursor(ctx, c, cursorName, at) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.Story.meet("simulation: a cursor was moved")
	// The first record of the cursor is in front of the changes that are shown behind it.
	if c.sets++; c.sets == 3 {
		p, _ := feedjoin.ParsePosition(at)
		for id, place := range maps.All(p) {
			c.kept[id], _ = feedjoin.Offset(place)
		}
	}
}

// keeps tells whether a cursor keeps log for the consumer.
func (c *consumer) keeps() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept) > 0
}

// Shards returns the shards, which stay the same in a run.
func (c *consumer) Shards(context.Context) ([]uint64, error) {
	if c.run.Config.Standalone {
		return []uint64{0}, nil
	}
	var ids []uint64
	for i := range c.run.Config.Shards {
		ids = append(ids, uint64(i+1))
	}
	return ids, nil
}

// Reader reads on any node of a shard, and not again at once on a node without a reply.
func (c *consumer) Reader(ctx context.Context, shard uint64) (feedjoin.Reader[feedview.Change], error) {
	list := c.of(shard)
	m := Pick(c.dice, c.answering(list, time.Now()))
	if w := c.wants.Load(); slices.Contains(list, w) {
		m = w
	}
	conn, err := c.connect(ctx, m, shard)
	if err != nil {
		return nil, err
	}
	return &feedReader{c: c, m: m, shard: shard, conn: conn, left: 1 + c.dice.N(30)}, nil
}

// unanswered notes an error of a read. A replica without the log behind the position does not refuse it before it knows of a later position
// that is safe: it lets each consumer wait for seconds. A replica of an older version is never told, and does so for good. If the consumer
// tried such replicas again and again, it would not come to the end of the log in the time of the run.
func (c *consumer) unanswered(m *Machine, err error, now time.Time) {
	failed, refused := errors.AsType[*wire.ServerError](err)
	if errors.Is(err, os.ErrDeadlineExceeded) || refused && strings.HasPrefix(failed.Text, "TRYAGAIN ") {
		c.avoid(m, now.Add(avoids))
	}
}

// avoid has the consumer read on other nodes until a moment.
func (c *consumer) avoid(m *Machine, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent[m] = until
}

// answering are the machines that are not avoided, or all if each is.
func (c *consumer) answering(list []*Machine, now time.Time) []*Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	some := slices.DeleteFunc(slices.Clone(list), func(m *Machine) bool { return now.Before(c.silent[m]) })
	if len(some) == 0 {
		return list
	}
	return some
}

// of are the machines that may be of a shard.
func (c *consumer) of(shard uint64) (list []*Machine) {
	for i, m := range c.run.Machines {
		if shard == 0 || i%c.run.Config.Shards == int(shard)-1 {
			list = append(list, m)
		}
	}
	return list
}

// connect connects to a machine, whose node must be of the shard.
func (c *consumer) connect(ctx context.Context, m *Machine, shard uint64) (*wire.Conn, error) {
	conn, err := wire.Dial(ctx, m.host+":7000", wire.Options{Buffer: clientBuffer, Connect: c.stack.Connect, Timeout: 2 * time.Second})
	if err != nil || shard == 0 {
		return conn, err
	}
	_ = conn.SetDeadline(time.Now().Add(c.run.Config.Patience))
	v, err := conn.Do("CLUSTER", "MYSHARDID")
	if err == nil {
		if id, _ := strconv.ParseUint(strings.TrimLeft(v.Str, "0"), 16, 64); id != shard {
			err = errElsewhere
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

var (
	errElsewhere = errors.New("the node is of another shard")
	errMoveOn    = errors.New("the consumer goes to another node")
)

// Ends is the error that ends the feed: where a node cannot go on from the position.
func (c *consumer) Ends(shard uint64, from string, err error) error {
	failed, ok := errors.AsType[*wire.ServerError](err)
	if !ok {
		return nil
	}
	if gone := feedjoin.Refusal(failed.Text, err); gone != nil {
		return gone
	}
	if strings.HasPrefix(failed.Text, "ERR ") {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fault("from %s in shard %d it was answered -%s", from, shard, failed.Text)
	}
	return nil
}

// Do sends a command about cursors to the node that leads a shard, which is any that takes it.
func (c *consumer) Do(ctx context.Context, shard uint64, words ...string) (text string, ok bool, err error) {
	err = errElsewhere
	list := c.of(shard)
	for _, i := range c.dice.Shuffle(len(list)) {
		var conn *wire.Conn
		if conn, err = c.connect(ctx, list[i], shard); err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(c.run.Config.Patience))
		var v wire.Value
		v, err = conn.Do(words...)
		conn.Close()
		if err == nil {
			return v.Str, !v.Null, nil
		}
		_ = c.Ends(shard, strings.Join(words, " "), err)
	}
	return "", false, err
}

// feedReader reads on one node.
type feedReader struct {
	c     *consumer
	m     *Machine
	shard uint64
	conn  *wire.Conn
	left  int // replies until the consumer goes to another node
}

// Read reads one reply.
func (r *feedReader) Read(_ context.Context, from string) (reply feedjoin.Reply[feedview.Change], err error) {
	if r.left--; r.left < 0 {
		return reply, errMoveOn
	}
	if w := r.c.wants.Load(); w != nil && w != r.m && slices.Contains(r.c.of(r.shard), w) {
		return reply, errMoveOn
	}
	block := map[bool]time.Duration{false: time.Second, true: time.Minute}[r.c.run.Config.Quiet]
	_ = r.conn.SetDeadline(time.Now().Add(block + r.c.run.Config.Patience))
	v, err := r.conn.Do(withOld(r.c.run, "COUNTER.FEED", "FROM", from, "COUNT", Pick(r.c.dice, []string{"1000", "100", "7", "1"}), "BLOCK", strconv.FormatInt(block.Milliseconds(), 10))...)
	if err != nil {
		r.c.unanswered(r.m, err, time.Now())
		return reply, err
	}
	reply.Next = v.Array[0].Str
	for _, one := range v.Array[1].Array {
		reply.Changes = append(reply.Changes, feedview.Parse(one))
	}
	if len(reply.Changes) == 0 { // a replica without a primary shows nothing
		if r.left = min(r.left, 1); r.c.run.Config.Older > 0 { // nor does one of an older version
			r.c.avoid(r.m, time.Now().Add(10*time.Minute))
		}
	}
	return reply, nil
}

// Close lets the node go.
func (r *feedReader) Close() { r.conn.Close() }

// verifyFeed waits until the consumer has the last values of all keys, and tells what it saw that must not be.
func (r *Run) verifyFeed() {
	c := r.consumer
	if c == nil {
		return
	}
	r.await("the feed has come to its end", func() string { return c.lacks() })
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.view.Changes() {
		r.Story.meet("simulation: a feed gave a change")
	}
	if r.lossy || r.alone {
		return
	}
	for _, text := range c.faults {
		r.Fault("%s", text)
	}
}

// lacks tells which value the consumer does not have.
func (c *consumer) lacks() string {
	r := c.run
	c.mu.Lock()
	over := r.lossy || r.alone || len(c.faults) > 0
	c.mu.Unlock()
	if over {
		return ""
	}
	for _, key := range r.keys {
		value, got := r.operator.ask(key, r.reading(key))
		if got != acknowledged {
			return key + " is refused"
		}
		mid, _ := strconv.ParseUint(key[1:strings.IndexByte(key, '}')], 10, 64)
		if text := c.differs(feedview.Cell{Counter: "c", Mid: mid, Column: "n"}, value); text != "" {
			return text
		}
	}
	for _, p := range r.pages {
		value, got := r.operator.seePage(p, r.readingPage(p, 0))
		if got != acknowledged {
			return p.name + " is refused"
		}
		for _, mid := range p.mids {
			for _, column := range pageColumns {
				if text := c.differs(feedview.Cell{Counter: "p", Mid: mid, Column: column}, max(0, value)); text != "" {
					return text
				}
			}
		}
	}
	return c.lacksAged()
}

func (c *consumer) differs(of feedview.Cell, value int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have, known := c.view.Value(of); known && have != value {
		return fmt.Sprintf("the feed gave %d for %s of %d, which is %d; it is at %s", have, of.Column, of.Mid, value, c.position)
	}
	return ""
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

const (
	// batchPosts is how many posts are sent at a time: 64 KB of three columns.
	batchPosts = 512
	// batchesAtOnce is how many batches are under way, each on a connection of its own: primaries acknowledge many
	// changes at once, when their replicas have them.
	batchesAtOnce = 8
	// batchAnswer is for the answer to a batch, and batchPatience for errors that may pass, without any progress.
	batchAnswer   = time.Minute
	batchPatience = time.Minute
)

// postWriter writes posts into a cluster, each by an HSET to the primary that owns it, in any order. It waits for
// conditions that may pass: a failover, a move, a lost connection. Posts that were not acknowledged are sent again, which
// changes nothing as values are set. put and close are for one goroutine.
type postWriter struct {
	*session
	ctx     context.Context // of the workers
	group   *errgroup.Group
	m       atomic.Pointer[topology.Map] // the newest that is known
	batches chan *postBatch
	filling map[topology.ShardID]*postBatch
	rate    float64
	began   time.Time
	sent    uint64
	key     []byte
}

// errNoPrimary may pass: a shard elects one.
var errNoPrimary = errors.New("a shard has no primary")

// postBatch is commands for posts that one shard owned when they were put.
type postBatch struct {
	text []byte
	todo []postCommand
}

type postCommand struct {
	mid        uint64
	start, end int // in text
}

func newPostWriter(ctx context.Context, s *session, m *topology.Map, rate float64) *postWriter {
	w := &postWriter{session: s, batches: make(chan *postBatch), filling: map[topology.ShardID]*postBatch{}, rate: rate, began: time.Now()}
	w.group, w.ctx = errgroup.WithContext(ctx)
	w.m.Store(m)
	for range batchesAtOnce {
		w.group.Go(w.work)
	}
	return w
}

// put writes a post some time until close has returned.
func (w *postWriter) put(c *schema.Counter, mid uint64, values []uint64) error {
	owner := w.m.Load().Owner(slot.Group(mid))
	if owner == nil {
		return fmt.Errorf("nobody owns hash slot %d any more", slot.Of(mid))
	}
	b := w.filling[owner.ID]
	if b == nil {
		b = &postBatch{}
		w.filling[owner.ID] = b
	}
	start, values := len(b.text), values[:len(c.Columns)] // derived columns cannot be set
	b.text = wire.AppendArg(wire.AppendArray(b.text, 2+2*len(values)), "HSET")
	w.key = append(append(w.key[:0], c.Name...), ":{"...)
	w.key = append(fmt.Appendf(w.key, "%d", mid), '}')
	b.text = wire.AppendBytes(b.text, w.key)
	for i, v := range values {
		b.text = wire.AppendUint(wire.AppendArg(b.text, c.Columns[i].Name), v)
	}
	if b.todo = append(b.todo, postCommand{mid, start, len(b.text)}); len(b.todo) < batchPosts {
		return nil
	}
	delete(w.filling, owner.ID)
	return w.give(b)
}

// give hands a batch to a free connection, when it is due.
func (w *postWriter) give(b *postBatch) error {
	if w.rate > 0 {
		due := w.began.Add(time.Duration(float64(w.sent) / w.rate * float64(time.Second)))
		w.sent += uint64(len(b.todo))
		select {
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		case <-time.After(time.Until(due)):
		}
	}
	select {
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case w.batches <- b:
		return nil
	}
}

// close writes the rest, and returns when all is acknowledged, or with the first error.
func (w *postWriter) close() error {
	var ended error
	for _, b := range w.filling {
		if ended = w.give(b); ended != nil {
			break
		}
	}
	close(w.batches)
	if err := w.group.Wait(); err != nil {
		return err
	}
	return ended
}

// work writes batches on connections of its own.
func (w *postWriter) work() error {
	links := postLinks{w, map[string]*wire.Conn{}}
	defer links.close()
	for b := range w.batches {
		if err := links.write(b); err != nil {
			return err
		}
	}
	return nil
}

// postLinks are a worker's connections, by address.
type postLinks struct {
	*postWriter
	conns map[string]*wire.Conn
}

func (l *postLinks) close() {
	for _, c := range l.conns {
		c.Close()
	}
}

// write returns when a batch is acknowledged.
func (l *postLinks) write(b *postBatch) error {
	policy := patience.Policy{First: 20 * time.Millisecond, Longest: time.Second, Limit: batchPatience}
	tried := false
	err := policy.Do(l.ctx, func() (bool, error) {
		if tried {
			if m, err := l.load(l.ctx); err == nil { // else the old one is the best there is
				l.m.Store(m)
			}
		}
		tried = true
		before := len(b.todo)
		err := l.send(b)
		if len(b.todo) == 0 {
			err = nil
		}
		return len(b.todo) < before, err
	})
	var spent *patience.SpentError
	switch {
	case !errors.As(err, &spent):
		return err
	case spent.Waited == 0:
		return fmt.Errorf("the cluster refused a post: %w", spent.Err)
	}
	return fmt.Errorf("the cluster took nothing for %v: %w", spent.Waited.Round(time.Second), spent.Err)
}

// send sends a batch to the owners of its posts, and leaves those that were not acknowledged, with an error.
func (l *postLinks) send(b *postBatch) (failed error) {
	m := l.m.Load()
	parts := map[topology.NodeID][]postCommand{}
	for _, c := range b.todo {
		id := topology.NodeID("")
		if owner := m.Owner(slot.Group(c.mid)); owner != nil {
			id = owner.Primary
		}
		parts[id] = append(parts[id], c)
	}
	b.todo = b.todo[:0]
	for id, part := range parts {
		left, err := l.sendTo(m.Nodes[id], b.text, part)
		b.todo = append(b.todo, left...)
		if err != nil && (failed == nil || patience.Passes(failed)) {
			failed = err
		}
	}
	return failed
}

// sendTo sends commands to one node, and returns those that it did not acknowledge, and why.
func (l *postLinks) sendTo(n *topology.Node, text []byte, part []postCommand) (left []postCommand, failed error) {
	if n == nil {
		return part, errNoPrimary
	}
	addr, err := l.address(n)
	if err != nil {
		return part, err
	}
	conn := l.conns[addr]
	if conn == nil {
		opts, err := l.flags.node.Options(addr)
		if err != nil {
			return part, err
		}
		if conn, err = wire.Dial(l.ctx, addr, opts); err != nil {
			return part, fmt.Errorf("%s: %w", addr, err)
		}
		l.conns[addr] = conn
	}
	_ = conn.SetDeadline(time.Now().Add(batchAnswer))
	for _, c := range part {
		conn.Out = append(conn.Out, text[c.start:c.end]...)
	}
	err = conn.Flush()
	for i, c := range part {
		if err == nil {
			_, err = conn.ReadInt()
		}
		var answer *wire.ServerError
		if errors.As(err, &answer) {
			if left = append(left, c); failed == nil || patience.Passes(failed) {
				failed = fmt.Errorf("%s: %w", addr, err)
			}
			err = nil
		} else if err != nil {
			conn.Close()
			delete(l.conns, addr)
			return append(left, part[i:]...), fmt.Errorf("%s: %w", addr, err)
		}
	}
	return left, failed
}

package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// sealWork brings new posts, so that the range that takes them is full again and again and is sealed. What counts is
// the time around that: from the last look at which the server had a range less, to sealAfter behind the one at which
// it had one more. In quiet windows a connection sends as many increments as it sends new posts in busy ones.
type sealWork struct {
	worker
	config *Config
	posts  *client // sends new posts
	incrs  *client // increments
}

const (
	sealRate  = 50_000 // new posts a second: a range of 64 Ki in 1.3 s
	sealDepth = 2048
	sealAfter = 50 * time.Millisecond
)

func (w *sealWork) how() string {
	return fmt.Sprintf("%d new posts a second", sealRate)
}

func (w *sealWork) prepare(ctx context.Context) error {
	if err := w.only(); err != nil {
		return err
	}
	opts := WorkloadOptions{Data: w.side.data, Seed: w.config.Seed, Page: w.config.Page, Uniform: true}
	for _, name := range []string{"firehose", "incr"} {
		load, err := NewWorkload(name, opts)
		if err != nil {
			return err
		}
		conn, err := wire.Dial(ctx, w.side.target.Addr, wire.Options{Password: w.side.target.Password})
		if err != nil {
			return err
		}
		c := newClient(conn, w.side.model, load, 0, 1, len(w.side.schema.Columns), sealDepth, newRecorders(1)[0])
		if name == "incr" {
			c.stream = load.Stream(w.config.Clients, w.config.Clients+1) // of a client that nobody else is
			w.incrs = c
		} else {
			w.posts = c
		}
	}
	return nil
}

// beside sends increments in a quiet window.
func (w *sealWork) beside(end *finish) error { return w.drive(w.incrs, end) }

func (w *sealWork) drive(c *client, end *finish) error {
	c.due = clock()
	return c.runOpen(time.Second/sealRate, end)
}

func (w *sealWork) do(ctx context.Context, until time.Duration, mark mark) error {
	end, sent := finishAt(forever), make(chan error, 1)
	go func() { sent <- w.drive(w.posts, end) }()
	defer func() { end.set(0) }()
	err := w.watch(ctx, until, mark)
	end.set(0)
	return errOr(<-sent, err)
}

// watch marks what is sealed until the time, once at least.
func (w *sealWork) watch(ctx context.Context, until time.Duration, mark mark) error {
	blocks, err := w.hotBlocks(ctx)
	if err != nil {
		return err
	}
	for sealed := false; !sealed || clock() < until; {
		over := mark("sealed")
		n, err := w.hotBlocks(ctx)
		if err != nil {
			return err
		}
		if n <= blocks {
			continue // what was marked counts for nothing unless it is over
		}
		time.Sleep(sealAfter)
		over()
		blocks, sealed = n, true
	}
	return nil
}

// hotBlocks is how many blocks there are in memory, as of the next look.
func (w *sealWork) hotBlocks(ctx context.Context) (int64, error) {
	now, err := w.watcher.next(ctx)
	if err != nil {
		return 0, err
	}
	return now.info.Int("hot_blocks")
}

// end notes what was sent, for verify.
func (w *sealWork) end() error {
	for _, c := range []*client{w.posts, w.incrs} {
		if c != nil {
			c.conn.Close()
		}
	}
	return nil
}

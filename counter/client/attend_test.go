package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestContextEnds: every call returns when its context ends, with a go-redis client of default options that waits for a
// reply much longer. The server holds its reply back until the call has returned.
func TestContextEnds(t *testing.T) {
	calls := map[string]func(context.Context, *Client) error{
		"Add":   func(ctx context.Context, c *Client) error { _, err := c.Add(ctx, 1, "repost", 1); return err },
		"Set":   func(ctx context.Context, c *Client) error { return c.Set(ctx, 1, "repost", 1) },
		"Take":  func(ctx context.Context, c *Client) error { _, _, err := c.Take(ctx, 1, "repost"); return err },
		"Get":   func(ctx context.Context, c *Client) error { _, _, err := c.Get(ctx, 1, "repost"); return err },
		"Page":  func(ctx context.Context, c *Client) error { _, err := c.Page(ctx, []uint64{1}, "repost"); return err },
		"Find":  func(ctx context.Context, c *Client) error { _, err := c.Find(ctx, Query{}); return err },
		"Count": func(ctx context.Context, c *Client) error { _, err := c.Count(ctx, Query{}); return err },
		"Update": func(ctx context.Context, c *Client) error {
			_, err := c.Update(ctx, Query{}, Change{Do: Delete})
			return err
		},
		"Drain": func(ctx context.Context, c *Client) error { _, err := c.Drain(ctx, []uint64{1}, "repost"); return err },
		"Batch": func(ctx context.Context, c *Client) error {
			_, err := c.Batch().Add(1, "repost", 1).Do(ctx)
			return err
		},
		"SetRows": func(ctx context.Context, c *Client) error {
			_, err := c.SetRows(ctx, []Row{{Mid: 1, Values: []int64{1}}}, "repost")
			return err
		},
	}
	changes := map[string]bool{"Add": true, "Set": true, "Take": true, "Update": true, "Drain": true, "Batch": true, "SetRows": true}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			c := newTest(t, f, Options{}, func(o *redis.Options) { o.ReadTimeout = time.Hour })
			if _, err := c.Columns(t.Context()); err != nil {
				t.Fatal(err)
			}
			hold, came := make(chan struct{}), make(chan struct{}, 10)
			defer close(hold)
			f.set(func() {
				f.fates = func([]string) fate {
					came <- struct{}{}
					return fate{hold: hold}
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			returned := make(chan error, 1)
			go func() { returned <- call(ctx, c) }()
			<-came
			cancel()
			select {
			case err := <-returned:
				if !errors.Is(err, context.Canceled) || IsInDoubt(err) != changes[name] {
					t.Errorf("%v of class %v", err, ClassOf(err))
				}
			case <-time.After(time.Minute):
				t.Error("the call waits for a reply although its context has ended")
			}
		})
	}
}

// TestContextIsAsked: which go-redis clients look at contexts by themselves.
func TestContextIsAsked(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		rdb := redis.NewClient(&redis.Options{ContextTimeoutEnabled: enabled})
		owners := redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: enabled})
		if ignoresContexts(rdb) == enabled || ignoresContexts(owners) == enabled {
			t.Errorf("ContextTimeoutEnabled is %v, and is read as %v, %v", enabled, !ignoresContexts(rdb), !ignoresContexts(owners))
		}
		rdb.Close()
		owners.Close()
	}
}

// lateClient is a go-redis client whose pipelines are made only when it is let go. It tells the keys that they ask for.
type lateClient struct {
	*redis.Client
	came, hold chan struct{}
	keys       chan string
}

func (l *lateClient) Pipeline() redis.Pipeliner {
	close(l.came)
	<-l.hold
	return &latePipeline{l.Client.Pipeline(), l.keys}
}

type latePipeline struct {
	redis.Pipeliner
	keys chan string
}

func (p *latePipeline) HMGet(ctx context.Context, key string, fields ...string) *redis.SliceCmd {
	p.keys <- key
	return p.Pipeliner.HMGet(ctx, key, fields...)
}

// TestPageLeftBehind: an attempt that outlives its call asks for the posts that the caller named, also if the caller uses
// the list for other posts by then.
func TestPageLeftBehind(t *testing.T) {
	rdb := &lateClient{newFake(t).dial(), make(chan struct{}), make(chan struct{}), make(chan string, 1)}
	c, err := New(rdb, Options{Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Columns(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-rdb.came
		cancel()
	}()
	mids := []uint64{7}
	if _, err := c.Page(ctx, mids, "repost"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
	mids[0] = 8
	close(rdb.hold)
	if key := <-rdb.keys; key != "{7}" {
		t.Errorf("got %s, want the post that was asked for", key)
	}
}

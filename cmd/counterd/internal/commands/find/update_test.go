package find

import (
	"fmt"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// fakeConn is a connection whose queries may take so many steps.
type fakeConn struct {
	call    items.Call
	store   *counter.Store
	steps   int
	refusal error
	touched int // items that were told to be changed
	gaveWay int
}

func (c *fakeConn) Call() *items.Call                     { return &c.call }
func (c *fakeConn) Schema() *schema.Schema                { return c.store.Schema() }
func (c *fakeConn) GiveWay()                              { c.gaveWay++ }
func (c *fakeConn) Clustered() bool                       { return true }
func (c *fakeConn) Changed(_ *schema.Counter, m []uint64) { c.touched += len(m) }

func (c *fakeConn) Number(args [][]byte) (rest [][]byte, num idmp.Number, hash idmp.Hash, text string) {
	return args, num, 0, ""
}

func (c *fakeConn) Alone(func(b *counter.Batch) error) error { return c.refusal }

func (c *fakeConn) Steps(_ bool, step func(b *counter.Batch) (bool, error)) error {
	b := c.store.NewBatch()
	for done := false; !done; {
		if c.steps == 0 {
			return c.refusal
		}
		c.steps--
		if err := b.Begin(); err != nil {
			return err
		}
		var err error
		done, err = step(b)
		b.End()
		if err != nil {
			return err
		}
	}
	return nil
}

// fill makes a store of n posts.
func fill(t *testing.T, n int) *counter.Store {
	t.Helper()
	s, err := counter.Open("", counter.Options{BlockItems: 1 << 12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=32\nadd column weibo repost hint=8 max=32\n"); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := s.Set(fmt.Sprintf("%d.comment", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// count is how many posts have a comment column of v.
func count(t *testing.T, s *counter.Store, v uint64) uint64 {
	t.Helper()
	_, n, _, err := s.Aggregate(counter.Query{Counter: s.Schema().Counter("weibo"), To: schema.MaxMid, Where: []counter.Condition{{Value: v}}}, counter.Count, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestUpdateStops: an UPDATE that is stopped before it changed anything says why, and else how many posts it changed,
// in doubt; a repeat of an idempotent change goes on. Watchers are told of the changed items.
func TestUpdateStops(t *testing.T) {
	const posts = 20_000
	s := fill(t, posts)
	args := strings.Fields("COUNTER.UPDATE weibo WHERE comment = 1 SET comment 2")
	words := make([][]byte, len(args))
	for i := range args {
		words[i] = []byte(args[i])
	}
	changed, answered := uint64(0), ""
	for steps := 0; !strings.HasPrefix(answered, ":"); steps++ {
		if steps > posts {
			t.Fatal("no end")
		}
		c := &fakeConn{store: s, steps: steps, refusal: items.Refusal("READONLY You are a replica now.")}
		runUpdate(c, words)
		answered = strings.TrimSpace(string(c.call.Out.From(0)))
		n := count(t, s, 2) - changed
		changed += n
		want := fmt.Sprintf("-UNCERTAIN %d posts were changed, then: READONLY You are a replica now.", n)
		switch {
		case answered[0] == ':':
			want = fmt.Sprintf(":%d", n)
		case n == 0:
			want = "-READONLY You are a replica now."
		}
		if answered != want {
			t.Fatalf("%d steps: got %q, want %q", steps, answered, want)
		}
		if c.touched != int(n) {
			t.Fatalf("%d steps: %d posts were told to be changed, want %d", steps, c.touched, n)
		}
	}
	if changed != posts {
		t.Errorf("%d posts were changed, want %d", changed, posts)
	}
}

package dataset

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/schema"
)

const script1 = "add counter weibo\nadd column weibo comment hint=16 max=32 suffix=cntcm\nadd column weibo repost hint=16 max=32 suffix=cntrn"

// conn is a Conn without a connection.
type conn struct {
	call    items.Call
	store   *counter.Store
	touched int
	gone    bool         // the client has
	held    bool         // a transaction executes
	refuse  func() error // of each WithStore; nil: none does
}

func newConn(t *testing.T) *conn {
	t.Helper()
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &conn{store: store}
	c.call.Batch = store.NewBatch()
	return c
}

func (c *conn) Call() *items.Call     { return &c.call }
func (c *conn) Store() *counter.Store { return c.store }
func (c *conn) Executing() bool       { return c.held }
func (c *conn) AppendKey(dst []byte, sch *schema.Schema, def *schema.Counter, col int, mid uint64) []byte {
	return sch.AppendKey(dst, def, col, mid)
}

func (c *conn) AlterCluster(string) (bool, error) { return false, nil }

func (c *conn) TouchAll()                                  { c.touched++ }
func (c *conn) TouchRange(*schema.Counter, uint64, uint64) { c.touched++ }
func (c *conn) Log() *slog.Logger                          { return slog.New(slog.DiscardHandler) }

func (c *conn) GiveWay() {}

func (c *conn) Busy(work func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	if c.gone {
		cancel()
	}
	defer cancel()
	work(ctx)
}

func (c *conn) WithStore(exclusive bool, f func(b *counter.Batch) error) error {
	if c.refuse != nil {
		if err := c.refuse(); err != nil {
			return err
		}
	}
	begin := c.call.Batch.Begin
	if exclusive {
		begin = c.call.Batch.BeginExclusive
	}
	if err := begin(); err != nil {
		return err
	}
	defer c.call.Batch.End()
	return f(c.call.Batch)
}

// do runs a command and returns its reply.
func (c *conn) do(t *testing.T, command string) resptest.Value {
	t.Helper()
	var args [][]byte
	for _, word := range strings.Fields(command) {
		args = append(args, []byte(word))
	}
	for _, row := range Commands(func(c *conn) Conn { return c }) {
		if strings.EqualFold(row.Name, string(args[0])) {
			row.Run(c, args)
			reply := c.call.Out.From(0)
			v, err := resptest.Read(bufio.NewReader(bytes.NewReader(reply)), 2)
			if err != nil {
				t.Fatalf("%s: %v in %q", command, err, reply)
			}
			c.call.Out.Cut(0)
			return v
		}
	}
	t.Fatalf("no command for %q", command)
	return resptest.Value{}
}

func (c *conn) want(t *testing.T, command, reply string) {
	t.Helper()
	if got := c.do(t, command).String(); got != reply {
		t.Errorf("%s: got %s, want %s", command, got, reply)
	}
}

// TestSchema makes a schema, prints it and makes it again from the printed text; a refused statement changes nothing.
func TestSchema(t *testing.T) {
	c := newConn(t)
	c.want(t, "SCHEMA", "[]")
	for _, line := range strings.Split(script1, "\n") {
		c.want(t, line, "+OK")
	}
	if c.touched != 3 {
		t.Errorf("what WATCH watches was touched %d times", c.touched)
	}
	printed := c.do(t, "SCHEMA")
	for _, wrong := range []string{"ADD COLUMN nosuch x hint=8 max=32", "ADD COLUMN weibo x hint=80", "DROP COLUMN weibo nosuch"} {
		if got := c.do(t, wrong).String(); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%s: got %s", wrong, got)
		}
	}
	if got := c.do(t, "SCHEMA").String(); got != printed.String() {
		t.Errorf("what was refused made of %v: %s", printed, got)
	}
	other := newConn(t)
	for _, line := range printed.List {
		other.want(t, line.Text, "+OK")
	}
	if got := other.do(t, "SCHEMA").String(); got != printed.String() {
		t.Errorf("got %s, want %v", got, printed)
	}
}

// TestScan walks over all items in steps, each once, and over their numbers; then FLUSHALL removes them.
func TestScan(t *testing.T) {
	c := newConn(t)
	if err := c.store.AlterScript(script1); err != nil {
		t.Fatal(err)
	}
	const n = 500
	for i := range n {
		if _, err := c.store.Incr(fmt.Sprintf("%d.cntrn", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	c.want(t, "DBSIZE", fmt.Sprintf(":%d", n))
	for options, want := range map[string]int{"COUNT 7": n, "COUNT 7 TYPE hash": n, "TYPE string": 2 * n, "MATCH *.cntrn": n, "MATCH 49?": 10, "TYPE list": 0} {
		seen, cursor := make(map[string]bool), "0"
		for first := true; first || cursor != "0"; first = false {
			v := c.do(t, "SCAN "+cursor+" "+options)
			cursor = v.List[0].Text
			for _, key := range v.List[1].List {
				if seen[key.Text] {
					t.Fatalf("%s: %s twice", options, key.Text)
				}
				seen[key.Text] = true
			}
		}
		if len(seen) != want {
			t.Errorf("%s: %d keys, want %d", options, len(seen), want)
		}
	}
	c.want(t, "SCAN x", "-ERR invalid cursor")
	c.want(t, "FLUSHALL NOW", "-"+items.ErrSyntax)
	c.want(t, "DBSIZE", fmt.Sprintf(":%d", n))
	before := c.touched
	c.want(t, "FLUSHALL ASYNC", "+OK")
	c.want(t, "DBSIZE", ":0")
	if c.touched == before {
		t.Error("what WATCH watches was not touched")
	}
}

// TestDigestArguments: ranges are checked before anything is summed, and parts sum up what the whole has.
func TestDigestArguments(t *testing.T) {
	c := newConn(t)
	if err := c.store.AlterScript(script1); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := c.store.Incr(fmt.Sprintf("%d.cntrn", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range []string{"weibo 1", "weibo 2 1", "weibo x 1", "weibo 0 9223372036854775809", "weibo PARTS 0", "weibo 1 2 PARTS x",
		fmt.Sprintf("weibo PARTS %d", counter.MaxDigestParts+1), "nosuch"} {
		if got := c.do(t, "COUNTER.DIGEST "+wrong).String(); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%s: got %s", wrong, got)
		}
	}
	whole := c.do(t, "COUNTER.DIGEST")
	if len(whole.List) != 1 || !strings.HasPrefix(whole.List[0].Text, "counter=weibo ") {
		t.Errorf("got %v", whole)
	}
	c.want(t, "COUNTER.DIGEST weibo 0 9223372036854775808", whole.String())
	if parts := c.do(t, "COUNTER.DIGEST weibo 0 100 PARTS 10"); len(parts.List) != 10 {
		t.Errorf("%d parts: %v", len(parts.List), parts)
	}
}

// TestBlocks: block by block and by key, and a missing block.
func TestBlocks(t *testing.T) {
	c := newConn(t)
	if err := c.store.AlterScript(script1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.store.Incr("7.cntrn", 1); err != nil {
		t.Fatal(err)
	}
	if v := c.do(t, "COUNTER.BLOCKS weibo"); len(v.List) != 1 || !strings.Contains(v.List[0].Text, " items=1 ") {
		t.Errorf("got %v", v)
	}
	c.want(t, "COUNTER.BLOCKS nosuch", "-ERR no counter 'nosuch' (see SCHEMA)")
	c.want(t, "COUNTER.SCRUB", "-ERR counter: data is kept in memory only: there is no directory")
	for _, wrong := range []string{"COUNTER.DEMOTE weibo x", "COUNTER.DEMOTE nosuch 7", "COUNTER.PROMOTE weibo 7"} {
		if got := c.do(t, wrong).String(); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%s: got %s", wrong, got)
		}
	}
}

// TestKeysBounded: KEYS looks at as many posts as one SCAN while a transaction keeps others waiting, and ends with its
// client.
func TestKeysBounded(t *testing.T) {
	c := newConn(t)
	for _, line := range strings.Split(script1, "\n") {
		c.do(t, line)
	}
	const posts = keysHeld + keysStep
	b := c.call.Batch
	b.Reset()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	for mid := range uint64(posts) {
		b.Add(counter.Op{Kind: counter.OpAdd, Counter: b.Schema().Counter("weibo"), Mid: mid, Arg: 1})
		if b.Len() == 1000 {
			b.Run()
			b.Reset()
		}
	}
	b.End()
	if got := c.do(t, "KEYS *").List; len(got) != posts {
		t.Errorf("%d keys, want %d", len(got), posts)
	}
	c.held = true
	if got := c.do(t, "KEYS *").String(); got != "-"+string(errKeysHeld) {
		t.Errorf("in a transaction: %.100s", got)
	}
	c.held, c.gone = false, true
	if got := c.do(t, "KEYS *").List; len(got) > keysStep {
		t.Errorf("for nobody it found %d keys", len(got))
	}
}

// TestDropRangeInPart: a node that gives its role up within COUNTER.DROPRANGE says that the change is uncertain once it has dropped some posts. Before
// that it refuses, and nothing was changed.
func TestDropRangeInPart(t *testing.T) {
	for _, c := range []struct {
		steps int // that are made
		reply string
	}{{0, "-READONLY"}, {1, "-UNCERTAIN the change was made in a part: READONLY"}} {
		store, err := counter.Open("", counter.Options{SlotGroups: true})
		if err != nil {
			t.Fatal(err)
		}
		conn := &conn{store: store}
		conn.call.Batch = store.NewBatch()
		if err := store.AlterScript(script1); err != nil {
			t.Fatal(err)
		}
		const posts = 2000
		for mid := range posts {
			if err := store.Set(fmt.Sprintf("%d.cntcm", mid+1), 1); err != nil {
				t.Fatal(err)
			}
		}
		steps := 0
		conn.refuse = func() error {
			if steps++; steps > c.steps {
				return counter.ErrReplica
			}
			return nil
		}
		if got := conn.do(t, "COUNTER.DROPRANGE weibo 0 9999").String(); !strings.HasPrefix(got, c.reply) {
			t.Errorf("%d steps: got %q, want %q", c.steps, got, c.reply)
		}
		if left, err := store.Len(); err != nil || (left < posts) != (c.steps > 0) {
			t.Errorf("%d steps: %d of %d posts are left", c.steps, left, posts)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

package server

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/popular"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// call is a connection's way to the store. Commands that are operations on items are not executed one by one: they are
// planned, and run together. Handlers of other commands that need no more of a connection see it alone.
type call struct {
	items   items.Call // the commands planned; its Out is what has not been sent yet
	srv     *shared
	session *front.Session
	info    *clientInfo
	scratch *scratch // nil while the connection waits, and then so are Batch, Owed and runs

	store      *counter.Store // that Batch is of
	loading    bool           // store is a placeholder
	observed   bool           // somebody wants to know what the open batch does: see observe
	executing  bool           // EXEC is running its queue, with the store to itself
	runs       []run          // commands planned, for the statistics
	numbers    idmp.Sequence  // CLIENT IDMP
	lastNumber idmp.Number    // of the command being planned
	reads      *reads         // CLIENT TRACKING; nil: off
	calls      int64          // commands executed so far
	unsampled  int            // operations until the next one that popular is told

	ack    counter.Ack // of the changes that replies in Out report and that are not committed yet
	unsure int         // where in Out the first of these replies begins; valid while ack is pending
}

// scratch is the memory that a call works in while it has something to do: see front.Session. Those that wait have
// none.
type scratch struct {
	owed  []items.Owed
	runs  []run
	batch *counter.Batch
	store *counter.Store // that batch is of
}

// run counts neighbouring commands of one kind in a batch.
type run struct {
	cmd  *row
	n    int64
	owed int // number of their first reply
}

// maxBatch operations are run at once. More gains nothing: 12-24 loads in flight hide all of a cache miss, and others
// wait.
const maxBatch = 256

// attach gives c memory to work in.
func (c *call) attach(memory any) {
	w, _ := memory.(*scratch)
	if w == nil {
		w = new(scratch)
	}
	c.scratch = w
	c.items.Owed, c.runs = w.owed, w.runs
	if w.store == c.store {
		c.items.Batch = w.batch
	} else {
		c.items.Batch = c.store.NewBatch()
	}
}

// detach gives it back.
func (c *call) detach() any {
	w := c.scratch
	w.owed, w.runs, w.batch, w.store = c.items.Owed, c.runs, c.items.Batch, c.store
	c.items.Owed, c.runs, c.items.Batch, c.scratch = nil, nil, nil, nil
	return w
}

// locked tells whether c has a batch open, which others wait for.
func (c *call) locked() bool { return c.items.Batch != nil && c.items.Batch.Opened() }

// begin makes the connection's batch for the store being served: when it comes, and when loading has ended. Everything
// before was committed.
func (c *call) begin() {
	// Both must be of one moment. When data is replaced, progress begins before an empty store takes the place of the old
	// one, and ends after the new store has.
	for {
		c.loading, c.store = c.srv.progress.active(), c.srv.current.Load()
		if c.loading == c.srv.progress.active() && c.store == c.srv.current.Load() {
			break
		}
	}
	if c.unsampled == 0 { // a new connection: its first operation is no likelier than others
		c.unsampled = rand.IntN(2 * popular.Every)
	}
	if c.scratch != nil {
		c.items.Batch = c.store.NewBatch()
	}
}

// names is the schema that keys are read by: that of the node's data where it leads a shard, else the cluster's. A free
// node's data has none, and a replica's may be behind.
func (c *call) names() *schema.Schema {
	if c.srv.cluster != nil {
		if st := c.srv.cluster.Now(); !st.Primary && st.Schema() != nil {
			return st.Schema()
		}
	}
	return c.store.Schema()
}

// plan adds the operations of cmd to the batch, and runs it when it is full.
func (c *call) plan(cmd *row, args [][]byte) {
	if !c.items.Batch.Opened() {
		c.flush() // marks of package scatter
		c.items.Batch.Reset()
		if err := c.items.Batch.Begin(); err != nil {
			_, _ = c.number(&c.lastNumber, cmd, args) // a refused command uses up its number too
			c.items.StoreError(err)
			return
		}
		if c.srv.cluster != nil {
			if text := c.gone(cmd, args); text != "" {
				c.items.Batch.End()
				_, _ = c.number(&c.lastNumber, cmd, args)
				c.items.Out.Error(text)
				return
			}
		}
		c.opened()
	}
	if n := len(c.runs); n > 0 && c.runs[n-1].cmd == cmd {
		c.runs[n-1].n++
	} else {
		c.runs = append(c.runs, run{cmd, 1, len(c.items.Owed)})
	}
	if c.observed || c.executing { // which has a batch that was not opened here
		c.observe(cmd, args)
	}
	if c.numbers.Producer == nil && len(args) < 4 || c.executing {
		cmd.Plan(&c.items, args)
	} else {
		c.planNumbered(cmd, args)
	}
	if c.items.Batch.Len() >= maxBatch || len(c.items.Owed) >= 4*maxBatch {
		c.flush()
	}
}

// opened asks who wants to know of the batch, which was opened for planned commands.
func (c *call) opened() { c.observed = c.reads != nil || c.srv.monitors.n.Load() > 0 }

// observe notes a command for who wants to know of it: a cache of the client's, and MONITOR. That is asked once a batch,
// for all its commands were sent before it was opened.
func (c *call) observe(cmd *row, args [][]byte) {
	if c.reads != nil {
		c.remember(cmd, args)
	}
	if c.srv.monitors.n.Load() > 0 {
		c.srv.monitors.show(c.info, cmd, args)
	}
}

// flush runs the batch and appends the replies that are owed. They may be sent when commit has committed the changes.
func (c *call) flush() {
	if len(c.items.Owed) == 0 {
		return
	}
	if !c.items.Batch.Opened() { // marks alone: see package scatter
		for i := range c.items.Owed {
			c.items.Answer(i)
		}
		clear(c.items.Owed)
		c.items.Owed = c.items.Owed[:0]
		return
	}
	if c.session.InLoop() && c.items.Batch.Cold() {
		c.session.Leave()
		return
	}
	began := time.Now()
	c.items.Batch.Run()
	c.touched()
	if !c.executing {
		c.items.Batch.End()
		c.deferCommit()
	}
	c.reply(began)
}

// reply appends the replies that are owed for the batch, which was run, and accounts for it.
func (c *call) reply(began time.Time) {
	hits := int64(0)
	for i := range c.items.Batch.Len() {
		if c.items.Batch.Op(i).Found {
			hits++
		}
	}
	for i, next := 0, 0; i < len(c.items.Owed); i = next {
		size := c.items.Out.Len()
		next = c.items.Answer(i)
		c.items.Breathe(i)
		if reply := c.items.Out.From(size); len(reply) > 0 && reply[0] == '-' {
			c.failed(c.runOf(i), reply)
		}
	}
	clear(c.items.Owed)
	c.items.Owed = c.items.Owed[:0]
	if cap(c.items.Owed) > 8*maxBatch {
		c.items.Owed = nil
	}
	if c.unsampled -= c.items.Batch.Len(); c.unsampled < 0 {
		c.sample()
	}
	c.srv.stats.Hits.Add(c.session.Lane(), hits)
	c.srv.stats.Misses.Add(c.session.Lane(), int64(c.items.Batch.Len())-hits)
	c.account(time.Since(began))
	c.items.Batch.Reset()
}

// sample tells popular of operations of the batch that was run, at the distances that it wants. It reads the clock once.
func (c *call) sample() {
	now := time.Now()
	for ; c.unsampled < 0; c.unsampled += 1 + rand.IntN(2*popular.Every) {
		op := c.items.Batch.Op(c.items.Batch.Len() + c.unsampled)
		read := op.Kind == counter.OpGet || op.Kind == counter.OpRead || op.Kind == counter.OpExists
		c.srv.popular.Sample(now, popular.Post{Counter: op.Counter.ID, Mid: op.Mid}, !read)
	}
}

// runOf is the command that reply i is owed for.
func (c *call) runOf(i int) *row {
	r := len(c.runs) - 1
	for c.runs[r].owed > i {
		r--
	}
	return c.runs[r].cmd
}

// deferCommit leaves the commit of the batch, which has ended, to commit. The replies that come next in Out wait for it.
func (c *call) deferCommit() {
	if !c.ack.Pending() {
		c.unsure = c.items.Out.Len()
	}
	c.items.Batch.Defer(&c.ack)
}

// account spreads the time of a batch over its commands. One by one they are too short to be timed.
func (c *call) account(took time.Duration) {
	total := int64(0)
	for _, r := range c.runs {
		total += r.n
	}
	c.calls += total
	for _, r := range c.runs {
		r.cmd.Account(c.session.Lane(), r.n, took*time.Duration(r.n)/time.Duration(total))
	}
	if len(c.runs) > 0 {
		c.noteSlowBatch(c.runs, total, took)
	}
	clear(c.runs)
	c.runs = c.runs[:0]
}

// failed counts an error reply of a command that ran.
func (c *call) failed(cmd *row, reply []byte) {
	cmd.Failed.Add(1)
	c.srv.stats.ErrorReply(reply)
}

// catchUp brings everything that was planned to its replies, committed; false: not in a loop.
func (c *call) catchUp() bool {
	if c.flush(); !c.session.Leaving() {
		c.commit()
	}
	return !c.session.Leaving()
}

// committed tells whether all that the replies tell of is committed.
func (c *call) committed() bool { return !c.ack.Pending() }

// commit commits what was changed. Where that fails, every command of the batches is answered by an error instead:
// changes were made, but are not safe on disk.
func (c *call) commit() {
	if !c.ack.Pending() {
		return
	}
	if c.session.InLoop() && c.ack.WaitsHere() {
		c.session.Leave()
		return
	}
	c.session.Stand()
	c.ack.Write()
	c.session.Stood()
	if c.session.InLoop() {
		if c.session.MayHoldReplies() && c.ack.Await(c.session) {
			c.session.HoldReplies()
			return
		}
		if c.ack.Waits() {
			c.session.Leave()
			return
		}
	}
	if err := c.commitDeferred(); err != nil {
		c.refuseUnsure(err)
	}
}

// commitDeferred commits what deferCommit left to ack. It waits where it must.
func (c *call) commitDeferred() error {
	err := c.ack.Commit()
	if err != nil && c.reads != nil { // invalidations between the replies are dropped with them
		c.srv.tracking.Doubt(c.reads.client)
	}
	return err
}

// refuseUnsure puts an error in the place of each reply whose commit failed. It goes by the replies themselves, because a
// command may have deferred several commits, and a refused command between others none.
func (c *call) refuseUnsure(err error) {
	replies := bytes.Clone(c.items.Out.From(c.unsure))
	c.items.Out.Cut(c.unsure)
	for len(replies) > 0 {
		if replies[0] != resp.KindPush {
			size := c.items.Out.Len()
			c.items.StoreError(err)
			c.srv.stats.ErrorReply(c.items.Out.From(size))
		}
		replies = replies[resp.Size(replies):]
	}
}

// commitBatch is Batch.Commit of the connection's batch.
func (c *call) commitBatch() error {
	c.session.Stand()
	defer c.session.Stood()
	return c.items.Batch.Commit()
}

// withStore calls f with an open batch: the transaction's while EXEC runs, else one opened for the call. The command's
// reply comes behind it, and waits for the log as those of planned commands do. f must not use c.plan.
func (c *call) withStore(exclusive bool, f func(b *counter.Batch) error) error {
	if c.items.Batch.Opened() {
		return f(c.items.Batch)
	}
	var err error
	if exclusive {
		err = c.items.Batch.BeginExclusive()
	} else {
		err = c.items.Batch.Begin()
	}
	if err != nil {
		return err
	}
	if exclusive {
		if text := c.unwritten(command.Write); text != "" {
			c.items.Batch.End()
			return items.Refusal(text)
		}
	}
	err = f(c.items.Batch)
	c.items.Batch.End()
	if err != nil {
		return err
	}
	if exclusive {
		return c.commitBatch()
	}
	c.deferCommit()
	return nil
}

// longArgs is the most arguments that a command may have in a loop: 512 keys are 0.1 ms where all are misses of the
// cache, and 65,000 of them would have all others of the loop wait for 40 ms. Those with more leave it.
const longArgs = 512

// readLong executes a read of very many items: it is planned without the store's gate, run in slices (counter.Batch.RunLong)
// and answered, and lets others have their turn all the while. REQUIRES not InLoop.
func (c *call) readLong(cmd *row, args [][]byte) {
	c.flush()
	c.items.Pause = c.srv.front.GiveWay
	defer func() { c.items.Pause = nil }()
	began := time.Now()
	for {
		done, err := c.tryLong(cmd, args)
		if done {
			c.runs = append(c.runs, run{cmd, 1, 0})
			c.deferCommit()
			c.reply(began)
			return
		}
		clear(c.items.Owed)
		c.items.Owed = c.items.Owed[:0]
		if err != nil {
			c.items.StoreError(err)
			return
		}
	}
}

// tryLong plans and runs a long read; false without an error: what its keys mean has changed meanwhile.
func (c *call) tryLong(cmd *row, args [][]byte) (done bool, err error) {
	c.items.Batch.Reset()
	names := c.items.Batch.Schema()
	cmd.Plan(&c.items, args)
	if err := c.items.Batch.Begin(); err != nil {
		return false, err
	}
	if c.items.Batch.Schema() == names {
		if c.opened(); c.observed {
			c.observe(cmd, args)
		}
		if done, err = c.items.Batch.RunLong(c.srv.front.GiveWay); err != nil {
			return false, err
		}
	}
	c.items.Batch.End()
	return done, nil
}

package server

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/popular"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/internal/slicepool"
	"github.com/counterd/counterd/schema"
)

// call is a connection's way to the store. Commands that are operations on items are not executed one by one: they are
// planned, and run together. Handlers of other commands that need no more of a connection see it alone.
type call struct {
	items   items.Call // the commands planned; its Out is the replies not sent yet
	srv     *shared
	session *front.Session
	info    *clientInfo
	login   *login
	routing *routing
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
	decided    decided        // the decision on the last command, where it holds for the next
	unsampled  int            // operations until the next sample for popular

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
	counter.UseDoor(c.items.Batch, c.session.Lane())
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

// adoptStore makes the connection's batch for the store being served: when it comes, and when loading has ended. Everything
// before was committed.
func (c *call) adoptStore() {
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

// refreshStore is adoptStore behind a wait, where data is being loaded or another store is served by now.
func (c *call) refreshStore() {
	if c.loading || c.store != c.srv.current.Load() {
		c.adoptStore()
	}
}

// names is the schema that keys are read by: that of the node's data where it leads a shard, else the cluster's. A free
// node's data has none, and a replica's may be behind.
func (c *call) names() *schema.Schema {
	if sch := clusterNames(c); sch != nil {
		return sch
	}
	return c.store.Schema()
}

// clusterNames is names where that is the schema of the cluster; otherwise nil.
func clusterNames(c *call) *schema.Schema {
	if c.srv.cluster != nil {
		if st := c.srv.cluster.Now(); !st.Primary {
			return st.Schema()
		}
	}
	return nil
}

// passesOn tells whether all commands on posts go to other nodes, whatever the node has loaded of its own data.
func passesOn(c *client) bool { return scatter.PassesOn(c.scatter) && clusterNames(&c.call) != nil }

// knownNames is names, or nil while data is being loaded.
func (c *call) knownNames() *schema.Schema {
	if c.loading {
		return nil
	}
	return c.names()
}

// userMay tells whether the user of the connection may execute a planned command. It notes no denial. Most commands are answered
// by a few compares.
func (c *call) userMay(cmd *row, args [][]byte) bool {
	u := c.login.user.Load()
	if u.Unlimited() {
		return true
	}
	return u.May(cmd.Access(), args, c.names()) || u.Check(cmd.Access(), args, c.names()).Reason == acl.Allowed
}

// openServed opens the batch and tells whether a planned command can go on here, as far as a few compares can tell. It does so with the batch open:
// while that is, the store's slots stand still, no standing that refuses changes is complete (serving.Member.SetStanding), and no hold
// of changes (role.HoldWrites). So what it lets in is not refused by the store. A lease is looked at once a batch, which is once a turn.
func (c *call) openServed(cmd *row, args [][]byte) bool {
	if c.items.Batch.Opened() {
		return c.routing.serves(cmd.Access(), args)
	}
	c.items.Batch.Reset()
	if c.items.Batch.Begin() != nil { // the slow way says why
		return false
	}
	if !c.srv.role.Lets(cmd.Flags) || !c.routing.serves(cmd.Access(), args) || c.srv.cluster.Now().Expired() {
		c.items.Batch.End()
		return false
	}
	c.opened()
	return true
}

// refusalOfOpen refuses a planned command whose slot went, or that is not served any more, since it was let in. REQUIRES the batch
// open. Empty: it is served.
func (c *call) refusalOfOpen(cmd *row, args [][]byte) string {
	var r serving.Routing
	c.routing.add(&r, c.knownNames(), cmd.Access(), args, false)
	text, _ := c.srv.cluster.Now().Route(c.routing.asker(), &r)
	return text
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
			if text := c.refusalOfOpen(cmd, args); text != "" {
				c.items.Batch.End()
				_, _ = c.number(&c.lastNumber, cmd, args)
				c.items.Out.Error(text)
				return
			}
		}
		c.opened()
	}
	countRun(c, cmd, 1)
	if c.observed || c.executing { // which has a batch that was not opened here
		c.observe(cmd, args)
	}
	if c.numbers.Producer == nil && len(args) < 4 || c.executing {
		cmd.Plan(&c.items, args)
	} else {
		c.planNumbered(cmd, args)
	}
	if full(&c.items) {
		c.flush()
	}
}

// planEach is plan for commands with one key each. REQUIRES: the batch is open, has room for them all, and is not observed.
func planEach(c *call, cmd *row, keys [][]byte) {
	countRun(c, cmd, len(keys))
	cmd.PlanEach(&c.items, keys)
	if full(&c.items) {
		c.flush()
	}
}

// countRun counts commands that are about to be planned.
func countRun(c *call, cmd *row, commands int) {
	if n := len(c.runs); n > 0 && c.runs[n-1].cmd == cmd {
		c.runs[n-1].n += int64(commands)
	} else {
		c.runs = append(c.runs, run{cmd, int64(commands), len(c.items.Owed)})
	}
}

// full tells whether the batch is to be run before more is planned.
func full(c *items.Call) bool { return c.Batch.Len() >= maxBatch || len(c.Owed) >= 4*maxBatch }

// opened finds out which observers the batch has, which was opened for planned commands.
func (c *call) opened() { c.observed = c.reads != nil || c.srv.monitors.n.Load() > 0 }

// anyChange tells whether some of the commands planned are changes.
func anyChange(runs []run) bool {
	return slices.ContainsFunc(runs, func(r run) bool { return r.cmd.Flags&command.Write != 0 })
}

// observe notes a command for its observers: a cache of the client, and MONITOR. That is asked once a batch, for all its
// commands were sent before it was opened.
func (c *call) observe(cmd *row, args [][]byte) {
	if c.reads != nil {
		c.reads.remember(c.items.Batch.Schema(), cmd, args, c.executing)
	}
	if c.srv.monitors.n.Load() > 0 {
		c.srv.monitors.sendCommand(c.info.monitored(), cmd.Access(), args)
	}
}

// flush runs the batch and appends the replies that are owed. They may be sent when commit has committed the changes.
func (c *call) flush() {
	c.decided.forget() // its number lies in memory that others share
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
		c.session.LeaveLoop()
		return
	}
	began := monotonic.Now()
	c.items.Batch.Run()
	c.touched()
	if !c.executing {
		c.items.Batch.End()
		c.deferCommit()
	}
	c.reply(began)
}

// reply appends the replies that are owed for the batch, which was run, and accounts for it.
func (c *call) reply(began monotonic.Moment) {
	hits := int64(c.items.Batch.Found())
	for i, next := 0, 0; i < len(c.items.Owed); i = next {
		size := c.items.Out.Len()
		next = c.items.Answer(i)
		c.items.Breathe(i)
		if c.items.Out.ErrorAt(size) {
			c.failed(c.runOf(i), c.items.Out.From(size))
		}
	}
	if len(c.items.Owed) == 1 { // a command that came alone
		c.items.Owed[0] = items.Owed{}
	} else {
		clear(c.items.Owed)
	}
	c.items.Owed = c.items.Owed[:0]
	if cap(c.items.Owed) > 8*maxBatch {
		largeOwed.Give(c.items.Owed)
		c.items.Owed = nil
	}
	if c.unsampled -= c.items.Batch.Len(); c.unsampled < 0 {
		c.sample()
	}
	c.srv.stats.Hits.Add(c.session.Lane(), hits)
	c.srv.stats.Misses.Add(c.session.Lane(), int64(c.items.Batch.Len())-hits)
	c.account(began.Age())
	c.items.Batch.Reset()
}

// largeOwed has memory for the replies that long commands owe, empty: 10,000 are 0.6 MB, and a list that grows to that leaves twice as much to
// the collector.
var largeOwed slicepool.Pool[items.Owed]

// growOwed makes room for the replies to so many commands, and takes the memory that other connections have left.
func growOwed(c *call, n int) {
	if cap(c.items.Owed) >= n || len(c.items.Owed) > 0 {
		return
	}
	if c.items.Owed = largeOwed.Take(n); c.items.Owed == nil {
		c.items.Owed = make([]items.Owed, 0, n)
	}
}

// deferCommit leaves the commit of the batch, which has ended, to commit. The replies that come next in Out wait for it.
func (c *call) deferCommit() {
	if !c.ack.Pending() {
		c.unsure = c.items.Out.Len()
	}
	c.items.Batch.Defer(&c.ack)
}

// catchUp brings everything that was planned to its replies, committed; false: not in a loop.
func (c *call) catchUp() bool {
	if c.flush(); !c.session.LeavingLoop() {
		c.commit()
	}
	return !c.session.LeavingLoop()
}

// committed tells whether all that the replies tell of is committed.
func (c *call) committed() bool { return !c.ack.Pending() }

// commit commits the changes. Where that fails, every command of the batches is answered by an error instead: changes were
// made, but are not safe on disk.
func (c *call) commit() {
	if c.ack.Pending() && settle(c) {
		if err := c.commitDeferred(); err != nil {
			c.refuseUnsure(err)
		}
	}
}

// commitDeferred commits what deferCommit left to ack. It waits where it must.
func (c *call) commitDeferred() error {
	err := c.ack.Commit()
	if err != nil && c.reads != nil { // invalidations between the replies are dropped with them
		c.srv.tracking.Doubt(c.reads.known)
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
	c.session.BeginDiskWait()
	defer c.session.EndDiskWait()
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
		if text := c.routing.unwritten(command.Write); text != "" {
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

// runOf is the command that reply i is owed for.
func (c *call) runOf(i int) *row {
	r := len(c.runs) - 1
	for c.runs[r].owed > i {
		r--
	}
	return c.runs[r].cmd
}

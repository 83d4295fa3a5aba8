package server

import (
	"bytes"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/watch"
)

// client is one connection: its session, which moves bytes, its call, which its commands become, and its protocol state. A
// client is the handler of its session: all methods of front.Handler are in this file. decide.go says which commands are
// executed. Only the goroutine that runs the session uses a client, except for the fields that say otherwise.
type client struct {
	session front.Session
	call    call
	srv     *shared // shared by all connections

	login      login
	multi      transaction
	routing    routing          // to the nodes of a cluster
	scatter    *scatter.Scatter // nil: this node answers for its own posts alone
	subscriber subscriber
	tracker    tracker // CLIENT TRACKING
	blocking   blocking
	replyMode  front.ReplyMode // CLIENT REPLY
	info       clientInfo      // data for CLIENT LIST; has its own lock
	watch      watch.Mark      // a watched key changed; set by others
	rests      rests           // of a reader of the feed

	lastName []byte // name of the last command, as sent
	last     *row
	executed *row                // the last command that was not planned: a subcommand, if last is its container
	plain    bool                // nothing sets the connection apart from most others: see isPlain
	confined command.Confinement // only some commands are allowed
	disowned bool                // the next command of a link is for groups that are not the shard's: see runLink

	noEvict, noTouch bool // CLIENT NO-EVICT, NO-TOUCH
}

var _ front.Handler = (*client)(nil)

// execute runs a command that was checked. Everything before it has been answered.
func (c *client) execute(cmd *row, args [][]byte) {
	if cmd.Plan != nil {
		if c.srv.cluster != nil && !c.call.executing && !c.openAdmitted(cmd, args) {
			return
		}
		c.call.plan(cmd, args)
		c.finish()
		return
	}
	if cmd.Flags&command.Blocking != 0 && !c.call.executing && c.session.Send() != nil {
		c.session.Closing = true
		return
	}
	began := time.Now()
	size := c.call.items.Out.Len()
	c.executed, c.blocking.waited = cmd, 0
	switch {
	case c.disowned && !cmd.Is("counter.link"):
		c.disowned = false
		c.call.items.Out.Error(items.ErrOwning)
	case c.scatter != nil && c.forAll(cmd):
		c.scatter.AskAll(cmd.Access(), args)
	default:
		cmd.Run(c, args)
	}
	took := time.Since(began) - c.blocking.waited
	cmd.Account(c.session.Lane(), 1, took)
	c.call.calls++
	if reply := c.call.items.Out.From(size); len(reply) > 0 && reply[0] == '-' {
		c.call.failed(cmd, reply)
	}
	if cmd.Flags&command.SkipSlowlog == 0 {
		c.call.noteSlow(cmd, args, took)
	}
	if c.srv.monitors.n.Load() > 0 {
		c.srv.monitors.sendCommand(c.info.monitored(), cmd.Access(), args)
	}
}

// Attach lends the connection memory to work in.
func (c *client) Attach(memory any) { c.call.attach(memory) }

// Detach returns that memory.
func (c *client) Detach() any { return c.call.detach() }

// Locked tells whether the connection has a batch open, which others wait for.
func (c *client) Locked() bool { return c.call.locked() }

// Command plans, executes, queues, postpones or refuses one command: see decide.
func (c *client) Command(args [][]byte) {
	cmd := c.last
	if cmd == nil || !bytes.Equal(args[0], c.lastName) {
		cmd = c.srv.commands.Find(args[0])
		c.last = cmd
		if cmd != nil { // or the name of none, up to 1 MiB, would stay
			c.lastName = append(c.lastName[:0], args[0]...)
		}
	}
	if d := &c.call.decided; cmd != nil && cmd == d.cmd && len(args) == d.args {
		d.join(&c.call, args)
		return
	}
	cmd, d := c.decide(cmd, args)
	if d == toPlan {
		c.call.plan(cmd, args)
		if waiting, _ := c.session.Buffered(); waiting > 0 {
			c.call.decided.note(c, cmd, args)
		} else { // the turn has no further command
			c.call.decided.forget()
		}
		return
	}
	c.call.decided.cmd = nil
	if d == toPlanned {
		c.call.decided.noteScattered(c, cmd, args)
		return
	}
	c.carryOut(d, cmd, args)
}

// Joins tells how many commands that are like the last one Join takes: while the batch of that command is open, the
// decision on it holds for them too (see decided), until the batch is full.
func (c *client) Joins() int {
	d := &c.call.decided
	if d.cmd == nil || d.each == notEach {
		return 0
	}
	return maxBatch - c.call.items.Batch.Len()
}

// Join plans commands with the name of the last one and with these keys, one each, up to the first one for which the decision does not hold. The last
// arguments of commands that have a number among their arguments are these numbers.
func (c *client) Join(keys, numbers [][]byte) (taken int) {
	return c.call.decided.joinEach(c, keys, numbers)
}

// Flush executes the planned operations. If other shards have a part in them, it asks them. In a loop Commit waits for their answers, elsewhere
// Flush does.
func (c *client) Flush() {
	if !c.session.InLoop() {
		c.finish()
		return
	}
	c.call.flush()
	if c.scatter != nil && !c.session.LeavingLoop() {
		c.scatter.Send()
	}
}

// finish executes the planned operations. If other shards have a part in them, it waits for their answers: in a loop, where it must not, it makes
// the session leave the loop, or hold its replies.
func (c *client) finish() {
	c.call.flush()
	if c.scatter != nil && !c.call.executing && !c.session.LeavingLoop() {
		c.scatter.Finish()
	}
}

// Asking tells whether other shards have a part in the commands of the turn.
func (c *client) Asking() bool { return c.scatter != nil && c.scatter.Pending() }

// Committed tells whether all changes that the replies report are committed.
func (c *client) Committed() bool { return c.call.committed() }

// Commit executes the planned operations and commits them.
func (c *client) Commit() { c.catchUp() }

// catchUp turns everything that was planned into replies, and commits it. It returns false if the session has to leave
// its loop for that.
func (c *client) catchUp() bool {
	if c.scatter != nil {
		if c.finish(); c.session.LeavingLoop() || c.session.HoldsReplies() {
			return false
		}
	}
	return c.call.catchUp()
}

// Malformed answers a protocol error.
func (c *client) Malformed(err error) {
	c.srv.stats.ProtocolErrors.Add(1)
	c.fail(nil, "ERR "+err.Error())
}

// Notices appends the invalidations that wait for a client that tracks its keys.
func (c *client) Notices() {
	if t := c.tracker.known.Load(); t != nil {
		appendNotices(&c.call.items.Out, t, c.subscriber.subscribed())
	}
}

// Publish tells others how the connection is.
func (c *client) Publish() {
	if c.restsAsBefore() {
		c.info.calls.Store(c.call.calls)
		return
	}
	c.publish(0)
}

// restsAsBefore tells whether the connection is as publish told last, but for the number of its commands: it is plain, holds no memory, and has
// executed the same command. That is so behind most turns of a client that sends one command at a time, and takes half of the instructions.
func (c *client) restsAsBefore() bool {
	s := &c.info.state
	buffered, gap := c.session.Buffered()
	return c.plain && c.last == s.cmd && s.cmd != nil && s.cmd.Sub == nil && buffered == 0 && gap == s.queryGap && c.call.items.Out.Protocol() == s.proto &&
		c.noEvict == s.noEvict && c.noTouch == s.noTouch && s.multi < 0 && s.memory() == gap && s.outLen == 0 &&
		c.subscriber.outbox.Bytes() == 0 && front.HoldsNothing(&c.session)
}

// Disconnected forgets the connection.
func (c *client) Disconnected() (reusable bool) {
	reusable = true
	if len(c.call.items.Owed) > 0 { // planned and not run: nobody will, nor write in that memory again
		if c.call.items.Batch.Opened() {
			c.call.items.Batch.End()
		}
		reusable = false
	}
	if p := c.info.peer.Load(); p != nil {
		p.Close()
	}
	c.subscriber.stopMonitor()
	c.subscriber.unsubscribeAll()
	c.subscriber.outbox.Close(front.WriteTimeout * time.Second)
	c.srv.watches.Remove(&c.watch)
	c.tracker.forget()
	return reusable
}

// replicaHolds is more memory than a replica's connection holds, in bytes: its commands are short, and the data sent to it
// come from files. Any client can say that it is one.
const replicaHolds = 64 << 10

// Exemptions returns the properties of a connection that limits depend on.
func (c *client) Exemptions() (s front.Exemptions) {
	s.Unread = int64(c.subscriber.outbox.Unread())
	s.Quiet = c.subscriber.subscribed() || c.subscriber.monitor.Load()
	if t := c.tracker.known.Load(); t != nil {
		s.Unread += int64(t.Pending())
	}
	if p := c.info.peer.Load(); p != nil {
		s.Quiet, s.Free = true, replicaHolds
		if p.Lost() {
			s.Overdue = "a replica is silent in a full copy"
		}
	}
	c.info.mu.Lock()
	s.Keep = c.info.state.noEvict
	c.info.mu.Unlock()
	return s
}

// publish tells others how the connection is. Only its goroutine may call it. argsMem is the size of the arguments of
// the command that is being executed.
func (c *client) publish(argsMem int) {
	cmd := c.last
	if cmd != nil && cmd.Sub != nil && c.executed != nil && strings.HasPrefix(c.executed.Name, cmd.Name+"|") {
		cmd = c.executed
	}
	buffered, gap := c.session.Buffered()
	s := clientState{
		cmd: cmd, proto: c.call.items.Out.Protocol(), multi: -1, queryBuf: buffered, queryGap: gap, argsMem: argsMem, outLen: c.call.items.Out.Len(), outSize: c.call.items.Out.Cap(),
		noEvict: c.noEvict, noTouch: c.noTouch,
	}
	if c.multi.active {
		s.multi, s.multiMem = c.multi.queued.Len(), c.multi.bytes
	}
	if c.scatter != nil {
		s.scatterMem = c.scatter.Held()
	}
	c.info.publishState(s)
	c.info.calls.Store(c.call.calls)
	beside := s.scatterMem + c.multi.bytes + c.subscriber.outbox.Bytes()
	if c.call.reads != nil && c.call.reads.mode.Broadcast {
		beside += c.call.reads.known.PrefixBytes()
	}
	c.session.Charge(beside)
}

// connected returns all connections by id.
func (s *shared) connected() []*client {
	sessions := s.front.Sessions()
	list := make([]*client, len(sessions))
	for i, s := range sessions {
		list[i] = s.Handler().(*client)
	}
	return list
}

// container is a command that only has subcommands.
func container(name, group, since, summary string, sub ...*row) *row {
	return command.Container(func(h front.Handler) *resp.Replies { return &h.(*client).call.items.Out }, name, group, since, summary, sub...)
}

// onClient makes a handler that sees the client one of the command table's.
func onClient(run func(*client, [][]byte)) func(front.Handler, [][]byte) {
	return func(h front.Handler, args [][]byte) { run(h.(*client), args) }
}

// onCall makes a handler that sees the call alone one of the command table's.
func onCall(run func(*call, [][]byte)) func(front.Handler, [][]byte) {
	return func(h front.Handler, args [][]byte) { run(&h.(*client).call, args) }
}

// decided is the decision on the last command, where it holds for the next one too. A pipeline is mostly commands of one
// kind, and the terms of decide and plan come out the same for all commands of a batch: they were sent before the batch
// was opened, and a command that could change a term closes the batch first. To ask once a batch instead of once a command
// saves 130 of the 1750 instructions of a GET.
//
// Invariant: cmd is not nil only while the batch is open, or, for scattered commands, until the end of the turn. Then the last command was of
// this row, joined the batch, and every command of the row with as many arguments would join it in the same way:
//
//	the connection        it is plain, has no numbers of its own (CLIENT IDMP), and its user may do everything: only
//	                      commands that are not planned change that, and flush runs before they are executed
//	the server            store, role and the brake of maxmemory are looked at once a batch
//	observers             CLIENT TRACKING and MONITOR are looked at once a batch (call.opened), and there are none
//	the command           it cannot have IDMP among its arguments: it has fewer than four, or takes no number; or it
//	                      has IDMP and the same producer
//
// More connections are served like that where the commands have one key each and come by Join, which looks at the keys: those that number their
// changes, and those of a node of a cluster. There a node is asked once a batch whether it serves such commands. While a batch is open, the groups of
// hash slots stand still, and the store refuses posts of other shards (see call.openServed).
//
// Nothing is decided here: all other commands go the way of decide.
type decided struct {
	cmd      *row
	args     int // the number of its arguments, where commands come one by one; 0: they do not
	each     each
	numbered bool        // each command has a number: the next one of CLIENT IDMP, or its own
	own      idmp.Number // of the last command, whose number was its own; no producer: it was not
}

// each says which commands with one key each Join takes.
type each uint8

const (
	notEach   each = iota // none
	anyKey                // all
	plainKey              // those whose keys clients of a cluster hash as the posts that they name
	scattered             // those that package scatter can plan
)

// note keeps the decision on a command that was planned, if it holds for the next.
func (d *decided) note(c *client, cmd *row, args [][]byte) {
	k := &c.call
	d.cmd, d.own.Producer = nil, nil
	if !k.items.Batch.Opened() || len(k.items.Owed) == 0 || k.observed || k.executing || !c.login.user.Load().Unlimited() {
		return
	}
	own := cmd.Flags&command.Idmp != 0 && len(args) >= 4
	if own && (cmd.PlanEach == nil || len(args) != pairOfNumber || idmp.TailLen(args) == 0 || d.own.Parse(args[pairOfNumber-2:]) != "") {
		return
	}
	d.numbered = own || k.numbers.Producer != nil && cmd.Numbered()
	if d.each = notEach; cmd.PlanEach != nil && (own || len(args) == 2) {
		d.each = anyKey
	}
	switch {
	case c.plain && !own && k.numbers.Producer == nil:
		d.cmd, d.args = cmd, len(args)
	case d.each == notEach || !isUsual(c):
	case c.srv.cluster == nil:
		d.cmd, d.args = cmd, 0
	default:
		if !c.routing.internal {
			d.each = plainKey
		}
		if c.srv.cluster.Now().ServesEach(c.routing.asker()) && !c.scatter.Forwards() {
			d.cmd, d.args = cmd, 0
		}
	}
}

// forget lets the next command be decided on anew.
func (d *decided) forget() { d.cmd, d.own.Producer = nil, nil }

// pairOfNumber is how many arguments a command has that has one key, and IDMP with a producer and a number.
const pairOfNumber = 5

// noteScattered is note for a command that package scatter has planned.
func (d *decided) noteScattered(c *client, cmd *row, args [][]byte) {
	k := &c.call
	if cmd != nil && cmd.PlanEach != nil && len(args) == 2 && c.scatter.Forwards() && isUsual(c) && k.numbers.Producer == nil &&
		c.srv.monitors.n.Load() == 0 && c.login.user.Load().Unlimited() {
		d.cmd, d.args, d.each, d.numbered = cmd, 0, scattered, false
	}
}

// joinEach is join for commands that have one key each. It returns how many it has planned: the decision does not hold for the next one.
func (d *decided) joinEach(c *client, keys, numbers [][]byte) (taken int) {
	k := &c.call
	if d.each != anyKey {
		if d.each == scattered {
			return c.scatter.PlanEach(d.cmd.Access(), keys)
		}
		n := 0
		for n < len(keys) && route.Plain(keys[n]) {
			n++
		}
		keys, numbers = keys[:n], numbers[:min(n, len(numbers))]
	}
	taken = len(keys)
	if d.numbered {
		if numbers != nil {
			taken = planEachWithNumber(k, d.cmd, keys, numbers, &d.own)
		} else {
			taken = planEachNumbered(k, d.cmd, keys)
		}
		if taken == 0 {
			return 0
		}
	} else if taken > 0 {
		d.cmd.PlanEach(&k.items, keys)
	}
	k.runs[len(k.runs)-1].n += int64(taken)
	if full(&k.items) {
		k.flush()
	}
	return taken
}

// join is call.plan for a command like the last, which was decided. REQUIRES cmd not nil.
func (d *decided) join(c *call, args [][]byte) {
	c.runs[len(c.runs)-1].n++
	d.cmd.Plan(&c.items, args)
	if full(&c.items) {
		c.flush()
	}
}

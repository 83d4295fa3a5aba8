package server

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/command"
	"github.com/counterd/counterd/cmd/counterd/internal/front"
	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/watch"
	"github.com/counterd/counterd/counter"
)

// client is one connection: its protocol state and the batch of operations that its commands become. It is the handler
// of its session. Only who runs the session touches it, but for the fields said otherwise.
type client struct {
	front.Session
	srv  *Server
	work *work // nil while the connection waits, and then so are Batch, Owed and runs

	// Commands that are operations on items are not executed one by one: they are planned, and run together. Out is
	// what has not been sent yet.
	items.Call
	store   *counter.Store // that Batch is of
	loading bool           // store is a placeholder
	runs    []run          // commands planned, for the statistics

	authed bool
	multi  transaction

	lastName []byte // name of the last command, as sent
	last     *row
	executed *row // the last one that was not planned: a subcommand, where last is its container

	readonly bool        // it came by a listener for reads only; never changes
	confined confinement // only some commands are allowed
	subs     pubsub.Subscriber
	peer     atomic.Pointer[repl.Peer] // of a replica, from its first REPLCONF; nil: it is none

	silence          silence // CLIENT REPLY
	noEvict, noTouch bool    // CLIENT NO-EVICT, NO-TOUCH

	// From unsure on Out has replies of unsureN commands whose changes are not committed yet: ack is.
	ack     counter.Ack
	unsure  int
	unsureN int64

	info    clientInfo                              // what CLIENT LIST shows; has its own lock
	watch   watch.Mark                              // a watched key changed; set by others
	waited  time.Duration                           // that the command being executed was blocked: no work of the server's
	unblock atomic.Pointer[context.CancelCauseFunc] // ends the wait of WAIT and WAITAOF; nil: it is in neither
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

// catchUp brings everything that was planned to its replies, committed; false: not in a loop.
func (c *client) catchUp() bool {
	if c.Flush(); !c.Leaving() {
		c.commit()
	}
	return !c.Leaving()
}

// mayWait tells whether a command that is not planned may take a while or wait for something: all do that Redis does
// not call fast, unless they are only queued.
func (c *client) mayWait(cmd *row) bool {
	return cmd != nil && cmd.Plan == nil && cmd.Flags&command.Fast == 0 && (!c.multi.active || cmd.Flags&command.Now != 0)
}

// commit commits what was changed. Where that fails, every command of the batches is answered by an error instead:
// changes were made, but are not safe on disk.
func (c *client) commit() {
	if !c.ack.Pending() {
		return
	}
	if c.InLoop() && c.ack.Waits() {
		c.Leave()
		return
	}
	if err := c.ack.Commit(); err != nil {
		c.Out.Cut(c.unsure)
		for range c.unsureN {
			size := c.Out.Len()
			c.StoreError(err)
			c.srv.stats.ErrorReply(c.Out.From(size))
		}
	}
	c.unsureN = 0
}

// Command plans, queues or executes one command: see front.Handler.
func (c *client) Command(args [][]byte) {
	if c.silence.skip {
		c.skipped(args)
		return
	}
	cmd := c.last
	if cmd == nil || !bytes.Equal(args[0], c.lastName) {
		cmd = c.srv.commands.Find(args[0])
		c.last = cmd
		if cmd != nil { // or the name of none, up to 1 MiB, would stay
			c.lastName = append(c.lastName[:0], args[0]...)
		}
	}
	if c.loading || c.store != c.srv.current.Load() {
		if !c.catchUp() {
			c.Hold(args)
			return
		}
		c.begin()
	}
	if cmd != nil && cmd.Plan != nil && cmd.ArityOK(len(args)) && c.authed && !c.multi.active && !c.loading &&
		(c.confined == 0 || c.confined == confinedReader && cmd.Reads()) && c.srv.node.Lets(cmd.Flags) {
		c.plan(cmd, args)
		return
	}
	if !c.catchUp() || c.InLoop() && c.mayWait(cmd) {
		c.Hold(args)
		return
	}
	cmd, ok := c.check(cmd, args)
	switch {
	case c.Leaving():
		c.Hold(args)
	case !ok:
		c.multi.failed = c.multi.active
	case c.multi.active && cmd.Flags&command.Now == 0:
		c.multi.queue(c, cmd, args)
	default:
		c.execute(cmd, args)
	}
}

// begin makes the connection's batch for the store being served: when it comes, and when loading has ended. Everything
// before was committed.
func (c *client) begin() {
	c.loading = c.srv.progress.active.Load() // before the store: it is there when this is false
	c.store = c.srv.current.Load()
	if c.work != nil {
		c.Batch = c.store.NewBatch()
	}
}

// plan adds the operations of cmd to the batch, and runs it when it is full.
func (c *client) plan(cmd *row, args [][]byte) {
	if !c.Batch.Opened() {
		c.Batch.Reset()
		if err := c.Batch.Begin(); err != nil {
			c.Out.Error("ERR " + err.Error())
			return
		}
	}
	if n := len(c.runs); n > 0 && c.runs[n-1].cmd == cmd {
		c.runs[n-1].n++
	} else {
		c.runs = append(c.runs, run{cmd, 1, len(c.Owed)})
	}
	cmd.Plan(&c.Call, args)
	if c.Batch.Len() >= maxBatch || len(c.Owed) >= 4*maxBatch {
		c.Flush()
	}
}

// execute runs a command that was checked. Everything before it has been answered.
func (c *client) execute(cmd *row, args [][]byte) {
	if cmd.Plan != nil {
		c.plan(cmd, args)
		c.Flush()
		return
	}
	if cmd.Flags&command.Blocking != 0 && !c.multi.executing && c.Send() != nil {
		c.Closing = true
		return
	}
	began := time.Now()
	size := c.Out.Len()
	c.executed, c.waited = cmd, 0
	cmd.Run(c, args)
	took := time.Since(began) - c.waited
	cmd.Account(1, took)
	if reply := c.Out.From(size); len(reply) > 0 && reply[0] == '-' {
		c.failed(cmd, reply)
	}
	if cmd.Flags&command.SkipSlowlog == 0 {
		c.noteSlow(cmd, args, took)
	}
}

// Flush runs the batch and appends the replies that are owed. They may be sent when commit has committed the changes.
func (c *client) Flush() {
	if len(c.Owed) == 0 {
		return
	}
	if c.InLoop() && c.Batch.Opened() && c.Batch.Cold() { // a batch of errors only is not open
		c.Leave()
		return
	}
	began := time.Now()
	c.Batch.Run()
	c.srv.watches.Touch(c.Batch)
	if !c.multi.executing {
		c.Batch.End()
		n := int64(0)
		for i := range c.runs {
			n += c.runs[i].n
		}
		c.answered(n)
	}
	hits := int64(0)
	for i := range c.Batch.Len() {
		if c.Batch.Op(i).Found {
			hits++
		}
	}
	for i := range c.Owed {
		size := c.Out.Len()
		c.Answer(i)
		if reply := c.Out.From(size); len(reply) > 0 && reply[0] == '-' {
			c.failed(c.runOf(i), reply)
		}
	}
	clear(c.Owed)
	c.Owed = c.Owed[:0]
	if cap(c.Owed) > 8*maxBatch {
		c.Owed = nil
	}
	c.srv.stats.Hits.Add(hits)
	c.srv.stats.Misses.Add(int64(c.Batch.Len()) - hits)
	c.account(time.Since(began))
	c.Batch.Reset()
}

// runOf is the command that reply i is owed for.
func (c *client) runOf(i int) *row {
	r := len(c.runs) - 1
	for c.runs[r].owed > i {
		r--
	}
	return c.runs[r].cmd
}

// answered leaves the commit of the batch, which has ended, to commit: the replies of n commands, which come next in
// out, wait for it.
func (c *client) answered(n int64) {
	c.Batch.Defer(&c.ack)
	if !c.ack.Pending() {
		return
	}
	if c.unsureN == 0 {
		c.unsure = c.Out.Len()
	}
	c.unsureN += n
}

// account spreads the time of a batch over its commands. One by one they are too short to be timed.
func (c *client) account(took time.Duration) {
	total := int64(0)
	for _, r := range c.runs {
		total += r.n
	}
	for _, r := range c.runs {
		r.cmd.Account(r.n, took*time.Duration(r.n)/time.Duration(total))
	}
	if len(c.runs) > 0 {
		c.noteSlowBatch(c.runs, total, took)
	}
	clear(c.runs)
	c.runs = c.runs[:0]
}

// check finds the subcommand and refuses what must not be executed; then the error has been appended. In a loop it may
// find that the command has to wait.
func (c *client) check(cmd *row, args [][]byte) (*row, bool) {
	if cmd == nil {
		if resp.EqualFold(args[0], "POST") || resp.EqualFold(args[0], "HOST:") {
			// A web page that makes a browser talk to this port: nothing after its headers must be executed.
			c.srv.log.Warn("HTTP request refused, connection closed", "client", c.ID())
			c.Closing = true
			return nil, false
		}
		c.fail(nil, unknownCommand(args))
		return nil, false
	}
	if cmd.Sub != nil && len(args) > 1 {
		sub := cmd.Subcommand(args[1])
		if sub == nil {
			if !c.authed {
				c.fail(cmd, errNoAuth)
				return nil, false
			}
			c.fail(nil, "ERR unknown subcommand '"+resp.Printable(args[1], 128)+"'. Try "+strings.ToUpper(cmd.Name)+" HELP.")
			return nil, false
		}
		cmd = sub
	}
	if !cmd.ArityOK(len(args)) || cmd.Run == nil && cmd.Plan == nil {
		c.refuse(cmd, "ERR wrong number of arguments for '"+cmd.Name+"' command")
		return nil, false
	}
	if !c.authed && cmd.Flags&command.NoAuth == 0 {
		c.refuse(cmd, errNoAuth)
		return nil, false
	}
	if c.confined != 0 {
		if text := c.confinedText(cmd); text != "" {
			c.refuse(cmd, text)
			return nil, false
		}
	}
	if c.loading && cmd.Flags&command.Loading == 0 {
		c.refuse(cmd, items.ErrLoading)
		return nil, false
	}
	f := c.flagsOf(cmd)
	text, held := c.srv.node.Judge(f, c.peer.Load() != nil)
	if text != "" {
		c.refuse(cmd, text)
		return nil, false
	}
	if !held {
		return c.checkMulti(cmd)
	}
	if c.InLoop() {
		c.Leave()
		return nil, false
	}
	c.unheld(f)
	if c.Closing {
		return nil, false
	}
	if c.loading || c.store != c.srv.current.Load() {
		c.begin()
	}
	return c.check(cmd, args) // what was allowed before may not be now
}

// checkMulti is the last check.
func (c *client) checkMulti(cmd *row) (*row, bool) {
	if c.multi.active && cmd.Flags&command.NoMulti != 0 {
		c.fail(cmd, "ERR Command not allowed inside a transaction")
		return nil, false
	}
	return cmd, true
}

const errNoAuth = "NOAUTH Authentication required."

// refuse is fail for a command that is there. A refused EXEC ends its transaction.
func (c *client) refuse(cmd *row, text string) {
	if cmd.Is("exec") {
		c.multi = transaction{}
		c.srv.watches.Remove(&c.watch)
		text = "EXECABORT Transaction discarded because of: " + strings.TrimPrefix(text, "ERR ")
	}
	c.fail(cmd, text)
}

// fail appends an error reply for a command that was refused before it ran.
func (c *client) fail(cmd *row, text string) {
	size := c.Out.Len()
	c.Out.Error(text)
	if cmd != nil {
		cmd.Rejected.Add(1)
	}
	c.srv.stats.ErrorReply(c.Out.From(size))
}

// failed counts an error reply of a command that ran.
func (c *client) failed(cmd *row, reply []byte) {
	cmd.Failed.Add(1)
	c.srv.stats.ErrorReply(reply)
}

// withStore calls f with an open batch: the transaction's while EXEC runs, else one opened for the call. The command's
// reply comes behind it, and waits for the log as those of planned commands do. f must not use c.plan.
func (c *client) withStore(exclusive bool, f func(b *counter.Batch) error) error {
	if c.Batch.Opened() {
		return f(c.Batch)
	}
	var err error
	if exclusive {
		err = c.Batch.BeginExclusive()
	} else {
		err = c.Batch.Begin()
	}
	if err != nil {
		return err
	}
	err = f(c.Batch)
	c.Batch.End()
	if err != nil {
		return err
	}
	if exclusive {
		return c.Batch.Commit()
	}
	c.answered(1)
	return nil
}

// figures calls f with an open batch, to count what INFO tells about the store. They do not wait for the log: INFO has
// to answer while the disk does not.
func (c *client) figures(f func(b *counter.Batch)) {
	b := c.Batch
	if !b.Opened() {
		b = c.store.NewBatch()
		if b.Begin() != nil { // a closed store has none
			return
		}
		defer b.End()
	}
	f(b)
}

// unknownCommand is Redis's text, with at most 128 bytes of the name and of the arguments.
func unknownCommand(args [][]byte) string {
	var b strings.Builder
	b.WriteString("ERR unknown command '" + resp.Printable(args[0], 128) + "', with args beginning with: ")
	n := 0
	for _, a := range args[1:] {
		if n >= 128 {
			break
		}
		part := resp.Printable(a, 128-n)
		n += len(part) + 3
		b.WriteString("'" + part + "' ")
	}
	return b.String()
}

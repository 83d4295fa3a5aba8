package server

import (
	"slices"
)

// transaction is the state of MULTI on one connection.
type transaction struct {
	active bool // between MULTI and EXEC or DISCARD
	failed bool // a command was refused while queueing
	queued []queuedCommand
	bytes  int
}

type queuedCommand struct {
	cmd  *row
	args [][]byte
}

const (
	// maxQueueBytes bounds what a MULTI may hold in memory before EXEC.
	maxQueueBytes = 16 << 20
	// queuedSize is what a command takes beside its arguments.
	queuedSize = 40
	// maxExecReplies bounds the replies of a transaction: 20,000 times COMMAND, 480 KB to send, is answered by 900 MB.
	maxExecReplies = 64 << 20
)

// queue copies a command for EXEC.
func (t *transaction) queue(c *client, cmd *row, args [][]byte) {
	t.bytes += queuedSize
	for _, a := range args {
		t.bytes += len(a) + 24
	}
	if t.bytes > maxQueueBytes {
		t.failed = true
		t.queued = nil
		c.fail(cmd, "ERR transaction is larger than 16 MiB")
		return
	}
	copied := make([][]byte, len(args))
	for i, a := range args {
		copied[i] = slices.Clone(a)
	}
	t.queued = append(t.queued, queuedCommand{cmd, copied})
	c.Out.Status("QUEUED")
}

func runMulti(c *client, _ [][]byte) {
	if c.multi.active {
		c.Out.Error("ERR MULTI calls can not be nested")
		return
	}
	c.multi.active = true
	c.Out.Status("OK")
}

func runDiscard(c *client, _ [][]byte) {
	if !c.multi.active {
		c.Out.Error("ERR DISCARD without MULTI")
		return
	}
	c.multi = transaction{}
	c.srv.watches.Remove(&c.watch)
	c.Out.Status("OK")
}

// runExec executes the queue with everybody else kept out, so that it is seen as one change.
func runExec(c *client, _ [][]byte) {
	if !c.multi.active {
		c.Out.Error("ERR EXEC without MULTI")
		return
	}
	t := c.multi
	c.multi = transaction{}
	if t.failed {
		c.srv.watches.Remove(&c.watch)
		c.Out.Error("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	if c.subs.Started() {
		_ = c.Send() // before a message to itself: see runPublish
	}
	if err := c.Batch.BeginExclusive(); err != nil {
		c.StoreError(err)
		return
	}
	// With the store held, nobody can change a watched key any more.
	dirty := c.watch.Dirty()
	c.srv.watches.Remove(&c.watch)
	if dirty {
		c.Batch.End()
		c.Out.NullArray()
		return
	}
	c.Batch.Reset()
	c.executing = true
	size, tooLong := c.Out.Len(), false
	c.Out.Array(len(t.queued))
	for _, q := range t.queued {
		c.execute(q.cmd, q.args)
		if tooLong = tooLong || c.Out.Len()-size > maxExecReplies; tooLong { // it is executed in whole all the same
			c.Out.Cut(size)
		}
	}
	c.executing = false
	c.Batch.End()
	err := c.Batch.Commit()
	if tooLong { // an error reply would say that nothing was changed
		c.srv.log.Warn("closing connection", "client", c.ID(), "reason", "replies of a transaction passed their limit", "limit", maxExecReplies)
		c.Closing = true
		return
	}
	if err != nil {
		c.Out.Cut(size)
		c.StoreError(err)
	}
}

func runWatch(c *client, args [][]byte) {
	if c.multi.active {
		c.Out.Error("ERR WATCH inside MULTI is not allowed")
		return
	}
	store := c.srv.store()
	sch := store.Schema()
	for _, a := range args[1:] {
		if k, ok := sch.ParseKey(a); !ok {
			c.srv.watches.AddUnknown(&c.watch)
		} else if !c.srv.watches.Add(&c.watch, k) {
			c.Out.Error("ERR too many keys are watched")
			return
		}
	}
	if c.loading || c.srv.store() != store || store.Schema() != sch { // what the keys mean was not known, or has changed meanwhile
		c.watch.Spoil()
	}
	c.Out.Status("OK")
}

func runUnwatch(c *client, _ [][]byte) {
	c.srv.watches.Remove(&c.watch)
	c.Out.Status("OK")
}

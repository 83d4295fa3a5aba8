package server

import (
	"slices"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// transaction is the state of MULTI on one connection.
type transaction struct {
	active bool // between MULTI and EXEC or DISCARD
	failed bool // a command was refused while queueing
	queued []queuedCommand
	bytes  int

	passwords int // that queued commands give: see awaitGuesses
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
	if cmd.Is("auth") || cmd.Is("hello") && len(args) > 2 {
		t.passwords++
	}
	c.call.items.Out.Status("QUEUED")
}

// changes tells whether cmd changes posts now: what is queued does so at its EXEC.
func (t *transaction) changes(cmd *row) bool {
	if !t.active {
		return cmd.Flags&command.Write != 0
	}
	return cmd.Is("exec") && t.writes()
}

// writes tells whether a command of the queue changes posts.
func (t *transaction) writes() bool {
	return slices.ContainsFunc(t.queued, func(q queuedCommand) bool { return q.cmd.Flags&command.Write != 0 })
}

func runMulti(c *client, _ [][]byte) {
	if c.multi.active {
		c.call.items.Out.Error("ERR MULTI calls can not be nested")
		return
	}
	c.multi.active = true
	c.call.items.Out.Status("OK")
}

func runDiscard(c *client, _ [][]byte) {
	if !c.multi.active {
		c.call.items.Out.Error("ERR DISCARD without MULTI")
		return
	}
	c.multi = transaction{}
	c.srv.watches.Remove(&c.watch)
	c.call.items.Out.Status("OK")
}

// runExec: EXEC [IDMP producer seq [EPOCH epoch]].
func runExec(c *client, args [][]byte) {
	var num idmp.Number
	_, text := c.call.number(&num, c.executed, args)
	if !c.multi.active {
		c.call.items.Out.Error("ERR EXEC without MULTI")
		return
	}
	t := c.multi
	c.multi = transaction{}
	switch {
	case t.failed:
		text = "EXECABORT Transaction discarded because of previous errors."
	case text != "":
		text = items.ExecAborted(text)
	case num.Producer != nil && c.confined&confinedReader != 0: // what is kept of it would be a change
		text = items.ExecAborted(errReaderWrites)
	case c.scatter != nil && c.scatter.Forward() && c.scatter.Exec(c.executed.Access(), queue{c, &t}, num):
		return
	default:
		t.exec(c, num)
		return
	}
	c.srv.watches.Remove(&c.watch)
	c.call.items.Out.Error(text)
}

// exec executes the queue with everybody else kept out, so that it is seen as one change; with a number, once.
func (t *transaction) exec(c *client, num idmp.Number) {
	if c.subs.Started() {
		_ = c.session.Send() // before a message to itself: see runPublish
	}
	t.fetch(c)
	if err := c.call.items.Batch.BeginExclusive(); err != nil {
		c.call.items.StoreError(err)
		return
	}
	if text := t.elsewhere(c); text != "" {
		c.call.items.Batch.End()
		c.srv.watches.Remove(&c.watch)
		c.call.items.Out.Error(text)
		return
	}
	if err := c.call.items.Batch.Refusal(); err != nil && num.Producer == nil && t.writes() { // a number's change may have been made before
		c.call.items.Batch.End()
		c.srv.watches.Remove(&c.watch)
		c.call.items.Out.Error(items.ExecAborted(items.ErrorText(err)))
		return
	}
	// With the store held, nobody can change a watched key any more.
	dirty := c.watch.Dirty()
	c.srv.watches.Remove(&c.watch)
	c.call.items.Batch.Reset()
	var once *counter.Once
	if num.Producer != nil {
		var text string
		if text = t.denied(c); text != "" { // what is kept would be given to who may not have it
			c.call.items.Batch.End()
			c.call.items.Out.Error(items.ExecAborted(text))
			return
		}
		if once, text = t.numbered(c.executed, num, c.call.items.Batch.Schema()); text != "" {
			c.call.items.Batch.End()
			c.call.items.Out.Error(items.ExecAborted(text))
			return
		}
		if !c.call.items.Batch.TryOnce(once) { // before a look at what is watched: by the first try it has changed
			c.call.items.Batch.End()
			c.call.answerOnce(once, c.call.commitBatch())
			return
		}
	}
	if dirty {
		c.call.items.Batch.End()
		c.call.items.Out.NullArray()
		return
	}
	out := c.call.items.Out
	if once != nil {
		c.call.items.Out = resp.Replies{}
		c.call.items.Out.SetProtocol(resp.Neutral)
	}
	size := c.call.items.Out.Len()
	tooLong := t.execute(c)
	if once != nil {
		result := counter.Result{Kind: counter.ResultGone}
		if !tooLong {
			result, _ = idmp.Keep(c.call.items.Out.From(0), nil)
		}
		c.call.items.Batch.KeepOnce(once, result)
		c.call.items.Out, size = out, out.Len()
		idmp.Answer(&c.call.items.Out, result)
	}
	c.call.items.Batch.End()
	err := c.call.commitBatch()
	if tooLong { // an error reply would say that nothing was changed
		c.call.items.Out.Cut(size)
		c.srv.log.Warn("closing connection", "client", c.session.ID(), "reason", "replies of a transaction exceed the limit", "limit", maxExecReplies)
		c.session.Closing = true
		return
	}
	if err != nil {
		c.call.items.Out.Cut(size)
		c.call.items.StoreError(err)
	}
}

// fetch waits for the pages of cold files that the queue needs, before everybody else is kept out: its operations are
// planned, and not run.
func (t *transaction) fetch(c *client) {
	if !c.call.store.Cold() || c.call.items.Batch.Begin() != nil { // BeginExclusive says why
		return
	}
	defer c.call.items.Batch.End()
	c.call.items.Batch.Reset()
	for _, q := range t.queued {
		if q.cmd.Plan == nil {
			continue
		}
		if q.cmd.Plan(&c.call.items, q.args); c.call.items.Batch.Len() >= maxBatch {
			c.call.fetchPlanned()
		}
	}
	c.call.fetchPlanned()
}

// fetchPlanned waits for what the planned operations need, and forgets them.
func (c *call) fetchPlanned() {
	c.items.Batch.Fetch()
	c.items.Batch.Reset()
	clear(c.items.Owed)
	c.items.Owed = c.items.Owed[:0]
}

// execute appends the replies of the queue, and tells whether they are too many: then they were dropped.
func (t *transaction) execute(c *client) (tooLong bool) {
	size := c.call.items.Out.Len()
	c.call.executing = true
	c.call.items.Out.Array(len(t.queued))
	for _, q := range t.queued {
		if d := c.denied(q.cmd, q.args); d.Reason != acl.Allowed { // rights may have changed since it was queued
			c.fail(q.cmd, d.Later())
			continue
		}
		c.execute(q.cmd, q.args)
		if tooLong = tooLong || c.call.items.Out.Len()-size > maxExecReplies; tooLong { // it is executed in whole all the same
			c.call.items.Out.Cut(size)
		}
	}
	c.call.executing = false
	return tooLong
}

// eachPost calls f with the posts of a queued command on posts.
func (q *queuedCommand) eachPost(sch *schema.Schema, f func(mid uint64)) {
	switch {
	case q.cmd.Plan == nil:
		return
	case q.cmd.Is("counter.mget"):
		for _, a := range q.args[2:] {
			mid, ok := schema.ParseMid(a)
			if !ok {
				return
			}
			f(mid)
		}
		return
	}
	_, last := q.cmd.Access().Keys(q.args)
	for i := q.cmd.First; i > 0 && i <= last; i += q.cmd.Step {
		if mid, ok := items.Mid(sch, q.args[i]); ok {
			f(mid)
		}
	}
}

// denied tells why a command of the queue may not be executed any more; empty: all may.
func (t *transaction) denied(c *client) string {
	for _, q := range t.queued {
		if d := c.denied(q.cmd, q.args); d.Reason != acl.Allowed {
			return d.Later()
		}
	}
	return ""
}

// answerOnce answers a transaction that was made before, or refused for its number. err is the commit's.
func (c *call) answerOnce(o *counter.Once, err error) {
	switch {
	case o.Err != nil:
		c.items.StoreError(o.Err)
	case err != nil:
		c.items.StoreError(err)
	default:
		c.items.AnswerResult(o.Result)
	}
}

func runWatch(c *client, args [][]byte) {
	if c.multi.active {
		c.call.items.Out.Error("ERR WATCH inside MULTI is not allowed")
		return
	}
	store := c.srv.store()
	sch := store.Schema()
	keys := make([]schema.Key, 0, len(args)-1)
	for _, a := range args[1:] {
		if k, ok := sch.ParseKey(a); ok {
			keys = append(keys, k)
		}
	}
	if !c.srv.watches.Add(&c.watch, keys) {
		c.call.items.Out.Error("ERR too many keys are watched")
		return
	}
	if c.call.loading || c.srv.store() != store || store.Schema() != sch { // what the keys mean was not known, or has changed meanwhile
		c.watch.Spoil()
	}
	c.call.items.Out.Status("OK")
}

func runUnwatch(c *client, _ [][]byte) {
	c.srv.watches.Remove(&c.watch)
	c.call.items.Out.Status("OK")
}

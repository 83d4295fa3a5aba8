package server

import (
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// execution is an EXEC of a connection: the queue of its transaction, which has ended. It is a scatter.Transaction.
type execution struct {
	c *client
	t *transaction
}

var _ scatter.Transaction = execution{}

func (x execution) Len() int             { return x.t.queued.Len() }
func (x execution) Denied() string       { return x.denied() }
func (x execution) Exec(num idmp.Number) { x.exec(num) }

func (x execution) Unplanned() string {
	if cmd := x.t.unplanned; cmd != nil {
		return cmd.Name
	}
	return ""
}

func (x execution) EachPost(sch *schema.Schema, f func(mid uint64)) {
	for cmd, args := range x.t.all() {
		eachPost(cmd, args, sch, f)
	}
}

func (x execution) Commands() [][][]byte {
	list := [][][]byte{{[]byte("MULTI")}}
	for _, args := range x.t.all() {
		list = append(list, slices.Clone(args))
	}
	return append(list, [][]byte{[]byte("EXEC")})
}

// exec executes the queue with everybody else kept out, so that it is seen as one change; with a number, once.
func (x execution) exec(num idmp.Number) {
	c, t := x.c, x.t
	if c.subscriber.outbox.Started() {
		_ = c.session.Send() // before a message to itself: see runPublish
	}
	if num.Producer == nil && x.isLong() && x.execLong() {
		return
	}
	x.fetch()
	if err := c.call.items.Batch.BeginExclusive(); err != nil {
		c.call.items.StoreError(err)
		return
	}
	if text := x.refusalOfPosts(); text != "" {
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
	dirty := c.dirty()
	c.srv.watches.Remove(&c.watch)
	c.call.items.Batch.Reset()
	var once *counter.Once
	if num.Producer != nil {
		var text string
		if text = x.denied(); text != "" { // what is kept would be given to who may not have it
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
	t.expect(c.call.items.Batch)
	tooLong := x.execute()
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
	x.answer(size, tooLong, c.call.commitBatch())
}

// answer ends the replies of the queue, which begin at size. err is the commit's.
func (x execution) answer(size int, tooLong bool, err error) {
	c := x.c
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

const (
	// maxPlannedOps is how many operations of a queue are planned together: 8 MB.
	maxPlannedOps = 64 << 10
	// maxPlannedValues bounds their replies, of which all are made before they are counted: a column with its name takes 98 bytes at most.
	maxPlannedValues = maxExecReplies / 98
)

// plannedOps is how many operations of a queue are planned together with a schema: fewer where a counter has more than ten columns.
func plannedOps(sch *schema.Schema) int {
	columns := 1
	for _, def := range sch.Counters() {
		columns = max(columns, def.Width())
	}
	return min(maxPlannedOps, maxPlannedValues/columns)
}

// isLong tells whether the queue is to be executed by execLong: many commands, all of them on posts, that nothing but the store is asked
// about.
func (x execution) isLong() bool {
	c, t := x.c, x.t
	return t.queued.Len() > longArgs && !c.session.InLoop() && c.srv.cluster == nil && c.scatter == nil && c.call.reads == nil && !c.call.loading &&
		c.login.user.Load().Unlimited() && c.srv.monitors.n.Load() == 0 && x.Unplanned() == ""
}

// execLong is exec of a long queue: it is planned before everybody else is kept out, and answered afterwards, both with pauses. So
// others wait only while it runs, 2.0 ms for 10,000 INCRs instead of 2.7. false: nothing was executed, and exec has to do it in its way.
func (x execution) execLong() (done bool) {
	c, t := x.c, x.t
	k, b := &c.call, c.call.items.Batch
	k.items.Pause = c.srv.front.GiveWay
	defer func() {
		if k.items.Pause = nil; !done {
			clear(k.items.Owed)
			k.items.Owed, k.runs = k.items.Owed[:0], k.runs[:0]
			b.Reset()
		}
	}()
	b.Reset()
	names := b.Schema()
	most := plannedOps(names)
	b.Grow(min(t.queued.Len(), most))
	growOwed(k, min(t.queued.Len(), most))
	i := 0
	for cmd, args := range t.all() {
		k.items.Breathe(i)
		i++
		countRun(k, cmd, 1)
		if cmd.Plan(&k.items, args); b.Len() > most {
			return false
		}
	}
	if !x.fetchLong(names) {
		return false
	}
	b.Locate(names, k.items.Pause)
	if b.BeginExclusive() != nil { // exec says why
		return false
	}
	// With the store held, nobody can change a watched key any more. All else may have changed since it was asked.
	if b.Schema() != names || c.dirty() || b.Refusal() != nil && t.writes() || c.srv.monitors.n.Load() > 0 || !c.login.user.Load().Unlimited() {
		b.End()
		return false
	}
	c.srv.watches.Remove(&c.watch)
	began := monotonic.Now()
	t.expect(b)
	b.Run()
	k.touched()
	b.End()
	err := k.commitBatch()
	size := k.items.Out.Len()
	k.items.Out.Array(t.queued.Len())
	k.reply(began)
	x.answer(size, x.cutReplies(size), err)
	t.queued.Free()
	return true
}

// fetchLong waits for the pages of cold files that the planned operations need. false: the schema has changed since they were planned.
func (x execution) fetchLong(names *schema.Schema) bool {
	b := x.c.call.items.Batch
	if !x.c.call.store.Cold() {
		return true
	}
	if b.Begin() != nil {
		return false
	}
	defer b.End()
	if b.Schema() != names {
		return false
	}
	b.Fetch()
	return true
}

// fetch waits for the pages of cold files that the queue needs, before everybody else is kept out: its operations are
// planned, and not run.
func (x execution) fetch() {
	c, t := x.c, x.t
	if !c.call.store.Cold() || c.call.items.Batch.Begin() != nil { // BeginExclusive says why
		return
	}
	defer c.call.items.Batch.End()
	c.call.items.Batch.Reset()
	for cmd, args := range t.all() {
		if cmd.Plan == nil {
			continue
		}
		if cmd.Plan(&c.call.items, args); c.call.items.Batch.Len() >= maxBatch {
			c.call.fetchPlanned()
		}
	}
	c.call.fetchPlanned()
}

// fetchPlanned waits for the pages that the planned operations need, and forgets the operations.
func (c *call) fetchPlanned() {
	c.items.Batch.Fetch()
	c.items.Batch.Reset()
	clear(c.items.Owed)
	c.items.Owed = c.items.Owed[:0]
}

// execute appends the replies of the queue, and tells whether they are too many: then they were dropped.
func (x execution) execute() (tooLong bool) {
	c, t := x.c, x.t
	size := c.call.items.Out.Len()
	c.call.executing = true
	c.call.items.Out.Array(t.queued.Len())
	for cmd, args := range t.all() {
		d := c.denied(cmd, args)
		switch {
		case d.Reason != acl.Allowed: // rights may have changed since it was queued
			c.call.flush()
			c.fail(cmd, d.Later())
		case cmd.Plan != nil: // run together, as outside of a transaction: all others wait meanwhile
			if c.call.reads != nil && cmd.Flags&command.Write == 0 && anyChange(c.call.runs) {
				c.call.flush() // see notifyBeforeRead
			}
			c.call.plan(cmd, args)
		default:
			c.call.flush()
			c.execute(cmd, args)
		}
		tooLong = x.cutReplies(size) || tooLong
	}
	c.call.flush()
	tooLong = x.cutReplies(size) || tooLong
	c.call.executing = false
	return tooLong
}

// cutReplies drops the replies from size on if they are too many. The transaction is executed in whole all the same.
func (x execution) cutReplies(size int) bool {
	out := &x.c.call.items.Out
	if len(x.c.call.items.Owed) > 0 || out.Len()-size <= maxExecReplies {
		return false
	}
	out.Cut(size)
	return true
}

// denied tells why a command of the queue may not be executed any more; empty: all may.
func (x execution) denied() string {
	c, t := x.c, x.t
	for cmd, args := range t.all() {
		if d := c.denied(cmd, args); d.Reason != acl.Allowed {
			return d.Later()
		}
	}
	return ""
}

// refusalOfPosts is routed again for a transaction with the store held: until now the slot could go, and changes be refused.
func (x execution) refusalOfPosts() string {
	c, t := x.c, x.t
	if c.srv.cluster == nil {
		return ""
	}
	var r serving.Routing
	t.route(&c.routing, &r, c.call.knownNames())
	st := c.srv.cluster.Now()
	if text := st.Elsewhere(c.routing.asker(), &r); text != "" {
		return text
	}
	if of, posts := r.Slot(); posts && !c.call.items.Batch.Owns(of) {
		return c.routing.movedError(of)
	}
	text := ""
	switch text = x.lostPosts(); {
	case text != "":
		return text
	case r.Writes():
		return c.routing.unwritten(command.Write)
	case r.Reads():
		return st.Readable(time.Now())
	}
	return ""
}

// lostPosts tells where a transaction goes of which the store has not all posts; empty: it has. It looks at every post, for
// COUNTER.MGET has mids and no keys, and the keys of a link or of the forward port have no slot to the routing. Clients follow
// a MOVED that is the reply of EXEC, and none that is in its array. REQUIRES the batch open.
func (x execution) lostPosts() string {
	c, t := x.c, x.t
	first, lost, apart := -1, -1, false
	for cmd, args := range t.all() {
		eachPost(cmd, args, c.call.items.Batch.Schema(), func(mid uint64) {
			of := int(slot.Of(mid))
			apart = apart || first >= 0 && of != first
			if first = of; lost < 0 && !c.call.items.Batch.Owns(uint16(of)) {
				lost = of
			}
		})
	}
	switch {
	case lost < 0:
		return ""
	case apart:
		return errPostsApart
	}
	return c.routing.movedError(uint16(lost))
}

const errPostsApart = "CROSSSLOT the transaction reads posts of several shards: ask for those of others outside of it"

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

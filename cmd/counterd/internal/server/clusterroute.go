package server

import (
	"cmp"
	"context"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/internal/slot"
)

// Which commands a node of a cluster takes, and where the others go. There are two ways to ask: local is quick and asked
// of every planned command, and where it does not say yes, routed looks at everything. That the store has a post's slot
// is the store's to say in any case (counter.NotOwnedError), under its gate.

// local tells whether a planned command can go on here, as far as a few compares can tell. It does so with the batch open:
// while that is, the store's slots stand still, no standing that refuses changes is complete (Server.Stand), and no hold
// of changes (node.HoldWrites). So what it lets in is not refused by the store. A lease is looked at once a batch, which is once a turn.
func (c *client) local(cmd *row, args [][]byte) bool {
	if c.call.Batch.Opened() {
		return c.serves(cmd, args)
	}
	c.call.Batch.Reset()
	if c.call.Batch.Begin() != nil { // the slow way says why
		return false
	}
	if !c.srv.node.Lets(cmd.Flags) || !c.serves(cmd, args) || c.srv.cluster.now.Load().expired() {
		c.call.Batch.End()
		return false
	}
	c.call.opened()
	return true
}

// serves is local with the batch open. args may be nil: then whether the posts are here is left to the store.
func (c *client) serves(cmd *row, args [][]byte) bool {
	st := c.srv.cluster.now.Load()
	replica := !st.open && c.replicaReads && st.Reads == "" && !st.Primary && cmd.Reads()
	if !st.open && !replica {
		return false
	}
	if c.internal || cmd.First == 0 || args == nil {
		return true
	}
	if cmd.Last == cmd.First && !replica && !st.held { // the store says whether the slot is here
		return route.Plain(args[cmd.First])
	}
	_, last := cmd.Access().Keys(args)
	changes, first := cmd.Flags&command.Write != 0, -1
	for i := cmd.First; i <= last; i += cmd.Step {
		if !route.Plain(args[i]) {
			return false
		}
		if st.all && !changes {
			continue
		}
		of := int(slot.OfKey(args[i]))
		if changes && first >= 0 && of != first || !st.Owned.Has(slot.GroupOf(uint16(of))) {
			return false
		}
		first = of
	}
	return true
}

// routed tells why a command is not taken here: it goes elsewhere, or nowhere; empty: it is. wait is set where that may
// change in a moment.
func (c *client) routed(st *standing, cmd *row, args [][]byte) (text string, wait bool) {
	r := routing{slot: -1} // of a transaction without commands
	if cmd.Is("exec") {
		for i := range c.multi.queued {
			q := &c.multi.queued[i]
			r.add(c, q.cmd, q.args, true)
		}
	} else {
		r.add(c, cmd, args, c.multi.active)
	}
	switch {
	case r.text != "":
		return r.text, false
	case r.slot >= 0 && !c.internal:
		if text, wait = c.owned(st, &r); text != "" {
			return text, wait
		}
	}
	switch {
	case r.writes && r.slot < 0 && st.Shard != nil && !st.Primary:
		return items.ErrReadOnly, false
	case r.writes && st.Writes != "":
		return st.Writes, false
	case cmd.Is("counter.update") && !st.all && !c.internal:
		return errUpdateAll, false
	case r.writes || !r.reads:
		return "", false
	}
	return st.Readable(time.Now()), false
}

// admit opens the batch for a planned command that was let in, where that is still so with the batch open. Else it waits as
// long as check does; false: it was refused, or is postponed.
func (c *client) admit(cmd *row, args [][]byte) bool {
	for !c.call.Batch.Opened() {
		c.call.Batch.Reset()
		if c.call.Batch.Begin() != nil { // plan says why
			return true
		}
		if text, held := c.srv.node.Judge(cmd.Flags, false); text == "" && !held {
			if text, _ := c.routed(c.srv.cluster.now.Load(), cmd, args); text == "" {
				c.call.opened()
				return true
			}
		}
		c.call.Batch.End()
		if _, ok := c.check(cmd, args); !ok {
			if c.session.Leaving() {
				c.session.Postpone(args)
			}
			return false
		}
	}
	return true
}

// gone refuses a planned command whose slot went, or that is not served any more, since it was let in. REQUIRES the batch
// open. Empty: it is served.
func (c *call) gone(cmd *row, args [][]byte) string {
	k := c.session.Handler().(*client)
	text, _ := k.routed(c.srv.cluster.now.Load(), cmd, args)
	return text
}

// unwritten refuses a change where the standing has become another one since it was let in. REQUIRES the batch open: see
// Server.Stand. Empty: it may be made.
func (c *call) unwritten(flags command.Flags) string {
	if c.srv.cluster == nil || flags&command.Write == 0 {
		return ""
	}
	return c.srv.cluster.now.Load().Writes
}

// routing is what a command, or a transaction, asks of the cluster.
type routing struct {
	slot          int // of its keys; -1: it has none
	some          bool
	reads, writes bool
	channel       bool   // the slot is that of shard channels, and no post's
	follows       bool   // a replica can have it: reads, and subscriptions
	text          string // why nobody takes it
}

// add looks at a command. whole says that all its keys have to be in one slot, be it a read.
func (r *routing) add(c *client, cmd *row, args [][]byte, whole bool) {
	if !r.some {
		r.some, r.slot, r.follows = true, -1, true
	}
	if whole && altersSchema(cmd) {
		r.text = errAlterHeld
	}
	changes := cmd.Flags&command.Write != 0 && !altersSchema(cmd)
	r.writes = r.writes || changes
	r.reads = r.reads || readsData(cmd)
	if cmd.Group == "pubsub" {
		if cmd.First == 0 || cmd.Is("sunsubscribe") {
			return
		}
		r.channel = true
		if cmd.Is("spublish") {
			r.follows = false
		}
	} else if changes {
		r.follows = false
	}
	if cmd.First == 0 || c.internal {
		return
	}
	last := len(args) - 1
	if cmd.HasKeys() {
		_, last = cmd.Access().Keys(args)
	} else if cmd.Last > 0 {
		last = cmd.Last
	}
	for i := cmd.First; i <= last; i += cmd.Step {
		if cmd.HasKeys() && !c.call.loading && !route.Plain(args[i]) {
			if text := route.Refusal(c.call.names(), args[i]); text != "" {
				r.text = text
				return
			}
		}
		of := int(slot.OfKey(args[i]))
		if r.slot >= 0 && of != r.slot {
			r.text = route.ErrCrossSlot
			return
		}
		r.slot = of
	}
}

const errUpdateAll = "CROSSSLOT COUNTER.UPDATE would change posts of all hash slots, which are not one node's: ask COUNTER.FIND for their mids, and change each"

const errAlterHeld = "ERR the schema of a cluster is not changed in a transaction: it is of many nodes"

// altersSchema tells whether a command changes the schema, which is the cluster's and not a node's.
func altersSchema(cmd *row) bool { return cmd.Is("add") || cmd.Is("drop") }

// readsData tells whether a command tells of posts, so that a node which may have been replaced must not answer it.
func readsData(cmd *row) bool {
	if cmd.Flags&(command.ReadOnly|command.Admin) != command.ReadOnly {
		return false
	}
	switch cmd.Name {
	case "dbsize", "schema", "counter.hot", "idmp|last", "function|list":
		return false
	}
	return true
}

// owned tells where a command goes whose slot is not served here.
func (c *client) owned(st *standing, r *routing) (text string, wait bool) {
	group := slot.GroupOf(uint16(r.slot))
	mine := st.mine(group)
	switch {
	case mine && !st.Primary && st.Leader == st.Self: // nothing moves: the map names this node, which does not lead
		return cmp.Or(st.Reads, route.ErrDown), false
	case mine && !st.Primary && !(r.follows && (c.replicaReads || r.channel)):
		return c.call.view(st).Moved(uint16(r.slot)), false
	case st.Standing.Map == nil: // it has just been started, and is about to read it
		return route.ErrDown, true
	case st.Owned.Has(group):
		return "", false
	case mine && !st.Primary: // a replica whose log does not have them: its primary's may
		return c.call.view(st).Moved(uint16(r.slot)), false
	case mine && st.Lacking.Has(group):
		return route.ErrLacking, false
	case mine:
		return route.ErrTryAgain, true
	}
	return c.call.view(st).Moved(uint16(r.slot)), st.Coming.Has(group)
}

// view is the cluster as the connection is told of it.
func (c *call) view(st *standing) route.View {
	return route.View{Map: st.Map, Self: st.Self, TLS: c.session.Secure()}
}

// moved is what a store's refusal of a slot is answered by. A slot that came between the refusal and now is asked for
// here again: then the command waits until the store has it, as others do.
func (c *call) moved(of uint16) string {
	v := c.view(c.srv.cluster.now.Load())
	text := v.Moved(of)
	if self := v.Map.Nodes[v.Self]; text == route.ErrTryAgain && self != nil {
		text = v.MovedTo(of, self)
	}
	return text
}

// settling is for how long a command waits for a slot that is on its way: writes are held 500 ms at most.
const settling = 500 * time.Millisecond

// here is the check of a cluster: false, and the error was appended, or in a loop the command has to wait. It is a place
// where commands block: see block.
func (c *client) here(cmd *row, args [][]byte) bool {
	var end time.Time
	for {
		st, _ := c.srv.cluster.look()
		text, wait := c.routed(st, cmd, args)
		if text == "" {
			return true
		}
		if wait && end.IsZero() {
			if c.session.InLoop() {
				c.session.Leave()
				return false
			}
			end = time.Now().Add(settling)
		}
		if !wait || !c.settled(st, end) {
			c.redirect(cmd, text)
			return false
		}
		if c.session.Closing {
			return false
		}
		if c.call.loading || c.call.store != c.srv.current.Load() {
			c.call.begin()
		}
	}
}

// settled waits until the standing is another one, and at the end returns false.
func (c *client) settled(st *standing, end time.Time) (news bool) {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	c.block(ctx, func(ctx context.Context) {
		now, changed := c.srv.cluster.look()
		if news = now != st; news {
			return
		}
		select {
		case <-changed:
			news = true
		case <-ctx.Done():
		}
	})
	return news
}

// redirect is fail for a command that this node does not take. A transaction ends with it, without a word around it:
// clients look for the first one.
func (c *client) redirect(cmd *row, text string) {
	if cmd.Is("exec") {
		c.multi = transaction{}
		c.srv.watches.Remove(&c.watch)
	}
	c.fail(cmd, text)
}

// groupOfChannel is the group of a shard channel's slot.
func groupOfChannel(name string) uint8 { return slot.GroupOf(slot.OfKey([]byte(name))) }

// elsewhere is routed again for a transaction with the store held: until now the slot could go, and changes be refused.
func (t *transaction) elsewhere(c *client) string {
	if c.srv.cluster == nil {
		return ""
	}
	r := routing{slot: -1} // of a transaction without commands
	for i := range t.queued {
		r.add(c, t.queued[i].cmd, t.queued[i].args, true)
	}
	text := ""
	if r.slot >= 0 && !c.internal {
		text, _ = c.owned(c.srv.cluster.now.Load(), &r)
	}
	switch {
	case r.text != "":
		return r.text
	case text != "":
		return text
	case r.slot >= 0 && !r.channel && !c.call.Batch.Owns(uint16(r.slot)):
		return c.call.moved(uint16(r.slot))
	}
	switch text = t.away(c); {
	case text != "":
		return text
	case r.writes:
		return c.call.unwritten(command.Write)
	case r.reads:
		return c.srv.cluster.now.Load().Readable(time.Now())
	}
	return ""
}

// away tells where a transaction goes of which the store has not all posts; empty: it has. It looks at every post, for
// COUNTER.MGET has mids and no keys, and the keys of a link or of the forward port have no slot to the routing. Clients follow
// a MOVED that is the reply of EXEC, and none that is in its array. REQUIRES the batch open.
func (t *transaction) away(c *client) string {
	first, lost, apart := -1, -1, false
	for i := range t.queued {
		t.queued[i].eachPost(c.call.Batch.Schema(), func(mid uint64) {
			of := int(slot.Of(mid))
			apart = apart || first >= 0 && of != first
			if first = of; lost < 0 && !c.call.Batch.Owns(uint16(of)) {
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
	return c.call.moved(uint16(lost))
}

const errPostsApart = "CROSSSLOT the transaction reads posts of several shards: ask for those of others outside of it"

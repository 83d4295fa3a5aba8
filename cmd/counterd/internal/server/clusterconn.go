package server

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// A connection to a node of a cluster: whether the node takes a command now, and how the command waits until it does. What a
// node serves, and where everything else goes, is package serving's. That the store has a post's slot is the store's to say
// in any case (counter.NotOwnedError), under its lock.

// asker is what the routing depends on of the connection.
func (c *client) asker() serving.Asker {
	return serving.Asker{Internal: c.internal, ReplicaReads: c.replicaReads, Secure: c.session.Secure()}
}

// local tells whether a planned command can go on here, as far as a few compares can tell. It does so with the batch open:
// while that is, the store's slots stand still, no standing that refuses changes is complete (serving.Member.Stand), and no hold
// of changes (role.HoldWrites). So what it lets in is not refused by the store. A lease is looked at once a batch, which is once a turn.
func (c *client) local(cmd *row, args [][]byte) bool {
	if c.call.items.Batch.Opened() {
		return c.srv.cluster.Now().Serves(c.asker(), cmd.Access(), args)
	}
	c.call.items.Batch.Reset()
	if c.call.items.Batch.Begin() != nil { // the slow way says why
		return false
	}
	if !c.srv.role.Lets(cmd.Flags) || !c.srv.cluster.Now().Serves(c.asker(), cmd.Access(), args) || c.srv.cluster.Now().Expired() {
		c.call.items.Batch.End()
		return false
	}
	c.call.opened()
	return true
}

// routed says why a command is not taken here; empty: it is. wait is set where that may change in a moment.
func (c *client) routed(st *serving.Standing, cmd *row, args [][]byte) (text string, wait bool) {
	var r serving.Routing
	if cmd.Is("exec") {
		c.multi.route(&r, c)
	} else {
		c.route(&r, cmd, args, c.multi.active)
	}
	return st.Route(c.asker(), &r)
}

// route adds a command to a routing.
func (c *client) route(r *serving.Routing, cmd *row, args [][]byte, whole bool) {
	var names *schema.Schema
	if !c.call.loading {
		names = c.call.names()
	}
	r.Add(c.asker(), names, cmd.Access(), args, whole)
}

// route adds the queue to a routing.
func (t *transaction) route(r *serving.Routing, c *client) {
	for i := range t.queued {
		c.route(r, t.queued[i].cmd, t.queued[i].args, true)
	}
}

// admit opens the batch for a planned command that was let in, where that is still so with the batch open. Else it waits as
// long as check does; false: it was refused, or is postponed.
func (c *client) admit(cmd *row, args [][]byte) bool {
	for !c.call.items.Batch.Opened() {
		c.call.items.Batch.Reset()
		if c.call.items.Batch.Begin() != nil { // plan says why
			return true
		}
		if text, held := c.srv.role.Judge(cmd.Flags, false); text == "" && !held {
			if text, _ := c.routed(c.srv.cluster.Now(), cmd, args); text == "" {
				c.call.opened()
				return true
			}
		}
		c.call.items.Batch.End()
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
	text, _ := k.routed(c.srv.cluster.Now(), cmd, args)
	return text
}

// unwritten refuses a change where the standing has become another one since it was let in. REQUIRES the batch open: see
// Member.Stand. Empty: it may be made.
func (c *call) unwritten(flags command.Flags) string {
	if c.srv.cluster == nil || flags&command.Write == 0 {
		return ""
	}
	return c.srv.cluster.Now().Writes
}

// moved is what a store's refusal of a slot is answered by. A slot that came between the refusal and now is asked for
// here again: then the command waits until the store has it, as others do.
func (c *call) moved(of uint16) string {
	v := c.srv.cluster.Now().View(c.session.Secure())
	text := v.Moved(of)
	if self := v.Map.Nodes[v.Self]; text == route.ErrTryAgain && self != nil {
		text = v.MovedTo(of, self)
	}
	return text
}

// waitForSlot is for how long a command waits for a slot that is on its way: writes are held 500 ms at most.
const waitForSlot = 500 * time.Millisecond

// here is the check of a cluster: false, and the error was appended, or in a loop the command has to wait. It is a place
// where commands block: see block.
func (c *client) here(cmd *row, args [][]byte) bool {
	var end time.Time
	for {
		st, _ := c.srv.cluster.Look()
		text, wait := c.routed(st, cmd, args)
		if text == "" {
			return true
		}
		if wait && end.IsZero() {
			if c.session.InLoop() {
				c.session.Leave()
				return false
			}
			end = time.Now().Add(waitForSlot)
		}
		if !wait || !c.awaitStanding(st, end) {
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

// awaitStanding waits until the standing is another one, and at the end returns false.
func (c *client) awaitStanding(st *serving.Standing, end time.Time) (news bool) {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	c.block(ctx, func(ctx context.Context) {
		now, changed := c.srv.cluster.Look()
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

// elsewhere is routed again for a transaction with the store held: until now the slot could go, and changes be refused.
func (t *transaction) elsewhere(c *client) string {
	if c.srv.cluster == nil {
		return ""
	}
	var r serving.Routing
	t.route(&r, c)
	st := c.srv.cluster.Now()
	if text := st.Elsewhere(c.asker(), &r); text != "" {
		return text
	}
	if of, posts := r.Slot(); posts && !c.call.items.Batch.Owns(of) {
		return c.call.moved(of)
	}
	text := ""
	switch text = t.away(c); {
	case text != "":
		return text
	case r.Writes():
		return c.call.unwritten(command.Write)
	case r.Reads():
		return st.Readable(time.Now())
	}
	return ""
}

// away tells where a transaction goes of which the store has not all posts; empty: it has. It looks at every post, for
// COUNTER.MGET has mids and no keys, and the keys of a link or of the forward port have no slot to the routing. Clients follow
// a MOVED that is the reply of EXEC, and none that is in its array. REQUIRES the batch open.
func (t *transaction) away(c *client) string {
	first, lost, apart := -1, -1, false
	for i := range t.queued {
		t.queued[i].eachPost(c.call.items.Batch.Schema(), func(mid uint64) {
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
	return c.call.moved(uint16(lost))
}

const errPostsApart = "CROSSSLOT the transaction reads posts of several shards: ask for those of others outside of it"

func gatherCommands() []*row {
	return []*row{
		{Name: "counter.link", Arity: 3, Flags: command.Admin | command.NoScript | command.NoMulti | command.Fast | command.Loading | command.Stale, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
			Summary: "Internal: marks the connection as a link of another cluster node.", Syntax: "format node-id | OWNING groups | STILL groups", Run: runLink, Asks: command.NoData},
	}
}

// runLink: COUNTER.LINK format node-id | OWNING groups | STILL groups. What a link asks is answered by this node alone, or
// refused (MOVED), and in the neutral version of the protocol. OWNING answers OK if the node's shard owns just these groups,
// else the next command is refused too. STILL says behind a change whether that is so yet.
func runLink(c *client, args [][]byte) {
	owning, still := resp.EqualFold(args[1], "OWNING"), resp.EqualFold(args[1], "STILL")
	if c.internal && c.scatter == nil && (owning || still) {
		set, err := slot.ParseSet(string(args[2]))
		switch c.disowned = err != nil || c.call.store.Groups().Owned() != set; {
		case !c.disowned:
			c.call.items.Out.Status("OK")
		case owning:
			c.call.items.Out.Error(scatter.ErrOwning)
		default:
			c.disowned = false
			c.call.items.Out.Error(scatter.ErrStill)
		}
		return
	}
	switch format, ok := resp.Number(args[1]); {
	case c.srv.shards == nil:
		c.call.items.Out.Error(route.ErrNoCluster)
		return
	case !ok || format != gather.Format:
		c.call.items.Out.Error("ERR COUNTER.LINK: got format " + resp.Printable(args[1], 20) + ", want 1: the node is of another version")
		return
	}
	c.internal, c.scatter = true, nil
	c.info.setName(append([]byte("link:"), args[2]...))
	c.call.items.Out.SetProtocol(resp.Neutral)
	c.call.items.Out.Status("OK")
}

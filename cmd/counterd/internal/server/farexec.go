package server

import (
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// Transactions on a forward port, and what is not to be had there.

// forwardExec executes the queue where its posts are, which must be of one slot. It is false for one without posts.
func (c *client) forwardExec(t *transaction, num idmp.Number) bool {
	if len(t.queued) == 0 {
		return false
	}
	f := c.far
	v := f.shards.View()
	var mid uint64
	at, apart := -1, false
	for i := range t.queued {
		q := &t.queued[i]
		if q.cmd.Plan == nil {
			c.call.Out.Error(execAborted("a transaction on the forward port has commands on posts alone, not " + strings.ToUpper(q.cmd.Name)))
			return true
		}
		q.eachPost(c.call.names(), func(m uint64) {
			s := int(slot.Of(m))
			apart = apart || at >= 0 && s != at
			at, mid = s, m
		})
	}
	switch {
	case apart:
		c.call.Out.Error(route.ErrCrossSlot)
		return true
	case at < 0:
		return false
	}
	if text := t.denied(c); text != "" { // the shard knows nothing of the client's rights, which may have changed since
		c.call.Out.Error(execAborted(text))
		return true
	}
	k := f.begin(c, c.executed, nil, mergeOne)
	c.call.flush() // the mark's place
	k.num, k.multi, k.mid = num, t, mid
	f.parts = append(f.parts, farPart{cmd: len(f.cmds) - 1, kind: kindOf(k)}) // asked behind k.num: a client's number is kept
	k.n, f.remote = 1, true
	p := &f.parts[k.first]
	switch owner := v.Owner(mid); owner {
	case nil:
	case v.Local:
		f.here(c, p)
	default:
		f.ask(p, owner)
	}
	f.finish(c)
	return true
}

// abroad tells whether it is for others to let a command in, whatever this node's part is: it is for all posts, and this
// node leads no shard, or it is for a transaction on the forward port, whose posts tell where it belongs when it is executed.
func (c *client) abroad(cmd *row) bool {
	if c.far == nil {
		return false
	}
	if c.far.forward && c.multi.active && cmd.Plan != nil {
		return true
	}
	v := c.far.shards.View()
	return v.Map != nil && v.Local == nil && (c.forAll(cmd) || c.far.forward && cmd.Is("exec"))
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

// commands are the queue as it is sent.
func (t *transaction) commands() [][][]byte {
	list := [][][]byte{{[]byte("MULTI")}}
	for _, q := range t.queued {
		list = append(list, q.args)
	}
	return append(list, [][]byte{[]byte("EXEC")})
}

// forwardText refuses what is not to be had on a forward port; empty: it is.
func forwardText(cmd *row) string {
	name, _, _ := strings.Cut(cmd.Name, "|")
	switch {
	case cmd.Group == "cluster":
		return errNoCluster
	case cmd.Is("watch"):
		return "ERR WATCH is not to be had on the forward port: use HINCRBY, INCREX, SET with NX or XX and the like, or the port of the cluster's nodes"
	case cmd.Is("idmp|fence"):
		return "ERR IDMP FENCE is not to be had on the forward port: each shard has an epoch of a producer, ask the primary of each"
	case cmd.Is("client|tracking"), cmd.Is("client|caching"):
		return "ERR CLIENT TRACKING is not to be had on the forward port: this node does not hear of what changes on others"
	}
	switch name {
	case "wait", "waitaof", "psync", "sync", "replconf", "replicaof", "slaveof", "failover", "counter.demote", "counter.promote", "counter.scrub", "memory":
		if !strings.HasSuffix(cmd.Name, "|help") && !cmd.Is("memory|purge") && !cmd.Is("memory|doctor") && !cmd.Is("memory|stats") {
			return "ERR '" + strings.ReplaceAll(cmd.Name, "|", " ") + "' is about one node, and not to be had on the forward port: use its own port"
		}
	}
	return ""
}

package scatter

import (
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/internal/slot"
)

// Transactions on a forward port, and the commands that a forward port refuses.

// Exec executes the queue of a transaction on the shard that owns its posts. The posts must be of one hash slot. cmd is EXEC. Exec
// returns false for a transaction without posts.
func (f *Scatter) Exec(cmd *command.Access, t Transaction, num idmp.Number) bool {
	if t.Len() == 0 {
		return false
	}
	if name := t.Unplanned(); name != "" {
		f.call.Out.Error(items.ExecAborted("a transaction on the forward port accepts commands on posts only, not " + strings.ToUpper(name)))
		return true
	}
	v := f.shards.View()
	var mid uint64
	at, apart := -1, false
	t.EachPost(f.conn.Schema(), func(m uint64) {
		s := int(slot.Of(m))
		apart = apart || at >= 0 && s != at
		at, mid = s, m
	})
	switch {
	case apart:
		f.call.Out.Error(route.ErrCrossSlot)
		return true
	case at < 0:
		return false
	}
	if text := t.Denied(); text != "" { // the shard knows nothing of the client's rights, which may have changed since
		f.call.Out.Error(items.ExecAborted(text))
		return true
	}
	k := f.addCommand(cmd, nil, mergeOne)
	f.conn.Run() // the mark's place
	k.num, k.multi, k.mid = num, t, mid
	f.parts = append(f.parts, part{cmd: len(f.cmds) - 1, kind: kindOf(k)}) // asked behind k.num: a client's number is kept
	k.n, f.remote = 1, true
	p := &f.parts[k.first]
	switch owner := v.Owner(mid); owner {
	case nil:
	case v.Local:
		f.executeHere(p)
	default:
		f.askShard(p, owner)
	}
	f.Finish()
	return true
}

// Abroad tells whether other nodes decide on a command, whatever this node's role is: the command is for all posts and this
// node leads no shard, or the command is a transaction of the forward port, or queued by one: its posts tell where it belongs. Where they are this node's, executeHere decides.
func (f *Scatter) Abroad(cmd *command.Access, queued bool) bool {
	if f.forward && queued && cmd.Planned {
		return true
	}
	v := f.shards.View()
	return v.Map != nil && (v.Local == nil && !queued && !cmd.Planned && f.AsksAll(cmd) || f.forward && cmd.Is("exec"))
}

// Refusal says why the connection's port does not accept a command; empty: the port accepts it.
func (f *Scatter) Refusal(cmd *command.Access) string {
	if !f.forward {
		return ""
	}
	name, _, _ := strings.Cut(cmd.Name, "|")
	switch {
	case cmd.Group == "cluster":
		return route.ErrNoCluster
	case cmd.Is("watch"):
		return "ERR WATCH is not supported on the forward port: use HINCRBY, INCREX or SET with NX or XX, or connect to the cluster port of the nodes"
	case cmd.Is("idmp|fence"):
		return "ERR IDMP FENCE is not supported on the forward port: each shard has its own epoch of a producer, send the command to each primary"
	case cmd.Is("client|tracking"), cmd.Is("client|caching"):
		return "ERR CLIENT TRACKING is not supported on the forward port: this node does not learn of changes on other shards"
	}
	switch name {
	case "wait", "waitaof", "psync", "sync", "replconf", "replicaof", "slaveof", "failover", "counter.demote", "counter.promote", "counter.scrub", "memory":
		if !strings.HasSuffix(cmd.Name, "|help") && !cmd.Is("memory|purge") && !cmd.Is("memory|doctor") && !cmd.Is("memory|stats") {
			return "ERR '" + strings.ReplaceAll(cmd.Name, "|", " ") + "' is about one node, and not to be had on the forward port: use its own port"
		}
	}
	return ""
}

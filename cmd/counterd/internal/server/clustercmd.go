package server

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// CLUSTER, READONLY, READWRITE and ASKING. What they tell is package route's.

// clusterCommand is CLUSTER. What changes a Redis Cluster is answered by who does it here.
func clusterCommand() *row {
	const changes = command.Admin | command.Stale | command.NoAsyncLoading
	sub := func(name string, arity int, flags command.Flags, since, syntax, summary string, run func(*client, *serving.Standing, [][]byte)) *row {
		return &row{Name: "cluster|" + name, Arity: arity, Flags: flags, Group: "cluster", Since: since, Complexity: "O(1)", Syntax: syntax, Summary: summary,
			Run: func(c *client, args [][]byte) {
				if c.srv.cluster == nil {
					c.call.Out.Error(route.ErrNoCluster)
					return
				}
				run(c, c.srv.cluster.Now(), args)
			}}
	}
	known := func(name string, arity int, since, syntax, summary string, run func(*client, *serving.Standing, [][]byte)) *row {
		cmd := sub(name, arity, command.Stale|command.Loading, since, syntax, summary, run)
		cmd.Complexity = "O(N) in the number of nodes"
		return cmd
	}
	refused := func(name string, arity int, since, syntax string) *row {
		return sub(name, arity, changes, since, syntax, "Returns an error: use counterctl cluster to change shards and slots.",
			func(c *client, _ *serving.Standing, _ [][]byte) { c.call.Out.Error(errByTool) })
	}
	reset := refused("reset", -2, "3.0.0", "[HARD | SOFT]")
	reset.Flags = command.Admin | command.Stale | command.NoScript
	return container("cluster", "cluster", "3.0.0", "A container for commands about the cluster.",
		known("info", 2, "3.0.0", "", "Returns the state of the cluster.", func(c *client, st *serving.Standing, _ [][]byte) {
			c.call.Out.Text(st.View(c.session.Secure()).Info(st.Reads == "" && st.Shard != nil && !st.Expired()))
		}),
		known("nodes", 2, "3.0.0", "", "Returns the nodes and their hash slots, one node per line.", func(c *client, st *serving.Standing, _ [][]byte) {
			c.call.Out.Text(st.View(c.session.Secure()).Nodes())
		}),
		known("slots", 2, "3.0.0", "", "Returns ranges of hash slots and the nodes that serve them.", func(c *client, st *serving.Standing, _ [][]byte) {
			st.View(c.session.Secure()).ReplySlots(&c.call.Out)
		}),
		known("shards", 2, "7.0.0", "", "Returns the shards with their hash slots and nodes.", func(c *client, st *serving.Standing, _ [][]byte) {
			st.View(c.session.Secure()).ReplyShards(&c.call.Out)
		}),
		known("myid", 2, "3.0.0", "", "Returns the id of this node.", func(c *client, st *serving.Standing, _ [][]byte) { c.call.Out.BulkString(string(st.Self)) }),
		known("myshardid", 2, "7.2.0", "", "Returns the id of this node's shard.", func(c *client, st *serving.Standing, _ [][]byte) {
			c.call.Out.BulkString(route.ShardName(st.ShardID()))
		}),
		known("links", 2, "7.0.0", "", "Returns an empty list: there is no cluster bus.",
			func(c *client, _ *serving.Standing, _ [][]byte) { c.call.Out.Array(0) }),
		known("keyslot", 3, "3.0.0", "key", "Returns the hash slot of a key.", func(c *client, _ *serving.Standing, args [][]byte) {
			c.call.Out.Int(int64(slot.OfKey(args[2])))
		}),
		sub("countkeysinslot", 3, command.Stale, "3.0.0", "slot", "Returns the number of posts of a hash slot on this node.", runCountKeysInSlot),
		asking(sub("getkeysinslot", 4, command.Stale, "3.0.0", "slot count", "Returns keys of posts of a hash slot on this node.", runGetKeysInSlot),
			command.AskEverything(command.NeedRead)),
		sub("count-failure-reports", 3, command.Admin|command.Stale, "3.0.0", "node-id", "Returns 0: etcd detects failed nodes, not other nodes.",
			func(c *client, st *serving.Standing, args [][]byte) {
				if st.Map.Nodes[topology.NodeID(args[2])] == nil {
					c.call.Out.Error(errUnknownNode(args[2]))
					return
				}
				c.call.Out.Int(0)
			}),
		sub("replicas", 3, command.Admin|command.Stale, "5.0.0", "node-id", "Returns the replicas of a primary in the format of CLUSTER NODES.", runClusterReplicas),
		sub("slaves", 3, command.Admin|command.Stale, "3.0.0", "node-id", "Returns the replicas of a primary in the format of CLUSTER NODES. Identical to CLUSTER REPLICAS.", runClusterReplicas),
		sub("failover", -2, changes|command.NoMulti, "3.0.0", "[FORCE | TAKEOVER | FORCE-UNCLEAN]",
			"Starts a planned failover: this replica becomes the primary of its shard, with all changes of the old primary.", runClusterFailover),
		sub("saveconfig", 2, changes, "3.0.0", "", "Returns OK: etcd stores the configuration of the cluster.", func(c *client, _ *serving.Standing, _ [][]byte) { c.call.Out.Status("OK") }),
		refused("addslots", -3, "3.0.0", "slot [slot ...]"), refused("addslotsrange", -4, "7.0.0", "start-slot end-slot [start-slot end-slot ...]"),
		refused("bumpepoch", 2, "3.0.0", ""), refused("delslots", -3, "3.0.0", "slot [slot ...]"),
		refused("delslotsrange", -4, "7.0.0", "start-slot end-slot [start-slot end-slot ...]"), refused("flushslots", 2, "3.0.0", ""),
		refused("forget", 3, "3.0.0", "node-id"), refused("meet", -4, "3.0.0", "ip port [cluster-bus-port]"), refused("replicate", 3, "3.0.0", "node-id"),
		reset, refused("set-config-epoch", 3, "3.0.0", "config-epoch"),
		refused("setslot", -4, "3.0.0", "slot state [node-id]"),
	)
}

const errByTool = "ERR the cluster is managed with counterctl cluster: use it to change shards, nodes and hash slots"

func errUnknownNode(id []byte) string { return "ERR Unknown node " + resp.Printable(id, 128) }

func readonlyCommand(name, summary string, run func(*client, [][]byte)) *row {
	return &row{Name: name, Arity: 1, Flags: command.Loading | command.Stale | command.Fast, Group: "cluster", Since: "3.0.0", Complexity: "O(1)", Summary: summary, Run: run}
}

func askingCommand() *row {
	return readonlyCommand("asking", "Returns OK. The server never sends ASK redirections.", runAsking)
}

func runReadonly(c *client, _ [][]byte) { c.setReplicaReads(true) }

func runReadwrite(c *client, _ [][]byte) { c.setReplicaReads(false) }

func (c *client) setReplicaReads(yes bool) {
	if c.srv.cluster == nil {
		c.call.Out.Error(route.ErrNoCluster)
		return
	}
	c.replicaReads = yes
	c.call.Out.Status("OK")
}

func runAsking(c *client, _ [][]byte) {
	if c.srv.cluster == nil {
		c.call.Out.Error(route.ErrNoCluster)
		return
	}
	c.call.Out.Status("OK")
}

// runClusterReplicas: CLUSTER REPLICAS node-id.
func runClusterReplicas(c *client, st *serving.Standing, args [][]byte) {
	lines, primary, ok := st.View(c.session.Secure()).Replicas(topology.NodeID(args[2]))
	switch {
	case !ok:
		c.call.Out.Error(errUnknownNode(args[2]))
	case !primary:
		c.call.Out.Error("ERR The specified node is not a master")
	default:
		c.call.Out.BulkStrings(lines)
	}
}

// runClusterFailover: CLUSTER FAILOVER [FORCE | TAKEOVER | FORCE-UNCLEAN].
func runClusterFailover(c *client, st *serving.Standing, args [][]byte) {
	how := ""
	if len(args) == 3 {
		how = strings.ToUpper(string(args[2]))
	}
	switch {
	case len(args) > 3, how != "" && how != "FORCE" && how != "TAKEOVER" && how != "FORCE-UNCLEAN":
		c.call.Out.Error(items.ErrSyntax)
		return
	case st.Primary:
		c.call.Out.Error("ERR You should send CLUSTER FAILOVER to a replica")
		return
	case st.Shard == nil, c.srv.cluster.Hooks().Failover == nil:
		c.call.Out.Error("ERR this node is of no shard")
		return
	}
	var err error
	done := false
	c.block(context.Background(), func(ctx context.Context) {
		err = c.srv.cluster.Hooks().Failover(ctx, how)
		done = !errors.Is(err, context.Canceled)
	})
	switch {
	case !done:
		c.session.Closing = true
	case err != nil:
		c.call.StoreError(err)
	default:
		c.call.Out.Status("OK")
	}
}

// slotArgument reads a hash slot.
func slotArgument(c *client, arg []byte) (of uint16, ok bool) {
	n, ok := resp.Number(arg)
	switch {
	case !ok:
		c.call.Out.Error(items.ErrNotInteger)
	case n < 0 || n >= slot.Slots:
		c.call.Out.Error("ERR Invalid slot")
		return 0, false
	}
	return uint16(n), ok
}

// runCountKeysInSlot: CLUSTER COUNTKEYSINSLOT slot.
func runCountKeysInSlot(c *client, _ *serving.Standing, args [][]byte) {
	of, ok := slotArgument(c, args[2])
	if !ok {
		return
	}
	n := 0
	if err := c.eachInSlot(of, math.MaxInt, func([]byte) { n++ }); err != nil {
		c.call.StoreError(err)
		return
	}
	c.call.Out.Int(int64(n))
}

// runGetKeysInSlot: CLUSTER GETKEYSINSLOT slot count.
func runGetKeysInSlot(c *client, _ *serving.Standing, args [][]byte) {
	of, ok := slotArgument(c, args[2])
	if !ok {
		return
	}
	count, ok := resp.Number(args[3])
	switch {
	case !ok:
		c.call.Out.Error(items.ErrNotInteger)
		return
	case count < 0:
		c.call.Out.Error("ERR Invalid slot or number of keys")
		return
	}
	var keys [][]byte
	if err := c.eachInSlot(of, int(count), func(key []byte) { keys = append(keys, key) }); err != nil {
		c.call.StoreError(err)
		return
	}
	c.call.Out.Array(len(keys))
	for _, k := range keys {
		c.call.Out.Bulk(k)
	}
}

// errGone says that the client has gone: nobody reads the answer.
var errGone = errors.New("the connection has ended")

// eachInSlot calls f with the keys of posts in a slot, most of them at most. It takes turns with other walks, in steps.
func (c *client) eachInSlot(of uint16, most int, f func(key []byte)) error {
	if most == 0 {
		return nil
	}
	conn := datasetConn{&c.call, c.internal}
	step := func(cursor uint64) (next uint64, err error) {
		err = c.call.withStore(false, func(b *counter.Batch) error {
			var list []counter.ScanItem
			list, next, err = b.Scan(nil, cursor, slotStep)
			for _, it := range list {
				if slot.Of(it.Mid) == of && most > 0 {
					f(conn.AppendKey(nil, b.Schema(), it.Counter, schema.WholeItem, it.Mid))
					most--
				}
			}
			return err
		})
		return next, err
	}
	if c.call.executing {
		return errSlotHeld
	}
	err := errGone
	conn.Busy(func(ctx context.Context) {
		cursor, ends := uint64(0), func(uint64) bool { return false }
		if group := slot.GroupOf(of); c.call.store.SlotGroups() { // its posts stand together
			cursor = slot.Least(group, 0)
			ends = func(cursor uint64) bool { return slot.Group(cursor) != group }
		}
		for {
			if cursor, err = step(cursor); err != nil || cursor == 0 || ends(cursor&math.MaxInt64) || most == 0 || ctx.Err() != nil {
				return
			}
			runtime.Gosched() // or it would keep a processor for 10 ms at a time
		}
	})
	return err
}

// slotStep is how many posts are looked at before others have their turn.
const slotStep = 1000

var errSlotHeld = items.Refusal("ERR posts of a hash slot are not looked for in a transaction, which keeps others waiting")

// mode is what INFO and HELLO say of it. Clients of the forward port are to know of no cluster.
func (c *call) mode() string {
	if c.srv.cluster != nil && c.session.Port() != front.Forward {
		return "cluster"
	}
	return "standalone"
}

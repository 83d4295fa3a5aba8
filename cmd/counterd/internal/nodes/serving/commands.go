package serving

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// CLUSTER, READONLY, READWRITE and ASKING. Package route makes their replies.

// Conn is the part of a connection that these commands use.
type Conn interface {
	// Call has its replies.
	Call() *items.Call
	// Member is the node's part in its cluster; nil: it is of none.
	Member() *Member
	// Secure tells whether the connection came by TLS.
	Secure() bool
	// SetReplicaReads is READONLY and READWRITE.
	SetReplicaReads(yes bool)
	// Block runs wait, which may take its time. Its context ends with the connection and with the server.
	Block(wait func(ctx context.Context))
	// End closes the connection after all replies are sent.
	CloseConnection()
	// EachKey calls f with the keys of posts in a slot, most of them at most.
	EachKey(of uint16, most int, f func(key []byte)) error
}

// Commands are the rows of CLUSTER, COUNTER.MOVE, READONLY, READWRITE and ASKING, for a table whose handlers see a C: on gives
// what the handlers here see of it.
func Commands[C any](on func(C) Conn) []*command.Row[C] {
	return []*command.Row[C]{
		clusterRow(on), moveRow(on),
		connectionRow(on, "readonly", "Allows reads from a replica on this connection. They may return older values.", runReadonly),
		connectionRow(on, "readwrite", "Ends READONLY mode of this connection.", runReadwrite),
		connectionRow(on, "asking", "Returns OK. The server never sends ASK redirections.", runAsking),
	}
}

// clusterRow is CLUSTER. Commands that change a Redis Cluster get a reply that names the tool for it here.
func clusterRow[C any](on func(C) Conn) *command.Row[C] {
	const changes = command.Admin | command.Stale | command.NoAsyncLoading
	sub := func(name string, arity int, flags command.Flags, since, syntax, summary string, run func(Conn, *Standing, [][]byte)) *command.Row[C] {
		return &command.Row[C]{Name: "cluster|" + name, Arity: arity, Flags: flags, Group: "cluster", Since: since, Complexity: "O(1)", Syntax: syntax, Summary: summary,
			Run: func(of C, args [][]byte) {
				c := on(of)
				if c.Member() == nil {
					c.Call().Out.Error(route.ErrNoCluster)
					return
				}
				run(c, c.Member().Now(), args)
			}}
	}
	known := func(name string, arity int, since, syntax, summary string, run func(Conn, *Standing, [][]byte)) *command.Row[C] {
		cmd := sub(name, arity, command.Stale|command.Loading, since, syntax, summary, run)
		cmd.Complexity = "O(N) in the number of nodes"
		return cmd
	}
	refused := func(name string, arity int, since, syntax string) *command.Row[C] {
		return sub(name, arity, changes, since, syntax, "Returns an error: use counterctl cluster to change shards and slots.",
			func(c Conn, _ *Standing, _ [][]byte) { c.Call().Out.Error(errByTool) })
	}
	reset := refused("reset", -2, "3.0.0", "[HARD | SOFT]")
	reset.Flags = command.Admin | command.Stale | command.NoScript
	return command.Container(func(c C) *resp.Replies { return &on(c).Call().Out }, "cluster", "cluster", "3.0.0", "A container for commands about the cluster.",
		known("info", 2, "3.0.0", "", "Returns the state of the cluster.", func(c Conn, st *Standing, _ [][]byte) {
			c.Call().Out.Text(st.View(c.Secure()).Info(st.Reads == "" && st.Shard != nil && !st.Expired()))
		}),
		known("nodes", 2, "3.0.0", "", "Returns the nodes and their hash slots, one node per line.", func(c Conn, st *Standing, _ [][]byte) {
			c.Call().Out.Text(st.View(c.Secure()).Nodes())
		}),
		known("slots", 2, "3.0.0", "", "Returns ranges of hash slots and the nodes that serve them.", func(c Conn, st *Standing, _ [][]byte) {
			st.View(c.Secure()).ReplySlots(&c.Call().Out)
		}),
		known("shards", 2, "7.0.0", "", "Returns the shards with their hash slots and nodes.", func(c Conn, st *Standing, _ [][]byte) {
			st.View(c.Secure()).ReplyShards(&c.Call().Out)
		}),
		known("myid", 2, "3.0.0", "", "Returns the id of this node.", func(c Conn, st *Standing, _ [][]byte) { c.Call().Out.BulkString(string(st.Self)) }),
		known("myshardid", 2, "7.2.0", "", "Returns the id of this node's shard.", func(c Conn, st *Standing, _ [][]byte) {
			c.Call().Out.BulkString(route.ShardName(st.ShardID()))
		}),
		known("links", 2, "7.0.0", "", "Returns an empty list: there is no cluster bus.",
			func(c Conn, _ *Standing, _ [][]byte) { c.Call().Out.Array(0) }),
		known("keyslot", 3, "3.0.0", "key", "Returns the hash slot of a key.", func(c Conn, _ *Standing, args [][]byte) {
			c.Call().Out.Int(int64(slot.OfKey(args[2])))
		}),
		sub("countkeysinslot", 3, command.Stale, "3.0.0", "slot", "Returns the number of posts of a hash slot on this node.", runCountKeysInSlot),
		command.Asking(sub("getkeysinslot", 4, command.Stale, "3.0.0", "slot count", "Returns keys of posts of a hash slot on this node.", runGetKeysInSlot),
			command.AskEverything(command.NeedRead)),
		sub("count-failure-reports", 3, command.Admin|command.Stale, "3.0.0", "node-id", "Returns 0: etcd detects failed nodes, not other nodes.",
			func(c Conn, st *Standing, args [][]byte) {
				if st.Map.Nodes[topology.NodeID(args[2])] == nil {
					c.Call().Out.Error(errUnknownNode(args[2]))
					return
				}
				c.Call().Out.Int(0)
			}),
		sub("replicas", 3, command.Admin|command.Stale, "5.0.0", "node-id", "Returns the replicas of a primary in the format of CLUSTER NODES.", runClusterReplicas),
		sub("slaves", 3, command.Admin|command.Stale, "3.0.0", "node-id", "Returns the replicas of a primary in the format of CLUSTER NODES. Identical to CLUSTER REPLICAS.", runClusterReplicas),
		sub("failover", -2, changes|command.NoMulti, "3.0.0", "[FORCE | TAKEOVER | FORCE-UNCLEAN]",
			"Starts a planned failover: this replica becomes the primary of its shard, with all changes of the old primary.", runClusterFailover),
		sub("saveconfig", 2, changes, "3.0.0", "", "Returns OK: etcd stores the configuration of the cluster.", func(c Conn, _ *Standing, _ [][]byte) { c.Call().Out.Status("OK") }),
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

func connectionRow[C any](on func(C) Conn, name, summary string, run func(Conn, [][]byte)) *command.Row[C] {
	return &command.Row[C]{Name: name, Arity: 1, Flags: command.Loading | command.Stale | command.Fast, Group: "cluster", Since: "3.0.0", Complexity: "O(1)", Summary: summary,
		Run: func(c C, args [][]byte) { run(on(c), args) }}
}

func runReadonly(c Conn, _ [][]byte) { setReplicaReads(c, true) }

func runReadwrite(c Conn, _ [][]byte) { setReplicaReads(c, false) }

func setReplicaReads(c Conn, yes bool) {
	if c.Member() == nil {
		c.Call().Out.Error(route.ErrNoCluster)
		return
	}
	c.SetReplicaReads(yes)
	c.Call().Out.Status("OK")
}

func runAsking(c Conn, _ [][]byte) {
	if c.Member() == nil {
		c.Call().Out.Error(route.ErrNoCluster)
		return
	}
	c.Call().Out.Status("OK")
}

// runClusterReplicas: CLUSTER REPLICAS node-id.
func runClusterReplicas(c Conn, st *Standing, args [][]byte) {
	lines, primary, ok := st.View(c.Secure()).Replicas(topology.NodeID(args[2]))
	switch {
	case !ok:
		c.Call().Out.Error(errUnknownNode(args[2]))
	case !primary:
		c.Call().Out.Error("ERR The specified node is not a master")
	default:
		c.Call().Out.BulkStrings(lines)
	}
}

// runClusterFailover: CLUSTER FAILOVER [FORCE | TAKEOVER | FORCE-UNCLEAN].
func runClusterFailover(c Conn, st *Standing, args [][]byte) {
	how := ""
	if len(args) == 3 {
		how = strings.ToUpper(string(args[2]))
	}
	switch {
	case len(args) > 3, how != "" && how != "FORCE" && how != "TAKEOVER" && how != "FORCE-UNCLEAN":
		c.Call().Out.Error(items.ErrSyntax)
		return
	case st.Primary:
		c.Call().Out.Error("ERR You should send CLUSTER FAILOVER to a replica")
		return
	case st.Shard == nil, c.Member().Hooks().Failover == nil:
		c.Call().Out.Error("ERR this node is of no shard")
		return
	}
	var err error
	done := false
	c.Block(func(ctx context.Context) {
		err = c.Member().Hooks().Failover(ctx, how)
		done = !errors.Is(err, context.Canceled)
	})
	switch {
	case !done:
		c.CloseConnection()
	case err != nil:
		c.Call().StoreError(err)
	default:
		c.Call().Out.Status("OK")
	}
}

// slotArgument reads a hash slot.
func slotArgument(c Conn, arg []byte) (of uint16, ok bool) {
	n, ok := resp.Number(arg)
	switch {
	case !ok:
		c.Call().Out.Error(items.ErrNotInteger)
	case n < 0 || n >= slot.Slots:
		c.Call().Out.Error("ERR Invalid slot")
		return 0, false
	}
	return uint16(n), ok
}

// runCountKeysInSlot: CLUSTER COUNTKEYSINSLOT slot.
func runCountKeysInSlot(c Conn, _ *Standing, args [][]byte) {
	of, ok := slotArgument(c, args[2])
	if !ok {
		return
	}
	n := 0
	if err := c.EachKey(of, math.MaxInt, func([]byte) { n++ }); err != nil {
		c.Call().StoreError(err)
		return
	}
	c.Call().Out.Int(int64(n))
}

// runGetKeysInSlot: CLUSTER GETKEYSINSLOT slot count.
func runGetKeysInSlot(c Conn, _ *Standing, args [][]byte) {
	of, ok := slotArgument(c, args[2])
	if !ok {
		return
	}
	count, ok := resp.Number(args[3])
	switch {
	case !ok:
		c.Call().Out.Error(items.ErrNotInteger)
		return
	case count < 0:
		c.Call().Out.Error("ERR Invalid slot or number of keys")
		return
	}
	var keys [][]byte
	if err := c.EachKey(of, int(count), func(key []byte) { keys = append(keys, key) }); err != nil {
		c.Call().StoreError(err)
		return
	}
	c.Call().Out.Array(len(keys))
	for _, k := range keys {
		c.Call().Out.Bulk(k)
	}
}

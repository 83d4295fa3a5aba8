package command

import (
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// The parts of COMMAND's reply that are not in a command's row: as in Redis 7, by the command's name if there is no
// rule.

// flagList are the names of the command's flags.
func (cmd *Row[C]) flagList() []string {
	var names []string
	for _, f := range flagNames {
		if cmd.Flags&^cmd.Hidden&f.flag != 0 {
			names = append(names, f.name)
		}
	}
	return names
}

// categoryNames are those of Redis, in its order, and behind them that of counterd's own commands. Some have no command
// here: a list of users may name them all the same.
var categoryNames = []string{"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream", "pubsub",
	"admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting", "counter"}

// IsCategory tells whether there is a category of that name, in lower case and without its @.
func IsCategory(name string) bool { return slices.Contains(categoryNames, name) }

// groupCategory is the category that comes with a group of commands.
var groupCategory = map[string]string{
	"generic": "keyspace", "hash": "hash", "string": "string", "pubsub": "pubsub", "connection": "connection", "transactions": "transaction", "scripting": "scripting",
	"counterd": "counter",
}

// in tells whether the command belongs to an ACL category.
func (cmd *Row[C]) in(category string) bool {
	container := cmd.Sub != nil && cmd.Run == nil // its subcommands belong somewhere
	keyspace := cmd.Is("dbsize") || cmd.Is("flushall") || cmd.Is("flushdb")
	connection := cmd.Is("wait") || cmd.Is("readonly") || cmd.Is("readwrite") || cmd.Is("asking") || strings.HasPrefix(cmd.Name, "command")
	switch category {
	case "read":
		return cmd.Flags&ReadOnly != 0 && cmd.Group != "scripting"
	case "write":
		return cmd.Flags&Write != 0
	case "admin":
		return cmd.Flags&Admin != 0 || cmd.Is("lastsave") || cmd.Is("role")
	case "dangerous":
		// COUNTER.UPDATE can empty a counter by one command, as FLUSHALL empties all.
		return cmd.in("admin") || cmd.Is("keys") || cmd.Is("flushall") || cmd.Is("flushdb") || cmd.Is("info") || cmd.Is("counter.update")
	case "fast":
		return cmd.Flags&Fast != 0
	case "slow":
		return cmd.Flags&Fast == 0
	case "keyspace":
		return keyspace || groupCategory[cmd.Group] == category && !container && !connection
	case "pubsub":
		return cmd.Group == category && !container && !strings.HasSuffix(cmd.Name, "|help")
	case "connection":
		return connection || groupCategory[cmd.Group] == category && !container
	}
	return groupCategory[cmd.Group] == category && !container
}

func (cmd *Row[C]) categories() []string {
	var names []string
	for _, name := range categoryNames {
		if cmd.in(name) {
			names = append(names, "@"+name)
		}
	}
	return names
}

// keyFlags says what the command does to its keys, in the words of Redis's key specifications.
func (cmd *Row[C]) keyFlags() []string {
	switch cmd.Name {
	case "del", "unlink":
		return []string{"RM", "delete"}
	case "mset":
		return []string{"OW", "update"}
	case "setnx":
		return []string{"OW", "insert"}
	case "hset", "hmset", "expire", "pexpire", "expireat", "pexpireat", "persist":
		return []string{"RW", "update"}
	case "hsetnx":
		return []string{"RW", "insert"}
	case "hdel":
		return []string{"RW", "delete"}
	case "getdel":
		return []string{"RW", "access", "delete"}
	case "set":
		return []string{"RW", "access", "update", "variable_flags"}
	case "ssubscribe", "sunsubscribe", "spublish":
		return []string{"not_key"}
	case "strlen", "hexists", "hlen", "hstrlen", "exists", "touch", "type", "memory|usage":
		return []string{"RO"}
	}
	switch {
	case cmd.Flags&Write != 0:
		return []string{"RW", "access", "update"}
	case cmd.Flags&ReadOnly != 0 && !strings.HasPrefix(cmd.Name, "object"):
		return []string{"RO", "access"}
	}
	return []string{"RO"}
}

// keyFlagsOf is keyFlags for a whole command: the flags of SET depend on GET.
func (cmd *Row[C]) keyFlagsOf(args [][]byte) []string {
	if !cmd.Is("set") {
		return cmd.keyFlags()
	}
	if setGets(args) {
		return []string{"RW", "access", "update"}
	}
	return []string{"OW", "update"}
}

// setGets tells whether SET is to answer the value before.
func setGets(args [][]byte) bool {
	return slices.ContainsFunc(args[min(3, len(args)):], func(a []byte) bool { return resp.EqualFold(a, "GET") })
}

// tips tell programs between clients and a number of nodes how to pass a command on. They are those of Redis 7.4: without the response
// policies that 7.0 lacks, go-redis cannot read RANDOMKEY of a cluster.
func (cmd *Row[C]) tips() []string {
	switch cmd.Name {
	case "mget":
		return []string{"request_policy:multi_shard"}
	case "mset":
		return []string{"request_policy:multi_shard", "response_policy:all_succeeded"}
	case "del", "unlink", "exists", "touch":
		return []string{"request_policy:multi_shard", "response_policy:agg_sum"}
	case "hgetall", "hkeys", "hvals", "command", "command|info", "command|docs", "command|list", "module|list", "function|list":
		return []string{"nondeterministic_output_order"}
	case "hscan", "ttl", "pttl", "lastsave", "client|list", "client|info", "object|encoding", "object|refcount", "object|idletime", "object|freq", "time", "cluster|myshardid":
		return []string{"nondeterministic_output"}
	case "cluster|links", "cluster|bumpepoch", "cluster|replicas", "cluster|slaves", "cluster|nodes", "cluster|shards", "cluster|getkeysinslot", "cluster|slots",
		"cluster|info", "cluster|count-failure-reports":
		return []string{"nondeterministic_output"}
	case "keys":
		return []string{"request_policy:all_shards", "nondeterministic_output_order"}
	case "randomkey":
		return []string{"request_policy:all_shards", "response_policy:special", "nondeterministic_output"}
	case "scan":
		return []string{"nondeterministic_output", "request_policy:special", "response_policy:special"}
	case "dbsize", "counter.droprange":
		return []string{"request_policy:all_shards", "response_policy:agg_sum"}
	case "wait", "waitaof":
		return []string{"request_policy:all_shards", "response_policy:agg_min"}
	case "flushall", "flushdb", "ping", "memory|purge", "function|flush":
		return []string{"request_policy:all_shards", "response_policy:all_succeeded"}
	case "config|set", "config|resetstat", "config|rewrite", "slowlog|reset", "acl|setuser", "acl|deluser", "acl|save", "client|setname", "client|setinfo":
		return []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	case "latency|reset":
		return []string{"request_policy:all_nodes", "response_policy:agg_sum"}
	case "slowlog|get":
		return []string{"request_policy:all_nodes", "nondeterministic_output"}
	case "slowlog|len":
		return []string{"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"}
	case "latency|histogram", "latency|latest", "latency|history", "latency|graph", "latency|doctor":
		return []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"}
	case "memory|stats", "memory|doctor", "memory|malloc-stats", "info":
		return []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}
	}
	return nil
}

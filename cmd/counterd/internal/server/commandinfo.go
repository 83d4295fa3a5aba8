package server

import (
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/glob"
	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
)

// COMMAND: the table as clients read it. go-redis and redis-py in cluster mode find keys by it and refuse commands that
// are not listed; redis-cli makes its help from COMMAND DOCS (commanddoc.go).

func commandCommand() *command {
	const flags = loading | stale
	cmd := container("command", "server", "2.8.13", "Describes commands.",
		&command{name: "command|count", arity: 2, flags: flags, group: "server", since: "2.8.13", complexity: "O(1)",
			summary: "Returns the number of commands.", run: runCommandCount},
		&command{name: "command|info", arity: -2, flags: flags, group: "server", since: "2.8.13", complexity: "O(N)", syntax: "[command-name [command-name ...]]",
			summary: "Describes some commands, or all, for programs.", run: runCommandInfo},
		&command{name: "command|docs", arity: -2, flags: flags, group: "server", since: "7.0.0", complexity: "O(N)", syntax: "[command-name [command-name ...]]",
			summary: "Describes some commands, or all, for people.", run: runCommandDocs},
		&command{name: "command|list", arity: -2, flags: flags, group: "server", since: "7.0.0", complexity: "O(number of commands)",
			syntax: "[FILTERBY MODULE module-name | FILTERBY ACLCAT category | FILTERBY PATTERN pattern]", summary: "Returns the names of commands.", run: runCommandList},
		&command{name: "command|getkeys", arity: -4, flags: flags, group: "server", since: "2.8.13", complexity: "O(N)", syntax: "command argument [argument ...]",
			summary: "Returns the keys in a whole command.", run: runCommandGetKeys},
		&command{name: "command|getkeysandflags", arity: -4, flags: flags, group: "server", since: "7.0.0", complexity: "O(N)", syntax: "command argument [argument ...]",
			summary: "Returns the keys in a whole command, and what it does to them.", run: runCommandGetKeysAndFlags},
	)
	cmd.arity, cmd.flags, cmd.run = -1, flags, runCommand
	return cmd
}

// each calls f for all commands, subcommands behind their container.
func (t *commands) each(f func(*command)) {
	for _, cmd := range t.list {
		cmd.each(f)
	}
}

func (cmd *command) each(f func(*command)) {
	f(cmd)
	for _, s := range cmd.sub {
		f(s)
	}
}

// lookup finds a command, or a subcommand by "config|get", in any case.
func (t *commands) lookup(name []byte) *command {
	first, second, found := strings.Cut(string(name), "|")
	cmd := t.find([]byte(first))
	if cmd != nil && found {
		return cmd.subcommand([]byte(second))
	}
	return cmd
}

// calls is how many commands were executed.
func (t *commands) calls() (n int64) {
	t.each(func(cmd *command) { n += cmd.calls.Load() })
	return n
}

// flagList are the names of the command's flags.
func (cmd *command) flagList() []string {
	var names []string
	for _, f := range flagNames {
		if cmd.flags&f.flag != 0 {
			names = append(names, f.name)
		}
	}
	return names
}

// categoryNames are those of Redis whose commands exist here, in its order.
var categoryNames = []string{"keyspace", "read", "write", "hash", "string", "pubsub", "admin", "fast", "slow", "dangerous", "connection", "transaction", "scripting"}

// groupCategory is the category that comes with a group of commands.
var groupCategory = map[string]string{
	"generic": "keyspace", "hash": "hash", "string": "string", "pubsub": "pubsub", "connection": "connection", "transactions": "transaction", "scripting": "scripting",
}

// in tells whether the command belongs to an ACL category.
func (cmd *command) in(category string) bool {
	container := cmd.sub != nil && cmd.run == nil // its subcommands belong somewhere
	keyspace := cmd.is("dbsize") || cmd.is("flushall") || cmd.is("flushdb")
	connection := cmd.is("wait") || cmd.is("readonly") || cmd.is("readwrite") || cmd.is("asking") || strings.HasPrefix(cmd.name, "command")
	switch category {
	case "read":
		return cmd.flags&readonly != 0
	case "write":
		return cmd.flags&write != 0
	case "admin":
		return cmd.flags&admin != 0 || cmd.is("lastsave") || cmd.is("role")
	case "dangerous":
		return cmd.in("admin") || cmd.is("flushall") || cmd.is("flushdb") || cmd.is("info")
	case "fast":
		return cmd.flags&fast != 0
	case "slow":
		return cmd.flags&fast == 0
	case "keyspace":
		return keyspace || groupCategory[cmd.group] == category && !container && !connection
	case "connection":
		return connection || groupCategory[cmd.group] == category && !container
	}
	return groupCategory[cmd.group] == category && !container
}

func (cmd *command) categories() []string {
	var names []string
	for _, name := range categoryNames {
		if cmd.in(name) {
			names = append(names, "@"+name)
		}
	}
	return names
}

// keyFlags says what the command does to its keys, in the words of Redis's key specifications.
func (cmd *command) keyFlags() []string {
	switch cmd.name {
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
	case "strlen", "hexists", "hlen", "hstrlen", "exists", "touch", "type":
		return []string{"RO"}
	}
	switch {
	case cmd.flags&write != 0:
		return []string{"RW", "access", "update"}
	case cmd.plan != nil && cmd.flags&readonly != 0 && !strings.HasPrefix(cmd.name, "object"):
		return []string{"RO", "access"}
	}
	return []string{"RO"}
}

// keyFlagsOf is keyFlags for a whole command: what SET does to its key depends on GET.
func (cmd *command) keyFlagsOf(args [][]byte) []string {
	if !cmd.is("set") {
		return cmd.keyFlags()
	}
	for _, a := range args[3:] {
		if resp.EqualFold(a, "GET") {
			return []string{"RW", "access", "update"}
		}
	}
	return []string{"OW", "update"}
}

// tips tell programs between clients and a number of nodes how to pass a command on.
func (cmd *command) tips() []string {
	switch cmd.name {
	case "mget":
		return []string{"request_policy:multi_shard"}
	case "mset":
		return []string{"request_policy:multi_shard", "response_policy:all_succeeded"}
	case "del", "unlink", "exists", "touch":
		return []string{"request_policy:multi_shard", "response_policy:agg_sum"}
	case "hgetall", "hkeys", "hvals", "command", "command|info", "command|docs", "command|list", "module|list", "function|list":
		return []string{"nondeterministic_output_order"}
	case "hscan", "ttl", "pttl", "lastsave", "client|list", "client|info", "object|encoding", "object|refcount", "object|idletime", "object|freq", "time":
		return []string{"nondeterministic_output"}
	case "scan":
		return []string{"nondeterministic_output", "request_policy:special"}
	case "dbsize":
		return []string{"request_policy:all_shards", "response_policy:agg_sum"}
	case "wait":
		return []string{"request_policy:all_shards", "response_policy:agg_min"}
	case "flushall", "flushdb", "ping", "memory|purge", "function|flush":
		return []string{"request_policy:all_shards", "response_policy:all_succeeded"}
	case "config|set", "slowlog|reset", "latency|reset":
		return []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
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

// statusSet appends words as simple strings: redis-cli 7.0 aborts on bulk strings there.
func (c *client) statusSet(words []string) {
	c.Out.Set(len(words))
	for _, w := range words {
		c.Out.Status(w)
	}
}

// describe appends the entry of COMMAND INFO: ten elements, as clients of the cluster kind want it.
func (c *client) describe(cmd *command) {
	c.Out.Array(10)
	c.Out.BulkString(cmd.name)
	c.Out.Int(int64(cmd.arity))
	c.statusSet(cmd.flagList())
	c.Out.Int(int64(cmd.first))
	c.Out.Int(int64(cmd.last))
	c.Out.Int(int64(cmd.step))
	c.statusSet(cmd.categories())
	tips := cmd.tips()
	c.Out.Set(len(tips))
	for _, tip := range tips {
		c.Out.BulkString(tip)
	}
	c.keySpec(cmd)
	c.Out.Array(len(cmd.sub))
	for _, s := range cmd.sub {
		c.describe(s)
	}
}

// keySpec appends where the keys are, in the form of Redis 7: where to begin, and how to go on from there.
func (c *client) keySpec(cmd *command) {
	if cmd.first == 0 {
		c.Out.Set(0)
		return
	}
	last := cmd.last
	if last > 0 {
		last -= cmd.first // relative to the first
	}
	c.Out.Set(1)
	if cmd.is("set") {
		c.Out.Map(4)
		c.Out.BulkString("notes")
		c.Out.BulkString("RW and ACCESS due to the optional `GET` argument")
	} else {
		c.Out.Map(3)
	}
	c.Out.BulkString("flags")
	c.statusSet(cmd.keyFlags())
	part := func(name, kind string, fields ...any) {
		c.Out.BulkString(name)
		c.Out.Map(2)
		c.Out.BulkString("type")
		c.Out.BulkString(kind)
		c.Out.BulkString("spec")
		c.Out.Map(len(fields) / 2)
		for i := 0; i < len(fields); i += 2 {
			c.Out.BulkString(fields[i].(string))
			c.Out.Int(int64(fields[i+1].(int)))
		}
	}
	part("begin_search", "index", "index", cmd.first)
	part("find_keys", "range", "lastkey", last, "keystep", cmd.step, "limit", 0)
}

// runCommand: COMMAND without a subcommand.
func runCommand(c *client, _ [][]byte) {
	list := c.srv.commands.list
	c.Out.Array(len(list))
	for _, cmd := range list {
		c.describe(cmd)
	}
}

func runCommandCount(c *client, _ [][]byte) { c.Out.Int(int64(len(c.srv.commands.list))) }

// runCommandInfo: COMMAND INFO [name ...]; null for a name that is unknown.
func runCommandInfo(c *client, args [][]byte) {
	if len(args) == 2 {
		runCommand(c, nil)
		return
	}
	c.Out.Array(len(args) - 2)
	for _, name := range args[2:] {
		if cmd := c.srv.commands.lookup(name); cmd != nil {
			c.describe(cmd)
		} else {
			c.Out.Null()
		}
	}
}

// runCommandList: COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern].
func runCommandList(c *client, args [][]byte) {
	keep := func(*command) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) != 5 || !resp.EqualFold(args[2], "FILTERBY"):
		c.Out.Error(items.ErrSyntax)
		return
	case resp.EqualFold(args[3], "MODULE"):
		keep = func(*command) bool { return false }
	case resp.EqualFold(args[3], "ACLCAT"):
		category := strings.ToLower(string(args[4]))
		keep = func(cmd *command) bool { return slices.Contains(categoryNames, category) && cmd.in(category) }
	case resp.EqualFold(args[3], "PATTERN"):
		pattern := strings.ToLower(string(args[4]))
		keep = func(cmd *command) bool { return glob.Match(pattern, cmd.name) }
	default:
		c.Out.Error(items.ErrSyntax)
		return
	}
	c.names(keep)
}

// names appends a set of the names of commands and subcommands.
func (c *client) names(keep func(*command) bool) {
	var list []string
	c.srv.commands.each(func(cmd *command) {
		if keep(cmd) {
			list = append(list, cmd.name)
		}
	})
	c.Out.BulkStrings(list)
}

// keys finds the keys in a whole command; text is the error.
func (t *commands) keys(args [][]byte) (cmd *command, keys [][]byte, text string) {
	cmd = t.find(args[0])
	if cmd != nil && cmd.sub != nil && len(args) > 1 {
		cmd = cmd.subcommand(args[1])
	}
	switch {
	case cmd == nil:
		return nil, nil, "ERR Invalid command specified"
	case cmd.first == 0:
		return nil, nil, "ERR The command has no key arguments"
	case !cmd.arityOK(len(args)):
		return nil, nil, "ERR Invalid number of arguments specified for command"
	}
	last := cmd.last
	if last < 0 {
		last += len(args)
	}
	for i := cmd.first; i <= last; i += cmd.step {
		keys = append(keys, args[i])
	}
	return cmd, keys, ""
}

func runCommandGetKeys(c *client, args [][]byte) {
	_, keys, text := c.srv.commands.keys(args[2:])
	if text != "" {
		c.Out.Error(text)
		return
	}
	c.Out.Array(len(keys))
	for _, k := range keys {
		c.Out.Bulk(k)
	}
}

func runCommandGetKeysAndFlags(c *client, args [][]byte) {
	cmd, keys, text := c.srv.commands.keys(args[2:])
	if text != "" {
		c.Out.Error(text)
		return
	}
	c.Out.Array(len(keys))
	for _, k := range keys {
		c.Out.Array(2)
		c.Out.Bulk(k)
		c.statusSet(cmd.keyFlagsOf(args[2:]))
	}
}

// ACL: there is one user, default, who may do everything.

func aclCommand() *command {
	return container("acl", "server", "6.0.0", "There is one user, who may do everything.",
		&command{name: "acl|whoami", arity: 2, flags: noscript | loading | stale, group: "server", since: "6.0.0", complexity: "O(1)",
			summary: "Returns default.", run: func(c *client, _ [][]byte) { c.Out.BulkString("default") }},
		&command{name: "acl|cat", arity: -2, flags: noscript | loading | stale, group: "server", since: "6.0.0", complexity: "O(number of commands)", syntax: "[category]",
			summary: "Returns the categories of commands, or the commands of one.", run: runACLCat},
	)
}

func runACLCat(c *client, args [][]byte) {
	switch len(args) {
	case 2:
		c.Out.BulkStrings(categoryNames)
	case 3:
		category := strings.ToLower(string(args[2]))
		if !slices.Contains(categoryNames, category) {
			c.Out.Error("ERR Unknown category '" + resp.Printable(args[2], 128) + "'")
			return
		}
		c.names(func(cmd *command) bool { return cmd.in(category) })
	default:
		c.Out.Error("ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.")
	}
}

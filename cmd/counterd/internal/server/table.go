package server

import (
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/admin"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/dataset"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/feed"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/find"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
)

// onTable gives the commands that the table answers what they work on.
func onTable(h front.Handler) (*commands, *resp.Replies) {
	c := h.(*client)
	return c.srv.commands, &c.call.items.Out
}

// allRows lists all commands. Each row is complete: the facts about a command for COMMAND, COMMAND DOCS and INFO are
// here and nowhere else.
func allRows() []*row {
	var all []*row
	all = append(all, stringCommands()...)
	all = append(all, hashCommands()...)
	all = append(all, keyCommands()...)
	all = append(all, counterCommands()...)
	all = append(all, find.Commands(onFind)...)
	all = append(all, feed.Commands(onFeed)...)
	all = append(all, dataset.Commands(onDataset)...)
	all = append(all, command.Commands(onTable)...)
	all = append(all, transactionCommands()...)
	all = append(all, connectionCommands()...)
	all = append(all, pubsubCommands()...)
	all = append(all, serverCommands()...)
	all = append(all, serving.Commands(onMember)...)
	all = append(all, gatherCommands()...)
	for _, cmd := range all {
		cmd.Each(func(cmd *row) { cmd.Hidden = hidden[cmd.Name] })
	}
	return all
}

// hidden are the flags of commands that Redis does not list for them. Clients compare what COMMAND INFO says.
var hidden = map[string]command.Flags{
	// A transaction cannot tell messages from replies, nor leave out some of its replies, nor carry a log.
	"subscribe": command.NoMulti, "unsubscribe": command.NoMulti, "psubscribe": command.NoMulti, "punsubscribe": command.NoMulti, "ssubscribe": command.NoMulti,
	"sunsubscribe": command.NoMulti, "monitor": command.NoMulti, "client|reply": command.NoMulti, "replconf": command.NoMulti,
	// It keeps others waiting, and so the failover.
	"cluster|failover": command.NoMulti,
	// The cluster, or that there is none, is known while data is loaded.
	"asking": command.Loading | command.Stale, "cluster|info": command.Loading, "cluster|nodes": command.Loading, "cluster|slots": command.Loading,
	"cluster|shards": command.Loading, "cluster|myid": command.Loading, "cluster|links": command.Loading, "cluster|keyslot": command.Loading,
}

func stringCommands() []*row {
	return []*row{
		{Name: "get", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the value of a counter.", Syntax: "key", Plan: items.Get, PlanEach: items.GetEach},
		{Name: "mget", Arity: -2, Flags: command.ReadOnly | command.Fast, First: 1, Last: -1, Step: 1, Group: "string", Since: "1.0.0", Complexity: "O(N)",
			Summary: "Returns the values of several counters.", Syntax: "key [key ...]", Plan: items.MGet},
		{Name: "set", Arity: -3, Flags: command.Write | command.Idmp | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Sets a counter to an integer.", Syntax: "key value [NX | XX] [GET] [KEEPTTL]" + command.IdmpSyntax, Plan: items.Set},
		{Name: "mset", Arity: -3, Flags: command.Write | command.Idmp | command.DenyOOM, First: 1, Last: -1, Step: 2, Group: "string", Since: "1.0.1", Complexity: "O(N)",
			Summary: "Sets several counters as one change. An invalid key or value changes nothing.", Syntax: "key value [key value ...]" + command.IdmpSyntax, Plan: items.MSet},
		{Name: "setnx", Arity: 3, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Sets a counter if its post does not exist.", Syntax: "key value" + command.IdmpSyntax, Plan: items.SetNX},
		{Name: "getset", Arity: 3, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Sets a counter and returns its previous value.", Syntax: "key value" + command.IdmpSyntax, Plan: items.GetSet},
		{Name: "getdel", Arity: 2, Flags: command.Write | command.Idmp | command.Fast, First: 1, Last: 1, Step: 1, Group: "string", Since: "6.2.0", Complexity: "O(1)",
			Summary: "Returns the value of a counter and resets it to its default.", Syntax: "key" + command.IdmpSyntax, Plan: items.GetDel},
		{Name: "incr", Arity: 2, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Increments a counter by one.", Syntax: "key" + command.IdmpSyntax, Plan: items.Incr, PlanEach: items.IncrEach},
		{Name: "incrby", Arity: 3, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Increments a counter by a number.", Syntax: "key increment" + command.IdmpSyntax, Plan: items.IncrBy},
		{Name: "decr", Arity: 2, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Decrements a counter by one. A counter cannot fall below 0.", Syntax: "key" + command.IdmpSyntax, Plan: items.Decr, PlanEach: items.DecrEach},
		{Name: "decrby", Arity: 3, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Decrements a counter by a number. A counter cannot fall below 0.", Syntax: "key decrement" + command.IdmpSyntax, Plan: items.DecrBy},
		{Name: "increx", Arity: -2, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "string", Since: "8.8.0", Complexity: "O(1)",
			Summary: "Increments a counter within bounds. Returns the new value and the applied increment.",
			Syntax:  "key [BYINT increment] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] [PERSIST]" + command.IdmpSyntax, Plan: items.IncrEx},
		{Name: "strlen", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "string", Since: "2.2.0", Complexity: "O(1)",
			Summary: "Returns the number of digits of a counter.", Syntax: "key", Plan: items.Strlen},
	}
}

func hashCommands() []*row {
	return []*row{
		{Name: "hget", Arity: 3, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(1)",
			Summary: "Returns one column of a post.", Syntax: "key field", Plan: items.HGet},
		{Name: "hmget", Arity: -3, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(N)",
			Summary: "Returns several columns of a post.", Syntax: "key field [field ...]", Plan: items.HMGet},
		{Name: "hgetall", Arity: 2, Flags: command.ReadOnly, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(N)",
			Summary: "Returns all columns of a post with their names.", Syntax: "key", Plan: items.HGetAll},
		{Name: "hset", Arity: -4, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(N)",
			Summary: "Sets columns of a post as one change. An invalid field or value changes nothing.", Syntax: "key field value [field value ...]" + command.IdmpSyntax, Plan: items.HSet},
		{Name: "hmset", Arity: -4, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(N)",
			Summary: "Sets columns of a post as one change.", Syntax: "key field value [field value ...]" + command.IdmpSyntax, Plan: items.HMSet},
		{Name: "hsetnx", Arity: 4, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(1)",
			Summary: "Sets a column if the post does not exist.", Syntax: "key field value" + command.IdmpSyntax, Plan: items.HSetNX},
		{Name: "hincrby", Arity: 4, Flags: command.Write | command.Idmp | command.Fast | command.DenyOOM, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(1)",
			Summary: "Increments a column of a post by a number.", Syntax: "key field increment" + command.IdmpSyntax, Plan: items.HIncrBy},
		{Name: "hexists", Arity: 3, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(1)",
			Summary: "Returns whether a post exists and has a column.", Syntax: "key field", Plan: items.HExists},
		{Name: "hlen", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(1)",
			Summary: "Returns the number of columns of a post.", Syntax: "key", Plan: items.HLen},
		{Name: "hstrlen", Arity: 3, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "hash", Since: "3.2.0", Complexity: "O(1)",
			Summary: "Returns the number of digits of a column.", Syntax: "key field", Plan: items.HStrlen},
		{Name: "hkeys", Arity: 2, Flags: command.ReadOnly, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(N)",
			Summary: "Returns the names of the columns of a post.", Syntax: "key", Plan: items.HKeys},
		{Name: "hvals", Arity: 2, Flags: command.ReadOnly, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(N)",
			Summary: "Returns the values of the columns of a post.", Syntax: "key", Plan: items.HVals},
		{Name: "hdel", Arity: -3, Flags: command.Write | command.Idmp | command.Fast, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.0.0", Complexity: "O(N)",
			Summary: "Resets columns of a post to their defaults.", Syntax: "key field [field ...]" + command.IdmpSyntax, Plan: items.HDel},
		{Name: "hscan", Arity: -3, Flags: command.ReadOnly, First: 1, Last: 1, Step: 1, Group: "hash", Since: "2.8.0", Complexity: "O(N)",
			Summary: "Returns all columns of a post with their values, in a single call.", Syntax: "key cursor [MATCH pattern] [COUNT count]", Plan: items.HScan},
	}
}

func keyCommands() []*row {
	return []*row{
		{Name: "del", Arity: -2, Flags: command.Write | command.Idmp, First: 1, Last: -1, Step: 1, Group: "generic", Since: "1.0.0", Complexity: "O(N)",
			Summary: "Deletes posts, or resets single counters to their defaults.", Syntax: "key [key ...]" + command.IdmpSyntax, Plan: items.Del},
		{Name: "unlink", Arity: -2, Flags: command.Write | command.Idmp | command.Fast, First: 1, Last: -1, Step: 1, Group: "generic", Since: "4.0.0", Complexity: "O(N)",
			Summary: "Deletes posts, or resets single counters to their defaults. Identical to DEL.", Syntax: "key [key ...]" + command.IdmpSyntax, Plan: items.Del},
		{Name: "exists", Arity: -2, Flags: command.ReadOnly | command.Fast, First: 1, Last: -1, Step: 1, Group: "generic", Since: "1.0.0", Complexity: "O(N)",
			Summary: "Returns how many of the keys exist.", Syntax: "key [key ...]", Plan: items.Exists},
		{Name: "touch", Arity: -2, Flags: command.ReadOnly | command.Fast, First: 1, Last: -1, Step: 1, Group: "generic", Since: "3.2.1", Complexity: "O(N)",
			Summary: "Returns how many of the keys exist. Identical to EXISTS.", Syntax: "key [key ...]", Plan: items.Exists},
		{Name: "type", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the type of a key: hash for a post, string for one counter, none if the post does not exist.", Syntax: "key", Plan: items.Type},
		{Name: "ttl", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns -1 for a key that exists and -2 otherwise: counters do not expire.", Syntax: "key", Plan: items.TTL},
		{Name: "pttl", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: "2.6.0", Complexity: "O(1)",
			Summary: "Returns -1 for a key that exists and -2 otherwise: counters do not expire. Identical to TTL.", Syntax: "key", Plan: items.TTL},
	}
}

func counterCommands() []*row {
	return []*row{
		{Name: "counter.mget", Arity: -3, Flags: command.ReadOnly | command.Fast, Group: "counterd", Since: "0.1.0", Complexity: "O(N)",
			Summary: "Returns all or the named columns of several posts: the read of a timeline page.",
			Syntax:  "counter mid [mid ...] [COLUMNS column [column ...]]", Plan: items.CounterMGet, Asks: command.AskPosts},
		{Name: "counter.mset", Arity: -4, Flags: command.Write | command.Idmp | command.NoMulti, Group: "counterd", Since: "0.1.0", Complexity: "O(N)",
			Summary: "Sets all or the named columns of many posts as one change. Returns the number of posts.",
			Syntax:  "counter mid value [value ...] [mid value [value ...] ...] [COLUMNS column [column ...]]" + command.IdmpSyntax, Plan: items.CounterMSet, Asks: command.AskRows},
		{Name: "counter.mincrby", Arity: -3, Flags: command.Write | command.Idmp | command.Fast, First: 1, Last: -1, Step: 2, Group: "counterd", Since: "0.1.0", Complexity: "O(N)",
			Summary: "Increments several counters and returns their new values, or with QUIET the number of counters that changed.",
			Syntax:  "key increment [key increment ...] [QUIET]" + command.IdmpSyntax, Plan: items.CounterMIncrBy},
		{Name: "counter.drain", Arity: -2, Flags: command.Write | command.Idmp | command.Fast, First: 1, Last: -1, Step: 1, Group: "counterd", Since: "0.1.0", Complexity: "O(N)",
			Summary: "Returns the values of several counters and resets them to their defaults, as one change.",
			Syntax:  "key [key ...]" + command.IdmpSyntax, Plan: items.CounterDrain},
		{Name: "counter.producers", Arity: -1, Flags: command.ReadOnly | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(N)",
			Summary: "Lists the remembered producers of numbered commands, most recently used first. Without LIMIT, at most 10,000.", Syntax: "[LIMIT count]", Run: onClient(runProducers), Asks: command.NoData},
		idmpCommand(),
	}
}

func transactionCommands() []*row {
	return []*row{
		{Name: "multi", Arity: 1, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.Now | command.AllowBusy, Group: "transactions", Since: "1.2.0", Complexity: "O(1)",
			Summary: "Starts a transaction: the following commands are queued for EXEC.", Run: onClient(runMulti)},
		{Name: "exec", Arity: 1, Flags: command.NoScript | command.Idmp | command.Loading | command.Stale | command.Now | command.SkipSlowlog, Group: "transactions", Since: "1.2.0", Complexity: "Depends on the commands of the transaction",
			Summary: "Executes the queued commands as one change.", Syntax: "[IDMP producer seq [EPOCH epoch]]", Run: onClient(runExec)},
		{Name: "discard", Arity: 1, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.Now | command.AllowBusy, Group: "transactions", Since: "2.0.0", Complexity: "O(N)",
			Summary: "Discards the queued commands and ends the transaction.", Run: onClient(runDiscard)},
		{Name: "watch", Arity: -2, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.Now | command.AllowBusy, First: 1, Last: -1, Step: 1, Group: "transactions", Since: "2.2.0", Complexity: "O(N)",
			Summary: "Makes the next EXEC fail if one of the keys changes before it.", Syntax: "key [key ...]", Run: onClient(runWatch)},
		{Name: "unwatch", Arity: 1, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.AllowBusy, Group: "transactions", Since: "2.2.0", Complexity: "O(1)",
			Summary: "Stops watching all keys.", Run: onClient(runUnwatch)},
	}
}

// Commands about the server as a whole, and those of Redis that have one possible answer here.

func serverCommands() []*row {
	server := func(name string, arity int, flags command.Flags, since, syntax, summary string, run func(*call, [][]byte)) *row {
		return &row{Name: name, Arity: arity, Flags: flags, Group: "server", Since: since, Complexity: "O(1)", Syntax: syntax, Summary: summary, Run: onCall(run)}
	}
	expire := func(name, since, syntax string) *row {
		return &row{Name: name, Arity: -3, Flags: command.Write | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: since, Complexity: "O(1)",
			Syntax: syntax + " [NX | XX | GT | LT]", Summary: "Returns an error: counters do not expire.", Run: answerError("ERR counters do not expire")}
	}
	function := func(name string, flags command.Flags, syntax, summary string, run func(*call, [][]byte)) *row {
		return &row{Name: "function|" + name, Arity: -2, Flags: flags, Group: "scripting", Since: "7.0.0", Complexity: "O(1)", Syntax: syntax, Summary: summary, Run: onCall(run), Asks: command.NoData}
	}
	return append(append(admin.Commands(onAdmin), role.Commands(onNode)...),
		clientCommand(), monitorCommand(), memoryCommand(), objectCommand(), acl.Command(onACL),
		server("info", -1, command.Loading|command.Stale, "1.0.0", "[section [section ...]]", "Returns information and statistics about the server.", runInfo),
		server("time", 1, command.Loading|command.Stale|command.Fast, "2.6.0", "", "Returns the server time as Unix seconds and microseconds.", runTime),
		container("module", "server", "4.0.0", "A container for compatibility: there are no modules.",
			server("module|list", 2, command.Admin|command.NoScript, "4.0.0", "", "Returns an empty list.", runEmptyList)),
		container("function", "scripting", "7.0.0", "A container for compatibility: there are no functions.",
			function("list", command.NoScript, "[LIBRARYNAME pattern] [WITHCODE]", "Returns an empty list.", runEmptyList),
			function("flush", command.Write|command.NoScript, "[ASYNC | SYNC]", "Returns OK: there are no functions.", runFunctionFlush)),
		expire("expire", "1.0.0", "key seconds"), expire("pexpire", "2.6.0", "key milliseconds"),
		expire("expireat", "1.2.0", "key unix-time-seconds"), expire("pexpireat", "2.6.0", "key unix-time-milliseconds"),
		&row{Name: "persist", Arity: 2, Flags: command.Write | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: "2.2.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns 0: counters do not expire.", Run: onCall(runZero)},
		&row{Name: "expiretime", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: "7.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns -1 for a key that exists and -2 otherwise: counters do not expire.", Plan: items.TTL},
		&row{Name: "pexpiretime", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: "7.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns -1 for a key that exists and -2 otherwise: counters do not expire. Identical to EXPIRETIME.", Plan: items.TTL},
	)
}

// answerError makes a command that answers an error.
func answerError(text string) func(front.Handler, [][]byte) {
	return onCall(func(c *call, _ [][]byte) { c.items.Out.Error(text) })
}

func runOK(c *call, _ [][]byte) { c.items.Out.Status("OK") }

// runFunctionFlush: FUNCTION FLUSH [ASYNC | SYNC], of no functions.
func runFunctionFlush(c *call, args [][]byte) {
	if len(args) > 3 || len(args) == 3 && !resp.EqualFold(args[2], "ASYNC") && !resp.EqualFold(args[2], "SYNC") {
		c.items.Out.Error(items.ErrSyntax)
		return
	}
	runOK(c, args)
}

func runZero(c *call, _ [][]byte) { c.items.Out.Int(0) }

func runEmptyList(c *call, _ [][]byte) { c.items.Out.Array(0) }

func runTime(c *call, _ [][]byte) {
	now := time.Now()
	c.items.Out.Array(2)
	c.items.Out.BulkString(strconv.FormatInt(now.Unix(), 10))
	c.items.Out.BulkString(strconv.Itoa(now.Nanosecond() / 1000))
}

func objectCommand() *row {
	sub := func(name, since, summary string, plan func(*items.Call, [][]byte)) *row {
		return &row{Name: "object|" + name, Arity: 3, Flags: command.ReadOnly, First: 2, Last: 2, Step: 1, Group: "generic", Since: since, Complexity: "O(1)",
			Syntax: "key", Summary: summary, Plan: plan}
	}
	return container("object", "generic", "2.2.3", "A container for commands about the storage of keys.",
		sub("encoding", "2.2.3", "Returns int for a counter and listpack for a post, for compatibility.", items.ObjectEncoding),
		sub("refcount", "2.2.3", "Returns 1.", items.ObjectRefCount),
		sub("idletime", "2.2.3", "Returns an error: the server does not record accesses.", items.ObjectIdleTime),
		sub("freq", "4.0.0", "Returns an error: the server does not count accesses.", items.ObjectFreq),
	)
}

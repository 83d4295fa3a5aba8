package server

import "github.com/counterd/counterd/cmd/counterd/internal/items"

// table lists all commands. Each row is whole: what COMMAND, COMMAND DOCS and INFO say of a command stands here and nowhere else.
func table() []*command {
	var all []*command
	all = append(all, stringCommands()...)
	all = append(all, hashCommands()...)
	all = append(all, keyCommands()...)
	all = append(all, counterCommands()...)
	all = append(all, transactionCommands()...)
	all = append(all, connectionCommands()...)
	all = append(all, pubsubCommands()...)
	all = append(all, serverCommands()...)
	return all
}

func stringCommands() []*command {
	return []*command{
		{name: "get", arity: 2, flags: readonly | fast, first: 1, last: 1, step: 1, group: "string", since: "1.0.0", complexity: "O(1)",
			summary: "Returns the value of a counter.", syntax: "key", plan: items.Get},
		{name: "mget", arity: -2, flags: readonly | fast, first: 1, last: -1, step: 1, group: "string", since: "1.0.0", complexity: "O(N)",
			summary: "Returns the values of several counters.", syntax: "key [key ...]", plan: items.MGet},
		{name: "set", arity: -3, flags: write | denyoom, first: 1, last: 1, step: 1, group: "string", since: "1.0.0", complexity: "O(1)",
			summary: "Sets a counter to a whole number.", syntax: "key value [NX | XX] [GET] [KEEPTTL]", plan: items.Set},
		{name: "mset", arity: -3, flags: write | denyoom, first: 1, last: -1, step: 2, group: "string", since: "1.0.1", complexity: "O(N)",
			summary: "Sets several counters. Nothing is set if a key or value is wrong.", syntax: "key value [key value ...]", plan: items.MSet},
		{name: "setnx", arity: 3, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "string", since: "1.0.0", complexity: "O(1)",
			summary: "Sets a counter if its item does not exist.", syntax: "key value", plan: items.SetNX},
		{name: "getset", arity: 3, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "string", since: "1.0.0", complexity: "O(1)",
			summary: "Sets a counter and returns the value before.", syntax: "key value", plan: items.GetSet},
		{name: "getdel", arity: 2, flags: write | fast, first: 1, last: 1, step: 1, group: "string", since: "6.2.0", complexity: "O(1)",
			summary: "Returns the value of a counter and resets it to its default.", syntax: "key", plan: items.GetDel},
		{name: "incr", arity: 2, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "string", since: "1.0.0", complexity: "O(1)",
			summary: "Adds one to a counter.", syntax: "key", plan: items.Incr},
		{name: "incrby", arity: 3, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "string", since: "1.0.0", complexity: "O(1)",
			summary: "Adds a number to a counter.", syntax: "key increment", plan: items.IncrBy},
		{name: "decr", arity: 2, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "string", since: "1.0.0", complexity: "O(1)",
			summary: "Takes one from a counter. It cannot fall below 0.", syntax: "key", plan: items.Decr},
		{name: "decrby", arity: 3, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "string", since: "1.0.0", complexity: "O(1)",
			summary: "Takes a number from a counter. It cannot fall below 0.", syntax: "key decrement", plan: items.DecrBy},
		{name: "strlen", arity: 2, flags: readonly | fast, first: 1, last: 1, step: 1, group: "string", since: "2.2.0", complexity: "O(1)",
			summary: "Returns the number of digits of a counter.", syntax: "key", plan: items.Strlen},
	}
}

func hashCommands() []*command {
	return []*command{
		{name: "hget", arity: 3, flags: readonly | fast, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(1)",
			summary: "Returns one column of an item.", syntax: "key field", plan: items.HGet},
		{name: "hmget", arity: -3, flags: readonly | fast, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(N)",
			summary: "Returns several columns of an item.", syntax: "key field [field ...]", plan: items.HMGet},
		{name: "hgetall", arity: 2, flags: readonly, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(N)",
			summary: "Returns all columns of an item with their names.", syntax: "key", plan: items.HGetAll},
		{name: "hset", arity: -4, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(N)",
			summary: "Sets columns of an item. Nothing is set if a field or value is wrong.", syntax: "key field value [field value ...]", plan: items.HSet},
		{name: "hmset", arity: -4, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(N)",
			summary: "Sets columns of an item.", syntax: "key field value [field value ...]", plan: items.HMSet},
		{name: "hsetnx", arity: 4, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(1)",
			summary: "Sets a column if the item does not exist.", syntax: "key field value", plan: items.HSetNX},
		{name: "hincrby", arity: 4, flags: write | fast | denyoom, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(1)",
			summary: "Adds a number to a column of an item.", syntax: "key field increment", plan: items.HIncrBy},
		{name: "hexists", arity: 3, flags: readonly | fast, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(1)",
			summary: "Tells whether an item exists and has a column.", syntax: "key field", plan: items.HExists},
		{name: "hlen", arity: 2, flags: readonly | fast, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(1)",
			summary: "Returns the number of columns of an item.", syntax: "key", plan: items.HLen},
		{name: "hstrlen", arity: 3, flags: readonly | fast, first: 1, last: 1, step: 1, group: "hash", since: "3.2.0", complexity: "O(1)",
			summary: "Returns the number of digits of a column.", syntax: "key field", plan: items.HStrlen},
		{name: "hkeys", arity: 2, flags: readonly, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(N)",
			summary: "Returns the names of the columns of an item.", syntax: "key", plan: items.HKeys},
		{name: "hvals", arity: 2, flags: readonly, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(N)",
			summary: "Returns the values of the columns of an item.", syntax: "key", plan: items.HVals},
		{name: "hdel", arity: -3, flags: write | fast, first: 1, last: 1, step: 1, group: "hash", since: "2.0.0", complexity: "O(N)",
			summary: "Resets columns of an item to their defaults.", syntax: "key field [field ...]", plan: items.HDel},
		{name: "hscan", arity: -3, flags: readonly, first: 1, last: 1, step: 1, group: "hash", since: "2.8.0", complexity: "O(N)",
			summary: "Returns all columns of an item with their values, in one go.", syntax: "key cursor [MATCH pattern] [COUNT count]", plan: items.HScan},
	}
}

func keyCommands() []*command {
	return []*command{
		{name: "del", arity: -2, flags: write, first: 1, last: -1, step: 1, group: "generic", since: "1.0.0", complexity: "O(N)",
			summary: "Removes items, or resets single counters to their defaults.", syntax: "key [key ...]", plan: items.Del},
		{name: "unlink", arity: -2, flags: write | fast, first: 1, last: -1, step: 1, group: "generic", since: "4.0.0", complexity: "O(N)",
			summary: "The same as DEL.", syntax: "key [key ...]", plan: items.Del},
		{name: "exists", arity: -2, flags: readonly | fast, first: 1, last: -1, step: 1, group: "generic", since: "1.0.0", complexity: "O(N)",
			summary: "Counts the keys whose item exists.", syntax: "key [key ...]", plan: items.Exists},
		{name: "touch", arity: -2, flags: readonly | fast, first: 1, last: -1, step: 1, group: "generic", since: "3.2.1", complexity: "O(N)",
			summary: "The same as EXISTS.", syntax: "key [key ...]", plan: items.Exists},
		{name: "type", arity: 2, flags: readonly | fast, first: 1, last: 1, step: 1, group: "generic", since: "1.0.0", complexity: "O(1)",
			summary: "Returns hash for an item, string for one of its numbers, none for what does not exist.", syntax: "key", plan: items.Type},
		{name: "ttl", arity: 2, flags: readonly | fast, first: 1, last: 1, step: 1, group: "generic", since: "1.0.0", complexity: "O(1)",
			summary: "Returns -1 for a key that exists, as counters do not expire, else -2.", syntax: "key", plan: items.TTL},
		{name: "pttl", arity: 2, flags: readonly | fast, first: 1, last: 1, step: 1, group: "generic", since: "2.6.0", complexity: "O(1)",
			summary: "The same as TTL.", syntax: "key", plan: items.TTL},
		{name: "scan", arity: -2, flags: readonly, group: "generic", since: "2.8.0", complexity: "O(1) a call, O(N) in all",
			summary: "Walks over the keys of items, or of their numbers (TYPE string, or a pattern with a dot), in order of mid.",
			syntax:  "cursor [MATCH pattern] [COUNT count] [TYPE type]", run: runScan},
		{name: "dbsize", arity: 1, flags: readonly | fast, group: "server", since: "1.0.0", complexity: "O(number of blocks)",
			summary: "Returns the number of items.", run: runDBSize},
		{name: "flushall", arity: -1, flags: write, group: "server", since: "1.0.0", complexity: "O(number of blocks)",
			summary: "Removes all items; the schema stays.", syntax: "[ASYNC | SYNC]", run: runFlush},
		{name: "flushdb", arity: -1, flags: write, group: "server", since: "1.0.0", complexity: "O(number of blocks)",
			summary: "The same as FLUSHALL.", syntax: "[ASYNC | SYNC]", run: runFlush},
	}
}

func counterCommands() []*command {
	return []*command{
		{name: "counter.mget", arity: -3, flags: readonly | fast, group: "counterd", since: "0.1.0", complexity: "O(N)",
			summary: "Returns all columns of several items: the read of a timeline page.", syntax: "counter mid [mid ...]", plan: items.CounterMGet},
		{name: "counter.mincrby", arity: -3, flags: write | fast, first: 1, last: -1, step: 2, group: "counterd", since: "0.1.0", complexity: "O(N)",
			summary: "Adds to several counters and returns their new values.", syntax: "key increment [key increment ...]", plan: items.CounterMIncrBy},
		{name: "counter.blocks", arity: -1, flags: readonly | admin, group: "counterd", since: "0.1.0", complexity: "O(number of blocks)",
			summary: "Describes the blocks that hold the items, one line each.", syntax: "[counter]", run: runBlocks},
		{name: "counter.digest", arity: -1, flags: readonly | admin, group: "counterd", since: "0.1.0", complexity: "O(number of items)",
			summary: "Returns a sum over all items, or those in a range of mids, or in each of its parts: nodes with the same items have the same.",
			syntax:  "[counter [lo hi] [PARTS parts]]", run: runDigest},
		{name: "counter.demote", arity: 3, flags: admin | nomulti, group: "counterd", since: "0.1.0", complexity: "O(N) of the block's items",
			summary: "Writes the block that holds a mid to a cold file, or merges what changed since into a new one.", syntax: "counter mid", run: runDemote},
		{name: "counter.promote", arity: 3, flags: admin | nomulti, group: "counterd", since: "0.1.0", complexity: "O(N) of the block's items",
			summary: "Brings the cold block that holds a mid back to memory.", syntax: "counter mid", run: runPromote},
		{name: "add", arity: -3, flags: write | admin, group: "counterd", since: "0.1.0", complexity: "O(1)",
			summary: "Adds a counter, or a column to a counter.",
			syntax:  "COUNTER counter | COLUMN counter name hint=bits [max=bits] [default=value] [suffix=suffix] [primarykey]", run: runAlter},
		{name: "drop", arity: -3, flags: write | admin, group: "counterd", since: "0.1.0", complexity: "O(1)",
			summary: "Drops a counter with all its items, or a column of a counter.", syntax: "COUNTER counter | COLUMN counter name", run: runAlter},
		{name: "schema", arity: 1, flags: readonly | fast, group: "counterd", since: "0.1.0", complexity: "O(N)",
			summary: "Prints the script that makes the schema.", run: runSchema},
	}
}

func transactionCommands() []*command {
	return []*command{
		{name: "multi", arity: 1, flags: noscript | loading | stale | fast | now | allowBusy, group: "transactions", since: "1.2.0", complexity: "O(1)",
			summary: "Starts to queue commands for EXEC.", run: runMulti},
		{name: "exec", arity: 1, flags: noscript | loading | stale | now | skipSlowlog, group: "transactions", since: "1.2.0", complexity: "Depends on commands in the transaction",
			summary: "Executes the queued commands as one change.", run: runExec},
		{name: "discard", arity: 1, flags: noscript | loading | stale | fast | now | allowBusy, group: "transactions", since: "2.0.0", complexity: "O(N)",
			summary: "Forgets the queued commands.", run: runDiscard},
		{name: "watch", arity: -2, flags: noscript | loading | stale | fast | now | allowBusy, first: 1, last: -1, step: 1, group: "transactions", since: "2.2.0", complexity: "O(N)",
			summary: "Lets the next EXEC fail if one of the keys changes before.", syntax: "key [key ...]", run: runWatch},
		{name: "unwatch", arity: 1, flags: noscript | loading | stale | fast | allowBusy, group: "transactions", since: "2.2.0", complexity: "O(1)",
			summary: "Forgets the watched keys.", run: runUnwatch},
	}
}

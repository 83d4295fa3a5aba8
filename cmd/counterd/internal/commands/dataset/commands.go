package dataset

import "github.com/counterd/counterd/cmd/counterd/internal/commands/command"

// Commands are the rows of these commands, for a table whose handlers see a C: on gives what the handlers here see of
// it. MEMORY USAGE is a subcommand, and so a row of MEMORY: MemoryUsage.
func Commands[C any](on func(C) Conn) []*command.Row[C] {
	run := func(handler func(Conn, [][]byte)) func(C, [][]byte) {
		return func(c C, args [][]byte) { handler(on(c), args) }
	}
	return []*command.Row[C]{
		{Name: "scan", Arity: -2, Flags: command.ReadOnly, Group: "generic", Since: "2.8.0", Complexity: "O(1) a call, O(N) in all",
			Summary: "Walks over the keys of items, or of their numbers (TYPE string, or a pattern with a dot), in order of mid.",
			Syntax:  "cursor [MATCH pattern] [COUNT count] [TYPE type]", Run: run(scan), Asks: command.AskEverything(command.NeedRead)},
		{Name: "keys", Arity: 2, Flags: command.ReadOnly, Group: "generic", Since: "1.0.0", Complexity: "O(N) of up to 1,048,576 posts",
			Summary: "Returns the keys that match a pattern, as SCAN lists them, or an error where there is much to look at.", Syntax: "pattern",
			Run: run(keys), Asks: command.AskEverything(command.NeedRead)},
		{Name: "randomkey", Arity: 1, Flags: command.ReadOnly, Group: "generic", Since: "1.0.0", Complexity: "O(number of blocks and of the items of one)",
			Summary: "Returns the key of some item.", Run: run(randomKey), Asks: command.AskEverything(command.NeedRead)},
		{Name: "dbsize", Arity: 1, Flags: command.ReadOnly | command.Fast, Group: "server", Since: "1.0.0", Complexity: "O(number of blocks)",
			Summary: "Returns the number of items.", Run: run(size), Asks: command.NoData},
		{Name: "flushall", Arity: -1, Flags: command.Write, Group: "server", Since: "1.0.0", Complexity: "O(number of blocks)",
			Summary: "Removes all items; the schema stays.", Syntax: "[ASYNC | SYNC]", Run: run(flush), Asks: command.AskEverything(command.NeedWrite)},
		{Name: "flushdb", Arity: -1, Flags: command.Write, Group: "server", Since: "1.0.0", Complexity: "O(number of blocks)",
			Summary: "The same as FLUSHALL.", Syntax: "[ASYNC | SYNC]", Run: run(flush), Asks: command.AskEverything(command.NeedWrite)},
		{Name: "counter.blocks", Arity: -1, Flags: command.ReadOnly | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(number of blocks)",
			Summary: "Describes the blocks that hold the items, one line each.", Syntax: "[counter]", Run: run(blocks), Asks: command.AskCounter(1, command.NeedRead)},
		{Name: "counter.digest", Arity: -1, Flags: command.ReadOnly | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(number of items)",
			Summary: "Returns a sum over all items, or those in a range of mids, or in each of its parts: nodes with the same items have the same.",
			Syntax:  "[counter [lo hi] [PARTS parts]]", Run: run(digest), Asks: command.AskCounter(1, command.NeedRead)},
		{Name: "counter.demote", Arity: 3, Flags: command.Admin | command.NoMulti, Group: "counterd", Since: "0.1.0", Complexity: "O(N) of the block's items",
			Summary: "Writes the block that holds a mid to a cold file, or merges what changed since into a new one.", Syntax: "counter mid", Run: run(demote), Asks: command.AskCounter(1, command.NeedWrite)},
		{Name: "counter.promote", Arity: 3, Flags: command.Admin | command.NoMulti, Group: "counterd", Since: "0.1.0", Complexity: "O(N) of the block's items",
			Summary: "Brings the cold block that holds a mid back to memory.", Syntax: "counter mid", Run: run(promote), Asks: command.AskCounter(1, command.NeedWrite)},
		{Name: "counter.scrub", Arity: 1, Flags: command.Admin | command.NoMulti, Group: "counterd", Since: "0.1.0", Complexity: "O(1), and O(N) of all files in the background",
			Summary: "Starts to verify the images, the log and the cold files. The server does this on its own each hour.", Run: run(scrub)},
		{Name: "add", Arity: -3, Flags: command.Write | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
			Summary: "Adds a counter, or a column to a counter.",
			Syntax:  "COUNTER counter | COLUMN counter name hint=bits [max=bits] [default=value] [suffix=suffix] [primarykey]", Run: run(alter), Asks: command.AskCounter(2, command.NeedWrite)},
		{Name: "drop", Arity: -3, Flags: command.Write | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
			Summary: "Drops a counter with all its items, or a column of a counter.", Syntax: "COUNTER counter | COLUMN counter name", Run: run(alter), Asks: command.AskCounter(2, command.NeedWrite)},
		{Name: "schema", Arity: 1, Flags: command.ReadOnly | command.Fast, Group: "counterd", Since: "0.1.0", Complexity: "O(N)",
			Summary: "Prints the script that makes the schema.", Run: run(script), Asks: command.NoData},
	}
}

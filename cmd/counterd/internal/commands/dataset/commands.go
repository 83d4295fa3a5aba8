package dataset

import "github.com/counterd/counterd/cmd/counterd/internal/commands/command"

// Commands are the rows of these commands, for a table whose handlers see a C: on gives what the handlers here see of
// it. MEMORY USAGE is a subcommand, and so a row of MEMORY: MemoryUsage.
func Commands[C any](on func(C) Conn) []*command.Row[C] {
	run := func(handler func(Conn, [][]byte)) func(C, [][]byte) {
		return func(c C, args [][]byte) { handler(on(c), args) }
	}
	return []*command.Row[C]{
		{Name: "scan", Arity: -2, Flags: command.ReadOnly, Group: "generic", Since: "2.8.0", Complexity: "O(1) for every call, O(N) for a full iteration",
			Summary: "Iterates over the keys of posts, or of single counters (TYPE string, or a pattern with a dot), in order of post id.",
			Syntax:  "cursor [MATCH pattern] [COUNT count] [TYPE type]", Run: run(scan), Asks: command.AskEverything(command.NeedRead)},
		{Name: "keys", Arity: 2, Flags: command.ReadOnly, Group: "generic", Since: "1.0.0", Complexity: "O(N) in the number of posts",
			Summary: "Returns all keys that match a pattern. Refused if more than 1,048,576 posts would have to be examined.", Syntax: "pattern",
			Run: run(keys), Asks: command.AskEverything(command.NeedRead)},
		{Name: "randomkey", Arity: 1, Flags: command.ReadOnly, Group: "generic", Since: "1.0.0", Complexity: "O(N) in the number of blocks and in the posts of one block",
			Summary: "Returns the key of a random post.", Run: run(randomKey), Asks: command.AskEverything(command.NeedRead)},
		{Name: "dbsize", Arity: 1, Flags: command.ReadOnly | command.Fast, Group: "server", Since: "1.0.0", Complexity: "O(N) in the number of blocks",
			Summary: "Returns the number of posts.", Run: run(size), Asks: command.NoData},
		{Name: "flushall", Arity: -1, Flags: command.Write, Group: "server", Since: "1.0.0", Complexity: "O(N) in the number of blocks",
			Summary: "Deletes all posts. The schema stays.", Syntax: "[ASYNC | SYNC]", Run: run(flush), Asks: command.AskEverything(command.NeedWrite)},
		{Name: "flushdb", Arity: -1, Flags: command.Write, Group: "server", Since: "1.0.0", Complexity: "O(N) in the number of blocks",
			Summary: "Deletes all posts. The schema stays. Identical to FLUSHALL.", Syntax: "[ASYNC | SYNC]", Run: run(flush), Asks: command.AskEverything(command.NeedWrite)},
		{Name: "counter.blocks", Arity: -1, Flags: command.ReadOnly | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(N) in the number of blocks",
			Summary: "Describes the blocks that hold the posts, one per line.", Syntax: "[counter]", Run: run(blocks), Asks: command.AskCounter(1, command.NeedRead)},
		{Name: "counter.digest", Arity: -1, Flags: command.ReadOnly | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(N) in the number of posts",
			Summary: "Returns a checksum of all posts, of a range of post ids, or of equal parts of a range. Nodes with the same posts return the same checksum.",
			Syntax:  "[counter [lo hi] [PARTS parts]]", Run: run(digest), Asks: command.AskCounter(1, command.NeedRead)},
		{Name: "counter.demote", Arity: 3, Flags: command.Admin | command.NoMulti, Group: "counterd", Since: "0.1.0", Complexity: "O(N) in the posts of the block",
			Summary: "Writes the block that holds a post id to a cold file, or merges newer changes of a cold block into a new file.", Syntax: "counter mid", Run: run(demote), Asks: command.AskCounter(1, command.NeedWrite)},
		{Name: "counter.promote", Arity: 3, Flags: command.Admin | command.NoMulti, Group: "counterd", Since: "0.1.0", Complexity: "O(N) in the posts of the block",
			Summary: "Loads the cold block that holds a post id back into memory.", Syntax: "counter mid", Run: run(promote), Asks: command.AskCounter(1, command.NeedWrite)},
		{Name: "counter.droprange", Arity: 4, Flags: command.Write | command.Admin | command.NoMulti, Group: "counterd", Since: "0.1.0",
			Complexity: "O(N) in the number of blocks, and in the posts of the blocks that from and to lie in",
			Summary:    "Deletes all posts of a counter with ids from from on and below to, as whole ranges that are not read.", Syntax: "counter from to", Run: run(dropRange), Asks: command.AskCounter(1, command.NeedWrite)},
		{Name: "counter.scrub", Arity: 1, Flags: command.Admin | command.NoMulti, Group: "counterd", Since: "0.1.0", Complexity: "O(1), then O(N) in the size of all files in the background",
			Summary: "Starts to verify the snapshots, the log and the cold files in the background. The server does this every hour by itself.", Run: run(scrub)},
		{Name: "add", Arity: -3, Flags: command.Write | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
			Summary: "Adds a counter, or a column to a counter.",
			Syntax:  "COUNTER counter [ids=layout] [retain=time] [old=on|off] | COLUMN counter name hint=bits [max=bits] [default=value] [suffix=suffix] [top=n] [primarykey] | COLUMN counter name window=length/bucket of=column [suffix=suffix] [top=n] | COLUMN counter name decay=halflife of=column[*weight][+column[*weight]...] [suffix=suffix] [top=n]", Run: run(alter), Asks: command.AskCounter(2, command.NeedWrite)},
		{Name: "drop", Arity: -3, Flags: command.Write | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
			Summary: "Drops a counter with all its posts, or a column of a counter.", Syntax: "COUNTER counter | COLUMN counter name", Run: run(alter), Asks: command.AskCounter(2, command.NeedWrite)},
		{Name: "alter", Arity: -3, Flags: command.Write | command.Admin, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
			Summary: "Changes how the post ids of a counter carry time and for how long posts are kept by it, or how long the top list of a column is.",
			Syntax:  "COUNTER counter [ids=layout|none] [retain=time|off] [old=on|off] | COLUMN counter name top=n|off", Run: run(alter), Asks: command.AskCounter(2, command.NeedWrite)},
		{Name: "schema", Arity: 1, Flags: command.ReadOnly | command.Fast, Group: "counterd", Since: "0.1.0", Complexity: "O(N)",
			Summary: "Returns the schema as a script of ADD commands.", Run: run(script), Asks: command.NoData},
	}
}

package find

import (
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/counter"
)

// Commands are the rows of the commands by condition, for a table whose handlers see a C: on gives what the handlers
// here see of it.
func Commands[C any](on func(C) Conn) []*command.Row[C] {
	entry := func(name string, arity int, flags command.Flags, summary, syntax string, run func(Conn, [][]byte)) *command.Row[C] {
		return &command.Row[C]{Name: "counter." + name, Arity: arity, Flags: flags | command.NoMulti, Group: "counterd", Since: "0.1.0",
			Complexity: "O(N) in the number of posts, minus the blocks and cold pages that the conditions exclude", Summary: summary, Syntax: syntax,
			Asks: command.AskCounter(1, need(flags)), Run: func(c C, args [][]byte) { run(on(c), args) }}
	}
	aggregate := func(kind counter.AggregateKind) func(Conn, [][]byte) {
		return func(c Conn, args [][]byte) { runAggregate(c, kind, args) }
	}
	updated := entry(strings.TrimPrefix(UpdatedName, "counter."), -5, command.ReadOnly|command.Admin, "Internal: tells whether the node has made its part of a COUNTER.UPDATE with a number.",
		"counter [condition or change ...] IDMP producer seq [EPOCH epoch]", runUpdated)
	updated.Complexity = "O(1)" // it looks at no post
	const mids = "[MID operator mid [AND MID operator mid ...] | MID IN mid [mid ...]] "
	const where = "[WHERE column operator value [AND column operator value ...]]"
	return []*command.Row[C]{
		entry("find", -2, command.ReadOnly, "Returns the posts that match conditions on ids and columns, in order of id.",
			"counter "+mids+where+" [LIMIT count] [OFFSET count] [DESC] [COLUMNS column [column ...]] [CURSOR position]", runFind),
		entry("top", -4, command.ReadOnly, "Returns the posts with the largest values of a column, largest first.",
			"counter column count "+mids+where, runTop),
		entry("count", -2, command.ReadOnly, "Returns the number of posts that match conditions.", "counter "+mids+where, aggregate(counter.Count)),
		entry("sum", -3, command.ReadOnly, "Returns the sum of a column over the posts that match conditions.", "counter column "+mids+where, aggregate(counter.Sum)),
		entry("min", -3, command.ReadOnly, "Returns the smallest value of a column among the posts that match conditions.",
			"counter column "+mids+where, aggregate(counter.Min)),
		entry("max", -3, command.ReadOnly, "Returns the largest value of a column among the posts that match conditions.",
			"counter column "+mids+where, aggregate(counter.Max)),
		entry("update", -2, command.Write|command.DenyOOM|command.Idmp, "Changes the posts that match conditions, one post at a time. Returns the number of changed posts.",
			"counter "+mids+where+" [SET column value [SET column value ...]] [INCR column increment [INCR column increment ...]]"+
				" [DECR column decrement [DECR column decrement ...]] [RESET column [RESET column ...]] [DEL] [LIMIT count] [RETURNING OLD | RETURNING NEW]"+
				" [IDMP producer seq [EPOCH epoch]]", runUpdate),
		updated,
	}
}

// need is the need for the whole counter. The reply to a change by condition reveals data of the changed posts, at
// least their number.
func need(f command.Flags) command.Need {
	if f&command.Write != 0 {
		return command.NeedRead | command.NeedWrite
	}
	return command.NeedRead
}

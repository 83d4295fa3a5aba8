package command

import (
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// Commands are the rows of COMMAND and LATENCY, which the table answers by itself, for a table whose handlers see a C: on gives
// the table, and the replies of the connection.
func Commands[C any](on func(C) (*Table[C], *resp.Replies)) []*Row[C] {
	return []*Row[C]{commandRow(on), latencyRow(on)}
}

// ofTable is a handler of a command that the table answers by itself.
func ofTable[C any](on func(C) (*Table[C], *resp.Replies), reply func(t *Table[C], out *resp.Replies, args [][]byte)) func(C, [][]byte) {
	return func(c C, args [][]byte) {
		t, out := on(c)
		reply(t, out, args)
	}
}

func commandRow[C any](on func(C) (*Table[C], *resp.Replies)) *Row[C] {
	const flags = Loading | Stale
	cmd := Container(onlyReplies(on), "command", "server", "2.8.13", "Returns details of all commands.",
		&Row[C]{Name: "command|count", Arity: 2, Flags: flags, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns the number of commands.", Run: ofTable(on, (*Table[C]).ReplyCount)},
		&Row[C]{Name: "command|info", Arity: -2, Flags: flags, Group: "server", Since: "2.8.13", Complexity: "O(N)", Syntax: "[command-name [command-name ...]]",
			Summary: "Returns details of the given commands, or of all.", Run: ofTable(on, (*Table[C]).ReplyInfo)},
		&Row[C]{Name: "command|docs", Arity: -2, Flags: flags, Group: "server", Since: "7.0.0", Complexity: "O(N)", Syntax: "[command-name [command-name ...]]",
			Summary: "Returns the documentation of the given commands, or of all.", Run: ofTable(on, (*Table[C]).ReplyDocs)},
		&Row[C]{Name: "command|list", Arity: -2, Flags: flags, Group: "server", Since: "7.0.0", Complexity: "O(N) in the number of commands",
			Syntax: "[FILTERBY MODULE module-name | FILTERBY ACLCAT category | FILTERBY PATTERN pattern]", Summary: "Returns the names of commands.", Run: ofTable(on, (*Table[C]).ReplyList)},
		&Row[C]{Name: "command|getkeys", Arity: -4, Flags: flags, Group: "server", Since: "2.8.13", Complexity: "O(N)", Syntax: "command argument [argument ...]",
			Summary: "Returns the keys of a full ", Run: ofTable(on, (*Table[C]).ReplyKeys)},
		&Row[C]{Name: "command|getkeysandflags", Arity: -4, Flags: flags, Group: "server", Since: "7.0.0", Complexity: "O(N)", Syntax: "command argument [argument ...]",
			Summary: "Returns the keys of a full command and how it accesses them.", Run: ofTable(on, (*Table[C]).ReplyKeysAndFlags)},
	)
	cmd.Arity, cmd.Flags, cmd.Run = -1, flags, ofTable(on, (*Table[C]).ReplyAll)
	return cmd
}

func latencyRow[C any](on func(C) (*Table[C], *resp.Replies)) *Row[C] {
	emptyList := ofTable(on, func(_ *Table[C], out *resp.Replies, _ [][]byte) { out.Array(0) })
	zero := ofTable(on, func(_ *Table[C], out *resp.Replies, _ [][]byte) { out.Int(0) })
	noGraph := ofTable(on, func(_ *Table[C], out *resp.Replies, args [][]byte) {
		out.Error("ERR No samples available for event '" + resp.Printable(args[2], 128) + "'")
	})
	return Container(onlyReplies(on), "latency", "server", "2.8.13", "A container for commands about latency.",
		&Row[C]{Name: "latency|histogram", Arity: -2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "7.0.0",
			Complexity: "O(N) in the number of commands", Syntax: "[command [command ...]]",
			Summary: "Returns a histogram of execution times for each command, in powers of two microseconds. A command in a pipeline counts with its share of the time.",
			Run:     ofTable(on, (*Table[C]).ReplyHistogram)},
		&Row[C]{Name: "latency|latest", Arity: 2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns an empty list. The server does not record latency events; use LATENCY HISTOGRAM and SLOWLOG.", Run: emptyList},
		&Row[C]{Name: "latency|history", Arity: 3, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns an empty list. The server does not record latency events.", Syntax: "event", Run: emptyList},
		&Row[C]{Name: "latency|graph", Arity: 3, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns an error. The server does not record latency events.", Syntax: "event", Run: noGraph},
		&Row[C]{Name: "latency|reset", Arity: -2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns 0. The server does not record latency events.", Syntax: "[event [event ...]]", Run: zero},
		&Row[C]{Name: "latency|doctor", Arity: 2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13", Complexity: "O(N) in the number of commands",
			Summary: "Returns a report of the slowest commands.", Run: ofTable(on, (*Table[C]).ReplyDoctor)},
	)
}

// onlyReplies is on without the table.
func onlyReplies[C any](on func(C) (*Table[C], *resp.Replies)) func(C) *resp.Replies {
	return func(c C) *resp.Replies {
		_, out := on(c)
		return out
	}
}

// Container is a command that only has subcommands. It gets HELP, whose reply goes to out.
func Container[C any](out func(C) *resp.Replies, name, group, since, summary string, sub ...*Row[C]) *Row[C] {
	cmd := &Row[C]{Name: name, Arity: -2, Group: group, Since: since, Complexity: "Depends on subcommand.", Summary: summary}
	help := &Row[C]{Name: name + "|help", Arity: 2, Flags: Loading | Stale, Group: group, Since: since, Complexity: "O(1)",
		Summary: "Returns help text about the subcommands.", Run: func(c C, _ [][]byte) { cmd.replyHelp(out(c)) }}
	cmd.Sub = append(sub, help)
	return cmd
}

// replyHelp answers HELP of any container, in the layout of Redis: a line for the use, indented ones for the meaning.
func (cmd *Row[C]) replyHelp(out *resp.Replies) {
	out.Array(2*len(cmd.Sub) + 1)
	out.Status(strings.ToUpper(cmd.Name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, s := range cmd.Sub {
		out.Status(strings.TrimSpace(strings.ToUpper(s.Name[len(cmd.Name)+1:]) + " " + s.Syntax))
		out.Status("    " + s.Summary)
	}
}

// Asking gives a command what it asks for: see Row.
func Asking[C any](cmd *Row[C], asks func(r Rights, args [][]byte) int) *Row[C] {
	cmd.Asks = asks
	return cmd
}

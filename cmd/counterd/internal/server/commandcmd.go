package server

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

type (
	// row is one row of the command table. Commands that are not planned see the connection.
	row = command.Row[*client]
	// commands is the command table of one server.
	commands = command.Table[*client]
)

// ofTable is a handler of what the table answers by itself.
func ofTable(reply func(t *commands, out *resp.Replies, args [][]byte)) func(*client, [][]byte) {
	return on(func(c *call, args [][]byte) { reply(c.srv.commands, &c.Out, args) })
}

func commandCommand() *row {
	const flags = command.Loading | command.Stale
	cmd := container("command", "server", "2.8.13", "Returns details of all commands.",
		&row{Name: "command|count", Arity: 2, Flags: flags, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns the number of commands.", Run: ofTable((*commands).ReplyCount)},
		&row{Name: "command|info", Arity: -2, Flags: flags, Group: "server", Since: "2.8.13", Complexity: "O(N)", Syntax: "[command-name [command-name ...]]",
			Summary: "Returns details of the given commands, or of all.", Run: ofTable((*commands).ReplyInfo)},
		&row{Name: "command|docs", Arity: -2, Flags: flags, Group: "server", Since: "7.0.0", Complexity: "O(N)", Syntax: "[command-name [command-name ...]]",
			Summary: "Returns the documentation of the given commands, or of all.", Run: ofTable((*commands).ReplyDocs)},
		&row{Name: "command|list", Arity: -2, Flags: flags, Group: "server", Since: "7.0.0", Complexity: "O(N) in the number of commands",
			Syntax: "[FILTERBY MODULE module-name | FILTERBY ACLCAT category | FILTERBY PATTERN pattern]", Summary: "Returns the names of commands.", Run: ofTable((*commands).ReplyList)},
		&row{Name: "command|getkeys", Arity: -4, Flags: flags, Group: "server", Since: "2.8.13", Complexity: "O(N)", Syntax: "command argument [argument ...]",
			Summary: "Returns the keys of a full command.", Run: ofTable((*commands).ReplyKeys)},
		&row{Name: "command|getkeysandflags", Arity: -4, Flags: flags, Group: "server", Since: "7.0.0", Complexity: "O(N)", Syntax: "command argument [argument ...]",
			Summary: "Returns the keys of a full command and how it accesses them.", Run: ofTable((*commands).ReplyKeysAndFlags)},
	)
	cmd.Arity, cmd.Flags, cmd.Run = -1, flags, ofTable((*commands).ReplyAll)
	return cmd
}

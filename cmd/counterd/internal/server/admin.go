package server

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/node"
	"github.com/counterd/counterd/counter"
)

// Commands about the server as a whole, and those of Redis that have one possible answer here.

func serverCommands() []*row {
	const admins = command.Admin | command.NoScript | command.Loading | command.Stale
	server := func(name string, arity int, flags command.Flags, since, syntax, summary string, run func(*call, [][]byte)) *row {
		return &row{Name: name, Arity: arity, Flags: flags, Group: "server", Since: since, Complexity: "O(1)", Syntax: syntax, Summary: summary, Run: on(run)}
	}
	expire := func(name, since, syntax string) *row {
		return &row{Name: name, Arity: -3, Flags: command.Write | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: since, Complexity: "O(1)",
			Syntax: syntax + " [NX | XX | GT | LT]", Summary: "Returns an error: counters do not expire.", Run: refuse("ERR counters do not expire")}
	}
	function := func(name string, flags command.Flags, syntax, summary string, run func(*call, [][]byte)) *row {
		return &row{Name: "function|" + name, Arity: -2, Flags: flags, Group: "scripting", Since: "7.0.0", Complexity: "O(1)", Syntax: syntax, Summary: summary, Run: on(run), Asks: command.NoData}
	}
	return append(append(persistenceCommands(), node.Commands(onNode)...),
		commandCommand(), clientCommand(), configCommand(), slowlogCommand(), monitorCommand(), latencyCommand(), memoryCommand(), objectCommand(), aclCommand(),
		server("info", -1, command.Loading|command.Stale, "1.0.0", "[section [section ...]]", "Returns information and statistics about the server.", runInfo),
		server("time", 1, command.Loading|command.Stale|command.Fast, "2.6.0", "", "Returns the server time as Unix seconds and microseconds.", runTime),
		server("shutdown", -1, admins|command.NoMulti|command.AllowBusy, "1.0.0", "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]", "Stops the server after all received commands have been answered.", runShutdown),
		container("module", "server", "4.0.0", "A container for compatibility: there are no modules.",
			server("module|list", 2, command.Admin|command.NoScript, "4.0.0", "", "Returns an empty list.", runEmptyList)),
		container("function", "scripting", "7.0.0", "A container for compatibility: there are no functions.",
			function("list", command.NoScript, "[LIBRARYNAME pattern] [WITHCODE]", "Returns an empty list.", runEmptyList),
			function("flush", command.Write|command.NoScript, "[ASYNC | SYNC]", "Returns OK: there are no functions.", runFunctionFlush)),
		clusterCommand(), moveCommand(), readonlyCommand("readonly", "Allows reads from a replica on this connection. They may return older values.", runReadonly),
		readonlyCommand("readwrite", "Ends READONLY mode of this connection.", runReadwrite), askingCommand(),
		expire("expire", "1.0.0", "key seconds"), expire("pexpire", "2.6.0", "key milliseconds"),
		expire("expireat", "1.2.0", "key unix-time-seconds"), expire("pexpireat", "2.6.0", "key unix-time-milliseconds"),
		&row{Name: "persist", Arity: 2, Flags: command.Write | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: "2.2.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns 0: counters do not expire.", Run: on(runZero)},
		&row{Name: "expiretime", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: "7.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns -1 for a key that exists and -2 otherwise: counters do not expire.", Plan: items.TTL},
		&row{Name: "pexpiretime", Arity: 2, Flags: command.ReadOnly | command.Fast, First: 1, Last: 1, Step: 1, Group: "generic", Since: "7.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns -1 for a key that exists and -2 otherwise: counters do not expire. Identical to EXPIRETIME.", Plan: items.TTL},
	)
}

// container is a command that only has subcommands. It gets HELP.
func container(name, group, since, summary string, sub ...*row) *row {
	help := &row{Name: name + "|help", Arity: 2, Flags: command.Loading | command.Stale, Group: group, Since: since, Complexity: "O(1)",
		Summary: "Returns help text about the subcommands.", Run: on(runHelp)}
	return &row{Name: name, Arity: -2, Group: group, Since: since, Complexity: "Depends on subcommand.", Summary: summary, Sub: append(sub, help)}
}

// asking gives a command what it asks for: see command.Row.
func asking(cmd *row, asks func(r command.Rights, args [][]byte) int) *row {
	cmd.Asks = asks
	return cmd
}

// runHelp answers HELP of any container, in the layout of Redis: a line for the use, indented ones for the meaning.
func runHelp(c *call, args [][]byte) {
	cmd := c.srv.commands.Find(args[0])
	c.Out.Array(2*len(cmd.Sub) + 1)
	line := func(s string) { c.Out.Status(s) }
	line(strings.ToUpper(cmd.Name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, s := range cmd.Sub {
		line(strings.TrimSpace(strings.ToUpper(s.Name[len(cmd.Name)+1:]) + " " + s.Syntax))
		line("    " + s.Summary)
	}
}

// refuse makes a command that answers an error.
func refuse(text string) func(*client, [][]byte) {
	return on(func(c *call, _ [][]byte) { c.Out.Error(text) })
}

func runOK(c *call, _ [][]byte) { c.Out.Status("OK") }

// runFunctionFlush: FUNCTION FLUSH [ASYNC | SYNC], of no functions.
func runFunctionFlush(c *call, args [][]byte) {
	if len(args) > 3 || len(args) == 3 && !resp.EqualFold(args[2], "ASYNC") && !resp.EqualFold(args[2], "SYNC") {
		c.Out.Error(items.ErrSyntax)
		return
	}
	runOK(c, args)
}

func runZero(c *call, _ [][]byte) { c.Out.Int(0) }

func runEmptyList(c *call, _ [][]byte) { c.Out.Array(0) }

func runTime(c *call, _ [][]byte) {
	now := time.Now()
	c.Out.Array(2)
	c.Out.BulkString(strconv.FormatInt(now.Unix(), 10))
	c.Out.BulkString(strconv.Itoa(now.Nanosecond() / 1000))
}

// runShutdown: SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]. There is no answer but the end of the connection. The
// log is made durable in any case; SAVE makes a snapshot before, so that the next start is quick.
func runShutdown(c *call, args [][]byte) {
	save, nosave, abort := false, false, false
	for _, a := range args[1:] {
		switch {
		case resp.EqualFold(a, "SAVE"):
			save = true
		case resp.EqualFold(a, "NOSAVE"):
			nosave = true
		case resp.EqualFold(a, "ABORT"):
			abort = true
		case resp.EqualFold(a, "NOW"), resp.EqualFold(a, "FORCE"): // there are neither replicas nor saves to wait for
		default:
			c.Out.Error(items.ErrSyntax)
			return
		}
	}
	switch {
	case save && nosave, abort && len(args) > 2:
		c.Out.Error(items.ErrSyntax)
	case abort:
		c.Out.Error("ERR No shutdown in progress.")
	case save && !c.srv.store().Durable():
		c.Out.Error(items.ErrMemoryOnly)
	default:
		if save {
			if err := c.srv.store().Snapshot(); err != nil && !errors.Is(err, counter.ErrBusy) {
				c.srv.log.Error("SHUTDOWN SAVE failed to make a snapshot; the server continues", "client", c.session.ID(), "error", err)
				c.Out.Error("ERR Errors trying to SHUTDOWN. Check logs.")
				return
			}
		}
		c.srv.log.Info("shutdown requested by a client", "client", c.session.ID())
		c.session.Closing = true
		c.srv.terminated.Do(func() { go c.srv.Terminate() })
	}
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

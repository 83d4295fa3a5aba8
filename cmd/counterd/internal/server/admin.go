package server

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/counter"
)

// Commands about the server as a whole, and those of Redis that have one possible answer here.

func serverCommands() []*command {
	const admins = admin | noscript | loading | stale
	server := func(name string, arity int, flags flag, since, syntax, summary string, run func(*client, [][]byte)) *command {
		return &command{name: name, arity: arity, flags: flags, group: "server", since: since, complexity: "O(1)", syntax: syntax, summary: summary, run: run}
	}
	cluster := func(name string, arity int, flags flag, syntax string) *command {
		return &command{name: name, arity: arity, flags: flags, group: "cluster", since: "3.0.0", complexity: "O(1)", syntax: syntax,
			summary: "Answers an error: this is not a cluster.", run: refuse("ERR This instance has cluster support disabled")}
	}
	expire := func(name, since, syntax string) *command {
		return &command{name: name, arity: -3, flags: write | fast, first: 1, last: 1, step: 1, group: "generic", since: since, complexity: "O(1)",
			syntax: syntax + " [NX | XX | GT | LT]", summary: "Answers an error: counters do not expire.", run: refuse("ERR counters do not expire")}
	}
	function := func(name string, flags flag, syntax, summary string, run func(*client, [][]byte)) *command {
		return &command{name: "function|" + name, arity: -2, flags: flags, group: "scripting", since: "7.0.0", complexity: "O(1)", syntax: syntax, summary: summary, run: run}
	}
	return append(append(persistenceCommands(), replicationCommands()...),
		commandCommand(), clientCommand(), configCommand(), slowlogCommand(), latencyCommand(), memoryCommand(), objectCommand(), aclCommand(),
		server("info", -1, loading|stale, "1.0.0", "[section [section ...]]", "Describes the server and its totals.", runInfo),
		server("time", 1, loading|stale|fast, "2.6.0", "", "Returns the time as unix seconds and microseconds.", runTime),
		server("shutdown", -1, admins|nomulti|allowBusy, "1.0.0", "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]", "Ends the server when everything it has read is answered.", runShutdown),
		container("module", "server", "4.0.0", "There are no modules.",
			server("module|list", 2, admin|noscript, "4.0.0", "", "Returns an empty list.", runEmptyList)),
		container("function", "scripting", "7.0.0", "There are no functions.",
			function("list", noscript, "[LIBRARYNAME pattern] [WITHCODE]", "Returns an empty list.", runEmptyList),
			function("flush", write|noscript, "[ASYNC | SYNC]", "Answers OK.", runOK)),
		cluster("cluster", -2, loading|stale, "subcommand [argument [argument ...]]"), cluster("readonly", 1, loading|stale|fast, ""),
		cluster("readwrite", 1, loading|stale|fast, ""), cluster("asking", 1, loading|stale|fast, ""),
		expire("expire", "1.0.0", "key seconds"), expire("pexpire", "2.6.0", "key milliseconds"),
		expire("expireat", "1.2.0", "key unix-time-seconds"), expire("pexpireat", "2.6.0", "key unix-time-milliseconds"),
		&command{name: "persist", arity: 2, flags: write | fast, first: 1, last: 1, step: 1, group: "generic", since: "2.2.0", complexity: "O(1)", syntax: "key",
			summary: "Returns 0: counters do not expire.", run: runZero},
		&command{name: "expiretime", arity: 2, flags: readonly | fast, first: 1, last: 1, step: 1, group: "generic", since: "7.0.0", complexity: "O(1)", syntax: "key",
			summary: "Returns -1 for a key that exists, as counters do not expire, else -2.", plan: items.TTL},
		&command{name: "pexpiretime", arity: 2, flags: readonly | fast, first: 1, last: 1, step: 1, group: "generic", since: "7.0.0", complexity: "O(1)", syntax: "key",
			summary: "The same as EXPIRETIME.", plan: items.TTL},
	)
}

// container is a command that only has subcommands. It gets HELP.
func container(name, group, since, summary string, sub ...*command) *command {
	help := &command{name: name + "|help", arity: 2, flags: loading | stale, group: group, since: since, complexity: "O(1)",
		summary: "Lists the subcommands.", run: runHelp}
	return &command{name: name, arity: -2, group: group, since: since, complexity: "Depends on subcommand.", summary: summary, sub: append(sub, help)}
}

// runHelp answers HELP of any container, in the layout of Redis: a line for the use, indented ones for the meaning.
func runHelp(c *client, args [][]byte) {
	cmd := c.srv.commands.find(args[0])
	c.Out.Array(2*len(cmd.sub) + 1)
	line := func(s string) { c.Out.Status(s) }
	line(strings.ToUpper(cmd.name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, s := range cmd.sub {
		line(strings.TrimSpace(strings.ToUpper(s.name[len(cmd.name)+1:]) + " " + s.syntax))
		line("    " + s.summary)
	}
}

// refuse makes a command that answers an error.
func refuse(text string) func(*client, [][]byte) {
	return func(c *client, _ [][]byte) { c.Out.Error(text) }
}

func runOK(c *client, _ [][]byte) { c.Out.Status("OK") }

func runZero(c *client, _ [][]byte) { c.Out.Int(0) }

func runEmptyList(c *client, _ [][]byte) { c.Out.Array(0) }

func runTime(c *client, _ [][]byte) {
	now := time.Now()
	c.Out.Array(2)
	c.Out.BulkString(strconv.FormatInt(now.Unix(), 10))
	c.Out.BulkString(strconv.Itoa(now.Nanosecond() / 1000))
}

// runShutdown: SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]. There is no answer but the end of the connection. The log is made durable in any
// case; SAVE makes a snapshot before, so that the next start is quick.
func runShutdown(c *client, args [][]byte) {
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
		c.Out.Error(errMemoryOnly)
	default:
		if save {
			if err := c.srv.store().Snapshot(); err != nil && !errors.Is(err, counter.ErrBusy) {
				c.srv.log.Error("not shut down, as SHUTDOWN SAVE could not save", "client", c.id, "error", err)
				c.Out.Error("ERR Errors trying to SHUTDOWN. Check logs.")
				return
			}
		}
		c.srv.log.Info("shutdown asked for", "client", c.id)
		c.closed = true
		c.srv.terminated.Do(func() { go c.srv.Terminate() })
	}
}

func objectCommand() *command {
	sub := func(name, since, summary string, plan func(*items.Call, [][]byte)) *command {
		return &command{name: "object|" + name, arity: 3, flags: readonly, first: 2, last: 2, step: 1, group: "generic", since: since, complexity: "O(1)",
			syntax: "key", summary: summary, plan: plan}
	}
	return container("object", "generic", "2.2.3", "Tells how keys are stored.",
		sub("encoding", "2.2.3", "Returns int for a number and listpack for an item: both are packed bits in truth.", items.ObjectEncoding),
		sub("refcount", "2.2.3", "Returns 1.", items.ObjectRefCount),
		sub("idletime", "2.2.3", "Answers an error: accesses are not recorded.", items.ObjectIdleTime),
		sub("freq", "4.0.0", "Answers an error: accesses are not counted.", items.ObjectFreq),
	)
}

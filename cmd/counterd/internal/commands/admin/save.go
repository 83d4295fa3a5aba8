package admin

import (
	"errors"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// SAVE and similar commands. Redis has two ways to keep data, and counterd has one: a log that snapshots shorten.

func saveRows[C any](on func(C) Conn) []*command.Row[C] {
	entry := func(name string, arity int, flags command.Flags, syntax, summary string, run func(Conn, [][]byte)) *command.Row[C] {
		return &command.Row[C]{Name: name, Arity: arity, Flags: flags, Group: "server", Since: "1.0.0", Complexity: "O(N) in the size of the changed blocks",
			Syntax: syntax, Summary: summary, Run: handler(on, run)}
	}
	lastSave := entry("lastsave", 1, command.Loading|command.Stale|command.Fast, "", "Returns the Unix time of the last snapshot, or of the server start if there is none.",
		func(c Conn, _ [][]byte) { c.Call().Out.Int(c.Server().LastSave()) })
	lastSave.Complexity = "O(1)"
	return []*command.Row[C]{
		lastSave,
		entry("save", 1, command.Admin|command.NoScript|command.NoAsyncLoading|command.NoMulti, "", "Makes a snapshot and replies when it is complete. Other connections are served meanwhile.", runSave),
		entry("bgsave", -1, command.Admin|command.NoScript|command.NoAsyncLoading, "[SCHEDULE]", "Starts a snapshot in the background.",
			background("Background saving started", "ERR Background save already in progress")),
		entry("bgrewriteaof", 1, command.Admin|command.NoScript|command.NoAsyncLoading, "", "Starts a snapshot in the background, after which older log segments can be removed.",
			background("Background append only file rewriting started", "ERR Background append only file rewriting already in progress")),
	}
}

func runSave(c Conn, _ [][]byte) {
	switch err := c.Server().Store().Snapshot(); {
	case err == nil:
		c.Call().Out.Status("OK")
	case errors.Is(err, counter.ErrInMemory):
		c.Call().Out.Error(items.ErrMemoryOnly)
	case errors.Is(err, counter.ErrBusy):
		c.Call().Out.Error("ERR Background save already in progress")
	default:
		c.Call().Out.Error(items.ErrorText(err))
	}
}

// background makes a command that starts a snapshot. How it ends is told by the log, INFO and LASTSAVE.
func background(started, busy string) func(Conn, [][]byte) {
	return func(c Conn, args [][]byte) {
		store := c.Server().Store()
		switch {
		case len(args) > 2 || len(args) == 2 && !resp.EqualFold(args[1], "SCHEDULE"):
			c.Call().Out.Error(items.ErrSyntax)
		case !store.Durable():
			c.Call().Out.Error(items.ErrMemoryOnly)
		case store.Admin().Snapshots().Running:
			c.Call().Out.Error(busy)
		default:
			go func() { _ = store.Snapshot() }() // the store's Close waits for it
			c.Call().Out.Status(started)
		}
	}
}

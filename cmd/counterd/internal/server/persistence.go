package server

import (
	"errors"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// SAVE and similar commands. Redis has two ways to keep data, and counterd has one: a log that snapshots shorten.

func persistenceCommands() []*row {
	entry := func(name string, arity int, flags command.Flags, syntax, summary string, run func(*call, [][]byte)) *row {
		return &row{Name: name, Arity: arity, Flags: flags, Group: "server", Since: "1.0.0", Complexity: "O(N) in the size of the changed blocks",
			Syntax: syntax, Summary: summary, Run: on(run)}
	}
	lastSave := entry("lastsave", 1, command.Loading|command.Stale|command.Fast, "", "Returns the Unix time of the last snapshot, or of the server start if there is none.",
		func(c *call, _ [][]byte) { c.Out.Int(c.srv.lastSave()) })
	lastSave.Complexity = "O(1)"
	return []*row{
		lastSave,
		entry("save", 1, command.Admin|command.NoScript|command.NoAsyncLoading|command.NoMulti, "", "Makes a snapshot and replies when it is complete. Other connections are served meanwhile.", runSave),
		entry("bgsave", -1, command.Admin|command.NoScript|command.NoAsyncLoading, "[SCHEDULE]", "Starts a snapshot in the background.",
			background("Background saving started", "ERR Background save already in progress")),
		entry("bgrewriteaof", 1, command.Admin|command.NoScript|command.NoAsyncLoading, "", "Starts a snapshot in the background, after which older log segments can be removed.",
			background("Background append only file rewriting started", "ERR Background append only file rewriting already in progress")),
	}
}

// lastSave is when the newest snapshot was made, in unix seconds, as LASTSAVE has it.
func (s *Server) lastSave() int64 {
	if last := s.store().Admin().Snapshots().LastTime; !last.IsZero() {
		return last.Unix()
	}
	return s.started.Unix()
}

func runSave(c *call, _ [][]byte) {
	switch err := c.srv.store().Snapshot(); {
	case err == nil:
		c.Out.Status("OK")
	case errors.Is(err, counter.ErrInMemory):
		c.Out.Error(items.ErrMemoryOnly)
	case errors.Is(err, counter.ErrBusy):
		c.Out.Error("ERR Background save already in progress")
	default:
		c.Out.Error(items.ErrorText(err))
	}
}

// background makes a command that starts a snapshot. How it ends is told by the log, INFO and LASTSAVE.
func background(started, busy string) func(*call, [][]byte) {
	return func(c *call, args [][]byte) {
		store := c.srv.store()
		switch {
		case len(args) > 2 || len(args) == 2 && !resp.EqualFold(args[1], "SCHEDULE"):
			c.Out.Error(items.ErrSyntax)
		case !store.Durable():
			c.Out.Error(items.ErrMemoryOnly)
		case store.Admin().Snapshots().Running:
			c.Out.Error(busy)
		default:
			go func() { _ = store.Snapshot() }() // the store's Close waits for it
			c.Out.Status(started)
		}
	}
}

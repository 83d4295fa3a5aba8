package admin

import (
	"errors"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// runShutdown: SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]. There is no answer but the end of the connection. The
// log is made durable in any case; SAVE makes a snapshot before, so that the next start is quick.
func runShutdown(c Conn, args [][]byte) {
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
			c.Call().Out.Error(items.ErrSyntax)
			return
		}
	}
	switch {
	case save && nosave, abort && len(args) > 2:
		c.Call().Out.Error(items.ErrSyntax)
	case abort:
		c.Call().Out.Error("ERR No shutdown in progress.")
	case save && !c.Server().Store().Durable():
		c.Call().Out.Error(items.ErrMemoryOnly)
	default:
		if save {
			if err := c.Server().Store().Snapshot(); err != nil && !errors.Is(err, counter.ErrBusy) {
				c.Server().Log.Error("SHUTDOWN SAVE failed to make a snapshot; the server continues", "client", c.ID(), "error", err)
				c.Call().Out.Error("ERR Errors trying to SHUTDOWN. Check logs.")
				return
			}
		}
		c.Server().Log.Info("shutdown requested by a client", "client", c.ID())
		c.CloseConnection()
		c.Server().Terminate()
	}
}

func shutdownRow[C any](on func(C) Conn) *command.Row[C] {
	return &command.Row[C]{Name: "shutdown", Arity: -1, Flags: command.Admin | command.NoScript | command.Loading | command.Stale | command.NoMulti | command.AllowBusy, Group: "server", Since: "1.0.0",
		Complexity: "O(1)", Syntax: "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]", Summary: "Stops the server after all received commands have been answered.", Run: handler(on, runShutdown)}
}

package admin

import (
	"log/slog"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/popular"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/slowlog"
	"github.com/counterd/counterd/counter"
)

// Conn is the part of a connection that these commands use.
type Conn interface {
	// Call has its replies.
	Call() *items.Call
	// ID is the number of the connection.
	ID() int64
	// WithStore calls f with an open batch of the store.
	WithStore(exclusive bool, f func(b *counter.Batch) error) error
	// WrongNumber is the error for the number of arguments of the command.
	WrongNumber() string
	// CloseConnection closes the connection after all replies are sent.
	CloseConnection()
	// Server returns the part of the server that the commands use.
	Server() *Server
}

// Server is the part of the server that these commands use. It is immutable.
type Server struct {
	Config  *config.Live
	Log     *slog.Logger
	Slow    *slowlog.Log
	Popular *popular.Posts
	// Store is the one being served.
	Store func() *counter.Store
	// LastSave is when the newest snapshot was made, in Unix seconds.
	LastSave func() int64
	// Configured puts changed settings in force; password: requirepass was among them.
	Configured func(password bool)
	// UserLines are the users as the configuration file has them.
	UserLines func(c *config.Config) []string
	// ResetStats is CONFIG RESETSTAT.
	ResetStats func()
	// Terminate ends the server, once.
	Terminate func()
}

// Commands are the rows of these commands, for a table whose handlers see a C: on gives what the handlers here see of it.
func Commands[C any](on func(C) Conn) []*command.Row[C] {
	return append(saveRows(on), configRow(on), slowlogRow(on), hotRow(on), shutdownRow(on))
}

func handler[C any](on func(C) Conn, run func(Conn, [][]byte)) func(C, [][]byte) {
	return func(c C, args [][]byte) { run(on(c), args) }
}

// container is a command that only has subcommands.
func container[C any](on func(C) Conn, name, group, since, summary string, sub ...*command.Row[C]) *command.Row[C] {
	return command.Container(func(c C) *resp.Replies { return &on(c).Call().Out }, name, group, since, summary, sub...)
}

package main

import (
	"context"

	"github.com/counterd/counterd/cmd/counterctl/internal/cluster"
	"github.com/counterd/counterd/cmd/internal/cli"
)

type (
	command = cli.Command
	action  = cli.Action
	output  = cli.Output
)

// errReported ends a command with status 1 after it has said all itself.
var errReported = cli.ErrReported

// misuse returns the error of a command line that cannot be run.
func misuse(format string, args ...any) error { return cli.Misuse(format, args...) }

// one makes an action of a function of the one argument that every command takes.
func one(run func(ctx context.Context, out output, arg string) error) action {
	return func(ctx context.Context, out output, args []string) error {
		if len(args) != 1 {
			return misuse("got %d arguments %q, want one", len(args), args)
		}
		return run(ctx, out, args[0])
	}
}

var program = cli.Tool{
	Name:    "counterctl",
	Summary: "administers counterd: running nodes, data directories, backups and clusters.",
	Groups: []cli.Group{
		{Title: "A running node", Commands: []command{pingCommand, drainCommand, findCommand, topCommand, diffCommand}},
		{Title: "A data directory", Commands: []command{checkCommand, dumpCommand, repairCommand}},
		{Title: "Backups", Commands: []command{backupCommand, backupsCommand, restoreCommand, drillCommand, pruneCommand}},
		{Title: "Moving data", Commands: []command{importCommand, exportCommand, feedCommand, cursorsCommand, buildCommand}},
		{Title: "A cluster", Commands: cluster.Commands},
	},
	SeeAlso: []string{"counterd(8)", "counterbench(1)", "redis-cli(1)"},
}

func main() { program.Main() }

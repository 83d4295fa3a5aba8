package main

import (
	"context"
	"errors"
	"strings"

	"github.com/counterd/counterd/cmd/counterctl/internal/cluster"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/internal/wire"
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

// one makes an action of a function of the only argument of a command. want names it in the error for none or several.
func one(want string, run func(ctx context.Context, out output, arg string) error) action {
	return func(ctx context.Context, out output, args []string) error {
		arg, err := cli.One(want, args)
		if err != nil {
			return err
		}
		return run(ctx, out, arg)
	}
}

// hint says how a command gets the password that a server asks for.
func hint(err error) string {
	var refused *wire.ServerError
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Text, "NOAUTH") {
		return ""
	}
	return " (set COUNTERD_PASS or --pass-file; for the source of an import SOURCE_PASS, for the sink of a feed SINK_PASS)"
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
	Hint:    hint,
	SeeAlso: []string{"counterd(8)", "counterbench(1)", "redis-cli(1)"},
}

func main() { program.Main() }

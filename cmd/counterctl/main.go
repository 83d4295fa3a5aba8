// Command counterctl administers counterd. Its commands are about a running node (ping, drain, find, top, diff), a data
// directory (check, dump, repair), backups (backup, backups, restore, drill, prune), moving data (import, export, build), or
// a cluster (cluster create, status, check, ...). counterctl --help lists them.
//
// check, dump and restore only read a data directory, and work while a server has it open. repair needs it alone. Instead of
// a directory they take an archive, which redis-cli --rdb downloads: a snapshot with the log behind it in one file.
//
// Exit status: 0 if all is well, 1 if the work failed or found something wrong, 2 for a command line that is not understood.
//
// # Files
//
//	main.go                              commands, help, exit status
//	moment.go                            a log offset or a time
//	ping.go drain.go diff.go find.go     a running node, or two
//	check.go repair.go restore.go        a data directory
//	dump.go dump_files.go dump_log.go    its contents as text: sections and filters, files, log
//	dump_commands.go                     its contents as commands
//	names.go                             names of counters and columns by id
//	backup.go                            backups and drills; package backup has the place
//	build.go                             files of posts to a directory; package bulk reads and sorts them
//	import.go import_report.go           posts from elsewhere; what is said of it
//	follow.go                            following a Redis; its snapshots
//	export.go                            posts as files
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

// one makes an action of what is done with the one argument that every command takes.
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
		{Title: "Moving data", Commands: []command{importCommand, exportCommand, buildCommand}},
		{Title: "A cluster", Commands: cluster.Commands},
	},
	SeeAlso: []string{"counterd(8)", "counterbench(1)", "redis-cli(1)"},
}

func main() { program.Main() }

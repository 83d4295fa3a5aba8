// Command counterctl looks after the data directory of a counterd: it checks, prints, repairs and restores it. And it
// compares running nodes, and prints posts of one.
//
//	counterctl check DIR|FILE     verify every checksum and cross-reference
//	counterctl dump DIR|FILE      print snapshots and log, or commands that rebuild a server
//	counterctl repair DIR         make a damaged directory one that a server starts from
//	counterctl restore DIR|FILE   make a directory with the state at an earlier moment, or from a download
//	counterctl backup DIR PLACE   copy what is new of a directory to a place of backups; backups: list them; drill: prove
//	                              that the newest can be restored; prune: remove old ones
//	counterctl diff HOST:PORT     find the posts that two running nodes count differently
//	counterctl find HOST:PORT     print the posts of a running node that meet conditions; top: with the largest values
//	counterctl build INPUT...     make a data directory of files of posts, without a server
//	counterctl import SOURCE      move counters from a Redis or Valkey, or from files, into a running node
//	counterctl export SOURCE      write posts as TSV, CSV, SQL or commands
//	counterctl ping HOST:PORT     tell whether a node serves, for health checks; drain: hand its role over before it is stopped
//	counterctl cluster ...        make a cluster of nodes and look after it: create, status, check, add, remove, failover,
//	                              move, rebalance, set, backup, restore
//
// FILE is an archive, a snapshot with the log behind it in one file: redis-cli --rdb downloads it.
//
// check, dump and restore only read DIR, and work while a server has it open. repair needs it alone.
//
// Exit status: 0 if all is well, 1 if something is wrong with the data or the work failed, 2 for a command line that is
// not understood.
//
//	main.go      commands, help, exit status
//	datadir.go   a data directory, locked or seen through a view of it, and an archive that shows one
//	moment.go    OFFSET|TIME
//	progress.go  the bar on a terminal
//	check.go, repair.go, restore.go
//	backup.go    backups, drills; package backup knows the place
//	diff.go      two running nodes; node.go is a connection to one, drain.go hands its role over
//	find.go      posts of one
//	build.go     files of posts to a directory; package bulk reads and sorts them
//	import.go    posts from elsewhere; import_report.go what is said of it; follow.go keeping up with a Redis, its snapshots
//	export.go    posts as files; export_sources.go where they come from, conditions.go which
//	cluster.go   a session with a cluster in etcd: changes, waiting, what is asked before; cluster_create.go,
//	             cluster_status.go (and check), cluster_nodes.go (add, remove, failover, set), cluster_moves.go (and rebalance)
//	cluster_backup.go      archives of all shards; cluster_backup_manifest.go; cluster_restore.go into another cluster, cluster_posts.go writes posts
//	dump.go      sections and filters; dump_files.go, dump_log.go, dump_commands.go print them; names.go
package main

import (
	"context"

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
	Summary: "looks after the data directory of a counterd.",
	Commands: []command{checkCommand, dumpCommand, repairCommand, restoreCommand, backupCommand, backupsCommand, drillCommand, pruneCommand,
		diffCommand, findCommand, topCommand, buildCommand, exportCommand, importCommand, pingCommand, drainCommand,
		clusterCreateCommand, clusterStatusCommand, clusterCheckCommand, clusterAddCommand, clusterRemoveCommand, clusterFailoverCommand,
		clusterMoveCommand, clusterRebalanceCommand, clusterSetCommand, clusterBackupCommand, clusterRestoreCommand},
	SeeAlso: []string{"counterd(8)", "counterbench(1)", "redis-cli(1)"},
}

func main() { program.Main() }

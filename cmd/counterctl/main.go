// Command counterctl looks after the data directory of a counterd: it checks, prints, repairs and restores it. And it compares running nodes.
//
//	counterctl check DIR|FILE     verify every checksum and cross-reference
//	counterctl dump DIR|FILE      print snapshots and log, or commands that rebuild a server
//	counterctl repair DIR         make a damaged directory one that a server starts from
//	counterctl restore DIR|FILE   make a directory with the state at an earlier moment, or from a download
//	counterctl diff HOST:PORT     find the posts that two running nodes count differently
//
// FILE is an archive, a snapshot with the log behind it in one file: redis-cli --rdb downloads it.
//
// check, dump and restore only read DIR, and work while a server has it open. repair needs it alone.
//
// Exit status: 0 if all is well, 1 if something is wrong with the data or the work failed, 2 for a command line that is not
// understood.
//
//	main.go      commands, help, exit status
//	datadir.go   a data directory, locked or seen through a view of it, and an archive that shows one
//	moment.go    OFFSET|TIME
//	progress.go  the bar on a terminal
//	check.go, repair.go, restore.go
//	diff.go      two running nodes; node.go is a connection to one
//	dump.go      sections and filters; dump_files.go, dump_log.go, dump_commands.go print them; names.go
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// command is one of the tool's commands.
type command struct {
	name    string
	args    string // what it takes beside flags
	summary string
	details string
	// setup declares the flags and returns what runs when they are parsed.
	setup func(flags *pflag.FlagSet) action
}

// action is what a command does with its one argument: the data directory, an archive or a node's address.
type action func(ctx context.Context, out output, arg string) error

// output is where a command writes.
type output struct{ stdout, stderr io.Writer }

var commands = []command{checkCommand, dumpCommand, repairCommand, restoreCommand, diffCommand}

func main() {
	// The first Ctrl-C ends the work in order; a second one ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the tool and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stdout)
		return 0
	}
	switch args[0] {
	case "-h", "--help", "help":
		usage(stdout)
		return 0
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "counterctl: no command is called %q\n\n", args[0])
	usage(stderr)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "counterctl looks after the data directory of a counterd.\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  counterctl %-8s %-9s  %s\n", c.name, c.args, c.summary)
	}
	fmt.Fprint(w, "\ncounterctl COMMAND --help says more.\n")
}

func (c command) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.SetOutput(stderr)
	run := c.setup(flags)
	fail := func(status int, err error, more string) int {
		fmt.Fprintf(stderr, "counterctl %s: %v%s\n", c.name, err, more)
		return status
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, "usage: counterctl %s %s [flags]\n\n%s\n", c.name, c.args, c.details)
		if flags.HasFlags() {
			fmt.Fprintf(stdout, "\nflags:\n%s", flags.FlagUsages())
		}
		return 0
	case err != nil:
		return fail(2, err, " (--help lists the flags)")
	case flags.NArg() != 1:
		return fail(2, fmt.Errorf("got %d arguments %q, want one, %s", flags.NArg(), flags.Args(), c.args), " (--help says more)")
	}
	err := run(ctx, output{stdout, stderr}, flags.Arg(0))
	var wrong *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		return fail(2, err, " (--help says more)")
	case errors.Is(err, errReported):
		return 1
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return fail(1, errors.New("interrupted"), "")
	}
	return fail(1, err, "")
}

// errReported ends a command with status 1 after it has said all itself.
var errReported = errors.New("reported")

// usageError is a command line that cannot be run.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func misuse(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// Command counterbench loads, shows and measures counter servers. It speaks the Redis protocol, and drives counterd as
// well as Redis and its relatives, each with the data model that suits it.
//
//	counterbench load     load a file of posts into a running server
//	counterbench demo     start a server, play real posts through it, show what comes out
//	counterbench run      measure a server, alone or against another
//	counterbench idle     what open connections cost a server
//	counterbench compare  two measurements side by side
//	counterbench markdown measurements as Markdown tables
//
// The workloads and the load generator are in package bench. Exit status: 0 for success, 1 for a failure, 2 for a
// command line that is not understood.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench/wire"
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

// action is what a command does.
type action func(ctx context.Context, out output, args []string) error

// output is where a command writes.
type output struct{ stdout, stderr io.Writer }

var commands = []command{loadCommand, demoCommand, runCommand, idleCommand, compareCommand, markdownCommand}

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
	fmt.Fprintf(stderr, "counterbench: no command is called %q\n\n", args[0])
	usage(stderr)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "counterbench loads, shows and measures counter servers.\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  counterbench %-8s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\ncounterbench COMMAND --help says more.\n")
}

func (c command) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.SetOutput(stderr)
	run := c.setup(flags)
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, "usage: counterbench %s %s[flags]\n\n%s\n\nflags:\n%s", c.name, c.args, c.details, flags.FlagUsages())
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "counterbench %s: %v (--help lists the flags)\n", c.name, err)
		return 2
	}
	err := run(ctx, output{stdout, stderr}, flags.Args())
	var wrong *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "counterbench %s: %v (--help says more)\n", c.name, err)
		return 2
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintf(stderr, "counterbench %s: interrupted\n", c.name)
		return 1
	}
	fmt.Fprintf(stderr, "counterbench %s: %v%s\n", c.name, err, hint(err))
	return 1
}

// hint says what may be wrong where the error alone leaves a reader at a loss.
func hint(err error) string {
	var failed *wire.ServerError
	switch {
	case errors.As(err, &failed) && (strings.HasPrefix(failed.Text, "NOAUTH") || strings.HasPrefix(failed.Text, "WRONGPASS") || strings.Contains(failed.Text, "invalid password")):
		return " (--password is that of --server, --vs-password that of --vs)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return " (is the server started, on that port?)"
	case errors.Is(err, wire.ErrProtocol), errors.Is(err, os.ErrDeadlineExceeded):
		return " (does a server that speaks the Redis protocol listen there?)"
	}
	return ""
}

// usageError is a command line that cannot be run.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func misuse(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

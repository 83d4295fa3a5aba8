// Command counterbench shows and measures counter servers. It speaks the Redis protocol, and drives counterd as
// well as Redis and its relatives, each with the data model that suits it.
//
//	counterbench demo     start a server, play real posts through it, show what comes out
//	counterbench demo-cluster  start a cluster of six nodes, break it under load, show what clients saw
//	counterbench run      measure a server, alone or against another
//	counterbench build    make a data directory of generated posts, however many
//	counterbench idle     what open connections cost a server
//	counterbench compare  two measurements side by side
//	counterbench markdown measurements as Markdown tables
//	counterbench page     measurements of several runs as one HTML page
//	counterbench figure   add a figure to a file, for page and markdown
//
// The workloads and the load generator are in package bench. Exit status: 0 for success, 1 for a failure, 2 for a
// command line that is not understood.
package main

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/internal/wire"
)

type (
	command = cli.Command
	action  = cli.Action
	output  = cli.Output
)

// misuse returns the error of a command line that cannot be run.
func misuse(format string, args ...any) error { return cli.Misuse(format, args...) }

var program = cli.Tool{
	Name:     "counterbench",
	Summary:  "shows and measures counter servers.",
	Commands: []command{demoCommand, clusterDemoCommand, runCommand, buildCommand, idleCommand, compareCommand, markdownCommand, pageCommand, figureCommand},
	SeeAlso:  []string{"counterd(8)", "counterctl(1)"},
	Hint:     hint,
}

func main() {
	if os.Getenv(asLoad) != "" {
		runLoad()
		return
	}
	program.Main()
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

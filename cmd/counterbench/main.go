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
	Summary:  "demonstrates and benchmarks counter servers.",
	Commands: []command{demoCommand, clusterDemoCommand, runCommand, buildCommand, idleCommand, feedCommand, addsCommand, compareCommand, markdownCommand, pageCommand, recordCommand},
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

package main

import (
	"context"

	"github.com/spf13/pflag"
)

var markdownCommand = command{
	Name:    "markdown",
	Args:    "FILE.json...",
	Summary: "print measurements as Markdown tables",
	Details: `Writes what counterbench run --json wrote to the files as tables for a README: the server's processor time for an
operation by workload and depth, as the ratio of A to B with its spread and both values; latencies of runs with --rate, and
with --while, --flood and --heavy, without and with it; memory; and the measurements of scripts (counterbench record).
Values whose slices lie more than 20 % from their median are marked with (!).`,
	Setup: func(*pflag.FlagSet) action {
		return func(_ context.Context, out output, args []string) error {
			all, err := collect(args)
			if err != nil {
				return err
			}
			return all.Markdown(out.Stdout)
		}
	},
}

package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench/report"
)

var compareCommand = command{
	Name:    "compare",
	Args:    "BEFORE.json AFTER.json",
	Summary: "compare two measurements",
	Details: `Shows what changed between two files that counterbench run --json wrote. Differences within the noise, whose
slices overlap, are marked with ~.`,
	Setup: func(*pflag.FlagSet) action {
		return func(_ context.Context, out output, args []string) error {
			if len(args) != 2 {
				return misuse("takes two files, not %d", len(args))
			}
			before, err := report.Read(args[0])
			if err != nil {
				return err
			}
			after, err := report.Read(args[1])
			if err != nil {
				return err
			}
			return report.Compare(out.Stdout, before, after)
		}
	},
}

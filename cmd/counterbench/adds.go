package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench/addload"
)

var addsCommand = command{
	Name:    "adds",
	Summary: "measure what windows and numbers add to the cost of an INCR",
	Details: `Sends the same INCRs to several servers, or in several forms, in turns. It reports the processor time of an INCR in each
case, and how many times that of the first case it is: medians of the rounds, and quartiles. FORM is plain, connection (CLIENT IDMP) or
arguments (IDMP producer number). PID is the process of the server, where INFO does not tell.

  counterbench adds --case plain=127.0.0.1:6379,plain --case numbered=127.0.0.1:6379,arguments`,
	Setup: func(flags *pflag.FlagSet) action {
		c := addload.Config{}
		cases := flags.StringArray("case", nil, "`NAME=HOST:PORT,FORM[,PID]`; the others are compared with the first")
		flags.StringVar(&c.Suffix, "suffix", "cntrn", "`suffix` of the column")
		flags.IntVar(&c.Posts, "posts", 5000, "posts that are incremented")
		flags.IntVar(&c.Warm, "warm", 8, "additions to each post before the first round")
		flags.IntVar(&c.Clients, "clients", 50, "connections of a case")
		flags.IntVar(&c.Depth, "depth", 64, "INCRs in a batch")
		flags.IntVar(&c.Count, "count", 2_000_000, "INCRs of a round")
		flags.IntVar(&c.Rounds, "rounds", 11, "rounds")
		return func(ctx context.Context, out output, args []string) error {
			if len(args) != 0 {
				return misuse("takes no arguments, only flags")
			}
			if c.Depth < 1 || c.Posts < 1 || c.Warm < 0 || c.Clients < 1 || c.Count < c.Depth || c.Rounds < 1 || len(*cases) == 0 {
				return misuse("--case, --posts, --clients, --depth and --rounds must be 1 at least, and --count not less than --depth")
			}
			for _, s := range *cases {
				one, err := addload.ParseCase(s)
				if err != nil {
					return misuse("--case: %v", err)
				}
				c.Cases = append(c.Cases, one)
			}
			result, err := addload.Run(ctx, c)
			if err != nil {
				return err
			}
			return result.Write(out.Stdout)
		}
	},
}

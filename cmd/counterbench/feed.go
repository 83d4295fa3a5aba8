package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench/feedload"
)

var feedCommand = command{
	Name:    "feed",
	Summary: "measure what the feed of changes costs a server, and how late changes arrive",
	Details: `Increments posts over one connection, without and with another one that reads COUNTER.FEED, in turns. It reports the
server's processor time of an INCR and of a change, and the lag of the changes at a rate: medians of the rounds, and ranges. The server must be
empty.

  counterbench feed --server 127.0.0.1:6379`,
	Setup: func(flags *pflag.FlagSet) action {
		c := feedload.Config{}
		flags.StringVar(&c.Addr, "server", "127.0.0.1:6379", "`HOST:PORT` of the server")
		flags.IntVar(&c.PID, "server-pid", 0, "`process` of the server, where INFO does not tell")
		flags.IntVar(&c.Posts, "posts", 300_000, "posts that are incremented")
		flags.IntVar(&c.Depth, "depth", 64, "INCRs in a batch")
		flags.IntVar(&c.Count, "count", 1_000_000, "INCRs of a phase that is as fast as possible")
		flags.IntVar(&c.Rate, "rate", 100_000, "INCRs a second of a phase that is paced")
		flags.DurationVar(&c.Paced, "duration", 5*time.Second, "length of a phase that is paced")
		flags.IntVar(&c.Rounds, "rounds", 5, "rounds")
		return func(ctx context.Context, out output, args []string) error {
			if len(args) != 0 {
				return misuse("takes no arguments, only flags")
			}
			if c.Depth < 1 || c.Posts < c.Depth || c.Count < c.Depth || c.Rate < c.Depth || c.Rounds < 1 || c.Paced < time.Second {
				return misuse("--depth and --rounds must be 1 at least, --duration 1s, and --posts, --count and --rate not less than --depth")
			}
			c.Each = func(r *feedload.Round) {
				fmt.Fprintf(out.Stderr, "round: INCR %.0f ns, fed %.0f, read %.0f; paced %.0f, beside %.0f, lag p50 %v, p99 %v\n", r.Alone, r.Fed, r.Read, r.Paced, r.Beside,
					feedload.Percentile(r.Lags, 50).Round(10*time.Microsecond), feedload.Percentile(r.Lags, 99).Round(10*time.Microsecond))
			}
			result, err := feedload.Run(ctx, c)
			if err != nil {
				return err
			}
			return result.Write(out.Stdout)
		}
	},
}

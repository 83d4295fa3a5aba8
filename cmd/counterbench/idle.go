package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench"
)

var idleCommand = command{
	Name:    "idle",
	Summary: "measure what open connections cost a server",
	Details: `Opens connections, has each answer one PING, lets them be, and reports the server's resident memory a connection. With
--vs a second server is measured after the first. The servers should be started anew, with a --maxclients above the
connections asked for: one that had as many connections before has kept memory of theirs.

  counterbench idle --server 127.0.0.1:6379 --connections 10000 --vs 127.0.0.1:6380`,
	Setup: func(flags *pflag.FlagSet) action {
		server := flags.String("server", "127.0.0.1:6379", "`HOST:PORT` or socket of the server, A")
		vs := flags.String("vs", "", "`HOST:PORT` of a second server, B")
		password := flags.String("password", "", "password of A for AUTH")
		vsPassword := flags.String("vs-password", "", "password of B for AUTH")
		connections := flags.Int("connections", 10_000, "how many to each")
		settle := flags.Duration("settle", 5*time.Second, "for which the server's memory may move at most before it is read")
		pids := flags.IntSlice("server-pid", nil, "`process` of A, and of B, where INFO does not tell")
		json := flags.String("json", "", "`FILE` to write the results to; - is the standard output, instead of the table")
		showProgress := flags.Bool("progress", true, "show progress: a bar on a terminal, lines elsewhere")
		return func(ctx context.Context, out output, args []string) error {
			if len(args) != 0 {
				return misuse("takes no arguments, only flags")
			}
			targets, err := parseTargets(*server, "", *password, *vs, *vsPassword)
			if err != nil {
				return err
			}
			if *connections < 1 || *connections > bench.MaxIdle {
				return misuse("--connections: %d is not 1..%d", *connections, bench.MaxIdle)
			}
			if *settle < 0 {
				return misuse("--settle: %s is less than 0", *settle)
			}
			shown := newProgress(out.Stderr, *showProgress, "connecting", "connections", *connections*len(targets))
			result, err := bench.Idle(ctx, bench.IdleConfig{Targets: targets, PIDs: *pids, Connections: *connections, Settle: *settle,
				Progress: func(_ int, addr string) {
					shown.describe("connecting to " + addr)
					shown.add(1)
				}})
			shown.finish()
			if err != nil {
				return err
			}
			if *json == "-" {
				return result.Write(out.Stdout)
			}
			if *json != "" {
				if err := writeTo(*json, result.Write); err != nil {
					return err
				}
			}
			return result.Table(out.Stdout)
		}
	},
}

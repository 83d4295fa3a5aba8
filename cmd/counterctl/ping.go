package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/internal/wire"
)

var pingCommand = command{
	Name:    "ping",
	Args:    "HOST:PORT",
	Summary: "check whether a node serves clients",
	Details: `Sends PING. The exit status is 0 if the node answers, also if it asks for a password first, and 1 if it does not answer within
--timeout or is still loading its data. Use it as the health check of a container, which has no shell.`,
	Setup: func(flags *pflag.FlagSet) action {
		timeout := flags.Duration("timeout", 2*time.Second, "how long to wait for the answer")
		reach := connect.AddTLSFlags(flags)
		return one("HOST:PORT", func(ctx context.Context, out output, addr string) error {
			ctx, cancel := context.WithTimeout(ctx, *timeout)
			defer cancel()
			opts, err := reach.Options(addr)
			if err != nil {
				return err
			}
			opts.Timeout, opts.Answer = *timeout, *timeout
			if err := wire.Ping(ctx, addr, opts); err != nil {
				return fmt.Errorf("%s: %w", addr, err)
			}
			fmt.Fprintln(out.Stdout, "it serves")
			return nil
		})
	},
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/internal/wire"
)

var pingCommand = command{
	Name:    "ping",
	Args:    "HOST:PORT",
	Summary: "check whether a node serves clients",
	Details: `Exit status 0 if the node answers PING, also if it wants a password first; 1 if it does not answer within the timeout, or
loads its data still. For health checks of containers, which have no shell.`,
	Setup: func(flags *pflag.FlagSet) action {
		timeout := flags.Duration("timeout", 2*time.Second, "how long to wait for the answer")
		reach := connect.AddTLSFlags(flags)
		return one(func(ctx context.Context, out output, addr string) error {
			ctx, cancel := context.WithTimeout(ctx, *timeout)
			defer cancel()
			opts, err := reach.Options(addr)
			if err != nil {
				return err
			}
			opts.Timeout, opts.Answer = *timeout, *timeout
			conn, err := wire.Dial(ctx, addr, opts)
			if err != nil {
				return fmt.Errorf("%s: %w", addr, err)
			}
			defer conn.Close()
			answer, err := conn.Do("PING")
			if err == nil && answer.IsErr {
				err = &wire.ServerError{Text: answer.Str}
			}
			var refused *wire.ServerError
			if errors.As(err, &refused) && strings.HasPrefix(refused.Text, "NOAUTH ") {
				err = nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", addr, err)
			}
			fmt.Fprintln(out.Stdout, "it serves")
			return nil
		})
	},
}

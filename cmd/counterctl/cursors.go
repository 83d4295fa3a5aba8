package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/feed"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/counter"
)

var cursorsCommand = command{
	Name:    "cursors",
	Args:    "HOST:PORT[,HOST:PORT...]",
	Summary: "print the named cursors of the feed and how far they are behind, or delete one",
	Details: `Prints the named cursors of a node, or of all shards of a cluster, one a line: how much log is behind each, and how old the first change in
it is. A lost cursor is one that no feed can go on from.

  counterctl cursors 127.0.0.1:6379
  counterctl cursors 127.0.0.1:6379 --delete search

Several addresses are a primary and its replicas, or any nodes of a cluster. --delete deletes a cursor on each shard, so that no log is kept for
it any more: COUNTER.CURSOR DEL does this on one. It ends with status 1 if there is no such cursor, or if a shard has no primary.`,
	Setup: func(flags *pflag.FlagSet) action {
		name := flags.String("delete", "", "`NAME` of a cursor to delete")
		reach := connect.AddFlags(flags)
		return func(ctx context.Context, out output, args []string) error {
			named, err := cli.One("HOST:PORT", args)
			if err != nil {
				return err
			}
			if *name != "" && !counter.ValidCursorName(*name) {
				return misuse("--delete: %v", &counter.CursorNameError{Got: *name})
			}
			addrs := strings.Split(named, ",")
			dial, err := dialFeed(reach, addrs)
			if err != nil {
				return err
			}
			log := newFollowLog(out.Stderr)
			o := feed.Options{Addrs: addrs, TLS: reach.TLS, Dial: dial, Log: log.printf}
			if *name != "" {
				return deleteCursor(ctx, out, o, *name)
			}
			return listCursors(ctx, out, o)
		}
	},
}

func deleteCursor(ctx context.Context, out output, o feed.Options, name string) error {
	n, err := feed.DeleteCursor(ctx, o, name)
	if err == nil && n == 0 {
		err = fmt.Errorf("there is no cursor %s", name)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out.Stdout, "cursor %s deleted\n", name)
	return nil
}

func listCursors(ctx context.Context, out output, o feed.Options) error {
	list, err := feed.Cursors(ctx, o)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(out.Stdout, "no cursors")
		return nil
	}
	w := tabwriter.NewWriter(out.Stdout, 0, 0, 2, ' ', 0)
	head := "cursor\tset\tlog behind it\tlag\n"
	cluster := list[0].Shard != 0
	if cluster {
		head = "shard\t" + head
	}
	fmt.Fprint(w, head)
	for _, c := range list {
		if cluster {
			fmt.Fprintf(w, "%d\t", c.Shard)
		}
		behind, lag := human.Size(c.Behind), c.Lag.Round(time.Second).String()
		if c.Lost {
			behind, lag = "lost", "lost"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, human.Clock(c.Set.UnixMilli()), behind, lag)
	}
	return w.Flush()
}

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench"
	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/bench/tsv"
)

var loadCommand = command{
	Name:    "load",
	Args:    "FILE|-",
	Summary: "load a file of posts into a running server",
	Details: `FILE has a post a line: its id and its counters, whole numbers separated by tabs. It may be gzipped.
- is standard input. A pipe is copied to a temporary file first (in $TMPDIR).
The columns are named by its first line (with or without a leading #) or by --columns; the server's
counter must have columns of these names. The whole file is checked before its first row is sent.

  counterbench load posts.tsv.gz --counter weibo --columns mid,repost,comment,attitude`,
	Setup: func(flags *pflag.FlagSet) action {
		server := flags.String("server", "127.0.0.1:6379", "`HOST:PORT` or socket of the server")
		kind := flags.String("kind", "", "`data model`: "+kindList()+" (default: ask the server)")
		counter := flags.String("counter", "", "`name` of the counter (default: the server's only one)")
		columns := flags.StringSlice("columns", nil, "`names` of the file's columns in order, - passes one over (default: its first line)")
		id := flags.String("id", "", "`name` of the id's column (default: mid or id, else the first)")
		clients := flags.Int("clients", 1, "connections; one keeps the file's order, which packs increasing ids densest")
		password := flags.String("password", "", "password for AUTH")
		showProgress := flags.Bool("progress", true, "show progress: a bar on a terminal, lines elsewhere")
		return func(ctx context.Context, out output, args []string) error {
			if len(args) != 1 {
				return misuse("takes one FILE, not %d", len(args))
			}
			target, err := parseTarget(*server, *kind, *password)
			if err != nil {
				return err
			}
			if *clients < 1 || *clients > 1000 {
				return misuse("--clients: %d is not 1..1000", *clients)
			}
			file, done, err := newPostFile(ctx, args[0], tsv.Options{Columns: *columns, ID: *id})
			if err != nil {
				return err
			}
			defer done()
			plan, err := planLoad(ctx, target, *counter, file)
			if err != nil {
				return err
			}
			result, err := plan.send(ctx, out, *clients, *showProgress)
			if err != nil {
				return fmt.Errorf("stopped after %s of %s rows: %w", report.Int(result.Rows), report.Int(plan.rows), err)
			}
			fmt.Fprintf(out.Stdout, "loaded %s rows of %s into %s in %s: %s rows/s, %s errors\n", report.Int(result.Rows),
				file.name, target.Addr, report.Duration(result.Elapsed), report.Rate(result.PerSecond()), report.Int(result.Refused))
			if result.Refused > 0 {
				return fmt.Errorf("the server refused %s rows, the first: %w", report.Int(result.Refused), result.First)
			}
			return nil
		}
	},
}

// kindList lists the kinds of servers, for help texts.
func kindList() string {
	var names []string
	for _, kind := range bench.Kinds() {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

// parseTargets makes the targets A and, unless vs is empty, B.
func parseTargets(server, kind, password, vs, vsPassword string) ([]bench.Target, error) {
	a, err := parseTarget(server, kind, password)
	if err != nil || vs == "" {
		return []bench.Target{a}, err
	}
	b, err := bench.ParseTarget(vs)
	if err != nil {
		return nil, misuse("--vs: %v", err)
	}
	b.Password = vsPassword
	return []bench.Target{a, b}, nil
}

// parseTarget makes a target of what the flags say.
func parseTarget(server, kind, password string) (bench.Target, error) {
	target, err := bench.ParseTarget(server)
	if err != nil {
		return target, misuse("--server: %v", err)
	}
	if kind != "" {
		if target.Kind, err = bench.ParseKind(kind); err != nil {
			return target, misuse("--kind: %v", err)
		}
	}
	target.Password = password
	return target, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/cmd/internal/connect"
)

// diffParts is into how many parts a range is cut at a time: 8 steps from all mids to one.
const diffParts = 256

var diffCommand = command{
	Name:    "diff",
	Args:    "HOST:PORT",
	Summary: "compare two nodes and print the posts that differ",
	Details: `Compares the posts of two running nodes by COUNTER.DIGEST: sums over parts of the range of mids, and over parts of those that differ, down to the
single post. What is equal costs the nodes one pass over their items and the network nothing. Each post that differs is read again three
times over 600 ms, as a replica is always a little behind, and printed with its values on both.

While many posts change, pause the changes: CLIENT PAUSE 20000 WRITE on the primary, then WAIT until its replicas have everything.

Both nodes are reached in the same way, by TLS or not, with the same password.

Exit status 0: no differences. 1: there are some, or the nodes could not be asked.`,
	Setup: func(flags *pflag.FlagSet) action {
		with := flags.String("with", "", "HOST:PORT of the other node")
		limit := flags.Int("limit", 100, "posts to print at most")
		reach := connect.AddFlags(flags)
		return one("HOST:PORT", func(ctx context.Context, out output, addr string) error {
			if *with == "" || *limit < 1 {
				return misuse("want --with HOST:PORT, the other node, and --limit 1 or more")
			}
			if *with == addr {
				return misuse("got %s twice, want two nodes", addr)
			}
			d := &diff{out: out, limit: *limit}
			for i, a := range []string{addr, *with} {
				n, err := node.Dial(ctx, a, reach)
				if err != nil {
					return err
				}
				defer n.Close()
				d.nodes[i] = n
			}
			return d.run(ctx)
		})
	},
}

// diff compares two nodes.
type diff struct {
	nodes [2]*node.Node
	out   output
	limit int
	found int
	equal int // posts one after the other whose digests differ and whose values do not
}

var errLimit = errors.New("--limit is reached")

// equalMax is how many posts in a row may have differed for a moment only. Nodes that add up digests in different ways
// differ in all of them, and each costs 8 round trips.
const equalMax = 1000

func (d *diff) run(ctx context.Context) error {
	schemas, err := d.both("SCHEMA")
	if err != nil {
		return err
	}
	if a, b := strings.Join(schemas[0], "\n"), strings.Join(schemas[1], "\n"); a != b {
		fmt.Fprintf(d.out.Stdout, "the schemas differ:\n%s:\n%s\n%s:\n%s\n", d.nodes[0].Addr, a, d.nodes[1].Addr, b)
		return errReported
	}
	all, err := d.both("COUNTER.DIGEST")
	if err != nil {
		return err
	}
	for i, line := range all[0] {
		if i < len(all[1]) && line == all[1][i] {
			continue
		}
		if err := d.walk(ctx, field(line, "counter"), 0, 1<<63); errors.Is(err, errLimit) {
			fmt.Fprintf(d.out.Stdout, "and maybe more (--limit)\n")
			return errReported
		} else if err != nil {
			return err
		}
	}
	if d.found > 0 {
		return errReported
	}
	fmt.Fprintln(d.out.Stdout, "no differences")
	return nil
}

// walk looks into the parts of a range that differ.
func (d *diff) walk(ctx context.Context, counter string, lo, hi uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if hi-lo == 1 {
		return d.post(ctx, counter, lo)
	}
	parts, err := d.both("COUNTER.DIGEST", counter, strconv.FormatUint(lo, 10), strconv.FormatUint(hi, 10), "PARTS", strconv.Itoa(diffParts))
	if err != nil {
		return err
	}
	for _, part := range differing(parts[0], parts[1]) {
		from, err := strconv.ParseUint(field(part, "lo"), 10, 64)
		to, err2 := strconv.ParseUint(field(part, "hi"), 10, 64)
		if err = errors.Join(err, err2); err != nil || from < lo || to > hi || from >= to || to-from == hi-lo {
			return fmt.Errorf("COUNTER.DIGEST answered %q, want a part of [%d,%d)", part, lo, hi)
		}
		if err := d.walk(ctx, counter, from, to); err != nil {
			return err
		}
	}
	return nil
}

// differing returns the lines that are in one list only, one for each part, in order. Both are in order of lo.
func differing(a, b []string) (lines []string) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && before(a[0], b[0]):
			lines, a = append(lines, a[0]), a[1:]
		case len(a) == 0 || before(b[0], a[0]):
			lines, b = append(lines, b[0]), b[1:]
		default:
			if a[0] != b[0] {
				lines = append(lines, a[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return lines
}

// before tells whether a part lies before another. The user of the value finds out if it is no number.
func before(a, b string) bool {
	x, _ := strconv.ParseUint(field(a, "lo"), 10, 64)
	y, _ := strconv.ParseUint(field(b, "lo"), 10, 64)
	return x < y
}

// post prints a post unless it differed for a moment only.
func (d *diff) post(ctx context.Context, counter string, mid uint64) error {
	var rows [2][]string
	for range 3 {
		var err error
		if rows, err = d.both("COUNTER.MGET", counter, strconv.FormatUint(mid, 10)); err != nil {
			return err
		}
		if strings.Join(rows[0], " ") == strings.Join(rows[1], " ") {
			if d.equal++; d.equal == equalMax {
				return fmt.Errorf("%d posts in a row have digests that differ and values that do not, up to %s %d: many posts change now (see --help), or the nodes are of different versions",
					equalMax, counter, mid)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	d.equal = 0
	fmt.Fprintf(d.out.Stdout, "%s %d: %s on %s, %s on %s\n", counter, mid, values(rows[0]), d.nodes[0].Addr, values(rows[1]), d.nodes[1].Addr)
	if d.found++; d.found == d.limit {
		return errLimit
	}
	return nil
}

// values prints a row; an absent post has none.
func values(row []string) string {
	if len(row) == 0 {
		return "absent"
	}
	return strings.Join(row, ",")
}

// both sends a command to both nodes at once and returns what they answered, as one list of strings each.
func (d *diff) both(args ...string) (answers [2][]string, err error) {
	var errs [2]error
	second := make(chan struct{})
	go func() {
		defer close(second)
		answers[1], errs[1] = d.nodes[1].Do(args...)
	}()
	answers[0], errs[0] = d.nodes[0].Do(args...)
	<-second
	return answers, errors.Join(errs[:]...)
}

// field returns the value of name=value in a line.
func field(line, name string) string {
	for f := range strings.FieldsSeq(line) {
		if v, ok := strings.CutPrefix(f, name+"="); ok {
			return v
		}
	}
	return ""
}

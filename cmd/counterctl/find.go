package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/cmd/internal/connect"
)

var findCommand = command{
	Name:    "find",
	Args:    "HOST:PORT ...",
	Summary: "print the posts that match conditions",
	Details: `Sends COUNTER.FIND to a node, page by page, and prints a table with one post a line:
counterctl find HOST:PORT COUNTER [CONDITIONS] [flags].

  counterctl find 127.0.0.1:6379 weibo MID '>=' 19089006000 WHERE repost '>' 1000 AND comment = 0
  counterctl find 127.0.0.1:6379 weibo MID IN 5 888888 --columns repost,comment
  counterctl find 127.0.0.1:6379 weibo WHERE repost '>' 1000 DESC --limit 0

CONDITIONS are the words that follow the counter's name in COUNTER.FIND: MID ..., WHERE ..., DESC. Quote < and > for the shell.`,
	Setup: func(flags *pflag.FlagSet) action {
		columns := flags.StringSlice("columns", nil, "columns to print, separated by commas (default: all)")
		limit := flags.Int("limit", 100, "maximum number of posts to print; 0 prints all")
		reach := connect.AddFlags(flags)
		return func(ctx context.Context, out output, args []string) error {
			if len(args) < 2 || *limit < 0 {
				return misuse("want HOST:PORT and a counter, and --limit 0 or more")
			}
			return asking(ctx, out, args[0], reach, func(a *asked) error { return a.find(ctx, args[1], args[2:], *columns, *limit) })
		}
	},
}

var topCommand = command{
	Name:    "top",
	Args:    "HOST:PORT ...",
	Summary: "print the posts with the largest values of a column",
	Details: `Sends COUNTER.TOP to a node and prints a table with one post a line, the largest value first:
counterctl top HOST:PORT COUNTER COLUMN COUNT [CONDITIONS].

  counterctl top 127.0.0.1:6379 weibo repost 20 MID '>=' 19089006000 WHERE comment '>' 0

CONDITIONS are the words that follow the number in COUNTER.TOP: MID ..., WHERE .... Quote < and > for the shell.`,
	Setup: func(flags *pflag.FlagSet) action {
		reach := connect.AddFlags(flags)
		return func(ctx context.Context, out output, args []string) error {
			if len(args) < 4 {
				return misuse("want HOST:PORT, a counter, a column and how many posts")
			}
			return asking(ctx, out, args[0], reach, func(a *asked) error { return a.top(args[1], args[2], args[3:]) })
		}
	},
}

// asking calls f with a node to ask, and a table to print on.
func asking(ctx context.Context, out output, addr string, reach *connect.Flags, f func(*asked) error) error {
	n, err := node.Dial(ctx, addr, reach)
	if err != nil {
		return err
	}
	defer n.Close()
	a := &asked{Node: n, out: bufio.NewWriter(out.Stdout)}
	err = f(a)
	return errors.Join(err, a.out.Flush())
}

// asked is a node that is queried for posts, and the columns to print.
type asked struct {
	*node.Node
	out    *bufio.Writer
	names  []string // of a row's values, mid first
	widths []int
	posts  int
}

// pageRows is how many posts are asked for at a time.
const pageRows = 1000

// heading learns what rows of a counter have: mid, and all columns or those named.
func (a *asked) heading(counter string, columns []string) error {
	sch, err := a.Schema()
	if err != nil {
		return err
	}
	def := sch.Counter(counter)
	if def == nil {
		return fmt.Errorf("%s: no counter %q", a.Addr, counter)
	}
	a.names = []string{def.Key}
	for _, c := range columns {
		col, ok := def.Field([]byte(c))
		if !ok {
			return fmt.Errorf("%s: no column %q in counter %s", a.Addr, c, counter)
		}
		a.names = append(a.names, def.Col(col).Name)
	}
	if columns == nil {
		for i := range def.Width() {
			a.names = append(a.names, def.Col(i).Name)
		}
	}
	return nil
}

// find prints the posts of COUNTER.FIND.
func (a *asked) find(ctx context.Context, counter string, conditions, columns []string, limit int) error {
	if err := a.heading(counter, columns); err != nil {
		return err
	}
	words := append([]string{"COUNTER.FIND", counter}, conditions...)
	if columns != nil {
		words = append(append(words, "COLUMNS"), columns...)
	}
	for cursor := "0"; ; {
		page := pageRows
		if limit > 0 {
			page = min(page, limit-a.posts)
		}
		answer, err := a.Do(append(words, "LIMIT", strconv.Itoa(page), "CURSOR", cursor)...)
		if err != nil {
			return err
		}
		if len(answer) == 0 {
			return fmt.Errorf("%s: COUNTER.FIND answered nothing, want a cursor", a.Addr)
		}
		if err := a.rows(answer[1:]); err != nil {
			return err
		}
		switch cursor = answer[0]; {
		case cursor == "0":
			return a.end("")
		case limit > 0 && a.posts >= limit:
			return a.end(", and maybe more (--limit)")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// top prints the posts of COUNTER.TOP; words are its number and conditions.
func (a *asked) top(counter, column string, words []string) error {
	if err := a.heading(counter, []string{column}); err != nil {
		return err
	}
	answer, err := a.Do(append([]string{"COUNTER.TOP", counter, column}, words...)...)
	if err == nil {
		err = a.rows(answer)
	}
	if err == nil {
		err = a.end("")
	}
	return err
}

// rows prints rows, one value behind the other in flat, and the heading above the first of all. Columns are as wide as
// the first rows need.
func (a *asked) rows(flat []string) error {
	n := len(a.names)
	if len(flat)%n != 0 {
		return fmt.Errorf("%s: got %d values, want %d for each post", a.Addr, len(flat), n)
	}
	if a.widths == nil && len(flat) > 0 {
		a.widths = make([]int, n)
		for i, word := range append(a.names[:n:n], flat...) {
			a.widths[i%n] = max(a.widths[i%n], len(word))
		}
		a.line(a.names)
	}
	for len(flat) > 0 {
		a.line(flat[:n])
		flat = flat[n:]
		a.posts++
	}
	return a.out.Flush()
}

func (a *asked) line(words []string) {
	for i, word := range words {
		if i > 0 {
			_, _ = io.WriteString(a.out, "  ")
		}
		fmt.Fprintf(a.out, "%*s", a.widths[i], word)
	}
	_ = a.out.WriteByte('\n')
}

// end says how many there were.
func (a *asked) end(more string) error {
	posts := "posts"
	if a.posts == 1 {
		posts = "post"
	}
	_, err := fmt.Fprintf(a.out, "(%d %s%s)\n", a.posts, posts, more)
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/directory"
	"github.com/counterd/counterd/cmd/counterctl/internal/export"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/cmd/counterctl/internal/posts"
	"github.com/counterd/counterd/cmd/counterctl/internal/sinks"
	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/schema"
)

var exportCommand = command{
	Name:    "export",
	Data:    true,
	Args:    "HOST:PORT|DIR|FILE ...",
	Summary: "write posts as TSV, CSV, SQL or commands",
	Details: `Writes the posts of a running node, of a data directory or of an archive (redis-cli --rdb), for other programs to read:
counterctl export SOURCE [COUNTER [CONDITIONS]] --out FILE. Without a counter it writes all of them.

  counterctl export 127.0.0.1:6379 weibo --out weibo.tsv.zst
  counterctl export 127.0.0.1:6379 weibo MID '>=' 19089006000 WHERE repost '>' 1000 --columns repost --out - --format csv
  counterctl export counterd-data --out posts.sql.gz                    # psql, sqlite3 and mysql read it
  counterctl export counterd-data --out 'posts-{counter}.csv'           # a file for each counter
  counterctl export 127.0.0.1:6379 --out - --format resp | redis-cli -h OTHER --pipe

FILE's name tells the format (.tsv .csv .sql .resp) and the compression (.gz .zst) and is there only when all of it is on the
disk. CONDITIONS are the words behind the counter's name in COUNTER.COUNT: MID ..., WHERE .... Shells want < and > quoted.

  tsv, csv   a line with the columns' names, and a line a post; counterctl import reads it
  sql        CREATE TABLE and INSERTs of 500 posts, a transaction for each counter
  resp       commands in the Redis protocol that make an empty counterd what the source is; with --map those that write the
             numbers into a Redis, where the rules of counterctl import say that they are

  counterctl export 127.0.0.1:7000 --out - --format resp --map 'post:{mid}:likes=weibo.attitude' | redis-cli -h OLD --pipe

The posts of a running node are read while it goes on, each as it is when its turn comes. What was written is compared with the
node's own counts and sums, and said to be verified if nothing was changed meanwhile. A directory is read as it is at one moment;
so is what redis-cli --rdb downloads of a running node. Reading one takes the memory that a server would take for it.

Derived columns are written only where --columns names them, and not as resp: nothing can set them again.

--position FILE stores the position of the exported posts in the log. A consumer that takes the posts, and then every change
behind the position (counterctl feed --from FILE), has all posts of the node without a gap. The command ends when no crash can
take back the exported values.`,
	Setup: func(flags *pflag.FlagSet) action {
		e := &exporter{}
		flags.StringVarP(&e.out, "out", "o", "", "`FILE` to write, - for standard output; {counter} in it is the counter's name")
		flags.StringVar(&e.format, "format", "", strings.Join(export.Formats, ", ")+"; the default is told by the name of FILE")
		flags.StringArrayVarP(&e.rules, "map", "m", nil, "of resp: `RULE` that says where a Redis has a number, as in import; may be given many times")
		flags.BoolVar(&e.skipZeros, "skip-zeros", false, "with --map: leave out values that are 0")
		flags.StringSliceVar(&e.columns, "columns", nil, "columns to write, separated by commas (default: all but derived ones)")
		flags.StringVar(&e.position, "position", "", "`FILE` for the position of the state that is written; counterctl feed --from FILE continues there")
		e.reach = connect.AddFlags(flags)
		return func(ctx context.Context, out output, args []string) error {
			if len(args) == 0 {
				return misuse("want HOST:PORT, a directory or an archive, and maybe a counter")
			}
			if err := e.check(); err != nil {
				return err
			}
			if len(args) > 1 {
				e.counter, e.words = args[1], args[2:]
			}
			return e.run(ctx, out, args[0])
		}
	},
}

// exporter holds the data to export, and the options.
type exporter struct {
	out, format string
	columns     []string
	rules       []string // of resp
	skipZeros   bool
	counter     string   // "": all
	words       []string // its conditions
	position    string   // a file; empty: none is wanted
	reach       *connect.Flags
}

func (e *exporter) check() error {
	if e.out == "" {
		return misuse("want --out FILE, or - for standard output")
	}
	if e.format == "" {
		if e.format = export.FormatOf(e.out); e.format == "" && e.out == "-" {
			e.format = "tsv"
		}
	}
	if _, err := export.New(e.format); err != nil {
		return misuse("--out %s: %v (--format)", e.out, err)
	}
	if len(e.rules) > 0 && e.format != "resp" {
		return misuse("--map is for --format resp")
	}
	if e.skipZeros && len(e.rules) == 0 {
		return misuse("--skip-zeros is for --map")
	}
	return nil
}

// encoder makes the encoder of the format.
func (e *exporter) encoder(sch *schema.Schema) (export.Encoder, error) {
	if len(e.rules) == 0 {
		return export.New(e.format)
	}
	rules, err := mapping.Parse(e.rules, sch)
	if err != nil {
		return nil, misuse("--map: %v", err)
	}
	return export.NewMapped(rules, e.skipZeros)
}

func (e *exporter) run(ctx context.Context, out output, source string) error {
	if isPath(source) {
		return directory.With(ctx, source, out.Stderr, func(dir *directory.Dir) error {
			store, err := dir.OpenStore()
			if err != nil {
				return err
			}
			err = e.write(ctx, out, posts.OfStore(store))
			return errors.Join(err, store.Close())
		})
	}
	n, err := node.Dial(ctx, source, e.reach)
	if err != nil {
		return err
	}
	defer n.Close()
	from, err := posts.OfNode(n)
	if err != nil {
		return err
	}
	return e.write(ctx, out, from)
}

// isPath tells a directory or an archive from a node's address.
func isPath(source string) bool {
	_, err := os.Stat(source)
	return err == nil || !strings.Contains(source, ":")
}

// tables are the counters to write: one, or all.
func (e *exporter) tables(sch *schema.Schema) ([]*posts.Wanted, error) {
	var all []*posts.Wanted
	for _, c := range sch.Counters() {
		if e.counter != "" && c.Name != e.counter || !e.written(sch, c) {
			continue
		}
		columns, err := posts.Columns(c, e.columns)
		if err != nil {
			return nil, err
		}
		if _, err := posts.Conditions(c, e.words); err != nil {
			return nil, err
		}
		if e.format == "resp" {
			for _, i := range columns {
				if c.IsDerived(i) {
					return nil, misuse("column %q of counter %s is derived, and no command sets it: name other columns, or another format", c.Col(i).Name, c.Name)
				}
			}
		}
		t := &posts.Wanted{Table: export.Table{Schema: sch, Counter: c, Columns: columns}, Words: e.words}
		if e.format == "sql" {
			if err := export.CheckSQL(&t.Table); err != nil {
				return nil, err
			}
		}
		all = append(all, t)
	}
	switch tabular := e.format == "tsv" || e.format == "csv"; {
	case len(all) == 0 && e.counter != "":
		return nil, misuse("no counter %q", e.counter)
	case len(all) == 0:
		return nil, errors.New("there is no counter")
	case len(all) > 1 && tabular && (e.out == "-" || !strings.Contains(e.out, "{counter}")):
		return nil, misuse("there are %d counters, and %s has one: name the counter, or a file for each, --out 'posts-{counter}.%s'", len(all), e.format, e.format)
	}
	return all, nil
}

// written tells whether anything of a counter is written: with rules, whether one is of it.
func (e *exporter) written(sch *schema.Schema, c *schema.Counter) bool {
	rules, err := mapping.Parse(e.rules, sch)
	if len(e.rules) == 0 || err != nil { // which is told before anything is written
		return true
	}
	return slices.ContainsFunc(rules.Columns(), func(column mapping.Column) bool { return column.Counter == c })
}

// write writes all that is wanted. On any error no file is left.
func (e *exporter) write(ctx context.Context, out output, from posts.Source) error {
	tables, err := e.tables(from.Schema())
	if err != nil {
		return err
	}
	if e.position == "" {
		return e.writeFiles(ctx, out, from, tables)
	}
	marked := from.(posts.Marked)
	if err := marked.Mark(ctx); err != nil {
		return err
	}
	if err := e.writeFiles(ctx, out, from, tables); err != nil {
		return err
	}
	position, err := marked.Settle(ctx)
	if err == nil {
		err = sinks.WritePosition(e.position, position)
	}
	if err != nil {
		return fmt.Errorf("%s was not written: %w", e.position, err)
	}
	fmt.Fprintf(out.Stderr, "position %s to %s: counterctl feed --from %s goes on there\n", position, e.position, e.position)
	return nil
}

// writeFiles writes one file, or one for each counter.
func (e *exporter) writeFiles(ctx context.Context, out output, from posts.Source, tables []*posts.Wanted) error {
	if !strings.Contains(e.out, "{counter}") {
		return e.writeFile(ctx, out, from, e.out, tables)
	}
	for _, t := range tables {
		name := strings.ReplaceAll(e.out, "{counter}", t.Counter.Name)
		if err := e.writeFile(ctx, out, from, name, []*posts.Wanted{t}); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file of some counters. Messages go to standard error if posts go to standard output.
func (e *exporter) writeFile(ctx context.Context, out output, from posts.Source, name string, tables []*posts.Wanted) error {
	encoder, err := e.encoder(from.Schema())
	if err != nil {
		return err
	}
	w, told := &exported{encoder: encoder, to: out.Stdout}, out.Stderr
	if name != "-" {
		f, err := export.Create(name)
		if err != nil {
			return err
		}
		defer f.Abort()
		w.to, w.file, told = f, f, out.Stdout
	}
	w.text = encoder.Start(w.text)
	var lines []string
	for _, t := range tables {
		line, err := w.table(ctx, out.Stderr, from, t)
		if err != nil {
			if w.file == nil && w.written {
				err = &finalError{err}
			}
			return err
		}
		lines = append(lines, line)
	}
	w.text = encoder.Finish(w.text)
	if err := w.finish(); err != nil {
		return err
	}
	for _, line := range lines {
		fmt.Fprintf(told, "%s to %s\n", line, name)
	}
	return nil
}

// exported is a file that is being written.
type exported struct {
	encoder export.Encoder
	text    []byte // not yet written
	to      io.Writer
	file    *export.File // nil: standard output
	written bool
}

// textAtOnce is how much is written at a time.
const textAtOnce = 64 << 10

// table writes a counter and compares the sums written with the sums of the source. It returns the messages to
// print.
func (w *exported) table(ctx context.Context, stderr io.Writer, from posts.Source, t *posts.Wanted) (string, error) {
	if err := from.Begin(); err != nil {
		return "", err
	}
	total, err := from.Count(t)
	if err != nil {
		return "", err
	}
	show, finish := human.CountProgress(stderr, "exporting "+t.Counter.Name)
	defer finish()
	tally := export.NewTally(len(t.Columns))
	w.text = w.encoder.Table(w.text, &t.Table)
	err = from.Rows(ctx, t, func(mid uint64, values []uint64) error {
		w.text = w.encoder.Row(w.text, mid, values)
		if tally.Add(values); tally.Posts%1024 == 0 {
			show(tally.Posts, total)
		}
		if len(w.text) < textAtOnce {
			return nil
		}
		return w.flush()
	})
	if err != nil {
		return "", err
	}
	w.text = w.encoder.End(w.text)
	said, changed, err := from.Tally(t)
	switch {
	case err != nil:
		return "", fmt.Errorf("asking for counts and sums: %w", err)
	case said.Equal(tally):
		return fmt.Sprintf("%s: %s, verified,", t.Counter.Name, tally.Text(&t.Table)), nil
	case changed:
		return fmt.Sprintf("%s: %s (posts were changed meanwhile: now they are %s)", t.Counter.Name, tally.Text(&t.Table), said.Text(&t.Table)), nil
	}
	return "", fmt.Errorf("counter %s: read %s, and the source says %s, though nothing was changed meanwhile", t.Counter.Name, tally.Text(&t.Table), said.Text(&t.Table))
}

// flush writes the text that is there.
func (w *exported) flush() error {
	w.written = true
	_, err := w.to.Write(w.text)
	w.text = w.text[:0]
	return err
}

func (w *exported) finish() error {
	if err := w.flush(); err != nil || w.file == nil {
		return err
	}
	return w.file.Commit()
}

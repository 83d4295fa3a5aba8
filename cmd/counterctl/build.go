package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/bulk"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/bytesize"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/tsv"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

var buildCommand = command{
	Name:    "build",
	Args:    "[INPUT...]",
	Summary: "create a data directory from files of posts, without a server",
	Details: `Builds the data directory --out from files of posts. It writes some million posts a second, several times as fast as an import
into a server. When counterd opens the directory, the newest posts are in memory, as many as --hot says, and the others are in
files.

  counterctl build --schema weibo.schema --out data posts-2011.tsv.zst posts-2012.tsv.zst
  zcat dump.gz | counterctl build --schema weibo.schema --out data --columns mid,repost,-,attitude -
  counterd --dir data --maxmemory 4gb

INPUT is a file, plain, .gz or .zst, with one post a line: its id and whole numbers, separated by tabs, or by commas in a .csv
file. The first line or --columns names the columns, by name or suffix; - skips a column. Columns that are not in the file get
their defaults. Without INPUT, or if INPUT is -, the command reads standard input.

Input in order of mid, across all files, is fastest. Otherwise the command sorts the posts. Sorting uses --memory, and temporary
files next to --out of about the size of --out. With --sort, it sorts from the start; without it, it starts again with sorting
at the first post that is out of order, and fails if that post comes from standard input.

A post that occurs twice is an error unless --duplicates says what to do. A line with anything but numbers that the columns can
hold is an error too; --skip-bad N skips up to N such lines and prints them.

The directory is called --out.building until it is complete and durable, and only then gets its name. The next build removes a
directory that an interrupted build left. To build a directory for a node of a cluster, build it as usual and start the node
with --cluster-enabled yes. --cluster stores the posts by group of hash slots from the start, as a node of a cluster does.

Exit status 0: the directory holds all lines. 1: no directory was made, or lines were skipped.`,
	Setup: func(flags *pflag.FlagSet) action {
		b := &building{}
		flags.StringVar(&b.schema, "schema", "", "`FILE` with the statements that create counters and columns, as for counterd --schema")
		flags.StringVar(&b.out, "out", "", "`DIR` to create; it must not exist, or must be empty")
		flags.StringVar(&b.counter, "counter", "", "`NAME` of the posts' counter, if the schema has several")
		flags.StringSliceVar(&b.columns, "columns", nil, "names of the files' columns in order; - skips a column")
		flags.StringVar(&b.id, "id", "", "name of the column with the post's id (default: mid or id, else the first)")
		flags.StringVar(&b.separator, "separator", "", "what separates columns (default: a tab; a comma for .csv)")
		flags.BoolVar(&b.sort, "sort", false, "the posts are not in order of mid")
		flags.StringVar(&b.memory, "memory", "1gb", "memory that sorting may use, approximately")
		flags.StringVar(&b.duplicates, "duplicates", string(bulk.Refuse), "what to do with a post that occurs twice: `refuse`, last (its last line counts) or sum")
		flags.IntVar(&b.skipBad, "skip-bad", 0, "skip up to this many invalid lines")
		flags.StringVar(&b.hot, "hot", "256mb", "memory that the newest posts may use in the server, at 6 bytes a post; 0: only the posts of the open block are in memory")
		flags.Uint64Var(&b.hotFrom, "hot-from", 0, "`MID` of the first post that is kept in memory, instead of --hot")
		flags.IntVar(&b.filePosts, "file-posts", 0, "posts in a file, 64 to 8388608 (default: 262144; 1048576 for more than 40 GB of input)")
		flags.BoolVar(&b.cluster, "cluster", false, "keep posts by group of hash slots, for a node of a cluster")
		flags.BoolVarP(&b.quiet, "quiet", "q", false, "print errors only")
		return b.run
	},
}

// building is a command line.
type building struct {
	schema, out, counter string
	columns              []string
	id, separator        string
	sort, cluster, quiet bool
	memory, hot          string
	duplicates           string
	skipBad, filePosts   int
	hotFrom              uint64
	hotBytes             int64
	size                 int64 // of the inputs, as far as known
	sch                  *schema.Schema
	of                   *schema.Counter
}

func (b *building) run(ctx context.Context, out output, inputs []string) error {
	if len(inputs) == 0 {
		inputs = []string{"-"}
	}
	options, err := b.options(inputs)
	if err != nil {
		return err
	}
	if err := b.space(); err != nil {
		return err
	}
	if left := counter.Leftover(vfs.OS(), b.out); left != "" {
		fmt.Fprintf(out.Stderr, "note: %s was left by a build that was ended: it is removed, and this begins anew\n", left)
	}
	// Posts are in few large pieces of memory, which cost the collector nothing: it need not wait for as many again.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	began := time.Now()
	stats, result, err := b.build(ctx, out, options)
	if errors.Is(err, bulk.ErrOrder) && !b.sort && bulk.Again(inputs) && ctx.Err() == nil {
		if !b.quiet {
			fmt.Fprintf(out.Stderr, "note: %v: all posts are read again, and sorted\n", err)
		}
		b.sort, options.Sort = true, true
		if err := b.space(); err != nil {
			return err
		}
		stats, result, err = b.build(ctx, out, options)
	}
	if err != nil {
		return err
	}
	if !b.quiet {
		b.report(out, stats, result, time.Since(began))
	}
	if stats.Bad > 0 {
		return errReported
	}
	return nil
}

// options reads the schema and checks the flags.
func (b *building) options(inputs []string) (o bulk.Options, err error) {
	if b.schema == "" || b.out == "" {
		return o, misuse("want --schema FILE and --out DIR")
	}
	if to, err := filepath.EvalSymlinks(b.out); err == nil { // a link to where there is room stays one
		b.out = to
	}
	f, err := os.Open(b.schema)
	if err != nil {
		return o, err
	}
	defer f.Close()
	if b.sch, err = schema.ParseScript(f, schema.Empty()); err != nil {
		return o, fmt.Errorf("%s: %w", b.schema, err)
	}
	switch counters := b.sch.Counters(); {
	case b.counter != "":
		if b.of = b.sch.Counter(b.counter); b.of == nil {
			return o, misuse("--counter: %s has no counter %q", b.schema, b.counter)
		}
	case len(counters) == 1:
		b.of = counters[0]
	default:
		return o, misuse("%s has %d counters: want --counter NAME", b.schema, len(counters))
	}
	if len(b.of.Columns) == 0 {
		return o, misuse("%s: counter %s has no column", b.schema, b.of.Name)
	}
	o = bulk.Options{Inputs: inputs, Stdin: os.Stdin, TSV: tsv.Options{Columns: b.columns, ID: b.id}, Counter: b.of, SkipBad: b.skipBad,
		Sort: b.sort, Duplicates: bulk.Duplicates(b.duplicates), Temp: filepath.Clean(b.out) + ".sorting"}
	switch separator := []rune(b.separator); {
	case len(separator) == 0:
	case b.separator == `\t` || b.separator == "\t":
		o.Tabs = true
	case len(separator) == 1 && separator[0] < 128 && !strings.ContainsAny(b.separator, "\"\r\n"):
		o.TSV.Comma = separator[0]
	default:
		return o, misuse("--separator %q: want one character of ASCII, and no quote", b.separator)
	}
	if o.Duplicates != bulk.Refuse && o.Duplicates != bulk.Last && o.Duplicates != bulk.Sum {
		return o, misuse("--duplicates %q: want refuse, last or sum", b.duplicates)
	}
	if b.skipBad < 0 {
		return o, misuse("--skip-bad %d: want 0 or more", b.skipBad)
	}
	memory, err := bytesize.Parse(b.memory)
	if err != nil || memory < 16<<20 {
		return o, misuse("--memory %q: want a size such as 1gb, at least 16mb", b.memory)
	}
	hot, err := bytesize.Parse(b.hot)
	if err != nil {
		return o, misuse("--hot: %v", err)
	}
	o.Memory, b.hotBytes = int64(memory), int64(hot)
	stdin := 0
	for _, path := range inputs {
		if path == "-" {
			stdin++
		} else if info, err := os.Stat(path); err != nil {
			return o, err
		} else if info.IsDir() {
			return o, &fs.PathError{Op: "build", Path: path, Err: errors.New("is a directory")}
		} else {
			b.size += info.Size()
		}
	}
	if stdin > 1 {
		return o, misuse("standard input stands twice")
	}
	if b.filePosts == 0 && b.size > 40e9 {
		b.filePosts = 1 << 20
	}
	return o, nil
}

// space checks that the disk has room: a line of 25 bytes makes a post of 2 to 4, and compressed it has 8; sorting takes
// as much for a while.
func (b *building) space() error {
	need := b.size / 4
	if b.sort {
		need *= 2
	}
	dir := filepath.Dir(filepath.Clean(b.out))
	space, err := vfs.OS().Space(dir)
	if err == nil && space.Free < need {
		err = fmt.Errorf("%s has %s free, and the inputs of %s want about %s there", dir, human.Size(uint64(max(space.Free, 0))), human.Size(uint64(b.size)), human.Size(uint64(need)))
	}
	return err
}

// build reads and writes once.
func (b *building) build(ctx context.Context, out output, o bulk.Options) (stats bulk.Stats, result *counter.BuildResult, err error) {
	show, finish := human.Progress(out.Stderr, "building")
	defer finish()
	o.Progress = func(what string, bytes uint64) {
		total := uint64(b.size)
		if b.sort { // reading is half of it
			total *= 2
			if what != "reading" {
				bytes += uint64(b.size)
			}
		}
		show(bytes, max(total, bytes))
	}
	o.Bad = func(line error) { fmt.Fprintf(out.Stderr, "passed over: %v\n", line) }
	to, err := counter.NewBuild(b.out, counter.BuildOptions{Schema: b.sch, SlotGroups: b.cluster, FilePosts: b.filePosts, HotBytes: b.hotBytes, HotFrom: b.hotFrom})
	if err != nil {
		if errors.Is(err, vfs.ErrLocked) {
			err = fmt.Errorf("another build of %s is at work: %w", b.out, err)
		}
		return stats, nil, err
	}
	stats, err = bulk.Read(ctx, o, func(p counter.Posts) error { return to.Add(b.of, p) })
	if err == nil && stats.Posts == 0 {
		err = errors.New("the inputs have no posts")
	}
	if err == nil {
		result, err = to.Finish()
	}
	if err != nil {
		err = errors.Join(err, to.Abort())
	}
	return stats, result, err
}

// report prints a summary of the directory made.
func (b *building) report(out output, stats bulk.Stats, r *counter.BuildResult, took time.Duration) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(out.Stdout, "%-11s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("posts", "%d of counter %s, %d to %d", r.Posts, b.of.Name, r.First, r.Last)
	if stats.Duplicates > 0 {
		line("duplicates", "%d lines, of which %s", stats.Duplicates, map[bool]string{true: "the last of each post counts", false: "numbers were added"}[b.duplicates == string(bulk.Last)])
	}
	if stats.Bad > 0 {
		line("bad lines", "%d, passed over", stats.Bad)
	}
	if stats.Runs > 0 {
		line("sorted", "in %s", human.Count(stats.Runs, "run"))
	}
	cold := r.Posts - r.HotPosts
	line("in files", "%s in %s, %s, %.2f bytes each", human.Count(int(cold), "post"), human.Count(r.ColdFiles, "file"), human.Size(r.ColdBytes), float64(r.ColdBytes)/float64(max(cold, 1)))
	line("in memory", "%s in %s, %s, %.2f bytes each", human.Count(int(r.HotPosts), "post"), human.Count(r.HotImages, "image"), human.Size(r.HotBytes), float64(r.HotBytes)/float64(max(r.HotPosts, 1)))
	line("took", "%s, %.2f million posts a second", took.Round(time.Millisecond), float64(r.Posts)/1e6/max(took.Seconds(), 1e-3))
	line("start", "counterd --dir %s", b.out)
}

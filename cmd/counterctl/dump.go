package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/directory"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

var dumpCommand = command{
	Name:    "dump",
	Data:    true,
	Args:    "DIR|FILE",
	Summary: "print snapshots and log as text or as commands",
	Details: `Prints the contents of a data directory, one line for each record: the history, the manifests and the files that they name,
the log, and the records that were cut from the log because the primary had other changes (diverged-*.aof). A record of the
log is printed as follows, with the values after the change:

  <log offset after the record> <time of its frame> set weibo 19089006004 comment=5

--rows also prints the rows of every file. --counter and --mid select records and rows. --from and --to select records.

  counterctl dump --commands DIR | redis-cli -p PORT --pipe

This pipeline copies the state to another server. --commands prints the statements of the schema, and then one HSET with all
columns for each post, from the newest snapshot and the log. The command only reads DIR, so a server may be using it. FILE is
an archive, as redis-cli --rdb downloads it, or a part of a log that a node set aside (diverged-*.aof). The command prints its
records.

` + momentHelp,
	Setup: func(flags *pflag.FlagSet) action {
		o := &dumpOptions{}
		flags.BoolVar(&o.commands, "commands", false, "print commands that rebuild the state, instead of the files")
		flags.BoolVar(&o.resp, "resp", false, "with --commands: print the commands as RESP arrays instead of lines")
		flags.BoolVar(&o.rows, "rows", false, "also print the rows of images and cold files")
		flags.BoolVar(&o.frames, "frames", false, "also print a line for each frame of the log")
		flags.StringSliceVar(&o.only, "only", nil, "print only history, manifests, files (what the newest manifest names), log or diverged")
		from := flags.String("from", "", "print only records after this moment")
		to := flags.String("to", "", "print only records up to this moment")
		flags.StringVar(&o.counter, "counter", "", "print only rows and records of this counter")
		mid := flags.String("mid", "", "print only rows and records of this mid, or of the range of mids FIRST-LAST")
		return one("DIR or FILE", func(ctx context.Context, out output, dir string) error {
			if err := o.parse(*from, *to, *mid); err != nil {
				return err
			}
			return dump(ctx, out, dir, o)
		})
	},
}

// dumpOptions select the output.
type dumpOptions struct {
	commands, resp, rows, frames bool

	only     []string
	from, to datadir.Target // zero offsets: all
	counter  string         // "": all
	mids     snapfile.MidRange
	filtered bool // by counter or mid
}

// sections are the values of --only.
var sections = []string{"history", "manifests", "files", "log", "diverged"}

func (o *dumpOptions) parse(from, to, mid string) error {
	for _, name := range o.only {
		if !slices.Contains(sections, name) {
			return misuse("--only %q: want one of %s", name, strings.Join(sections, ", "))
		}
	}
	if o.commands && (o.rows || o.frames || len(o.only) > 0 || from+to != "") {
		return misuse("--commands prints the state as it is now: of the other flags only --resp, --counter and --mid go with it")
	}
	if o.resp && !o.commands {
		return misuse("--resp goes with --commands only")
	}
	var err error
	o.to.Offset = ^uint64(0)
	if from != "" {
		if o.from, err = parseMoment(from); err != nil {
			return err
		}
	}
	if to != "" {
		if o.to, err = parseMoment(to); err != nil {
			return err
		}
	}
	o.mids = snapfile.MidRange{Hi: schema.MaxMid + 1}
	if mid != "" {
		first, last, isRange := strings.Cut(mid, "-")
		if !isRange {
			last = first
		}
		lo, errLo := strconv.ParseUint(first, 10, 63)
		hi, errHi := strconv.ParseUint(last, 10, 63)
		if errLo != nil || errHi != nil || lo > hi {
			return misuse("--mid %q: want a mid or FIRST-LAST, from 0 to %d", mid, uint64(schema.MaxMid))
		}
		o.mids = snapfile.MidRange{Lo: lo, Hi: hi + 1}
	}
	o.filtered = mid != "" || o.counter != ""
	return nil
}

// shows reports whether a section is printed.
func (o *dumpOptions) shows(section string) bool {
	return len(o.only) == 0 || slices.Contains(o.only, section)
}

// wants reports whether a row or record is printed.
func (o *dumpOptions) wants(counter string, mid uint64) bool {
	return (o.counter == "" || o.counter == counter) && o.mids.Lo <= mid && mid < o.mids.Hi
}

// dumper prints one directory.
type dumper struct {
	*directory.Dir
	*dumpOptions
	ctx   context.Context
	w     *bufio.Writer
	note  func(format string, args ...any) // reports damage, next to the output
	names names
	bad   bool // something was wrong
	fresh bool // there is no manifest: without a log, too, no server was ever started here
}

// dump prints a directory. In a directory in use, printing begins anew only while nothing was printed yet.
func dump(ctx context.Context, out output, dir string, o *dumpOptions) error {
	if done, err := dumpTail(ctx, out, dir, o); done || err != nil {
		return err
	}
	bad := false
	err := directory.With(ctx, dir, out.Stderr, func(dir *directory.Dir) error {
		sink := &countingWriter{w: out.Stdout}
		d := &dumper{Dir: dir, dumpOptions: o, ctx: ctx, w: bufio.NewWriterSize(sink, 64<<10)}
		d.note = func(format string, args ...any) {
			d.bad = true
			fmt.Fprintf(out.Stderr, "counterctl dump: "+format+"\n", args...)
		}
		err := d.run()
		bad = d.bad
		if sink.n > 0 && err != nil && ctx.Err() == nil {
			err = &finalError{err}
		}
		return errors.Join(err, d.w.Flush())
	})
	if err != nil {
		return err
	}
	if bad {
		return errReported
	}
	return nil
}

// dumpTail prints a file with the tail of a log. done is false if it is another.
func dumpTail(ctx context.Context, out output, path string, o *dumpOptions) (done bool, err error) {
	fsys := vfs.Interruptible(ctx, vfs.OS())
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	tail, _, ok, err := past.TailFile(fsys, path)
	if err != nil || !ok {
		return false, err
	}
	if o.commands {
		return true, misuse("%s is the tail of a log: want a directory or an archive for --commands", path)
	}
	d := &dumper{Dir: &directory.Dir{Path: filepath.Dir(path), FS: fsys}, dumpOptions: o, ctx: ctx, w: bufio.NewWriterSize(out.Stdout, 64<<10)}
	if manifests, _, err := snapfile.ReadManifests(fsys, d.Path); err == nil { // for names, where it lies beside them
		d.names.learnAll(manifests)
	}
	_, err = past.WalkDiverged(fsys, tail, logfile.Visitor{Frame: d.printFrame, Record: d.printRecord})
	return true, errors.Join(err, d.w.Flush())
}

func (d *dumper) run() error {
	good, bad, err := snapfile.ReadManifests(d.FS, d.Path)
	if err != nil {
		return err
	}
	for _, err := range bad {
		d.note("%v", err)
	}
	d.fresh = len(good)+len(bad) == 0
	d.names.learnAll(good)
	if d.commands {
		return d.printCommands(good)
	}
	if d.shows("history") {
		if err := d.printHistory(); err != nil {
			return err
		}
	}
	if d.shows("manifests") {
		for _, m := range good {
			d.printManifest(m)
		}
	}
	if d.shows("files") {
		if err := d.printFiles(good); err != nil {
			return err
		}
	}
	if d.shows("log") {
		if err := d.printLog(); err != nil {
			return err
		}
	}
	if d.shows("diverged") {
		return d.printDiverged()
	}
	return nil
}

func (d *dumper) printf(format string, args ...any) { fmt.Fprintf(d.w, format, args...) }

// finalError is an error after which nothing is tried again, as half of the output is out. So it hides what it is.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }

// countingWriter counts what went through.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/backup"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist/vfs"
)

const placeHelp = `PLACE is a directory, best on another machine's disk, or a bucket that speaks S3:

  s3://BUCKET/PREFIX?endpoint=HOST:PORT     also &region=R, &tls=no

whose keys are taken from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), from the file of AWS's tools, or
from the role of the machine. Several directories want a prefix each.`

var backupCommand = command{
	Name:    "backup",
	Args:    "DIR PLACE",
	Summary: "copy what is new of a data directory to a place of backups",
	Details: `Copies the data directory DIR, which a server may have open, to PLACE. What an earlier backup has there already, block
files and finished segments of the log, is not read again: a backup costs what was written since. Block files and log are
verified on the way.

` + placeHelp + `

From a backup every moment between the older of its two snapshots and its end can be restored: counterctl restore PLACE
--to MOMENT --out DIR. Moments between two backups can be too where their log overlaps: keep log (counterd --aof-retain)
for longer than the time between them. counterctl drill PLACE proves that the newest one can be restored.

Exit status 1 where a file of DIR is damaged, too: the backup is made, and has the damage.`,
	Setup: func(flags *pflag.FlagSet) action {
		full := flags.Bool("full", false, "read and copy every file again")
		keep := flags.Int("keep", 0, "then remove all backups but the newest `n`; 0: none")
		return func(ctx context.Context, out output, args []string) error {
			if len(args) != 2 || *keep < 0 {
				return misuse("want DIR and PLACE, and --keep 0 or more")
			}
			return makeBackup(ctx, out, args[0], args[1], *full, *keep)
		}
	},
}

var backupsCommand = command{
	Name:    "backups",
	Args:    "PLACE",
	Summary: "list the backups of a place, and what can be restored from each",
	Details: `Prints a line a backup, oldest first: its name, from and to which moment it restores, its bytes, what they take there.

` + placeHelp,
	Setup: func(*pflag.FlagSet) action { return one(listBackups) },
}

var drillCommand = command{
	Name:    "drill",
	Args:    "PLACE",
	Summary: "prove that a backup can be restored",
	Details: `Fetches the newest backup of PLACE into a directory of its own, compares every file with its checksum, restores it, verifies
every checksum and cross-reference of the result, opens it as a server does, reads every post, and removes it again. It needs room for two copies.

` + placeHelp,
	Setup: func(flags *pflag.FlagSet) action {
		name := flags.String("backup", "", "which one, by its name; the newest by default")
		scratch := flags.String("scratch", "", "directory in which there is room; the system's for temporary files by default")
		return one(func(ctx context.Context, out output, place string) error {
			return drill(ctx, out, place, *name, *scratch)
		})
	},
}

var pruneCommand = command{
	Name:    "prune",
	Args:    "PLACE",
	Summary: "remove old backups",
	Details: `Removes all backups of PLACE but the newest --keep, and what no other one needs.

` + placeHelp,
	Setup: func(flags *pflag.FlagSet) action {
		keep := flags.Int("keep", 0, "backups to keep, 1 or more")
		return one(func(ctx context.Context, out output, place string) error {
			if *keep < 1 {
				return misuse("want --keep, 1 or more")
			}
			return locked(ctx, place, func(ctx context.Context, s backup.Store) error { return prune(ctx, out, s, *keep) })
		})
	},
}

// locked opens a place and holds its lock while fn runs, whose context ends when the lock is lost.
func locked(ctx context.Context, place string, fn func(context.Context, backup.Store) error) error {
	s, err := backup.Open(place)
	if err != nil {
		return err
	}
	unlock, lost, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lost:
			cancel(fmt.Errorf("%s: the lock could not be renewed, and may be another's by now", s))
		case <-inner.Done():
		}
	}()
	err = fn(inner, s)
	if cause := context.Cause(inner); err != nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	cancel(nil)
	return errors.Join(err, unlock())
}

func makeBackup(ctx context.Context, out output, dir, place string, full bool, keep int) error {
	host, _ := os.Hostname() // for who reads the list
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if abs, err := filepath.Abs(place); err == nil && (abs == dir || strings.HasPrefix(abs, dir+string(filepath.Separator))) {
		return misuse("%s is in %s itself: want a place elsewhere, best on another disk", place, dir)
	}
	return locked(ctx, place, func(ctx context.Context, s backup.Store) error {
		var x *backup.Index
		began := time.Now()
		m := backup.NewMaker(s, backup.Options{Source: host + ":" + dir, Full: full, Cold: counter.ColdVerifier(vfs.OS())})
		err := withDataDir(ctx, dir, out.Stderr, func(d *dataDir) (err error) {
			if d.archive != nil {
				return misuse("%s is an archive, want a data directory", dir)
			}
			show, finish := newProgress(out.Stderr, "copying")
			defer finish()
			m.Progress = show
			x, err = m.Make(ctx, d.fs, d.path)
			return err
		})
		if err != nil {
			return err
		}
		raw, stored := x.Bytes()
		newRaw, newStored := x.Fresh()
		fmt.Fprintf(out.Stdout, "backup %s: %d files, %s, %s there\nof these new: %s, %s there, in %s\nit restores %s\n", x.Name, len(x.Files), size(uint64(raw)), size(uint64(stored)),
			size(uint64(newRaw)), size(uint64(newStored)), time.Since(began).Round(time.Millisecond), reach(x))
		for _, p := range x.Problems() {
			fmt.Fprintf(out.Stdout, "%-11s %s\n", "PROBLEM", p)
		}
		if keep > 0 {
			if err := prune(ctx, out, s, keep); err != nil {
				return err
			}
		}
		if len(x.Problems()) > 0 {
			return errReported
		}
		return nil
	})
}

// reach says in words which moments a backup restores.
func reach(x *backup.Index) string {
	from := "from the very beginning"
	if x.LogFrom > 0 {
		if len(x.Snapshots) == 0 {
			return "nothing: it has no snapshot"
		}
		from = fmt.Sprintf("from offset %d, %s,", x.Snapshots[0].Offset, clockText(x.Snapshots[0].TimeMS))
	}
	to := fmt.Sprintf("to offset %d", x.End)
	if x.EndMS > 0 {
		to += ", " + clockText(x.EndMS)
	}
	return from + " " + to
}

func prune(ctx context.Context, out output, s backup.Store, keep int) error {
	done, err := backup.Prune(ctx, s, keep)
	for _, name := range done.Backups {
		fmt.Fprintf(out.Stdout, "removed %s\n", name)
	}
	if done.Objects > 0 {
		fmt.Fprintf(out.Stdout, "removed %d objects, %s\n", done.Objects, size(uint64(done.Bytes)))
	}
	return err
}

func listBackups(ctx context.Context, out output, place string) error {
	s, err := backup.Open(place)
	if err != nil {
		return err
	}
	list, bad, err := backup.List(ctx, s)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out.Stdout, 0, 8, 2, ' ', 0)
	for _, x := range list {
		raw, stored := x.Bytes()
		fmt.Fprintf(table, "%s\t%s\t%s\t%s there\t%s\n", x.Name, x.Source, size(uint64(raw)), size(uint64(stored)), reach(x))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, err := range bad {
		fmt.Fprintf(out.Stdout, "%-11s %v\n", "PROBLEM", err)
	}
	if len(bad) > 0 {
		return errReported
	}
	if len(list) == 0 {
		return fmt.Errorf("%s has no backups", s)
	}
	return nil
}

// choose finds the backup of a name, or the newest from which a moment can be restored; nil: its end.
func choose(ctx context.Context, s backup.Store, name string, to *datadir.Target) (*backup.Index, error) {
	list, bad, err := backup.List(ctx, s)
	if err != nil {
		return nil, err
	}
	var damaged *backup.Index // what it reaches may be lost in it, where an older one has it whole
	for i := len(list) - 1; i >= 0; i-- {
		x := list[i]
		switch {
		case name != "" && x.Name == name:
			return x, nil
		case name != "" || to != nil && !x.Reaches(*to):
		case len(x.Problems()) == 0 || to == nil:
			return x, nil
		case damaged == nil:
			damaged = x
		}
	}
	if damaged != nil {
		return damaged, nil
	}
	switch {
	case name != "":
		err = fmt.Errorf("%s has no backup %q", s, name)
	case len(list) == 0:
		err = fmt.Errorf("%s has no backups", s)
	default:
		err = fmt.Errorf("no backup of %s reaches %v (counterctl backups lists what they do)", s, to)
	}
	return nil, errors.Join(append([]error{err}, bad...)...)
}

// restoreBackup makes the directory to of a backup, with the state at a moment, or at its end. It fetches it into a
// directory beside it first.
func restoreBackup(ctx context.Context, out output, place, name, to string, target *datadir.Target) error {
	s, err := backup.Open(place)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s is there already: want a new directory", to)
	}
	x, err := choose(ctx, s, name, target)
	if err != nil {
		return err
	}
	if target == nil {
		target = &datadir.Target{Offset: x.End}
	}
	fetched, err := os.MkdirTemp(filepath.Dir(to), filepath.Base(to)+".fetched-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fetched)
	fmt.Fprintf(out.Stderr, "backup %s of %s\n", x.Name, x.Source)
	show, finish := newProgress(out.Stderr, "fetching")
	dir := filepath.Join(fetched, "data")
	err = backup.Fetch(ctx, s, x, dir, show)
	finish()
	if err != nil {
		return err
	}
	return restore(ctx, out, dir, to, target)
}

func drill(ctx context.Context, out output, place, name, scratch string) (err error) {
	if scratch, err = os.MkdirTemp(scratch, "counterctl-drill-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	dir := filepath.Join(scratch, "restored")
	if err := restoreBackup(ctx, out, place, name, dir, nil); err != nil {
		return err
	}
	report, err := check(ctx, &dataDir{path: dir, fs: vfs.OS()}, out.Stderr)
	if err != nil {
		return err
	}
	if !report.OK() {
		printReport(out.Stdout, report, "restore another one of the place's backups", false, true)
		return errReported
	}
	store, err := counter.Open(dir, counter.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, c := range store.Schema().Counters() {
		sums, err := store.Admin().Digests(c.Name, 0, 1<<63, 1)
		if err != nil {
			return err
		}
		fmt.Fprintf(out.Stdout, "counter=%s %s\n", c.Name, sums[0]) // as COUNTER.DIGEST has it
	}
	fmt.Fprintln(out.Stdout, "the backup can be restored")
	return nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/directory"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/backup"
	"github.com/counterd/counterd/cmd/internal/backup/bucket"
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
	Summary: "copy the new files of a data directory to a place of backups",
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
		keep := flags.Int("keep", 0, "then remove all backups of this store but the newest `n`; 0: none")
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
	Summary: "list the backups of a place and what each can restore",
	Details: `Prints a line a backup, oldest first: its name, from and to which moment it restores, its bytes, what they take there.

` + placeHelp,
	Setup: func(*pflag.FlagSet) action { return one("PLACE", listBackups) },
}

var drillCommand = command{
	Name:    "drill",
	Args:    "PLACE",
	Summary: "verify that a backup can be restored",
	Details: `Fetches the newest backup of PLACE into a directory of its own, compares every file with its checksum, restores it, verifies
every checksum and cross-reference of the result, opens it as a server does, reads every post, and removes it again. It needs room for two copies.

` + placeHelp,
	Setup: func(flags *pflag.FlagSet) action {
		name := flags.String("backup", "", "which one, by its name; the newest by default")
		scratch := flags.String("scratch", "", "directory in which there is room; the system's for temporary files by default")
		return one("PLACE", func(ctx context.Context, out output, place string) error {
			return drill(ctx, out, place, *name, *scratch)
		})
	},
}

var pruneCommand = command{
	Name:    "prune",
	Args:    "PLACE",
	Summary: "delete old backups",
	Details: `Removes all backups of PLACE but the newest --keep of each store, and then the files that no backup needs any more. To give
up a store for good, remove its files backups/NAME.json: the next prune removes the rest.

` + placeHelp,
	Setup: func(flags *pflag.FlagSet) action {
		keep := flags.Int("keep", 0, "backups to keep of each store, 1 or more")
		return one("PLACE", func(ctx context.Context, out output, place string) error {
			if *keep < 1 {
				return misuse("want --keep, 1 or more")
			}
			return locked(ctx, place, func(ctx context.Context, s backup.Store) error {
				removed, err := prune(ctx, out, s, *keep, nil)
				if err == nil && !removed {
					fmt.Fprintln(out.Stdout, "nothing to remove")
				}
				return err
			})
		})
	},
}

// locked opens a place and holds its lock while fn runs, whose context ends when the lock is lost.
func locked(ctx context.Context, place string, fn func(context.Context, backup.Store) error) error {
	s, err := bucket.Open(place)
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
	host, _ := os.Hostname() // for readers of the list
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if abs, err := filepath.Abs(place); err == nil && (abs == dir || strings.HasPrefix(abs, dir+string(filepath.Separator))) {
		return misuse("%s is in %s itself: want a place elsewhere, best on another disk", place, dir)
	}
	return locked(ctx, place, func(ctx context.Context, s backup.Store) error {
		var x *backup.Index
		began := time.Now()
		m := backup.NewMaker(s, backup.Options{Source: host + ":" + dir, Full: full, Cold: counter.ColdVerifier})
		err := directory.With(ctx, dir, out.Stderr, func(d *directory.Dir) (err error) {
			if d.Archive != nil {
				return misuse("%s is an archive, want a data directory", dir)
			}
			show, finish := human.Progress(out.Stderr, "copying")
			defer finish()
			m.Progress = show
			from := d.FS
			if !d.InUse { // no other process finishes this work
				if from, err = datadir.Settled(d.FS, d.Path); err != nil {
					return err
				}
			}
			x, err = m.Make(ctx, from, d.Path)
			return err
		})
		if err != nil {
			return err
		}
		raw, stored := x.Bytes()
		newRaw, newStored := x.Fresh()
		fmt.Fprintf(out.Stdout, "backup %s: %s, %s, %s there\nof these new: %s, %s there, in %s\nit restores %s\n", x.Name, human.Count(len(x.Files), "file"), human.Size(uint64(raw)), human.Size(uint64(stored)),
			human.Size(uint64(newRaw)), human.Size(uint64(newStored)), time.Since(began).Round(time.Millisecond), reach(x))
		for _, p := range x.Problems() {
			fmt.Fprintf(out.Stdout, "%-11s %s\n", "PROBLEM", p)
		}
		if keep > 0 {
			if _, err := prune(ctx, out, s, keep, x); err != nil {
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
	first, last, ok := x.Window()
	if !ok {
		return "nothing: it has no snapshot"
	}
	from := "from the very beginning"
	if first.Offset > 0 || x.LogFrom > 0 {
		from = fmt.Sprintf("from offset %d, %s,", first.Offset, human.Clock(first.TimeMS))
	}
	to := fmt.Sprintf("to offset %d", last.Offset)
	if last.TimeMS > 0 {
		to += ", " + human.Clock(last.TimeMS)
	}
	return from + " " + to
}

// prune removes backups and objects that a store no longer keeps, prints them, and reports whether there was anything.
func prune(ctx context.Context, out output, s backup.Store, keep int, of *backup.Index) (removed bool, err error) {
	done, err := backup.Prune(ctx, s, keep, of)
	for _, other := range done.Others {
		fmt.Fprintf(out.Stderr, "note: %s has backups of another store too, the newest %s of %s: they stay as they are; best is a place for each store\n", s, other.Name, other.Source)
	}
	for _, name := range done.Backups {
		fmt.Fprintf(out.Stdout, "removed %s\n", name)
	}
	if done.Objects > 0 {
		fmt.Fprintf(out.Stdout, "removed %s, %s\n", human.Count(done.Objects, "object"), human.Size(uint64(done.Bytes)))
	}
	return len(done.Backups) > 0 || done.Objects > 0, err
}

func listBackups(ctx context.Context, out output, place string) error {
	s, err := bucket.Open(place)
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%s there\t%s\n", x.Name, x.Source, human.Size(uint64(raw)), human.Size(uint64(stored)), reach(x))
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
	var damaged *backup.Index // data within its reach may be lost in it, while an older backup has them whole
	for i := len(list) - 1; i >= 0; i-- {
		x := list[i]
		switch {
		case name != "" && x.Name == name:
			return x, nil
		case name != "" || to != nil && !x.Reaches(to.Offset, to.Time):
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

// oneStore refuses to choose among backups of several stores.
func oneStore(ctx context.Context, s backup.Store) error {
	list, _, err := backup.List(ctx, s)
	if err != nil {
		return err
	}
	stores, err := backup.Stores(ctx, s, list)
	if err != nil || len(stores) < 2 {
		return err
	}
	text := fmt.Sprintf("%s has backups of %d stores: choose one with --backup. The newest of each:", s, len(stores))
	for _, x := range stores {
		text += fmt.Sprintf("\n  %s of %s", x.Name, x.Source)
	}
	return misuse("%s", text)
}

// restoreBackup makes the directory to of a backup, with the state at a moment, or at its end. It fetches it into a
// directory beside it first.
func restoreBackup(ctx context.Context, out output, place, name, to string, target *datadir.Target) error {
	s, err := bucket.Open(place)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s is there already: want a new directory", to)
	}
	if name == "" {
		if err := oneStore(ctx, s); err != nil {
			return err
		}
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
	dir := filepath.Join(fetched, "data")
	if err := fetch(ctx, out, s, x, dir); err != nil {
		return err
	}
	return restore(ctx, out, dir, to, target)
}

// fetch makes the directory to of a backup's files.
func fetch(ctx context.Context, out output, s backup.Store, x *backup.Index, to string) error {
	show, finish := human.Progress(out.Stderr, "fetching")
	defer finish()
	return backup.Fetch(ctx, s, x, to, show)
}

// drill restores a backup in a directory of its own and removes it again. Its output names files as the backup does.
func drill(ctx context.Context, out output, place, name, scratch string) (err error) {
	s, err := bucket.Open(place)
	if err != nil {
		return err
	}
	x, err := choose(ctx, s, name, nil)
	if err != nil {
		return err
	}
	if scratch, err = os.MkdirTemp(scratch, "counterctl-drill-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	var text bytes.Buffer
	err = drillIn(ctx, output{Stdout: &text, Stderr: out.Stderr}, s, x, scratch)
	said := strings.NewReplacer(filepath.Join(scratch, drillFetched)+string(filepath.Separator), "", filepath.Join(scratch, drillRestored)+string(filepath.Separator), "")
	fmt.Fprint(out.Stdout, said.Replace(text.String()))
	if err != nil && strings.Contains(err.Error(), scratch) {
		err = errors.New(said.Replace(err.Error())) // the place is gone with it
	}
	return err
}

const drillFetched, drillRestored = "fetched", "restored"

func drillIn(ctx context.Context, out output, s backup.Store, x *backup.Index, scratch string) (err error) {
	fetched, restored := filepath.Join(scratch, drillFetched), filepath.Join(scratch, drillRestored)
	fmt.Fprintf(out.Stderr, "backup %s of %s\n", x.Name, x.Source)
	if err := fetch(ctx, out, s, x, fetched); err != nil {
		return err
	}
	bad := false
	for _, p := range x.Problems() { // also files that only restores to earlier moments read
		bad = true
		fmt.Fprintf(out.Stdout, "%-11s %s\n", "PROBLEM", p)
	}
	done, err := restoreTo(ctx, out, fetched, restored, &datadir.Target{Offset: x.End})
	if err != nil {
		return err
	}
	if done.Offset != x.End {
		return fmt.Errorf("the backup restores the state at offset %d, want %d", done.Offset, x.End)
	}
	report, err := check(ctx, &directory.Dir{Path: restored, FS: vfs.OS()}, out.Stderr)
	if err != nil {
		return err
	}
	if !report.OK() {
		bad = true
		printReport(out.Stdout, report, "restore another one of the place's backups", false, true)
	}
	if bad {
		return errReported
	}
	store, err := counter.Open(restored, counter.Options{})
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
	fmt.Fprintf(out.Stdout, "the backup can be restored: backup %s, to offset %d\n", x.Name, x.End)
	return nil
}

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/directory"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/backup/bucket"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

var restoreCommand = command{
	Name:    "restore",
	Args:    "DIR|FILE|PLACE",
	Summary: "create a data directory from another one, an archive or a backup, as of any moment",
	Details: `Makes the directory --out, from which counterd starts with the state that DIR had at the moment --to: from the newest
snapshot before it and the log from there. DIR is only read, and a server may have it open.

  redis-cli -p PORT --rdb FILE && counterctl restore FILE --out DIR

makes a directory of what a server holds. FILE is an archive, a snapshot with the log behind it: what redis-cli --rdb
downloads, and what a replica saves of data that its primary has not (diverged-*.archive). Without --to it is the state at
the end of FILE.

PLACE is where counterctl backup keeps backups, a directory or s3://BUCKET/PREFIX?endpoint=HOST:PORT: the newest one from which
the moment can be restored is taken, or that of --backup, and without --to it is the state at its end.

` + momentHelp + `

An offset is met to the record: the state has every change that ends at or before it, and no other. A record is one
change of one item, so a pipeline may be in by half; a transaction is in when it ends at or before it. A time is met to the frame, which is what
the server wrote at one time, all of it: the state ends behind the last frame of that time or before it. Where the clock was set back and showed a
time twice that is the second time, and the offset of the first is named.

It reaches back to the older of the two snapshots that DIR keeps, and to the very beginning while the log begins there. What is out of
reach is refused, and the reachable offsets and times are named. counterd --aof-retain keeps log beyond that for replicas; to go further
back, download archives now and then: restore reaches every moment between the snapshot in one and its end.`,
	Setup: func(flags *pflag.FlagSet) action {
		to := flags.String("to", "", "the moment: OFFSET, TIME or @SECONDS; of a FILE by default its end")
		outDir := flags.String("out", "", "the new data directory; it must not exist")
		name := flags.String("backup", "", "of a PLACE: which backup, by its name")
		return one("DIR, FILE or PLACE", func(ctx context.Context, out output, dir string) error {
			if *outDir == "" {
				return misuse("want --out, the directory to make")
			}
			var target *datadir.Target
			if *to != "" {
				moment, err := parseMoment(*to)
				if err != nil {
					return err
				}
				target = &moment
			}
			if bucket.IsPlace(dir) {
				return restoreBackup(ctx, out, dir, *name, *outDir, target)
			}
			if *name != "" {
				return misuse("--backup is for a PLACE of backups, and %s is none", dir)
			}
			return restore(ctx, out, dir, *outDir, target)
		})
	},
}

// restore restores to a moment, or, where it is nil, to the end of an archive.
func restore(ctx context.Context, out output, dir, to string, target *datadir.Target) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	done, err := restoreTo(ctx, out, dir, to, target)
	if err != nil {
		return err
	}
	base := "the log from its beginning"
	if done.Snapshot > 0 {
		base = fmt.Sprintf("snapshot %d and the log from offset %d", done.Snapshot, done.Replay)
	}
	fmt.Fprintf(out.Stdout, "restored the state at offset %d", done.Offset)
	if done.TimeMS > 0 {
		fmt.Fprintf(out.Stdout, ", written %s,", human.Clock(done.TimeMS))
	}
	fmt.Fprintf(out.Stdout, " from %s\n%d block files, %s in all; its log goes on as history %s\nto use it: counterd --dir %s\n",
		base, done.Files, human.Size(done.Bytes), done.History, to)
	return nil
}

// restoreTo is restore that prints nothing but notes. to is absolute.
func restoreTo(ctx context.Context, out output, dir, to string, target *datadir.Target) (done *datadir.Restored, err error) {
	missing := map[string]int{} // attempts that have not found a file
	err = directory.With(ctx, dir, out.Stderr, func(d *directory.Dir) (err error) {
		if err := d.Verify(out.Stderr); err != nil {
			return err
		}
		moment := target
		if moment == nil && d.Archive != nil {
			moment = &datadir.Target{Offset: d.Archive.End()}
		}
		if moment == nil {
			return misuse("want --to, the moment to restore: %s is a directory", dir)
		}
		show, finish := human.Progress(out.Stderr, "copying")
		defer finish()
		cold := counter.ColdVerifier(vfs.OS())
		lost := func(path string) bool {
			missing[path]++
			return !d.InUse || missing[path] >= directory.Attempts
		}
		done, err = datadir.Restore(d.FS, d.Path, vfs.OS(), to, *moment, datadir.RestoreOptions{
			Progress: show,
			Say:      func(s string) { fmt.Fprintln(out.Stderr, s) },
			Lost:     lost,
			Cold: func(path string, c *format.CounterFiles, b *format.BlockFile) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return cold(path, c, b)
			},
		})
		return err
	})
	return done, err
}

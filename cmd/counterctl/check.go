package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/directory"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

var checkCommand = command{
	Name:    "check",
	Args:    "DIR|FILE",
	Summary: "verify all checksums and references",
	Details: `Reads the whole data directory, the log, the manifests, the images of blocks and of overlays and the cold files, verifies
every checksum and what they say of each other, and reports what is wrong, and where. It changes nothing, and may be
run while a server has the directory open. FILE is an archive, as redis-cli --rdb downloads it, or a tail of a log
that a node put aside (diverged-*.aof): all of it is verified, too.

Exit status 0: nothing is damaged. 1: something is. A PROBLEM keeps a server from its start, or makes it answer errors for some
keys. A file that is called damaged is not needed by a start; replicas, backups and restores may need it.`,
	Setup: func(flags *pflag.FlagSet) action {
		quiet := flags.BoolP("quiet", "q", false, "print problems only")
		return one("DIR or FILE", func(ctx context.Context, out output, dir string) error {
			if done, err := checkTail(ctx, out, dir); done || err != nil {
				return err
			}
			var report *datadir.Report
			var inUse bool
			err := directory.With(ctx, dir, out.Stderr, func(d *directory.Dir) (err error) {
				inUse = d.InUse
				if err := d.Verify(out.Stderr); err != nil {
					return err
				}
				report, err = check(ctx, d, out.Stderr)
				if err == nil && !report.Whole() && inUse {
					return format.ErrCorrupt // to see whether it is again
				}
				return err
			})
			if report == nil && errors.Is(err, format.ErrCorrupt) { // of an archive
				fmt.Fprintf(out.Stdout, "%-11s %v\n", "PROBLEM", err)
				return errReported
			}
			if errors.Is(err, syscall.EISDIR) {
				return fmt.Errorf("%w where a data directory has a file: counterd did not make it, move it away", err)
			}
			if report == nil || err != nil && !errors.Is(err, format.ErrCorrupt) {
				return err
			}
			remedy := format.RepairCommand(dir)
			if info, err := os.Stat(dir); err == nil && !info.IsDir() {
				remedy = "download it again: the server that it came from has this damage too, if its directory is not checked clean"
			}
			if other := otherVersion(report); other != "" {
				remedy = other
			}
			printReport(out.Stdout, report, remedy, inUse, *quiet)
			if !report.Whole() {
				return errReported
			}
			return nil
		})
	},
}

// otherVersion says what to do with data that this version does not read; empty: it reads all. A repair refuses such a directory.
func otherVersion(r *datadir.Report) string {
	for _, p := range r.Problems {
		if !p.Fatal || !errors.Is(p.Err, format.ErrUnsupportedFormat) {
			continue
		}
		if v, ok := errors.AsType[*format.VersionError](p.Err); ok && v.Found < v.Oldest {
			return "export the posts with the version of counterd that wrote them, and import them with this one. A repair changes nothing here"
		}
		return "use the version of counterd and counterctl that wrote the data, or a newer one. A repair changes nothing here"
	}
	return ""
}

// checkTail checks a file with the tail of a log: diverged-*.aof or torn-*.aof. done is false if it is another.
func checkTail(ctx context.Context, out output, path string) (done bool, err error) {
	fsys := vfs.Interruptible(ctx, vfs.OS())
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	tail, torn, ok, err := past.TailFile(fsys, path)
	if err != nil || !ok {
		return false, err
	}
	if torn {
		fmt.Fprintf(out.Stdout, "%-11s the torn tail that a start cut from the log at offset %d: no frame in it has to be whole\n", "torn", tail.Offset)
		return true, nil
	}
	walked, err := past.WalkDiverged(fsys, tail, logfile.Visitor{})
	fmt.Fprintf(out.Stdout, "%-11s offset %d to %d, %d frames, %d records\n", "diverged", walked.First, walked.End, walked.Frames, walked.Records)
	if errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupportedFormat) {
		fmt.Fprintf(out.Stdout, "%-11s %v\n", "PROBLEM", err)
		return true, errReported
	}
	if err == nil {
		fmt.Fprintf(out.Stdout, "%-11s nothing is damaged\n", "ok")
	}
	return true, err
}

// check checks a directory and shows how far it is.
func check(ctx context.Context, d *directory.Dir, stderr io.Writer) (*datadir.Report, error) {
	show, finish := human.Progress(stderr, "checking")
	defer finish()
	cold := counter.ColdVerifier(d.FS)
	return datadir.Check(d.FS, d.Path, datadir.CheckOptions{
		Progress: show,
		Cold: func(path string, c *format.CounterFiles, b *format.BlockFile) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return cold(path, c, b)
		},
	})
}

func printReport(w io.Writer, r *datadir.Report, remedy string, inUse, quiet bool) {
	line := func(what, format string, args ...any) {
		if !quiet {
			fmt.Fprintf(w, "%-11s %s\n", what, fmt.Sprintf(format, args...))
		}
	}
	if r.Manifests > 0 {
		line("manifests", "%d", r.Manifests)
	} else {
		line("manifests", "none: no snapshot was made yet")
	}
	line("images", "%d, %s", r.Images, human.Size(r.ImageBytes))
	line("cold files", "%d, %s", r.ColdFiles, human.Size(r.ColdBytes))
	if r.Log.Segments > 0 {
		line("log", "offset %d to %d in %d segments, %d frames, %d records", r.Log.First, r.Log.End, r.Log.Segments, r.Log.Frames, r.Log.Records)
		if r.Log.TimeMS > 0 {
			line("last write", "%s", human.Clock(r.Log.TimeMS))
		}
		line("history", "%s, epoch %d", r.Log.History.ReplID, r.Log.History.Epoch)
	}
	if n := len(r.Lineage.Terms); n > 0 {
		role := "primary"
		if r.Lineage.Replica {
			role = "replica"
		}
		line("role", "%s, %d terms, the last since offset %d", role, n, r.Lineage.Terms[n-1].Start)
	}
	if r.Diverged > 0 {
		line("diverged", "%d files, %s", r.Diverged, human.Size(r.DivergedBytes))
	}
	bad, spare := 0, 0
	for _, p := range r.Problems {
		switch {
		case p.Fatal:
			bad++
			fmt.Fprintf(w, "%-11s %v\n", "PROBLEM", problemText(p))
		case errors.Is(p.Err, format.ErrCorrupt):
			spare++
			fmt.Fprintf(w, "%-11s %v\n", "damaged", problemText(p))
		case inUse && (errors.Is(p.Err, datadir.ErrOrphan) || errors.Is(p.Err, datadir.ErrUnfinished) || errors.Is(p.Err, format.ErrTornTail)):
			// a server at work has such files, and is writing behind the last frame
		default:
			line("note", "%v", problemText(p))
		}
	}
	if bad > 0 {
		fmt.Fprintf(w, "%d problems. What can be done: %s\n", bad, remedy)
		return
	}
	if spare > 0 {
		fmt.Fprintf(w, "%d damages of what no start needs. Replicas, backups and restores may need it. A server writes it again where another copy or another node has it, and removes it when it is no longer kept\n", spare)
		return
	}
	line("ok", "nothing is damaged")
}

// problemText names the file where the error does not.
func problemText(p datadir.Problem) string {
	if errors.Is(p.Err, format.ErrCorrupt) || errors.Is(p.Err, format.ErrTornTail) || errors.Is(p.Err, format.ErrUnsupportedFormat) {
		return p.Err.Error()
	}
	return p.Path + ": " + p.Err.Error()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/directory"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

var repairCommand = command{
	Name:    "repair",
	Args:    "DIR",
	Summary: "repair a damaged directory so that a server can start from it",
	Details: `Writes damaged headers of log segments again where their frames are whole, cuts the log at the first other damage, falls back to an older
snapshot where the newest is damaged, and says what it does.
Nothing is deleted: what is cut or replaced stays beside, with .broken-N behind its name. A server must not have the
directory open.

Cold files hold what is often nowhere else. If one is damaged, an older snapshot without it, or none, is taken where the log
since is still there, and nothing is lost. Else it is left: a server starts and answers errors for the mids of a damaged
page, or of a file that is missing or cannot be opened, but for what was set since. Put the file back from a backup, take the
data of a replica, or give these posts up with --lose-unreadable, which names them: they are absent then, and replicas take a full copy.
The same goes for an image that no snapshot has a good one for, where the log does not go back to its beginning, or an earlier repair cut it; but without the
image of the last range, that of the newest posts, a server does not start.

With --dry-run it changes nothing, and says what it would do and what would be lost. A replica's directory, or one of a cluster's
node, is better emptied than repaired while its primary is well: it takes a full copy then.

Exit status 0: a server starts now. 1: it does not, or some mids cannot be read.`,
	Setup: func(flags *pflag.FlagSet) action {
		lose := flags.Bool("lose-unreadable", false, "save what can be read of damaged cold files and images, and give up the rest")
		dry := flags.Bool("dry-run", false, "change nothing, and say what would be done")
		return one("DIR", func(ctx context.Context, out output, dir string) error {
			return repair(ctx, out.Stdout, dir, *lose, *dry)
		})
	},
}

func repair(ctx context.Context, w io.Writer, dir string, lose, dry bool) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return misuse("%s is a file: an archive is never changed. counterctl check %s names what is wrong with it, counterctl restore makes a directory of it", dir, dir)
	}
	path, err := directory.Abs(dir)
	if err != nil {
		return err
	}
	steps := 0
	fsys := vfs.Interruptible(ctx, vfs.OS())
	ready := "ok: a server starts from this directory now"
	if dry {
		fsys = datadir.NewView(fsys, path)
		ready = "nothing was changed: with these steps a server would start from this directory"
		fmt.Fprintln(w, "dry run: nothing is changed")
	}
	opts := datadir.RepairOptions{
		Say: func(s string) {
			steps++
			fmt.Fprintln(w, s)
		},
		Cold: counter.ColdVerifier(fsys),
	}
	opts.Lacks = func() error {
		noted, err := counter.NoteBehind(fsys, path)
		if noted {
			opts.Say("a node of a cluster becomes primary with this directory only when it has caught up, or when all that are in sync lack something: start it while another node in sync runs")
		}
		return err
	}
	err = datadir.Repair(fsys, path, opts)
	var fault *snapfile.BlockFault
	if lose && (err == nil || errors.As(err, &fault)) {
		err = datadir.LoseUnreadable(fsys, path, datadir.LoseOptions{Say: opts.Say, Cold: opts.Cold, Lacks: opts.Lacks, Salvage: counter.Salvage})
	}
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("a server has %s open: stop it first", dir)
	case errors.As(err, &fault):
		return fmt.Errorf("%w\nput the files back, or run: counterctl repair --lose-unreadable %s", err, dir)
	case err != nil:
		return err
	}
	report, err := datadir.Check(fsys, path, datadir.CheckOptions{Cold: opts.Cold})
	if err != nil {
		return err
	}
	if !report.OK() {
		for _, p := range report.Problems {
			if p.Fatal {
				fmt.Fprintf(w, "PROBLEM left: %s\n", problemText(p))
			}
		}
		return errReported
	}
	if steps == 0 {
		fmt.Fprintln(w, "nothing to repair")
	} else {
		fmt.Fprintln(w, ready)
	}
	return nil
}

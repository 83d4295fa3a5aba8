// Package directory opens data directories and archives for commands that only read them.
package directory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/backup"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Dir is a data directory, or an archive that shows one, that is only read. FS is a view: nothing done through it
// reaches the disk. While no server has the directory open its lock is held, so that none starts meanwhile.
type Dir struct {
	Path    string // absolute
	FS      vfs.FS
	InUse   bool             // a server has it open
	note    string           // a message about the lock; may be empty
	lock    io.Closer        // of a directory
	Archive *archive.Archive // nil: it is a directory
}

// Open finds out whether a server has the directory open and makes a view of it as it is now. A file must be an
// archive. When ctx ends so does reading it.
func Open(ctx context.Context, path string) (*Dir, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return openArchive(ctx, path)
	}
	abs, err := Abs(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{Path: abs}
	lock := filepath.Join(abs, "LOCK")
	if _, err := os.Stat(lock); err == nil {
		d.lock, err = vfs.OS().Lock(lock)
		switch {
		case errors.Is(err, vfs.ErrLocked):
			d.InUse = true
			d.note = "a server has the directory open: this shows it as it was a moment ago"
		case err != nil:
			d.note = fmt.Sprintf("cannot tell whether a server has the directory open: %v", err)
		}
	}
	d.FS = datadir.NewView(vfs.Interruptible(ctx, vfs.OS()), abs)
	return d, nil
}

// openArchive opens what redis-cli --rdb downloaded, or a replica saved, as the directory that it shows.
func openArchive(ctx context.Context, path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	a, err := archive.Open(vfs.Interruptible(ctx, vfs.OS()), abs)
	if err != nil {
		return nil, err
	}
	return &Dir{Path: abs, FS: vfs.NewView(a, nil), Archive: a}, nil
}

// Verify compares an archive's parts with their checksums; of a directory there is nothing to do.
func (d *Dir) Verify(stderr io.Writer) error {
	if d.Archive == nil {
		return nil
	}
	show, finish := human.Progress(stderr, "verifying")
	defer finish()
	return d.Archive.Verify(show)
}

// Abs checks that a path is that of a data directory.
func Abs(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if name := e.Name(); name == "LOCK" || name == filepath.Base(format.LogDir(abs)) || strings.HasPrefix(name, "MANIFEST-") {
			return abs, nil
		}
	}
	return "", fmt.Errorf("%s is no data directory of counterd: it has no LOCK, no log and no MANIFEST", path)
}

// Close gives the lock back.
func (d *Dir) Close() error {
	switch {
	case d.Archive != nil:
		return d.Archive.Close()
	case d.lock != nil:
		return d.lock.Close()
	}
	return nil
}

// Attempts is how often a directory in use is read again after the same error. The server removes files after each
// snapshot; a file that is missing each time is a fault of the directory.
const Attempts = 5

// moveOn bounds how long a directory in use is read again while each attempt meets another missing file: on a busy machine
// a server that makes a snapshot every 20 ms removed files of five views in a row.
const moveOn = 30 * time.Second

// begunWait is the time that a node gets to replace its own data by its primary's, which means to rename files.
const (
	begunWait  = 30 * time.Second
	begunPause = 100 * time.Millisecond
)

// With runs fn on a directory. If a server has the directory open and fn fails because a file is missing or damaged, With
// runs fn again on a new view: a fault that stays is a fault of the directory. The error is that of the last attempt.
func With(ctx context.Context, path string, stderr io.Writer, fn func(d *Dir) error) error {
	started, seen := time.Now(), map[string]int{}
	for n := 1; ; n++ {
		d, err := Open(ctx, path)
		if err != nil {
			return err
		}
		if d.note != "" && n == 1 {
			fmt.Fprintf(stderr, "note: %s\n", d.note)
		}
		err = fn(d)
		if closed := d.Close(); err == nil {
			err = closed
		}
		again := false
		if d.InUse && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, format.ErrCorrupt)) {
			seen[err.Error()]++
			again = n < Attempts || seen[err.Error()] < Attempts && time.Since(started) < moveOn
		}
		var begun *backup.BegunError
		if errors.As(err, &begun) {
			again = d.InUse && time.Since(started) < begunWait
		}
		if !again || ctx.Err() != nil {
			return err
		}
		if begun != nil {
			time.Sleep(begunPause)
		}
	}
}

// OpenStore opens what the directory or the archive shows, as a server would.
func (d *Dir) OpenStore() (*counter.Store, error) {
	return counter.Open(d.Path, counter.Options{FS: d.FS, Manual: true, SnapshotGrowth: -1, Logger: slog.New(slog.DiscardHandler)})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/backup"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// dataDir is a data directory, or an archive that shows one, that is only read. fs is a view: nothing done through it
// reaches the disk. While no server has the directory open its lock is held, so that none starts meanwhile.
type dataDir struct {
	path    string // absolute
	fs      vfs.FS
	inUse   bool             // a server has it open
	note    string           // what to tell of the lock; may be empty
	lock    io.Closer        // of a directory
	archive *persist.Archive // nil: it is a directory
}

// openDataDir finds out whether a server has the directory open and makes a view of it as it is now. A file must be an
// archive. When ctx ends so does reading it.
func openDataDir(ctx context.Context, path string) (*dataDir, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return openArchive(ctx, path)
	}
	abs, err := absDataDir(path)
	if err != nil {
		return nil, err
	}
	d := &dataDir{path: abs}
	lock := filepath.Join(abs, "LOCK")
	if _, err := os.Stat(lock); err == nil {
		d.lock, err = vfs.OS().Lock(lock)
		switch {
		case errors.Is(err, vfs.ErrLocked):
			d.inUse = true
			d.note = "a server has the directory open: this shows it as it was a moment ago"
		case err != nil:
			d.note = fmt.Sprintf("cannot tell whether a server has the directory open: %v", err)
		}
	}
	d.fs = datadir.NewView(vfs.Interruptible(ctx, vfs.OS()), abs)
	return d, nil
}

// openArchive opens what redis-cli --rdb downloaded, or a replica saved, as the directory that it shows.
func openArchive(ctx context.Context, path string) (*dataDir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	a, err := persist.OpenArchive(vfs.Interruptible(ctx, vfs.OS()), abs)
	if err != nil {
		return nil, err
	}
	return &dataDir{path: abs, fs: vfs.NewView(a, nil), archive: a}, nil
}

// verify compares an archive's parts with their checksums; of a directory there is nothing to do.
func (d *dataDir) verify(stderr io.Writer) error {
	if d.archive == nil {
		return nil
	}
	show, finish := newProgress(stderr, "verifying")
	defer finish()
	return d.archive.Verify(show)
}

// absDataDir checks that a path is that of a data directory.
func absDataDir(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if name := e.Name(); name == "LOCK" || name == filepath.Base(persist.LogDir(abs)) || strings.HasPrefix(name, "MANIFEST-") {
			return abs, nil
		}
	}
	return "", fmt.Errorf("%s is no data directory of counterd: it has no LOCK, no log and no MANIFEST", path)
}

// close gives the lock back.
func (d *dataDir) close() error {
	switch {
	case d.archive != nil:
		return d.archive.Close()
	case d.lock != nil:
		return d.lock.Close()
	}
	return nil
}

// attempts is how often reading a directory in use is begun anew because the server removed what was being read. It
// does so once a snapshot.
const attempts = 5

// begunWait is how long a node is given to put a primary's data in the place of its own, which is renaming files.
const (
	begunWait  = 30 * time.Second
	begunPause = 100 * time.Millisecond
)

// withDataDir runs fn on a directory. Where a server has it open and fn fails, it runs again on a new view: what is
// there both times is no accident.
func withDataDir(ctx context.Context, path string, stderr io.Writer, fn func(d *dataDir) error) error {
	started := time.Now()
	for n := 1; ; n++ {
		d, err := openDataDir(ctx, path)
		if err != nil {
			return err
		}
		if d.note != "" && n == 1 {
			fmt.Fprintf(stderr, "note: %s\n", d.note)
		}
		err = fn(d)
		if closed := d.close(); err == nil {
			err = closed
		}
		again := d.inUse && n < attempts && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, persist.ErrCorrupt))
		var begun *backup.BegunError
		if errors.As(err, &begun) {
			again = d.inUse && time.Since(started) < begunWait
		}
		if !again || ctx.Err() != nil {
			return err
		}
		if begun != nil {
			time.Sleep(begunPause)
		}
	}
}

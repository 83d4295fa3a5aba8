package persist

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestGone: a data directory, a LOCK or a segment that loses its name while it is in use is noticed with the next tick,
// and changes are refused. They are taken again when that is safe.
func TestGone(t *testing.T) {
	lock, segment := filepath.Join(testDir, format.LockName), filepath.Join(format.LogDir(testDir), format.SegmentName(0))
	remove := func(name string) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fsys vfs.FS) { must(t, fsys.Remove(name)) }
	}
	rename := func(from, to string) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fsys vfs.FS) { must(t, fsys.Rename(from, to)) }
	}
	make := func(name string) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fsys vfs.FS) {
			f, err := fsys.Create(name)
			must(t, err)
			must(t, f.Close())
		}
	}
	never := func(*testing.T, vfs.FS) {}
	for _, c := range []struct {
		name       string
		break1     func(*testing.T, vfs.FS)
		mend       func(*testing.T, vfs.FS)
		comesBack  bool
		keepsFiles bool // nothing may be made in the directory meanwhile
	}{
		{"directory moved away and back", rename(testDir, "/away"), rename("/away", testDir), true, true},
		{"another in its place", func(t *testing.T, fsys vfs.FS) {
			must(t, fsys.Rename(testDir, "/away"))
			must(t, fsys.MkdirAll(format.LogDir(testDir)))
		}, never, false, true},
		{"LOCK removed", remove(lock), never, true, false},
		{"LOCK replaced", func(t *testing.T, fsys vfs.FS) {
			remove(lock)(t, fsys)
			make(lock)(t, fsys)
		}, never, false, true},
		{"segment removed", remove(segment), never, false, false},
		{"segment moved and back", rename(segment, segment+".x"), rename(segment+".x", segment), true, false},
		{"segment replaced", func(t *testing.T, fsys vfs.FS) {
			remove(segment)(t, fsys)
			make(segment)(t, fsys)
		}, never, false, false},
		{"LOCK removed and taken by a process that ended", func(t *testing.T, fsys vfs.FS) {
			remove(lock)(t, fsys)
			d, err := OpenDir(fsys, testDir)
			must(t, err)
			l, _, err := OpenLog(LogOptions{FS: fsys, Dir: testDir, Manual: true, FirstSegmentBytes: 512, SegmentBytes: 1024}, 0, discard)
			must(t, err)
			must(t, l.Close())
			must(t, d.Close())
			remove(lock)(t, fsys)
		}, never, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := newFS(t)
			d, err := OpenDir(fsys, testDir)
			must(t, err)
			opts := smallLog(fsys, newClock())
			opts.Policy, opts.Guard, opts.SegmentBytes = SyncAlways, d.CheckLock, 1<<20
			l, _, err := OpenLog(opts, 0, discard)
			must(t, err)
			must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
			l.Tick()
			must(t, l.Ready())

			c.break1(t, fsys)
			before, _ := fsys.List(format.LogDir(testDir))
			l.Tick()
			err = l.Ready()
			if gone := (*logfile.GoneError)(nil); !errors.As(err, &gone) || !errors.Is(err, format.ErrNotReady) {
				t.Fatalf("ready: got %v", err)
			}
			if c.keepsFiles {
				if err := d.WriteManifest(&format.Manifest{}); !errors.Is(err, format.ErrNotReady) {
					t.Errorf("manifest: got %v", err)
				}
				l.mu.Lock()
				l.files.wantNext = true
				l.mu.Unlock()
				l.Tick()
				if after, _ := fsys.List(format.LogDir(testDir)); len(after) != len(before) {
					t.Errorf("files %q, then %q", before, after)
				}
			}
			c.mend(t, fsys)
			l.Tick()
			l.Tick()
			if err := l.Ready(); (err == nil) != c.comesBack {
				t.Errorf("after it is right again: got %v", err)
			}
			if c.comesBack {
				must(t, l.Commit(l.AppendSet(1, 1, 2, 2)))
			}
			must(t, l.Close())
			must(t, d.Close())
			if c.comesBack {
				records := 0
				l, _, err := OpenLog(smallLog(fsys.Crash(1, 0), newClock()), 0, func(uint64, *format.Record) error { records++; return nil })
				must(t, err)
				if records != 2 {
					t.Errorf("%d records, want 2", records)
				}
				must(t, l.Close())
			}
			if leaks := fsys.Leaks(); len(leaks) > 0 {
				t.Error("open:", leaks)
			}
		})
	}
}

// strangeFS has files without an identity, as an archive has.
type strangeFS struct{ vfs.FS }

type strangeInfo struct{ fs.FileInfo }

func (s strangeFS) Stat(name string) (fs.FileInfo, error) {
	info, err := s.FS.Stat(name)
	return strangeInfo{info}, err
}

// TestHeldWithoutIdentity: where nobody can tell whether a file is the same, it is.
func TestHeldWithoutIdentity(t *testing.T) {
	fsys := strangeFS{newFS(t)}
	d, err := OpenDir(fsys, testDir)
	must(t, err)
	opts := smallLog(fsys, newClock())
	opts.Guard = d.CheckLock
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	l.Tick()
	must(t, errors.Join(l.Ready(), d.CheckLock(), l.Close(), d.Close()))
}

// TestHeldThroughRotations: the log's own changes of segments are not taken for somebody else's.
func TestHeldThroughRotations(t *testing.T) {
	l, _, _ := openFaulty(t, func(*LogOptions) {})
	for i := range 200 {
		if i%20 == 0 {
			h := l.History()
			h.Epoch++
			must(t, l.SetHistory(h))
			l.Tick()
		}
		must(t, l.Commit(l.AppendSet(1, 1, uint64(i), 1)))
		l.Tick()
		must(t, l.Ready())
	}
	must(t, l.Close())
}

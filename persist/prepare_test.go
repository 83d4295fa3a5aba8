package persist

import (
	"errors"
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// failSync makes the sync of a file fail after telling: so that healing can run while a segment is being prepared.
type failSync struct {
	vfs.FS
	during func()
}

func (f *failSync) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if err != nil || f.during == nil {
		return file, err
	}
	return &failSyncFile{file, f}, nil
}

type failSyncFile struct {
	vfs.File
	fs *failSync
}

func (f *failSyncFile) Sync() error {
	if f.fs.during == nil {
		return f.File.Sync()
	}
	f.fs.during()
	return syscall.EIO
}

// TestPrepareFailsBesideHealing: the disk fails while the next segment is prepared, and a rotation, which forgets that
// one was wanted, is done first. The failed preparation must still be tried again, or changes are refused for ever.
func TestPrepareFailsBesideHealing(t *testing.T) {
	fs := &failSync{FS: vfs.NewSim()}
	l, _, err := OpenLog(LogOptions{FS: fs, Dir: "data", Create: true, Manual: true, FirstSegmentBytes: 4096, SegmentBytes: 4096}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.files.wantNext = true
	l.mu.Unlock()
	fs.during = func() { // what a rotation does at its end
		l.mu.Lock()
		l.files.wantNext = false
		l.mu.Unlock()
	}
	l.preparer.makeSegment()
	fs.during = nil
	if l.files.spaceErr == nil || !errors.Is(l.files.spaceErr, syscall.EIO) {
		t.Fatalf("got spaceErr %v, want EIO", l.files.spaceErr)
	}
	l.Tick()
	if l.files.spaceErr != nil || l.files.next == nil {
		t.Errorf("after a tick on a disk that is well: got spaceErr %v, next segment %v", l.files.spaceErr, l.files.next)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestPrepareFailsBeforeHealing: the disk fails, first for the next segment, then for the active one, and is well
// before healing. The healed segment is full, so changes are refused until there is a next one: it must be tried again
// although no write asks for it.
func TestPrepareFailsBeforeHealing(t *testing.T) {
	fs := &failSync{FS: vfs.NewSim()}
	l, _, err := OpenLog(LogOptions{FS: fs, Dir: "data", Create: true, Manual: true, FirstSegmentBytes: 4096, SegmentBytes: 4096}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for l.files.active.Used < l.files.active.Capacity*9/10 {
		if err := l.Commit(l.AppendSet(1, 0, 7, 7)); err != nil {
			t.Fatal(err)
		}
	}
	fs.during = func() {}
	l.preparer.makeSegment()
	fs.during = nil
	if l.files.spaceErr == nil {
		t.Fatal("the preparation did not fail")
	}
	l.mu.Lock()
	l.committer.fail(syscall.EIO)
	l.mu.Unlock()
	if l.committer.healer.trouble != nil {
		t.Fatalf("not healed: %v", l.committer.healer.trouble)
	}
	if err := l.Ready(); err == nil {
		t.Fatal("changes are let in with no next segment and a full active one")
	}
	l.Tick()
	if err := l.Ready(); err != nil {
		t.Errorf("after a tick on a disk that is well: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

package counter

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// heldFS is a file system whose syncs of files wait while they are held.
type heldFS struct {
	vfs.FS
	mu      sync.Mutex
	held    chan struct{} // nil: they do not wait
	waiting chan struct{} // one for each that waits
}

func (f *heldFS) hold() (letGo func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = make(chan struct{})
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		close(f.held)
		f.held = nil
	}
}

func (f *heldFS) Create(name string) (vfs.File, error) { return f.wrap(f.FS.Create(name)) }
func (f *heldFS) OpenRW(name string) (vfs.File, error) { return f.wrap(f.FS.OpenRW(name)) }

func (f *heldFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &heldFile{file, f}, nil
}

type heldFile struct {
	vfs.File
	fs *heldFS
}

func (f *heldFile) Sync() error {
	f.fs.mu.Lock()
	held := f.fs.held
	f.fs.mu.Unlock()
	if held != nil {
		f.fs.waiting <- struct{}{}
		<-held
	}
	return f.File.Sync()
}

// TestBecomeLetsReadersIn changes the role on a disk that hangs: what was there is read meanwhile, changes are refused, and the store is not closed before the role is
// what it is to be.
func TestBecomeLetsReadersIn(t *testing.T) {
	disk := &heldFS{FS: vfs.NewSim(), waiting: make(chan struct{}, 100)}
	s, err := Open("data", Options{FS: disk, Manual: true, SnapshotGrowth: -1, HashSeed: 1})
	must(t, err)
	must(t, s.AlterScript("add counter w\nadd column w n hint=8 max=63 suffix=n"))
	other := s.Lineage()
	must(t, s.Set("5.n", 55))
	for _, c := range []struct {
		name    string
		change  func() error
		replica bool
	}{
		{"yield", s.Yield, true},
		{"follow", func() error { _, err := s.Follow(other.Begin(s.log.Position())); return err }, true},
		{"lead", func() error { _, err := s.Lead(); return err }, false},
		{"lead again", func() error { _, err := s.Lead(); return err }, false},
	} {
		letGo := disk.hold()
		done := make(chan error, 1)
		go func() { done <- c.change() }()
		<-disk.waiting
		read := make(chan error, 1)
		go func() {
			v, _, err := s.Get("5.n")
			if v != 55 {
				err = errors.Join(err, errors.New("want 55"))
			}
			if serr := s.Set("5.n", 56); !errors.Is(serr, ErrReplica) {
				err = errors.Join(err, errors.New("a change was not refused"), serr)
			}
			read <- err
		}()
		select {
		case err := <-read:
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: readers wait for the disk", c.name)
		}
		letGo()
		if err := <-done; err != nil || s.Replica() != c.replica {
			t.Fatalf("%s: %v, replica %t", c.name, err, s.Replica())
		}
		for len(disk.waiting) > 0 {
			<-disk.waiting
		}
	}
	must(t, s.Set("5.n", 57))

	letGo := disk.hold()
	yielded, closed := make(chan error, 1), make(chan error, 1)
	go func() { yielded <- s.Yield() }()
	<-disk.waiting
	go func() { closed <- s.Close() }()
	letGo()
	must(t, errors.Join(<-yielded, <-closed))
	s, err = Open("data", Options{FS: disk, Manual: true, SnapshotGrowth: -1, HashSeed: 1})
	must(t, err)
	if v, _, err := s.Get("5.n"); !s.Replica() || v != 57 || err != nil {
		t.Errorf("after a restart: replica %t, %d, %v", s.Replica(), v, err)
	}
	must(t, s.Close())
}

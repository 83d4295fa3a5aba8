// Scenario: the role changes on a disk that hangs or fails.

package counter

import (
	"errors"
	"sync"
	"syscall"
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

// TestBecomeLetsReadersIn changes the role on a disk that hangs: what was there is read meanwhile, changes are refused,
// and the store is not closed before the role is what it is to be.
func TestBecomeLetsReadersIn(t *testing.T) {
	disk := &heldFS{FS: vfs.NewSim(), waiting: make(chan struct{}, 100)}
	s, err := Open("data", Options{FS: disk, Manual: true, SnapshotGrowth: -1, HashSeed: 1})
	must(t, err)
	must(t, s.AlterScript("add counter w\nadd column w n hint=8 max=63 suffix=n"))
	other := s.repl.Lineage()
	must(t, s.Set("5.n", 55))
	for _, c := range []struct {
		name    string
		change  func() error
		replica bool
	}{
		{"yield", s.repl.Yield, true},
		{"follow", func() error { _, err := s.repl.Follow(other.Begin(s.data.Log.Position())); return err }, true},
		{"lead", func() error { _, err := s.repl.Lead(); return err }, false},
		{"lead again", func() error { _, err := s.repl.Lead(); return err }, false},
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
		case <-time.After(3 * time.Minute):
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
	go func() { yielded <- s.repl.Yield() }()
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

// TestBecomeFails lets each operation of the disk fail once while a replica is promoted, a primary demoted, and a
// replica told of another past. Where that fails the role stays what it was, and what is written behind it is read so
// by the next start, too.
func TestBecomeFails(t *testing.T) {
	for _, c := range []struct {
		name    string
		replica bool // before
		change  func(s *Store) error
	}{
		{"lead", true, func(s *Store) error { _, err := s.repl.Lead(); return err }},
		{"yield", false, func(s *Store) error { return s.repl.Yield() }},
		{"follow", true, func(s *Store) error {
			past := s.repl.Lineage()
			_, err := s.repl.Follow(past.Begin(s.data.Log.Position()))
			return err
		}},
	} {
		for skip := 0; ; skip++ {
			sim := vfs.NewSim()
			disk := vfs.NewFaulty(sim)
			opts := Options{FS: disk, Manual: true, SnapshotGrowth: -1, HashSeed: 1}
			a, err := Open("data", Options{FS: vfs.NewSim(), Manual: true, SnapshotGrowth: -1, HashSeed: 1})
			must(t, err)
			must(t, a.AlterScript("add counter w\nadd column w n hint=8 max=63 suffix=n"))
			s, err := Open("data", opts)
			must(t, err)
			if c.replica {
				_, err := s.repl.Follow(a.repl.Lineage())
				must(t, err)
				ship(t, a, s)
			} else {
				must(t, s.AlterScript("add counter w\nadd column w n hint=8 max=63 suffix=n"))
			}
			disk.Inject(vfs.Rule{Ops: vfs.OpMutating, Skip: skip, Err: syscall.EIO})
			err = c.change(s)
			fired := disk.Fired()
			disk.Clear()
			if err == nil {
				must(t, errors.Join(s.Close(), a.Close()))
				if fired > 0 { // the log could do without
					continue
				}
				if skip < 5 {
					t.Errorf("%s: %d operations only", c.name, skip)
				}
				break
			}
			if s.Replica() != c.replica {
				t.Fatalf("%s, operation %d: %v, and the role has changed", c.name, skip, err)
			}
			past := s.repl.Lineage()
			s.snapshots.SnapshotIfDue() // as each second
			if c.replica {
				must(t, a.Set("7.n", 77))
				ship(t, a, s)
			} else {
				must(t, s.Set("7.n", 77))
			}
			opts.FS = sim.Kill()
			again, err := Open("data", opts)
			must(t, err)
			now := again.repl.Lineage()
			v, _, err := again.Get("7.n")
			common, _ := now.Common(again.data.Log.Position(), &past, again.data.Log.Position())
			if again.Replica() != c.replica || v != 77 || err != nil || common != s.data.Log.Position() {
				t.Fatalf("%s, operation %d, after a restart: replica %t, want %t; 7.n is %d, %v; the past agrees up to %d of %d", c.name, skip, again.Replica(), c.replica, v, err,
					common, s.data.Log.Position())
			}
			must(t, errors.Join(again.Close(), s.Close(), a.Close()))
		}
	}
}

// TestBecomeDurable: a role that was taken stands behind a log that no power failure makes shorter, in every policy.
func TestBecomeDurable(t *testing.T) {
	for name, change := range map[string]func(s *Store) error{
		"yield": func(s *Store) error { return s.repl.Yield() },
		"follow": func(s *Store) error {
			l := s.repl.Lineage()
			_, err := s.repl.Follow(l.Begin(s.data.Log.Position()))
			return err
		},
		"lead": func(s *Store) error { _, err := s.repl.Lead(); return err },
	} {
		sim := vfs.NewSim()
		opts := Options{FS: sim, Manual: true, SnapshotGrowth: -1, HashSeed: 1, AppendFsync: SyncNo}
		s, err := Open("data", opts)
		must(t, err)
		must(t, s.AlterScript("add counter w\nadd column w n hint=8 max=63 suffix=n"))
		must(t, s.Set("7.n", 77))
		must(t, change(s))
		opts.FS = sim.Crash(1, 0)
		again, err := Open("data", opts)
		must(t, err)
		if v, found, err := again.Get("7.n"); v != 77 || !found || err != nil || again.data.Log.Position() < s.data.Log.Position() {
			t.Errorf("%s: after a power failure 7.n is %d, %t, %v, and the log ends at %d of %d", name, v, found, err, again.data.Log.Position(), s.data.Log.Position())
		}
		must(t, errors.Join(again.Close(), s.Close()))
	}
}

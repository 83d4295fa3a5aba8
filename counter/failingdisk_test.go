// Scenario: reads while the disk refuses writes.

package counter

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// TestReadsOfFailingDisk: with appendfsync always and a disk that takes nothing, everything can be read but the items
// whose changes a crash would take back, also those in the same block; after a start on such a disk too. A crash then
// takes back nothing that was shown.
func TestReadsOfFailingDisk(t *testing.T) {
	sim := vfs.NewSim()
	faulty := vfs.NewFaulty(sim)
	opts := Options{FS: faulty, Manual: true, HashSeed: 1, AppendFsync: SyncAlways}
	s := openDir(t, "data", opts, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	for _, key := range []string{"1.n", "2.n", "3.n", "5.n"} {
		if err := s.Set(key, 7); err != nil {
			t.Fatal(err)
		}
	}
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating &^ vfs.OpMkdir, Every: 1, Err: syscall.EIO})
	uncertain := func(err error) bool { return errors.As(err, new(*UncertainError)) }
	if _, err := s.Incr("2.n", 1); !uncertain(err) {
		t.Fatalf("INCR: got %v", err)
	}
	check := func(when string) {
		t.Helper()
		for _, key := range []string{"1.n", "3.n", "5.n"} {
			if v, _, err := s.Get(key); err != nil || v != 7 {
				t.Errorf("%s: %s is %d, %v", when, key, v, err)
			}
		}
		if _, found, err := s.Get("4.n"); err != nil || found {
			t.Errorf("%s: an item that is not there: %v, %v", when, found, err)
		}
		if v, _, err := s.Get("2.n"); !uncertain(err) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: 2.n is %d, %v", when, v, err)
		}
		if _, err := s.Incr("1.n", 1); !errors.Is(err, ErrNotReady) || uncertain(err) {
			t.Errorf("%s: INCR: got %v", when, err)
		}
	}
	check("in service")
	faulty.Clear()
	heal(t, s, 0)
	if v, _, err := s.Get("2.n"); err != nil || v != 8 {
		t.Errorf("well again: 2.n is %d, %v", v, err)
	}

	// What a kill leaves: a record that was written and not synced.
	faulty.Inject(vfs.Rule{Ops: vfs.OpSync, Every: 1, Err: syscall.EIO}, vfs.Rule{Ops: vfs.OpCreate, Every: 1, Err: syscall.EIO})
	if _, err := s.Incr("2.n", 1); !uncertain(err) {
		t.Fatalf("INCR: got %v", err)
	}
	killed := sim.Kill()
	faulty.Clear()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	faulty = vfs.NewFaulty(killed)
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating &^ vfs.OpMkdir, Every: 1, Err: syscall.EIO})
	opts.FS = faulty
	s = openDir(t, "data", opts, "")
	check("after a start")
	faulty.Clear()
	heal(t, s, 0)
	if v, _, err := s.Get("2.n"); err != nil || v != 9 {
		t.Errorf("2.n is %d, %v", v, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// holdFS stops in Create until it is let go.
type holdFS struct {
	vfs.FS
	hold atomic.Pointer[chan struct{}]
	held chan struct{}
}

func (h *holdFS) Create(name string) (vfs.File, error) {
	if hold := h.hold.Load(); hold != nil {
		h.held <- struct{}{}
		<-*hold
	}
	return h.FS.Create(name)
}

// TestReadsWhileHealing: while the bytes that could not be written are being put elsewhere, who reads another item does
// not wait for it, and who reads one of those waits and gets it.
func TestReadsWhileHealing(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewSim())
	disk := &holdFS{FS: faulty, held: make(chan struct{})}
	s := openDir(t, "data", Options{FS: disk, Manual: true, HashSeed: 1, AppendFsync: SyncAlways}, "add counter a\nadd column a n hint=8 max=63 suffix=n")
	for _, key := range []string{"1.n", "2.n"} {
		if err := s.Set(key, 7); err != nil {
			t.Fatal(err)
		}
	}
	letGo := make(chan struct{})
	disk.hold.Store(&letGo)
	faulty.Inject(vfs.Rule{Ops: vfs.OpSync, Err: syscall.EIO})
	done := make(chan error, 2)
	go func() {
		_, err := s.Incr("2.n", 1)
		done <- err
	}()
	<-disk.held // the sync has failed, and a new segment is being made
	if v, _, err := s.Get("1.n"); err != nil || v != 7 {
		t.Errorf("another item: %d, %v", v, err)
	}
	go func() {
		v, _, err := s.Get("2.n")
		if err == nil && v != 8 {
			err = fmt.Errorf("got %d", v)
		}
		done <- err
	}()
	disk.hold.Store(nil)
	close(letGo)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Scenario: the only log file of a directory is deleted

package counter

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestLostLog: a directory whose only log file is gone, before there is a snapshot and a claim, is not that of a new store.
func TestLostLog(t *testing.T) {
	sim := vfs.NewSim()
	s, err := Open("data", Options{FS: sim, Manual: true})
	if err == nil {
		err = s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n")
	}
	if err == nil {
		_, err = s.Incr("1.n", 5)
	}
	if err != nil {
		t.Fatal(err)
	}
	sim = killed(t, s, sim)
	names, err := sim.List(format.LogDir("data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := sim.Remove(filepath.Join(format.LogDir("data"), name)); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := Open("data", Options{FS: sim, Manual: true}); !errors.Is(err, format.ErrCorrupt) {
		if err == nil {
			n, _, _ := s.Get("1.n")
			t.Errorf("it starts without its log: the counter is %d", n)
			close1(t, s)
		}
		t.Fatalf("got %v, want ErrCorrupt", err)
	}
}

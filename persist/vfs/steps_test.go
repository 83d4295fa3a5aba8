package vfs

import (
	"errors"
	"testing"
)

// TestTruncateTo: a file is cut durably, also where a process has cut it that was killed before that was durable.
func TestTruncateTo(t *testing.T) {
	for _, killed := range []bool{false, true} {
		sim := NewSim()
		f, err := sim.Create("f")
		if err == nil {
			_, err = f.WriteAt(make([]byte, 5000), 0)
		}
		if err == nil {
			err = errors.Join(f.Sync(), sim.SyncDir("."))
		}
		if err == nil && killed {
			err = f.Truncate(100)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		sim = sim.Kill()
		if err := TruncateTo(sim, "f", 100); err != nil {
			t.Fatal(err)
		}
		if info, err := sim.Crash(0, 0).Stat("f"); err != nil || info.Size() != 100 {
			t.Errorf("killed %t: behind a power failure the file has %v, %v, want 100 bytes", killed, info, err)
		}
	}
}

package past

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// saveSample saves the data of the sample through a file system.
func saveSample(ctx context.Context, t *testing.T, disk, through vfs.FS) (string, error) {
	t.Helper()
	d, err := persist.OpenDir(disk, persisttest.Dir)
	persisttest.Must(t, err)
	m := d.Manifests()[0]
	l, _, err := persist.OpenLog(persist.LogOptions{FS: disk, Dir: persisttest.Dir, Manual: true, FirstSegmentBytes: logfile.MinSegment, SegmentBytes: logfile.MinSegment}, m.Replay, persisttest.Discard)
	persisttest.Must(t, err)
	w, err := archive.NewWriter(disk, persisttest.Dir, l, m, format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 0}}})
	persisttest.Must(t, err)
	path, _, err := SaveDiverged(ctx, through, persisttest.Dir, w)
	persisttest.Must(t, errors.Join(w.Close(), l.Close(), d.Close()))
	return path, err
}

// TestSaveDivergedFails: a disk that fails at any operation, or the end of the wish, leaves no file behind and takes
// none away.
func TestSaveDivergedFails(t *testing.T) {
	_, disk, _ := persisttest.SampleDir(t)
	for range keepDiverged {
		_, err := saveSample(t.Context(), t, disk, disk)
		persisttest.Must(t, err)
	}
	_, before, err := ListDiverged(disk, persisttest.Dir)
	persisttest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := saveSample(ctx, t, disk, disk); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for k := 0; ; k++ {
		base := disk.Kill()
		faulty := vfs.NewFaulty(base)
		faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Skip: k, Every: 1, Err: syscall.ENOSPC})
		path, err := saveSample(t.Context(), t, disk, faulty)
		_, after, lerr := ListDiverged(base, persisttest.Dir)
		persisttest.Must(t, lerr)
		if err == nil {
			if k < 5 || path != filepath.Join(persisttest.Dir, "diverged-3.archive") || len(after) != keepDiverged {
				t.Errorf("operation %d: saved %s: %v", k, path, after)
			}
			break
		}
		if !errors.Is(err, syscall.ENOSPC) || len(after) < len(before) {
			t.Fatalf("operation %d: %v, %v are left of %v", k, err, after, before)
		}
		for _, d := range after {
			if err := d.Verify(base); err != nil {
				t.Fatalf("operation %d: %v", k, err)
			}
		}
	}
}

// TestSaveDivergedCrash lets the power fail at every operation of a save, and behind the last: every archive that has a
// name is whole, none is taken away before the new one is safe, and what was reported as saved is there.
func TestSaveDivergedCrash(t *testing.T) {
	seed := seed.Of(t)
	_, disk, _ := persisttest.SampleDir(t)
	for range keepDiverged {
		_, err := saveSample(t.Context(), t, disk, disk)
		persisttest.Must(t, err)
	}
	base := disk.Crash(seed, 0) // they are safe
	for n, crashed := 0, true; crashed; n++ {
		sim := base.Crash(seed, 0)
		sim.CrashAt(n)
		saved, err := saveSample(t.Context(), t, disk, sim)
		if crashed = sim.Crashed(); !crashed {
			persisttest.Must(t, err)
		}
		for _, keep := range []int{0, 30, 70, 100} {
			left := sim.Crash(seed+uint64(n), keep)
			_, archives, err := ListDiverged(left, persisttest.Dir)
			persisttest.Must(t, err)
			found := saved == ""
			for _, d := range archives {
				if err := d.Verify(left); err != nil {
					t.Fatalf("-seed=%d: crash at %d, keep %d: %v", seed, n, keep, err)
				}
				found = found || d.Path == saved
			}
			if len(archives) < keepDiverged || !found {
				t.Fatalf("-seed=%d: crash at %d, keep %d: saved %q, and there are %v", seed, n, keep, saved, archives)
			}
		}
	}
}

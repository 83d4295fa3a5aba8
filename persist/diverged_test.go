package persist

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// saveSample saves the data of the sample through a file system.
func saveSample(ctx context.Context, t *testing.T, disk, through vfs.FS) (string, error) {
	t.Helper()
	d, err := OpenDir(disk, testDir)
	must(t, err)
	m := d.Manifests()[0]
	l, _, err := OpenLog(LogOptions{FS: disk, Dir: testDir, Manual: true, FirstSegmentBytes: minSegment, SegmentBytes: minSegment}, m.Replay, discard)
	must(t, err)
	w, err := NewArchiveWriter(testDir, l, m, Lineage{Terms: []Term{{testHistory.ReplID, testHistory.Epoch, 0}}})
	must(t, err)
	path, _, err := SaveDiverged(ctx, through, testDir, w)
	must(t, errors.Join(w.Close(), l.Close(), d.Close()))
	return path, err
}

// TestSaveDivergedFails: a disk that fails at any operation, or the end of the wish, leaves no file behind and takes none away.
func TestSaveDivergedFails(t *testing.T) {
	_, disk, _ := sampleDir(t)
	for range keepDiverged {
		_, err := saveSample(t.Context(), t, disk, disk)
		must(t, err)
	}
	_, before, err := ListDiverged(disk, testDir)
	must(t, err)
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
		_, after, lerr := ListDiverged(base, testDir)
		must(t, lerr)
		if err == nil {
			if k < 5 || path != filepath.Join(testDir, "diverged-3.archive") || len(after) != keepDiverged {
				t.Errorf("operation %d: saved %s: %v", k, path, after)
			}
			break
		}
		if !errors.Is(err, syscall.ENOSPC) || len(after) < len(before) {
			t.Fatalf("operation %d: %v, %v are left of %v", k, err, after, before)
		}
		for _, d := range after {
			if err := verifyDiverged(base, d); err != nil {
				t.Fatalf("operation %d: %v", k, err)
			}
		}
	}
}

// Scenario: the claim goes before a cut counts

package past

import (
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestClaimAndCut takes a log's end away in every way there is, with the power failing at every operation: the log opens
// always, as the claim is gone before its end counts.
func TestClaimAndCut(t *testing.T) {
	seed := seed.Of(t)
	base, opts, end := replicaLog(t)
	for _, sub := range []string{format.ImageDir(persisttest.Dir), format.ColdDir(persisttest.Dir)} {
		persisttest.Must(t, base.MkdirAll(sub))
	}
	if claim, err := logfile.ReadClaim(base, persisttest.Dir); err != nil || claim.Offset != end {
		t.Fatalf("claim %+v, %v", claim, err)
	}
	var ends []uint64
	_, err := logfile.Walk(base, persisttest.Dir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		ends = append(ends, f.End())
		return nil
	}})
	persisttest.Must(t, err)
	lineage := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 0}}}
	persisttest.Must(t, logfile.WriteLineage(base, persisttest.Dir, &lineage))
	frame := format.AppendSet(make([]byte, format.FrameHeaderLen), 1, 2, 3, 4)
	format.PutFrameHeader(frame, false, 0, 0, 1, 1)
	shorter := map[string]func(fsys vfs.FS) error{
		"cut": func(fsys vfs.FS) error {
			_, err := Cut(fsys, persisttest.Dir, ends[len(ends)/2], lineage)
			return err
		},
		"cut to nothing": func(fsys vfs.FS) error {
			_, err := Cut(fsys, persisttest.Dir, 0, lineage)
			return err
		},
		"install": func(fsys vfs.FS) error {
			in, err := BeginInstall(fsys, persisttest.Dir, 0, format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{8}, Epoch: 9, Start: 0}}}, nil)
			if err == nil {
				err = in.Append(frame)
			}
			if err == nil {
				err = in.Stage()
			}
			if err == nil {
				err = in.Finish()
			}
			return err
		},
		"install of the same history": func(fsys vfs.FS) error { // a copy of a primary that came back with less
			in, err := BeginInstall(fsys, persisttest.Dir, 0, lineage, nil)
			if err == nil {
				err = in.Stage()
			}
			if err == nil {
				err = in.Finish()
			}
			return err
		},
	}
	for name, do := range shorter {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				disk := base.Kill()
				disk.TornCrashAt(n, 50)
				err := do(disk)
				crashed := disk.Crashed()
				if !crashed {
					persisttest.Must(t, err)
				}
				for i, left := range []*vfs.Sim{disk.Crash(seed+uint64(n), 0), disk.Crash(seed+uint64(n), 50), disk.Crash(seed+uint64(n), 100), disk.Kill()} {
					o := opts
					o.FS, o.History = left, format.History{}
					persisttest.Must(t, FinishBegun(left, persisttest.Dir))
					l, rec, err := persist.OpenLog(o, 0, persisttest.Discard)
					if err != nil {
						t.Fatalf("crash at %d, disk %d: %v", n, i, err)
					}
					if !crashed && rec.End >= ends[len(ends)-1] {
						t.Fatalf("the log ends at %d", rec.End)
					}
					persisttest.Must(t, l.Close())
				}
				if !crashed {
					return
				}
			}
		})
	}
}

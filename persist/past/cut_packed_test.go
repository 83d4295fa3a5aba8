// Scenario: a packed log is cut

package past

import (
	"fmt"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestPackCut takes a packed log back inside of a packed segment, with a crash at every operation: the log is what it
// was up to there, and the part behind is saved. The same holds where the header of the segment claims that frames behind the cut are durable.
func TestPackCut(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) { testPackCut(t, restarted) })
	}
}

func testPackCut(t *testing.T, restarted bool) {
	disk, opts, seg := packedLog(t, restarted)
	want, positions, ends, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
	half := (seg.Start + seg.End) / 2
	if restarted {
		half = 0 // among the first frames, which were written again
	}
	at := ends[slices.IndexFunc(ends, func(end uint64) bool { return end > half })]
	kept := 0
	for kept < len(positions) && positions[kept] <= at {
		kept++
	}
	lineage := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 0}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &lineage))
	for n, crashed := 0, true; crashed; n++ {
		d := disk.Kill()
		d.CrashAt(d.Ops() + n)
		_, err := Cut(d, persisttest.Dir, at, lineage)
		if crashed = d.Crashed(); !crashed {
			persisttest.Must(t, err)
		}
		for _, left := range []*vfs.Sim{d.Kill(), d.Crash(uint64(n), 0), d.Crash(uint64(n), 50)} {
			persisttest.Must(t, FinishBegun(left, persisttest.Dir))
			if crashed { // perhaps before the cut counted
				tail, err := Cut(left, persisttest.Dir, at, lineage)
				if err != nil || tail.File != "" && tail.To != ends[len(ends)-1] {
					t.Fatalf("operation %d: %+v, %v", n, tail, err)
				}
			}
			got, _, _, _ := persisttest.LogRecords(t, left, persisttest.Dir, 0)
			if !slices.Equal(got, want[:kept]) {
				t.Fatalf("operation %d: %d records are left, want %d", n, len(got), kept)
			}
			if tails, _, err := ListDiverged(left, persisttest.Dir); err != nil || len(tails) != 1 {
				t.Fatalf("operation %d: tails %v, %v", n, tails, err)
			}
			o := opts
			o.FS, o.History = left, format.History{}
			l, rec, err := persist.OpenLog(o, 0, persisttest.Discard)
			if err != nil || rec.End != at {
				t.Fatalf("operation %d: the log ends at %d, want %d: %v", n, rec.End, at, err)
			}
			persisttest.Must(t, l.Close())
		}
	}
	if at <= seg.Start || at >= seg.End {
		t.Errorf("%d is not inside of a packed segment", at)
	}
}

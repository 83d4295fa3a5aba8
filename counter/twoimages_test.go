// Scenario: the image of a last block, or of the producers, is damaged, and nothing of it changed between the two snapshots.

package counter

import (
	"fmt"
	"testing"

	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestTwoImages: the two snapshots have a file each of all that no start can go on without. So damage of the newer one costs nothing: the
// snapshot before counts. Without any change between them they share one file.
func TestTwoImages(t *testing.T) {
	for _, tier := range []format.Tier{format.TierHot, format.TierProducers} {
		disk := vfs.NewSim()
		opts := Options{FS: disk, Manual: true, BlockItems: 64, HashSeed: 1, SnapshotGrowth: -1}
		s := openDir(t, "data", opts, seedScript)
		mids := fill(t, s, 200, 3)
		numbered(t, s, Once{Producer: []byte("p"), Seq: 1, Hash: 7, Make: answers}, Op{Kind: OpAdd, Mid: mids[199], Arg: 1})
		want, err := s.Len()
		must(t, err)
		for range 2 {
			must(t, s.Set(fmt.Sprintf("%d.cntrn", mids[0]), 5)) // the first block alone changes
			must(t, s.Snapshot())
		}
		before := s.Admin().Snapshots().Written
		must(t, s.Snapshot())
		if now := s.Admin().Snapshots().Written; now != before {
			t.Errorf("%d bytes were written where nothing changed", now-before)
		}
		must(t, s.Set(fmt.Sprintf("%d.cntrn", mids[0]), 6))
		must(t, s.Snapshot())
		newest := s.data.Dir.Manifests()[0]
		var path string
		_ = newest.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
			if b.Tier == tier {
				path = b.Path("data") // the last one
			}
			return nil
		})
		must(t, s.Close())
		filetest.Must(t, disk.Damage(path, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }))
		s, err = Open("data", opts)
		if err != nil {
			t.Fatalf("%s of tier %s is damaged: %v", path, tier, err)
		}
		if got, err := s.Len(); err != nil || got != want {
			t.Errorf("tier %s: %d posts, %v, want %d", tier, got, err, want)
		}
		if n, _, err := s.Get(fmt.Sprintf("%d.cntrn", mids[0])); err != nil || n != 6 {
			t.Errorf("tier %s: %d, %v, want 6", tier, n, err)
		}
		if o, _ := numbered(t, s, Once{Producer: []byte("p"), Seq: 1, Hash: 7, Make: answers}, Op{Kind: OpAdd, Mid: mids[199], Arg: 1}); !o.Repeat {
			t.Errorf("tier %s: a repeated change counts again", tier)
		}
		must(t, s.Close())
	}
}

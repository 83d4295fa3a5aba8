// Scenario: a start gives ids to blocks beside those of its snapshot.

package counter

import (
	"strconv"
	"testing"
)

// TestBlockIDsAfterStart: a start gives blocks of groups of hash slots that have no posts ids that no block of the snapshot has. Images of two blocks with one
// id have one name if no change is made between them, and no snapshot has both.
func TestBlockIDsAfterStart(t *testing.T) {
	dir, opts := t.TempDir(), Options{Manual: true, SlotGroups: true}
	s := openDir(t, dir, opts, "add counter gone\nadd column gone n hint=8 max=30 suffix=gone")
	must(t, s.AlterScript("drop counter gone\nadd counter a\nadd column a n hint=8 max=30 suffix=a\nadd counter b\nadd column b n hint=8 max=30 suffix=b"))
	set := func(from, to int, suffix string) {
		t.Helper()
		for mid := from; mid < to; mid++ {
			must(t, s.Set(strconv.Itoa(mid)+suffix, 7))
		}
	}
	set(0, 300, ".a")
	must(t, s.Snapshot())
	must(t, s.Close())
	s, err := Open(dir, opts)
	must(t, err)
	of := map[uint64]string{}
	for ks := range s.data.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			if was := of[b.ID]; was != "" {
				t.Fatalf("block %d is of counter %s, group %d, and of %s", b.ID, ks.Def.Name, ks.Group, was)
			}
			of[b.ID] = ks.Def.Name
		}
	}
	set(0, 2000, ".a")
	set(0, 2000, ".b")
	must(t, s.Snapshot())
	must(t, s.Close())
}

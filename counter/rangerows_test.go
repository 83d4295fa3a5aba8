// Scenario: another node asks for a few posts of a range.

package counter

import "testing"

// TestRowsReadsNoMore: a few posts of a block are read without the rest of it, hot and cold, as clients wait for the block.
func TestRowsReadsNoMore(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{SnapshotGrowth: -1, BlockItems: 1 << 10}, seedScript)
	mids := fill(t, s, 4_000, 3)
	id := s.Schema().Counter("weibo").ID
	r := PostRange{Counter: id, Lo: mids[0], Hi: s.data.Spaces[id][0].Dir.Load().Blocks[0].Hi}
	for _, tier := range []string{"hot", "cold"} {
		if tier == "cold" {
			if err := s.Admin().Demote("weibo", mids[0]); err != nil {
				t.Fatal(err)
			}
		}
		for _, most := range []int{1, 16} {
			copier := NewRangeCopier(s)
			var next uint64
			var rows []PostRow
			allocs := testing.AllocsPerRun(5, func() {
				if err := copier.Rows(r, most, func(part PostRange, _ uint64, some []PostRow) { next, rows = part.Hi, some }); err != nil {
					t.Fatal(err)
				}
			})
			if len(rows) != most || next != mids[most] || rows[most-1].Mid != mids[most-1] {
				t.Errorf("%s: %d posts up to %d, want %d up to %d", tier, len(rows), next, most, mids[most])
			}
			if allocs > 200 { // one for each post that is read
				t.Errorf("%s: %d posts took %v allocations", tier, most, allocs)
			}
		}
	}
}

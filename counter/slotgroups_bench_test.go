// Scenario: memory of a store that is kept by group of hash slots.

package counter

import (
	"testing"

	"github.com/counterd/counterd/internal/slot"
)

// BenchmarkSlotGroupsBytes reports the memory an item in a store made of groups, and in one that is not, of the posts of 8 of
// the 256 groups of a live stream of 100 M: 3.1 M posts.
func BenchmarkSlotGroupsBytes(b *testing.B) {
	for _, slotGroups := range []bool{false, true} {
		b.Run(map[bool]string{false: "one", true: "groups"}[slotGroups], func(b *testing.B) {
			for range b.N {
				s := benchStore(b, Options{SlotGroups: slotGroups})
				const posts = 100 << 20 / 32
				st, bt, n := newStream(1), s.NewBatch(), 0
				for n < posts {
					if err := bt.Begin(); err != nil {
						b.Fatal(err)
					}
					bt.Reset()
					for bt.Len() < 64 {
						mid := st.next()
						if slotGroups && slot.Group(mid) >= 8 {
							continue
						}
						n++
						row := st.row()
						for col, v := range row {
							if v != 0 || col == 0 {
								bt.Add(Op{Kind: OpSet, Counter: bt.Schema().Counter("weibo"), Column: int16(col), Mid: mid, Arg: v})
							}
						}
					}
					bt.Run()
					bt.End()
				}
				b.ReportMetric(float64(s.Admin().Memory())/posts, "B/item")
				s.Close()
			}
		})
	}
}

// Scenario: windows of time and top lists of nodes whose files were damaged.

package server

const damageCounts = "COUNTER.FIND weibo WHERE day > 0 COLUMNS day"

// sameCounts waits until both nodes have the counts of the window, and the primary's top list.
func (p *damagePair) sameCounts() {
	p.t.Helper()
	until(p.t, "both nodes have the counts of windows", func() bool {
		return p.a.dial().do(damageCounts).String() == p.counts && p.b.dial().do(damageCounts).String() == p.counts
	})
	for _, n := range []*replNode{p.a, p.b} {
		list, posts := n.dial().do("COUNTER.TOP weibo comment 5").String(), n.dial().do("COUNTER.TOP weibo comment 5 MID >= 0").String()
		if list != posts {
			p.t.Errorf("the top list is %s, want %s", list, posts)
		}
	}
}

package facts

import "strconv"

// MaxHot is how many of the busiest posts have series. Their label is the rank and not the post: other posts are hot each hour, and a series for
// each of them would stay in a database of metrics for as long as that keeps data.
const MaxHot = 5

// HotPost is one of the busiest posts of all counters, in operations a second.
type HotPost struct {
	Rank          int // 1 is the busiest
	Reads, Writes float64
}

var hotPosts = list[HotPost]{part: PartHot, stored: true, name: "rank", help: "The posts that clients of this node read and write most.",
	items:  func(s *State) []HotPost { return s.Hot },
	labels: []string{"rank"}, label: func(h *HotPost) string { return strconv.Itoa(h.Rank) }}

// hotRows are about the busiest posts.
var hotRows = hotPosts.rows(
	column[HotPost]{of: func(h *HotPost) Value { return Decimal(h.Reads, 1) },
		Fact: Fact{Metric: "hot_post_reads_per_second", Type: Gauge, Help: "Estimated reads of the posts that are read and written most, by rank. COUNTER.HOT names the posts."}},
	column[HotPost]{of: func(h *HotPost) Value { return Decimal(h.Writes, 1) },
		Fact: Fact{Metric: "hot_post_writes_per_second", Type: Gauge, Help: "Estimated changes of the same posts, by rank."}},
)

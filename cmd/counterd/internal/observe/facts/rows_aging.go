package facts

// agings are the counters whose posts are dropped by age.
var agings = list[Aging]{part: PartAging, stored: true, json: "retain", name: "counter", help: "Counters whose posts are dropped by age.",
	items:  func(s *State) []Aging { return s.Aging },
	labels: []string{"counter"}, label: func(a *Aging) string { return a.Counter }}

var agingLine = &line[Aging]{section: "Tiers", prefix: "retain_", help: "What was dropped by age of a counter with retain, by its name."}

// agingRows are about posts that are dropped by age.
var agingRows = agings.rows(
	column[Aging]{line: agingLine, key: "retain", json: "retain", of: func(a *Aging) Value { return Span(a.Retain) },
		Fact: Fact{Metric: "retain_seconds", Type: Gauge, Unit: "seconds", Help: "For how long posts are kept: retain of the counter."}},
	column[Aging]{line: agingLine, key: "cut", json: "cut", of: func(a *Aging) Value { return known(a.Known, Moment(a.Cut)) },
		Fact: Fact{Metric: "retain_cut_timestamp_seconds", Type: Gauge, Unit: "unix time in seconds", Help: "Posts made before are gone. Unknown until this node, as the primary, has made a cut since its start."}},
	column[Aging]{line: agingLine, key: "cut_mid", json: "mid", of: func(a *Aging) Value { return known(a.Known, Uint(a.Mid)) },
		Fact: Fact{Help: "Posts with ids below are gone."}},
	column[Aging]{line: agingLine, key: "next", json: "next", of: func(a *Aging) Value { return known(a.Known, Moment(a.Next)) },
		Fact: Fact{Metric: "retain_next_timestamp_seconds", Type: Gauge, Unit: "unix time in seconds", Help: "When the next cut is due."}},
	column[Aging]{line: agingLine, key: "posts", json: "posts", of: func(a *Aging) Value { return Int(a.Posts) },
		Fact: Fact{Metric: "retain_dropped_posts_total", Type: Counter, Help: "Posts that this node has dropped by age since its start."}},
	column[Aging]{line: agingLine, key: "blocks", json: "blocks", of: func(a *Aging) Value { return Int(a.Blocks) },
		Fact: Fact{Metric: "retain_dropped_blocks_total", Type: Counter, Help: "Blocks that this node has dropped by age as a whole since its start."}},
)

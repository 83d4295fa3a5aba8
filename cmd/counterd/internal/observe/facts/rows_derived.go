package facts

import "github.com/counterd/counterd/counter"

// windows are the derived columns, which follow from additions to others.
var windows = list[counter.Usage]{part: PartUsage, stored: true, json: "windows", name: "column", help: "Derived columns, as those that count additions in a window of time.",
	items: func(s *State) (list []counter.Usage) {
		for i := range s.Usage {
			if s.Usage[i].Column != "" {
				list = append(list, s.Usage[i])
			}
		}
		return list
	},
	labels: []string{"column"}, label: func(u *counter.Usage) string { return u.Counter + "." + u.Column }}

var windowLine = &line[counter.Usage]{section: "Tiers", prefix: "window_", help: "What a derived column keeps, by the names of its counter and of the column."}

// windowRows are about derived columns, and the time of the log.
var windowRows = join(
	windows.rows(
		column[counter.Usage]{line: windowLine, key: "posts", json: "posts", of: func(u *counter.Usage) Value { return Int(u.HotItems + u.ColdItems) },
			Fact: Fact{Metric: "window_posts", Type: Gauge, Help: "Posts with counts in the window of a derived column. Those whose counts have left it are removed in the background."}},
		column[counter.Usage]{line: windowLine, key: "bytes", json: "bytes", of: func(u *counter.Usage) Value { return Int(u.HotBytes + u.OverlayBytes) },
			Fact: Fact{Metric: "window_bytes", Type: Gauge, Unit: "bytes", Help: "Memory of these counts."}}),
	of("Tiers", PartTiers, true,
		Fact{Info: "log_time", Metric: "log_time_timestamp_seconds", Type: Gauge, Unit: "unix time in seconds", JSON: "logTime.last", Help: "Time of the log, by which windows are counted: that of its last tick. Unknown without derived columns.",
			read: func(s *State) Value { return known(s.Ticks.Known, Moment(s.Ticks.Last)) }},
		Fact{Info: "tick_overdue", Metric: "tick_overdue_seconds", Type: Gauge, Unit: "seconds", JSON: "logTime.overdue", Help: "For how long the next tick has been due by the clock of this node: windows stand still. 0 in regular operation.",
			read: func(s *State) Value { return known(s.Ticks.Known, Span(s.Ticks.Overdue)) }}))

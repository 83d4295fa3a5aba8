package facts

import (
	"time"

	"github.com/counterd/counterd/counter"
)

// cursors are the named cursors of the feed: 64 at most, whose names are labels as they are.
var cursors = list[counter.FeedCursorState]{part: PartCursors, stored: true, json: "cursors", name: "name", help: "Named cursors of the feed of changes.",
	items:  func(s *State) []counter.FeedCursorState { return s.Cursors },
	labels: []string{"cursor"}, label: func(c *counter.FeedCursorState) string { return c.Name }}

var cursorLine = &line[counter.FeedCursorState]{section: "Feed", prefix: "cursor_", help: "A named cursor of the feed of changes, by its name."}

// cursorRows are about the feed of changes.
var cursorRows = join(
	of("Feed", PartCursors, true,
		Fact{Info: "feed_cursors", Metric: "feed_cursors", Type: Gauge, Help: "Named cursors of the feed of changes.", read: func(s *State) Value { return Int(len(s.Cursors)) }},
		Fact{Info: "feed_retain", Human: true, Metric: "feed_retain_bytes", Type: Gauge, Unit: "bytes", Help: "Setting feed-retain.", read: func(s *State) Value { return Uint(s.Limits.FeedRetain) }}),
	cursors.rows(
		column[counter.FeedCursorState]{line: cursorLine, key: "lag_bytes", json: "bytes", of: func(c *counter.FeedCursorState) Value { return known(!c.Lost, Uint(c.Bytes)) },
			Fact: Fact{Metric: "feed_cursor_lag_bytes", Type: Gauge, Unit: "bytes", Help: "Length of the log behind the cursor; 0 if no change is behind it, and unknown if it is lost."}},
		column[counter.FeedCursorState]{line: cursorLine, key: "lag", json: "lag", of: func(c *counter.FeedCursorState) Value { return known(!c.Lost, Span(c.Lag(time.Now()))) },
			Fact: Fact{Metric: "feed_cursor_lag_seconds", Type: Gauge, Unit: "seconds", Help: "Age of the first change behind the cursor; 0 if there is none, and unknown if it is lost."}},
		column[counter.FeedCursorState]{line: cursorLine, key: "lost", json: "lost", of: func(c *counter.FeedCursorState) Value { return Bool(c.Lost) },
			Fact: Fact{Metric: "feed_cursor_lost", Type: Gauge, Help: "1 if no feed can go on from the cursor: its log was dropped, or went on differently."}},
	))

package watch

import "github.com/counterd/counterd/schema"

// timed is a derived column that a connection watches. Its value becomes another one as the time of the log passes, without a change that
// Table.Touch could see.
type timed struct {
	of    *schema.Derived
	since int64 // the time of the log when it was watched first
}

// Since notes the derived columns of the keys with the time of the log since when they are watched, in seconds since 1970. Only
// the connection's own goroutine may call it.
func (m *Mark) Since(keys []schema.Key, now int64) {
	for _, k := range keys {
		for i := range k.Counter.Derived {
			if k.Col < 0 || k.Col == len(k.Counter.Columns)+i {
				m.time(&k.Counter.Derived[i], now)
			}
		}
	}
}

// time notes one column, of which the first time counts.
func (m *Mark) time(of *schema.Derived, now int64) {
	for i := range m.times {
		if m.times[i].of == of {
			return
		}
	}
	m.times = append(m.times, timed{of, now})
}

// Passed tells whether a watched column reads other values at a time of the log than when it was watched. Only the connection's own goroutine may
// call it.
func (m *Mark) Passed(now int64) bool {
	for _, t := range m.times {
		if now != t.since && (t.of.Decays() || t.of.Window.At(now) != t.of.Window.At(t.since)) {
			return true
		}
	}
	return false
}

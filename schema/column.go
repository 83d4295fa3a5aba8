package schema

// Limits. They bound what a hostile or broken script can make the server hold.
const (
	// MaxCounters is how many counters a schema has at most, primary keys
	// declared for counters to come included.
	MaxCounters = 256
	// MaxColumns is how many columns a counter has at most.
	MaxColumns = 64
	// MaxTop is the longest top list of a column.
	MaxTop = 10_000
	// MaxTops is how many columns of a counter have a top list at most: a change
	// of a post may touch each.
	MaxTops = 8
	// MaxFields is how many a layout has at most: an engine may keep one of its
	// own beside a counter's columns. Bit offsets fit a uint16.
	MaxFields = MaxColumns + 1
	// MaxName is the length in bytes of the longest name or suffix.
	MaxName = 64
	// MaxLine is the length in bytes of the longest line of a script, without
	// its end. The longest statement that says anything takes some 1,000.
	MaxLine = 4096
	// MaxScript is the size in bytes of the longest script, and of the text of
	// the largest schema, so that a script can rebuild every schema.
	MaxScript = 1 << 20
	// MaxDurable bounds the durable form. Ids and next-id lines add at most 10
	// bytes to each of 16384 columns and 120 to each of 256 counters.
	MaxDurable = 2 << 20

	// MaxMid is the largest mid, and MaxValue the largest value of any column:
	// the end of Redis's integers.
	MaxMid   = 1<<63 - 1
	MaxValue = 1<<63 - 1

	// DefaultKey is the name of the primary key of a counter that declares none.
	DefaultKey = "mid"
)

// Column is one number of a counter.
type Column struct {
	ID      uint16 // rises from 1 in its counter and is never used again
	Name    string // unique in its counter
	Suffix  string // what keys call it; unique in the schema unless empty
	Hint    uint8  // bits in a packed item, 1 to Max
	Max     uint8  // bits at most, 1 to 64
	Default uint64 // the value while none was set, at most Limit
	Top     uint16 // how many posts with the largest values are kept in a list, at most MaxTop; 0: no list is kept
}

// Limit is the largest value the column holds.
func (c *Column) Limit() uint64 { return Limit(c.Max) }

// Limit is the largest value of a column of max bits, 1 to 64: 2^max-1, and
// never more than MaxValue.
func Limit(max uint8) uint64 {
	if max >= 63 {
		return MaxValue
	}
	return 1<<max - 1
}

package query

const (
	// MaxConditions is how many conditions on columns a command has at most, and how many on mids.
	MaxConditions = 32
	// MaxMids is the length of the longest MID IN: 80 KB.
	MaxMids = 10_000
	// MaxRows is the most rows that one reply has: of 64 columns they take 14 MB, of three 0.5 MB.
	MaxRows = 10_000
	// DefaultPage is the LIMIT of a FIND that has a CURSOR and no LIMIT. Without both it is MaxRows.
	DefaultPage = 100
	// MaxOffset bounds OFFSET, whose items are all looked at in vain.
	MaxOffset = 1_000_000
)

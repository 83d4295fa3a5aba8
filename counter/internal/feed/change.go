package feed

import (
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// Kind says what a part of a change did.
type Kind uint8

// Kinds of parts.
const (
	Set    Kind = iota // columns of a post have new values; the post is made if it was not there
	Del                // a post is gone
	Flush              // all posts of all counters are gone
	Schema             // the schema is another
	Gain               // groups of hash slots are this log's from here on
	Lose               // groups of hash slots are another log's from here on, and their posts are gone here
	Drop               // all posts of a range of mids of a counter are gone
)

// String is the word of a reply.
func (k Kind) String() string {
	return [...]string{"set", "del", "flush", "schema", "gain", "lose", "drop"}[k]
}

// Marker tells whether a part is of no single post.
func (k Kind) Marker() bool { return k >= Flush }

// Value is a column and its value after the change.
type Value struct {
	Column int // index in Counter.Columns
	Value  uint64
}

// Old has the values before a part of a change. The zero Old tells nothing: the log does not have them.
type Old struct {
	Told  bool
	There bool // the post existed
	// The columns that the part sets, or of a Del all of them, as far as they are shown: none if all of them were dropped since. None if the post did not exist.
	Values []Value
}

// Part is the part of a change that concerns one post, or all of them.
type Part struct {
	Kind    Kind
	Counter *schema.Counter // Set, Del, Drop
	Mid     uint64          // Set, Del; Drop: the first mid of the range
	End     uint64          // Drop: the mid behind the last, up to 2^63
	Values  []Value         // Set; none if all columns were dropped since, and the post was made nevertheless
	Old     Old             // Set, Del; with Filter.Old
	Text    string          // Schema: the whole schema in its durable form; Gain, Lose: the move
	Groups  *slot.Set       // Gain, Lose; Drop: posts of other groups stay. nil: there are none
	// Of a Gain, if the log tells: nothing of the groups follows in the log of this shard from the offset on. The offset is 0 where it is not known.
	Shard, Offset uint64
}

// Change is one change of the log. It is valid until the next call of the method that returned it.
type Change struct {
	Position Position // behind it
	TimeMS   int64    // when it was logged: wall time of the primary, ms since 1970. For people
	Parts    []Part   // one at least

	Numbered bool   // a producer numbered it
	Producer string // empty: not known
	Seq      uint64 // the number; 0 where Producer is not known
}

// Marks tells whether it has a part that is of no single post.
func (c *Change) Marks() bool {
	for i := range c.Parts {
		if c.Parts[i].Kind.Marker() {
			return true
		}
	}
	return false
}

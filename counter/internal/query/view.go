package query

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/schema"
)

// View is the part of a store that a step of a query sees: an open batch, so that the schema and the keyspaces stand still.
type View interface {
	// Schema is the one in force.
	Schema() *schema.Schema
	// Space is all posts of a counter.
	Space(counter uint32) block.Space
	// Owned says which groups of hash slots clients may touch.
	Owned() block.Ownership
	// Time is that of the log's last tick, in seconds since 1970, by which windows are counted.
	Time() int64
	// NoteSeen says that the step read a block whose last change ends at an offset of the log. Results must not be sent
	// before the log has reached that offset.
	NoteSeen(pos uint64)
}

package query

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/schema"
)

// View is what a step of a query sees of a store: a batch that is open, so that the schema and the keyspaces stand still.
type View interface {
	// Schema is the one in force.
	Schema() *schema.Schema
	// Space is all posts of a counter.
	Space(counter uint32) block.Space
	// Owned says which groups of hash slots clients may touch.
	Owned() block.Ownership
	// NoteSeen says that the step read a block whose last change ends at an offset of the log. What was found must not be
	// told before the log is that far.
	NoteSeen(pos uint64)
}

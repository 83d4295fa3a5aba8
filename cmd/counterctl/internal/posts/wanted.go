// Package posts reads the posts of a running node, or of a directory, that a command wants.
package posts

import (
	"context"

	"github.com/counterd/counterd/cmd/counterctl/internal/export"
	"github.com/counterd/counterd/schema"
)

// Source is where posts come from.
type Source interface {
	Schema() *schema.Schema
	// Begin remembers how much was changed so far, to tell at the end whether posts were changed meanwhile.
	Begin() error
	// Count tells how many posts meet the conditions, to show progress.
	Count(t *Wanted) (uint64, error)
	// Rows calls f with each, in order of mid. Values are f's until it returns.
	Rows(ctx context.Context, t *Wanted, f func(mid uint64, values []uint64) error) error
	// Tally asks what the source itself says of the posts, and whether any may have been changed since Begin.
	Tally(t *Wanted) (said *export.Tally, changed bool, err error)
}

// Wanted is the posts of a counter, and the columns of them, that are exported.
type Wanted struct {
	export.Table
	Words []string // conditions
}

package counter

import (
	"github.com/counterd/counterd/counter/internal/core"
)

// Reader lists and describes posts and blocks as a batch sees them: what no key is known of. REQUIRES the batch to be open
// while it is used; and Commit, or Defer, before what it gives is told.
type Reader struct {
	b *Batch
	s *core.Data
}

// NewReader returns a reader of what b sees.
func NewReader(b *Batch) Reader { return Reader{b, core.DataOf(b)} }

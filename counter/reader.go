package counter

import (
	"github.com/counterd/counterd/counter/internal/core"
)

// Reader lists and describes posts and blocks as a batch sees them, without knowing their keys. REQUIRES the batch to be
// open while it is used; and Commit, or Defer, before its results are sent.
type Reader struct {
	b *Batch
	s *core.Data
}

// NewReader returns a reader of the state that b sees.
func NewReader(b *Batch) Reader { return Reader{b, core.DataOf(b)} }

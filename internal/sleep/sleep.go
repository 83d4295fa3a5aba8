// Package sleep pauses goroutines that a context may end meanwhile. time.Sleep cannot be ended, and a time.After that is left keeps its
// timer until it fires.
package sleep

import (
	"context"
	"time"
)

// For returns true after d, or false when ctx is done before. A d of 0 or less is over at once.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

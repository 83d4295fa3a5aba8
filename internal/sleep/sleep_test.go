package sleep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestFor: a pause takes its time, and a context ends it.
func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			pause, limit, took time.Duration
			whole              bool
		}{{time.Minute, time.Hour, time.Minute, true}, {time.Hour, time.Minute, time.Minute, false}, {0, time.Minute, 0, true}, {-time.Second, time.Minute, 0, true}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			began := time.Now()
			if whole, took := For(ctx, c.pause), time.Since(began); whole != c.whole || took != c.took {
				t.Errorf("a pause of %v with %v until the context ends: %v after %v, want %v after %v", c.pause, c.limit, whole, took, c.whole, c.took)
			}
			cancel()
		}
	})
}

// Scenario: flush, keys that a client reads while all keys are invalidated.

package tracking

import (
	"strconv"
	"sync"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestForgottenBesideFlush: keys that a client reads during a flush-all message leave the table with the
// client.
func TestForgottenBesideFlush(t *testing.T) {
	var table Table
	def := &schema.Counter{ID: 1}
	other := NewClient(2, func() {})
	if err := table.Enable(other, Mode{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				table.TouchAll()
			}
		}
	})
	c := NewClient(1, func() {})
	if err := table.Enable(c, Mode{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	var key []byte
	for n := range 20_000 {
		mid := uint64(n % 64)
		key = strconv.AppendUint(key[:0], mid, 10)
		table.Remember(c, schema.Key{Counter: def, Col: 0, Mid: mid}, key)
	}
	close(stop)
	flusher.Wait()
	table.End(c)
	if f := table.Sizes(); f.Keys != 0 || f.Items != 0 {
		t.Errorf("a client that has gone holds %d keys of %d items", f.Keys, f.Items)
	}
}

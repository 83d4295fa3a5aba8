package simulation

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// TestConsumerAvoidsSilentNodes has a consumer read elsewhere for a while after a node had no reply, and anywhere if no node had a reply.
func TestConsumerAvoidsSilentNodes(t *testing.T) {
	a, b := &Machine{name: "a"}, &Machine{name: "b"}
	both := []*Machine{a, b}
	c := &consumer{silent: make(map[*Machine]time.Time)}
	var now time.Time
	expect := func(when string, want ...*Machine) {
		t.Helper()
		if got := c.answering(both, now); !slices.Equal(got, want) {
			t.Fatalf("%s: got %d machines, want %d", when, len(got), len(want))
		}
	}
	expect("at first", a, b)
	c.unanswered(a, io.EOF, now)
	c.unanswered(a, errMoveOn, now)
	c.unanswered(a, &wire.ServerError{Text: "LOADING the store is being read"}, now)
	expect("behind errors that come at once", a, b)
	c.unanswered(a, fmt.Errorf("read: %w", os.ErrDeadlineExceeded), now)
	expect("behind a read without a reply", b)
	now = now.Add(avoids / 2)
	c.unanswered(b, &wire.ServerError{Text: "TRYAGAIN it is not known yet how far the log is safe"}, now)
	expect("while no node has a reply", a, b)
	now = now.Add(avoids / 2)
	expect("when the time of the first is over", a)
	now = now.Add(avoids / 2)
	expect("when the time of both is over", a, b)
}

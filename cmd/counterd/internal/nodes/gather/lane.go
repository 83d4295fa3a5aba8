package gather

import (
	"fmt"
	"slices"
)

// lane is a producer of a link. The other side remembers window numbers of it. Guarded by link.mu, except for producer.
type lane struct {
	producer []byte
	next     uint64   // number of the next change
	held     []uint64 // numbers that are asked for elsewhere, in no order
}

func newLane(producer string) *lane { return &lane{producer: []byte(producer), next: 1} }

// furtherLane makes a lane for a link that has some. Its name is shorter than that of a first lane, as the ids of producers are bounded.
func (s *Shards) furtherLane() *lane {
	return newLane(fmt.Sprintf("link:%s:%d", s.process, s.further.Add(1)))
}

// lowest is the first number that is held, or the next one.
func (n *lane) lowest() uint64 {
	lowest := n.next
	for _, seq := range n.held {
		lowest = min(lowest, seq)
	}
	return lowest
}

func (n *lane) hold(seq uint64) { n.held = append(n.held, seq) }

func (n *lane) release(seq uint64) {
	if i := slices.Index(n.held, seq); i >= 0 {
		n.held = slices.Delete(n.held, i, i+1)
	}
}

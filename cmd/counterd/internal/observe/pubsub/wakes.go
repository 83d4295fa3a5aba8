package pubsub

import (
	"runtime"
	"sync"
)

const (
	// wakeAtOnce is how many outboxes are woken at a time. Each of them writes to its socket, 5 to 10 us: the event loops have
	// their turn after 0.1 ms. 5,000 goroutines that were ready at once kept them from it for 40 to 120 ms.
	wakeAtOnce = 16
	// Slice is how many subscribers get a message between two pauses of the publisher: 50 us.
	Slice = 256
)

// wakes are outboxes that have got messages, and whose goroutines still sleep. A goroutine wakes them in order, a few at a time. It
// lives while there are some.
type wakes struct {
	mu      sync.Mutex
	boxes   []*outbox
	running bool
}

// add has the outboxes woken. pause lets others have their turn.
func (w *wakes) add(boxes []*outbox, pause func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boxes = append(w.boxes, boxes...)
	if !w.running && len(w.boxes) > 0 {
		w.running = true
		go w.run(pause)
	}
}

func (w *wakes) run(pause func()) {
	var some [wakeAtOnce]*outbox
	for {
		w.mu.Lock()
		n := copy(some[:], w.boxes)
		if w.boxes = w.boxes[n:]; len(w.boxes) == 0 {
			w.boxes = nil
		}
		w.running = n > 0
		w.mu.Unlock()
		if n == 0 {
			return
		}
		for _, b := range some[:n] {
			b.ready.Signal()
		}
		pause()
	}
}

// rest lets the event loops have their turn.
func (r *Registry) rest() {
	if r.Pause != nil {
		r.Pause()
	} else {
		runtime.Gosched()
	}
}

// Large tells whether a message to a channel may have more than Slice receivers. Then it takes long enough to be published
// outside of an event loop, with pauses.
func (r *Registry) Large(kind Kind, channel string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	n := len(r.tables[kind][channel])
	if kind == Channel && n <= Slice {
		for _, subscribers := range r.tables[Pattern] {
			if n += len(subscribers); n > Slice {
				break
			}
		}
	}
	return n > Slice
}

package feedload

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// writer sends INCRs of posts in turns, in batches. It has one batch more on its way than were answered when it is not paced.
type writer struct {
	conn  *wire.Conn
	first uint64 // of the posts
	posts uint64
	depth int
	next  uint64          // number of the next INCR since the server was empty
	sent  []atomic.Int64  // by batch of this phase: nanoseconds since began
	took  []time.Duration // by batch of this phase: until the last reply
	began time.Time
}

// mid is the post of an INCR.
func (w *writer) mid(n uint64) uint64 { return w.first + n%w.posts }

// one sends an INCR alone.
func (w *writer) one() error {
	_ = w.conn.SetDeadline(time.Now().Add(phaseWithin))
	_, err := w.conn.Do("INCR", fmt.Sprintf("%d.%s", w.mid(w.next), suffix))
	w.next++
	return err
}

// phase sends a number of batches: rate of them a second, or each when the one before was answered.
func (w *writer) phase(batches int, rate float64) error {
	_ = w.conn.SetDeadline(time.Now().Add(phaseWithin))
	sending := make(chan error, 1)
	answered := make(chan struct{}, 1)
	go func() { sending <- w.send(batches, rate, answered) }()
	w.took = make([]time.Duration, batches)
	for k := range batches {
		for range w.depth {
			if _, err := w.conn.ReadInt(); err != nil {
				return fmt.Errorf("INCR: %w", err)
			}
		}
		w.took[k] = time.Since(w.began) - time.Duration(w.sent[k].Load())
		if rate == 0 {
			answered <- struct{}{}
		}
	}
	return <-sending
}

// send is the sending half of a phase.
func (w *writer) send(batches int, rate float64, answered <-chan struct{}) error {
	for k := range batches {
		if rate > 0 {
			time.Sleep(time.Until(w.began.Add(time.Duration(float64(k) / rate * 1e9))))
		} else if k > 1 {
			<-answered
		}
		for range w.depth {
			w.conn.Out = append(w.conn.Out, "*2\r\n$4\r\nINCR\r\n"...)
			w.conn.Out = wire.AppendKey(w.conn.Out, w.mid(w.next), suffix)
			w.next++
		}
		w.sent[k].Store(int64(time.Since(w.began)))
		if err := w.conn.Flush(); err != nil {
			return err
		}
	}
	if rate == 0 {
		for range min(2, batches) {
			<-answered
		}
	}
	return nil
}

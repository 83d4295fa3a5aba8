package pubsub

import (
	"testing"
	"time"
)

// eventually waits until a condition holds, for a minute at most.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// TestWakes: a message to many subscribers wakes wakeAtOnce of them at a time, and the next ones only behind a pause. The
// publisher pauses after each Slice.
func TestWakes(t *testing.T) {
	const n = Slice + 40
	var reg Registry
	var conns [n]*reader
	written := func() (count int) {
		for _, c := range conns {
			if text, _, _ := c.state(); text != "" {
				count++
			}
		}
		return count
	}
	pauses := 0
	turns := make(chan chan int)
	reg.Pause = func() { // of the goroutine that wakes: it ends when the test has looked
		done := make(chan int)
		turns <- done
		<-done
	}
	for i := range conns {
		var s *Subscriber
		s, conns[i] = subscriber(t, &reg, "news")
		eventually(t, "a subscriber does not sleep", func() bool {
			s.box.mu.Lock()
			defer s.box.mu.Unlock()
			return s.box.asleep
		})
		conns[i].set(conns[i].read.Reset)
	}
	got := make(chan int)
	go func() { got <- reg.Publish("news", []byte("x"), func() { pauses++ }) }()
	for woken := wakeAtOnce; woken < n; {
		done := <-turns
		woken = min(woken+wakeAtOnce, n)
		// The slices of the publisher are no multiple of wakeAtOnce behind the first 16, so the last wake of one may be of fewer.
		eventually(t, "those that were woken do not write", func() bool { return written() > woken-wakeAtOnce })
		if count := written(); count > woken {
			t.Fatalf("%d subscribers were written to, and %d woken", count, woken)
		}
		close(done)
		if woken == n {
			break
		}
	}
	go func() {
		for done := range turns {
			close(done)
		}
	}()
	if receivers := <-got; receivers != n || pauses != n/Slice {
		t.Errorf("%d receivers and %d pauses, want %d and %d", receivers, pauses, n, n/Slice)
	}
	eventually(t, "some were never woken", func() bool { return written() == n })
	if !reg.Large(Channel, "news") || reg.Large(Channel, "olds") || reg.Large(Shard, "news") {
		t.Error("the channel is not large, or others are")
	}
}

// TestLargeByPatterns: subscribers to patterns count too, whether the pattern fits or not.
func TestLargeByPatterns(t *testing.T) {
	var reg Registry
	for range Slice + 1 {
		s, _ := subscriber(t, &reg)
		if err := reg.Subscribe(s, Pattern, names("n*")); err != nil {
			t.Fatal(err)
		}
	}
	if !reg.Large(Channel, "news") || reg.Large(Shard, "news") {
		t.Error("257 subscribers to a pattern do not make a channel large, or make a shard channel large")
	}
}

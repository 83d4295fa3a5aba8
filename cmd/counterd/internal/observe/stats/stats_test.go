package stats

import (
	"fmt"
	"testing"
	"time"
)

// TestRates: a rate counts the work between two samples, and totals that were reset in between count as nothing
// done.
func TestRates(t *testing.T) {
	var s Sampler
	var totals Totals
	start := time.Now()
	s.Sample(start, 5000, &totals)
	if got := s.Rates(); got != (Rates{}) {
		t.Errorf("after one look: %+v", got)
	}
	totals.InBytes.Add(0, 30)
	totals.InBytes.Add(Lanes+1, 10)
	totals.OutBytes.Add(7, 80)
	s.Sample(start.Add(10*time.Second), 6000, &totals)
	if got, want := s.Rates(), (Rates{100, 4, 8}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	totals.Reset()
	s.Sample(start.Add(20*time.Second), 0, &totals)
	if got := s.Rates(); got != (Rates{}) {
		t.Errorf("after a reset: %+v", got)
	}
}

// TestErrorReplies: error replies are counted by their first word, and no more words than a bound.
func TestErrorReplies(t *testing.T) {
	var totals Totals
	for _, reply := range []string{"-ERR syntax error\r\n", "-ERR no\r\n", "-UNCERTAIN\r\n"} {
		totals.ErrorReply([]byte(reply))
	}
	if got, want := fmt.Sprint(totals.Errors()), "[{ERR 2} {UNCERTAIN 1}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for i := range 10 * maxErrorKinds {
		totals.ErrorReply(fmt.Appendf(nil, "-W%d\r\n", i))
	}
	if n := len(totals.Errors()); n != maxErrorKinds {
		t.Errorf("%d words are kept, want %d", n, maxErrorKinds)
	}
	if n := totals.ErrorReplies.Load(); n != 3+10*maxErrorKinds {
		t.Errorf("%d error replies were counted", n)
	}
	totals.Reset()
	if n := totals.ErrorReplies.Load() + int64(len(totals.Errors())); n != 0 {
		t.Errorf("%d are left after a reset", n)
	}
}

// TestMemory: used memory is the heap and the items, and its peak stays.
func TestMemory(t *testing.T) {
	var s Sampler
	m := s.Memory(1 << 40)
	if m.Heap <= 0 || m.Items != 1<<40 || m.Used != m.Heap+m.Items || m.RSS <= 0 || m.Peak != m.Used {
		t.Errorf("%+v", m)
	}
	if low := s.Memory(0); low.Peak != m.Peak {
		t.Errorf("the peak is %d, and was %d", low.Peak, m.Peak)
	}
}

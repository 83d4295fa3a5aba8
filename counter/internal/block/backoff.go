package block

import "time"

// Backoff is how long something is left alone after it failed: twice as long after each failure.
type Backoff struct {
	Until time.Time
	Pause time.Duration
}

func (r *Backoff) Over() bool { return !time.Now().Before(r.Until) }

func (r *Backoff) Failed(longest time.Duration) {
	r.Pause = min(max(2*r.Pause, time.Second), longest)
	r.Until = time.Now().Add(r.Pause)
}

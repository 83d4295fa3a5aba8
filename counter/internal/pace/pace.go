// Package pace has work of the background take turns with that of clients. It is pure.
package pace

import "time"

// Pace has work of the background rest, so that clients have both the processor and the disk in between: it works for
// turn at a time, and rests as long as it worked then. Two processors of the Go runtime (P) serve all connections,
// and neither asks the network who has sent something while both are in the background's hands; a kernel that is not
// preempted serves nobody either while it copies a file's bytes.
//
// The zero value may be used. It is not safe for concurrent use.
type Pace struct {
	began time.Time
	Hurry func() bool // others wait for the work: it does not rest; nil: never
}

// turn is as long as clients may wait for a turn of the background, beside 0.1 ms for their own.
const turn = 250 * time.Microsecond

// longest bounds a rest: what took longer waited for the disk, or for a processor that others had.
const longest = 2 * time.Millisecond

// Rest is called now and then, at least each turn. What the caller waited for since, as a disk, counts as work.
func (p *Pace) Rest() {
	now := time.Now()
	if p.began.IsZero() {
		p.began = now
		return
	}
	worked := now.Sub(p.began)
	if worked < turn {
		return
	}
	if p.Hurry == nil || !p.Hurry() {
		time.Sleep(min(worked, longest))
		now = time.Now()
	}
	p.began = now
}

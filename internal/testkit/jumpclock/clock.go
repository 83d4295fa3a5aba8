//go:build !linux || !amd64

package jumpclock

import "time"

// Clock is the wall clock of a process.
type Clock struct{}

// Attach returns ErrNotHere.
func Attach(int) (*Clock, error) { return nil, ErrNotHere }

// Set does nothing.
func (*Clock) Set(time.Duration) error { return ErrNotHere }

//go:build !linux

package procstat

import (
	"errors"
	"runtime"
)

// Pin is not to be had on this system.
func Pin(int, []int) (undo func() error, err error) {
	return nil, errors.New("processes cannot be pinned to processors on " + runtime.GOOS)
}

package counter

import (
	"errors"

	"github.com/counterd/counterd/counter/internal/arena"
)

var (
	// ErrOutOfRange: the value would leave [0, min(2^max-1, 2^63-1)] of its column. Nothing was changed.
	ErrOutOfRange = errors.New("counter: value out of range")

	// ErrClosed: the store was closed.
	ErrClosed = errors.New("counter: store is closed")

	// ErrNoKey: a key names no column or item of the schema.
	ErrNoKey = errors.New("counter: no such counter or column")

	// ErrNoMemory: the system gives no more memory. Nothing was changed.
	ErrNoMemory = arena.ErrNoMemory
)

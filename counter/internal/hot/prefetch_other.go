//go:build !amd64 && !arm64

package hot

import "unsafe"

// prefetch does nothing here: correctness never depends on it.
func prefetch(unsafe.Pointer, unsafe.Pointer) {}

func prefetchHeader(unsafe.Pointer, unsafe.Pointer, unsafe.Pointer) {}

// peek: a bucket that nobody passed is not gone beyond.
func peek(unsafe.Pointer) (lanes0, lanes1 uint64, passed uint8) { return 0, 0, 0 }

//go:build !amd64 && !arm64

package hot

import "unsafe"

// prefetch does nothing here: correctness never depends on it.
func prefetch(unsafe.Pointer, unsafe.Pointer) {}

func prefetchAt(uintptr) {}

func prefetchHeader(unsafe.Pointer, unsafe.Pointer, unsafe.Pointer) {}

//go:build !amd64 && !arm64

package page

import "unsafe"

// prefetchLines does nothing here: correctness never depends on it.
func prefetchLines(unsafe.Pointer, uintptr) {}

//go:build amd64 || arm64

package hot

import "unsafe"

// prefetch asks the processor for the cache lines of first and last, which may be one, without waiting for them and
// without reading them: it is no access in the memory model, so it needs no lock.
//
//go:noescape
func prefetch(first, last unsafe.Pointer)

// prefetchAt is prefetch of one line at an address that may be none: a pointer to it would not be allowed.
func prefetchAt(address uintptr)

// prefetchHeader is prefetch of three lines, of which the last is to be written.
//
//go:noescape
func prefetchHeader(first, second, written unsafe.Pointer)

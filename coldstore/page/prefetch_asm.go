//go:build amd64 || arm64

package page

import "unsafe"

// prefetchLines asks the processor for the cache lines of p, p+64 and so on up to p+n, without waiting for them and
// without reading them: it is no access in the memory model, so it needs no lock.
//
//go:noescape
func prefetchLines(p unsafe.Pointer, n uintptr)

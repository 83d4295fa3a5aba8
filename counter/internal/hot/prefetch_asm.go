//go:build amd64 || arm64

package hot

import "unsafe"

// prefetch asks the processor for the two cache lines that a bucket at p may lie on, without waiting for them
// and without reading them: it is no access in the memory model, so it needs no lock.
//
//go:noescape
func prefetch(p unsafe.Pointer)

package coldstore

import "unsafe"

// prefetch asks the processor for the cache lines of b[at] and b[at+64]: those of any 64 bytes that begin at b[at].
func prefetch(b []byte, at int) {
	if uint(at) < uint(len(b)) {
		prefetchLines(unsafe.Pointer(&b[at]), 64)
	}
}

// prefetch asks for p's directory. It reads nothing, so it needs no lock.
func (p *cachedPage) prefetch() { prefetchLines(unsafe.Pointer(p), unsafe.Sizeof(*p)-1) }

package page

import "unsafe"

// Prefetch asks the processor for the cache lines of b[at] and b[at+64]: those of any 64 bytes that begin at b[at].
func prefetch(b []byte, at int) {
	if uint(at) < uint(len(b)) {
		prefetchLines(unsafe.Pointer(&b[at]), 64)
	}
}

// prefetchNear asks for the cache lines of some bytes around b[at].
func prefetchNear(b []byte, at int) {
	if from := max(at-12, 0); from+36 < len(b) {
		p := unsafe.Pointer(&b[from])
		prefetchLines(p, (uintptr(p)&63+36)&^63) // one line or two
	}
}

// Prefetch asks for what touch needs of d.
func (d *Dir) Prefetch() { prefetchLines(unsafe.Pointer(d), unsafe.Offsetof(d.bitmap)-1) }

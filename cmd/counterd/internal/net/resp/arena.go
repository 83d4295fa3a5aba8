package resp

// Arena is memory that the Replies of many connections share, one region behind the other, so that a round of an event
// loop stays in the processor's cache. Regions do not overlap:
//
//	| sealed | sealed |  sealed  | open: may grow ...          |
//	                   len(buf)                          cap(buf)
//
// Only the last region given out is open. Lending the next seals it: from then on its Replies have no room behind their
// end, and the next append moves all of them to memory of their own. The memory is given out anew when every region has
// come back, and not before. One goroutine uses an Arena and the Replies in it; Replies that go to another leave it by
// Own first.
type Arena struct {
	buf  []byte
	open *Replies // writes behind buf; nil: nobody does
	held int      // regions given out
}

// NewArena returns an Arena of size bytes. Replies that find it full take memory of their own.
func NewArena(size int) *Arena { return &Arena{buf: make([]byte, 0, size)} }

// Lend drops the content of r and gives it the open region.
func (a *Arena) Lend(r *Replies) {
	r.Drop()
	a.seal()
	r.b, r.home = a.buf[len(a.buf):], a
	a.open = r
	a.held++
}

// seal ends the growth of the open region.
func (a *Arena) seal() {
	r := a.open
	if r == nil {
		return
	}
	a.open = nil
	if cap(r.b) != cap(a.buf)-len(a.buf) { // it has grown out of the arena
		a.back(r)
		return
	}
	a.buf = a.buf[:len(a.buf)+len(r.b)]
	r.b = r.b[:len(r.b):len(r.b)]
}

// back takes back the region of r, which does not write in it any more.
func (a *Arena) back(r *Replies) {
	r.home = nil
	if a.open == r {
		a.open = nil
	}
	if a.held--; a.held == 0 {
		a.buf = a.buf[:0]
	}
}

package arena

import (
	"errors"
	"syscall"
)

// mostFree is how much of a huge page may be free for Collapse to put it together: it is resident then. Sealed blocks
// leave no such room (10 million items: 23 of 25 huge pages are full). The open blocks of 256 groups of hash slots do: 37
// of 57 are full to 15/16 and 51 to 7/8, which makes 3 % more resident, and reads 10 % quicker.
const mostFree = hugePage / 8

// collapser goes over the huge pages of an arena.
type collapser struct {
	chunk, page int                // where to go on
	unable      bool               // the system does not do it, or its administrator does not want it
	asked       bool               // whether that is so
	collapse    func([]byte) error // collapseHuge; tests have another
}

// breaks notes that the n bytes from off on were given back.
func (c *chunk) breaks(off, n int) {
	for p := off / hugePage; p <= (off+n-1)/hugePage; p++ {
		c.broken[p] = true
	}
}

// unused is how many bytes of a huge page are free.
func (c *chunk) unused(page int) (n int) {
	from, to := page*hugePage, (page+1)*hugePage
	for _, h := range c.free {
		n += max(0, min(h.off+h.len, to)-max(h.off, from))
	}
	return n
}

// Collapse has the system make up to most huge pages of small ones, where Free has broken them and they are in use again,
// and returns how many. A random lookup in small pages takes 100 ns more. Making one takes 0.2 ms, and a goroutine that
// touches the memory waits as long; so a few at a time should be asked for.
//
// Where the system does not do that (Linux before 6.1, no huge pages, transparent_hugepage=never) it returns 0, and all
// works with small ones.
func (a *Arena) Collapse(most int) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &a.collapser
	if !w.asked {
		w.asked = true
		if w.collapse == nil {
			w.collapse, w.unable = collapseHuge, !wantsHuge()
		}
	}
	tries := most
	for turn := 0; turn <= len(a.chunks) && tries > 0 && !w.unable; turn++ {
		if w.chunk >= len(a.chunks) {
			w.chunk, w.page = 0, 0
			continue
		}
		c := a.chunks[w.chunk]
		for ; w.page < len(c.broken) && tries > 0 && !w.unable; w.page++ {
			if !c.broken[w.page] || c.unused(w.page) > mostFree {
				continue
			}
			tries--
			switch err := w.collapse(c.mem[w.page*hugePage : (w.page+1)*hugePage]); {
			case err == nil:
				c.broken[w.page] = false
				n++
			case errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported):
				w.unable = true
			} // else there was no memory for it, or somebody used it: next time round
		}
		if w.page >= len(c.broken) {
			w.chunk, w.page = w.chunk+1, 0
		}
	}
	return n
}

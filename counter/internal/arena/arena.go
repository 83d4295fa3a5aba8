// Package arena hands out memory for hot blocks outside the Go heap, so that the collector neither scans nor
// doubles it and a freed block goes back to the system at once.
//
// Memory comes in chunks of 64 MiB of address space, aligned to 2 MiB and marked MADV_HUGEPAGE: with huge pages a random
// lookup costs 160-196 ns instead of 284-302 (TLB misses). Chunks are carved into spans of whole 4 KiB pages. Free memory is
// always zero. Except for the parts that Collapse takes along, it is not resident: Free gives its pages back with
// MADV_DONTNEED.
//
// That breaks the huge page they were part of, and the next user of the memory has small pages. After all blocks of 100
// million items were packed again once, as they are when their counters stop growing, 145 of 480 MB were in huge pages.
// Collapse puts them together again, in the background: the system's own way to do so takes 10 s for 16 MB.
//
// Two kinds of spans are kept apart, or holes would remain: a sealed block is smaller than the head block it is made
// from, so it would take the hole of the last head and leave a third of it unused for ever. Lasting spans are taken
// from the low end (first fit: best fit would choose the holes that heads left), passing ones (heads) from the high end.
package arena

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/edsrzf/mmap-go"
)

const (
	pageSize  = 4 << 10
	hugePage  = 2 << 20
	chunkSize = 64 << 20
)

// ErrNoMemory is returned when the system gives no more address space.
var ErrNoMemory = errors.New("arena: out of memory")

// Arena is safe for concurrent use.
type Arena struct {
	mu     sync.Mutex
	chunks []*chunk
	used   int64

	small atomic.Int64 // bytes in small spans
	limit atomic.Int64 // see SetLimit

	collapser // guarded by mu
}

// SetLimit makes Alloc answer ErrNoMemory where more than n bytes would be in use; 0: no limit. For tests of code that runs
// out of memory.
func (a *Arena) SetLimit(n int64) { a.limit.Store(n) }

// Span is a piece of zeroed memory.
type Span struct {
	Data  []byte
	chunk *chunk
	off   int // in the chunk
}

type chunk struct {
	region mmap.MMap // as mapped
	mem    []byte    // the part of it that starts at a multiple of 2 MiB
	free   []hole    // sorted by offset, never touching each other
	broken []bool    // by huge page: a part of it was freed since it was whole
}

type hole struct{ off, len int }

func newChunk(size int) (*chunk, error) {
	region, err := mmap.MapRegion(nil, size+hugePage, mmap.COPY, mmap.ANON, 0) // COPY: private
	if err != nil {
		return nil, fmt.Errorf("%w: mapping %d bytes: %w", ErrNoMemory, size, err)
	}
	skip := 0
	if rest := int(uintptr(unsafe.Pointer(&region[0])) % hugePage); rest != 0 {
		skip = hugePage - rest
	}
	c := &chunk{region: region, mem: region[skip : skip+size], free: []hole{{0, size}}, broken: make([]bool, size/hugePage)}
	adviseHuge(c.mem)
	return c, nil
}

// smallSpan and less come from the Go heap: a page for each of a million small overlays would be 4 GB.
const smallSpan = pageSize / 2

// Alloc returns at least n bytes, rounded up to whole pages unless it is small. passing says that the span will be
// freed soon.
func (a *Arena) Alloc(n int, passing bool) (Span, error) {
	if limit := a.limit.Load(); limit > 0 && a.Used()+int64(n) > limit {
		return Span{}, fmt.Errorf("%w: %d bytes, and at most %d may be used", ErrNoMemory, n, limit)
	}
	if n <= smallSpan {
		a.small.Add(int64(n))
		return Span{Data: make([]byte, n)}, nil
	}
	n = (n + pageSize - 1) &^ (pageSize - 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	c, i := a.fit(n, passing)
	if c == nil {
		var err error
		if c, err = newChunk(max(chunkSize, (n+hugePage-1)&^(hugePage-1))); err != nil {
			return Span{}, err
		}
		a.chunks = append(a.chunks, c)
		i = 0
	}
	h := &c.free[i]
	off := h.off
	if passing {
		off = h.off + h.len - n
	} else {
		h.off += n
	}
	if h.len -= n; h.len == 0 {
		c.free = slices.Delete(c.free, i, i+1)
	}
	a.used += int64(n)
	return Span{Data: c.mem[off : off+n : off+n], chunk: c, off: off}, nil
}

// fit returns the lowest hole that holds n bytes or, for passing spans, the highest one.
func (a *Arena) fit(n int, passing bool) (*chunk, int) {
	if passing {
		for _, c := range slices.Backward(a.chunks) { // of all: chunks are never given back
			for i, h := range slices.Backward(c.free) {
				if h.len >= n {
					return c, i
				}
			}
		}
		return nil, 0
	}
	for _, c := range a.chunks {
		for i, h := range c.free {
			if h.len >= n {
				return c, i
			}
		}
	}
	return nil, 0
}

// Free gives a span back. Its memory must not be used any more, except that a stray read sees zeros.
func (a *Arena) Free(s Span) {
	if s.chunk == nil {
		a.small.Add(-int64(len(s.Data)))
		return
	}
	release(s.Data)
	a.mu.Lock()
	defer a.mu.Unlock()
	c := s.chunk
	n := len(s.Data)
	off := s.off
	c.breaks(off, n)
	i, _ := slices.BinarySearchFunc(c.free, off, func(h hole, off int) int { return h.off - off })
	c.free = slices.Insert(c.free, i, hole{off, n})
	if i+1 < len(c.free) && off+n == c.free[i+1].off {
		c.free[i].len += c.free[i+1].len
		c.free = slices.Delete(c.free, i+1, i+2)
	}
	if i > 0 && c.free[i-1].off+c.free[i-1].len == off {
		c.free[i-1].len += c.free[i].len
		c.free = slices.Delete(c.free, i, i+1)
	}
	a.used -= int64(n)
}

// Used is the number of bytes handed out.
func (a *Arena) Used() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used + a.small.Load()
}

// Close unmaps everything. No span may be used afterwards.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, c := range a.chunks {
		if err := c.region.Unmap(); err != nil {
			errs = append(errs, fmt.Errorf("arena: %w", err))
		}
	}
	a.chunks, a.used = nil, 0
	return errors.Join(errs...)
}

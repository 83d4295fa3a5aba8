// Package slicepool keeps the memory of large slices for later ones. New memory of many KiB must be cleared, and the collector runs more often
// for it: 8 MB of new memory keep a processor busy for a millisecond.
package slicepool

import "sync"

// Pool has the memory of slices that are no longer used. The collector frees memory that no call takes within two of its cycles. The zero value
// is empty and ready. All methods may be called from any goroutine.
type Pool[T any] struct{ free sync.Pool }

// Take returns an empty slice with room for n elements or more, or nil if the pool has none. Old elements may lie behind its end.
func (p *Pool[T]) Take(n int) []T {
	if list, _ := p.free.Get().(*[]T); list != nil && cap(*list) >= n {
		return *list
	}
	return nil
}

// Give gives the memory of a slice to the pool. REQUIRES: nothing uses the slice any more, and elements with pointers are cleared.
func (p *Pool[T]) Give(list []T) {
	list = list[:0]
	p.free.Put(&list)
}

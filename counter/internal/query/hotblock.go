package query

import (
	"cmp"
	"math/bits"
	"slices"
)

// How long a hot block is held, by estimates: so many buckets at a time take 1 us, each row found some more, and after
// 3 us others have their turn. Without Gosched they hardly would: a goroutine that waits for a lock gets it by force
// after a millisecond only, if who lets it go takes it again at once. Reads of 16 blocks beside a query that is in one
// of them all the time took 670 us at p99.9 so, 100 with 8 us, and take 31 with 3, which costs the query a tenth.
const (
	SelectBuckets = 64
	SelectCost    = 1000 // ns
	FoundCost     = 25
	SelectHold    = 3000
)

// enterHot copies the items of s.Blk, a hot block, that meet the query to front. Where there are more than are wanted, or
// than may be kept, it takes those that come first, and moves the end of the range that front covers. REQUIRES s.Blk.Mu
// held; it is unlocked.
func (s *Search) enterHot(b View, left int) {
	blk := s.Blk
	if !s.selection(blk) {
		b.NoteSeen(blk.Logged)
		blk.Mu.Unlock()
		return
	}
	s.edits = blk.Edits
	keep := max(maxFront/s.Front.width, 64)
	if s.sink == nil {
		keep = min(keep, max(left, 64))
	}
	buckets := blk.Tab.Buckets()
	if blk.Tab.Rare(&s.hot) {
		buckets = 1
	}
	for from, held := 0, 0; ; {
		to := min(from+SelectBuckets, buckets)
		before := s.Front.Len()
		s.Front.flat = blk.Tab.Select(s.Front.flat, from, to, &s.hot)
		if from = to; from == buckets {
			break
		}
		if held += SelectCost + FoundCost*(s.Front.Len()-before); held < SelectHold {
			continue
		}
		held = 0
		blk.Mu.Unlock() // others have their turn
		s.Pause()
		if s.sink == nil && s.Front.Len() > 2*keep {
			s.drop()
			s.sort()
			s.shorten(keep)
		}
		blk.Mu.Lock()
		if blk.Dead { // its items are elsewhere now
			blk.Mu.Unlock()
			s.Leave()
			return
		}
	}
	edited := blk.Edits != s.edits
	b.NoteSeen(blk.Logged)
	blk.Mu.Unlock()
	s.drop()
	switch {
	case s.sink == nil:
		if s.sort(); len(s.order) > keep {
			s.shorten(keep)
		}
	case edited && !s.bare: // an item may be there twice
		s.sort()
		s.shorten(len(s.order))
	}
}

// shorten leaves of front, which is sorted, so many rows, those that come first.
func (s *Search) shorten(keep int) {
	order := s.order
	if len(order) > keep {
		if s.Query.Desc {
			order = order[len(order)-keep:]
			s.lo = order[0].mid
		} else {
			order = order[:keep]
			s.hi = order[keep-1].mid
		}
	}
	w := s.Front.width
	s.page.flat = s.page.flat[:0]
	for _, p := range order {
		s.page.flat = append(s.page.flat, s.Front.flat[int(p.row)*w:][:w]...)
	}
	s.Front.flat, s.page.flat = s.page.flat, s.Front.flat[:0]
	for i := range order {
		order[i].row = uint32(i)
	}
	s.order = order
	s.hot.Lo, s.hot.Hi = s.lo, s.hi
}

// giveFront moves rows of front, of a hot block, to rows: so many, or all, and leaves the block then.
func (s *Search) giveFront(left int) {
	if s.sink != nil {
		s.Rows.flat = append(s.Rows.flat, s.Front.flat...)
		s.done()
		return
	}
	n := min(left, len(s.order), max(s.Most-s.Rows.Len(), 1))
	w := s.Front.width
	for range n {
		p := s.order[0]
		if s.Query.Desc {
			p = s.order[len(s.order)-1]
			s.order = s.order[:len(s.order)-1]
		} else {
			s.order = s.order[1:]
		}
		s.Rows.flat = append(s.Rows.flat, s.Front.flat[int(p.row)*w:][:w]...)
	}
	if len(s.order) == 0 {
		s.done()
		return
	}
	mid, _ := s.Rows.At(s.Rows.Len() - 1)
	s.passTo(mid)
}

// done leaves the block, of which nothing is left.
func (s *Search) done() {
	end := s.hi
	if s.Query.Desc {
		end = s.lo
	}
	s.Leave()
	s.passTo(end)
}

// placed is a row of front and its mid.
type placed struct {
	mid uint64
	row uint32
}

// sort makes order of the rows of front: rising, each mid once. An item that was deleted and made again while its block
// was looked at may be there twice; the row that was found later stays.
func (s *Search) sort() {
	w := s.Front.width
	n := s.Front.Len()
	s.order = slices.Grow(s.order[:0], 2*n)
	order, from := s.order[:n], s.order[n:2*n]
	for i := range from {
		from[i] = placed{s.Front.flat[i*w], uint32(i)}
	}
	s.ends = sortPlaced(order, from, s.ends)
	k := 0
	for i := range order {
		if k > 0 && order[k-1].mid == order[i].mid {
			k--
		}
		order[k] = order[i]
		k++
	}
	s.order = order[:k]
}

// sortPlaced puts the elements of from in dst, sorted by mid; equal ones keep their order. Mids of a block are spread about
// evenly: as many parts of their range as there are mids hold about one each, so all but putting them there is done by a few
// comparisons. It takes 20 ns a mid, a fifth of the time of comparing all. Where they are not spread evenly, the full parts
// are sorted by comparisons. ends is scratch, which is returned.
func sortPlaced(dst, from []placed, ends []uint32) []uint32 {
	byMid := func(a, b placed) int { return cmp.Or(cmp.Compare(a.mid, b.mid), cmp.Compare(a.row, b.row)) }
	if len(from) < 64 {
		copy(dst, from)
		slices.SortFunc(dst, byMid)
		return ends
	}
	least, most := from[0].mid, from[0].mid
	for i := range from {
		least, most = min(least, from[i].mid), max(most, from[i].mid)
	}
	shift := max(0, bits.Len64(most-least)-bits.Len(uint(len(from))))
	ends = slices.Grow(ends[:0], int((most-least)>>shift+2))[:(most-least)>>shift+2]
	clear(ends)
	for i := range from {
		ends[(from[i].mid-least)>>shift+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	for i := range from {
		part := (from[i].mid - least) >> shift
		dst[ends[part]] = from[i]
		ends[part]++
	}
	begin := uint32(0)
	for _, end := range ends[:len(ends)-1] {
		switch part := dst[begin:end]; {
		case len(part) > 32:
			slices.SortFunc(part, byMid)
		case len(part) > 1:
			for i := 1; i < len(part); i++ {
				x := part[i]
				j := i
				for ; j > 0 && part[j-1].mid > x.mid; j-- {
					part[j] = part[j-1]
				}
				part[j] = x
			}
		}
		begin = end
	}
	return ends
}

package bulk

import (
	"context"
	"slices"
	"sync"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter"
)

// A range that is merged at once has mergePosts posts, about, or runPage of each run, so that pages are read once mostly.
const (
	mergePosts = 128 << 10
	runPage    = 2048
)

// span is a range of mids, and its posts when they are merged.
type span struct {
	lo, hi uint64 // hi inclusive
	done   chan struct{}
	posts  counter.Posts
	dups   uint64
	err    error
}

// merge gives the posts of all runs to add, in order. Each worker merges a range of mids, in turn.
func (r *reading) merge(ctx context.Context, runs []*coldstore.File, add func(counter.Posts) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	work, turn := make(chan *span), make(chan *span, 2*r.workers)
	wg.Add(1 + r.workers)
	go func() {
		defer wg.Done()
		defer close(turn)
		defer close(work)
		for _, s := range spans(runs) {
			for _, to := range []chan *span{turn, work} {
				select {
				case to <- s:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	for range r.workers {
		go func() {
			defer wg.Done()
			m := merger{r: r}
			for s := range work {
				m.run(s, runs)
				close(s.done)
			}
		}()
	}
	total, done := uint64(0), uint64(0)
	for _, f := range runs {
		total += f.Stat().Items
	}
	for s := range turn {
		select {
		case <-s.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.err != nil {
			return s.err
		}
		r.stats.Duplicates += s.dups
		r.stats.Posts += uint64(len(s.posts.Mids))
		done += uint64(len(s.posts.Mids)) + s.dups
		r.o.Progress("merging", uint64(float64(r.stats.Bytes)*float64(done)/float64(max(total, 1))))
		if err := add(s.posts); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// spans cuts all mids into ranges with about as many posts each, by the first mids of the runs' pages.
func spans(runs []*coldstore.File) []*span {
	var starts []uint64
	items := uint64(0)
	for _, f := range runs {
		items += f.Stat().Items
		for i := range f.Pages() {
			starts = append(starts, f.PageStart(i))
		}
	}
	slices.Sort(starts)
	each := max(1, len(starts)*max(mergePosts, runPage*len(runs))/int(max(items, 1))) // pages of a range
	var all []*span
	lo := uint64(0)
	for i := each; i < len(starts); i += each {
		if at := starts[i]; at > lo {
			all = append(all, &span{lo: lo, hi: at - 1, done: make(chan struct{})})
			lo = at
		}
	}
	return append(all, &span{lo: lo, hi: coldstore.MaxMid, done: make(chan struct{})})
}

// merger merges ranges. Its memory is used again.
type merger struct {
	r       *reading
	cursors []cursor
	heap    []int // cursors with posts left, the least first: by mid, then by run
}

// cursor is the posts of a run in a range.
type cursor struct {
	mids []uint64
	rows []uint64 // the values, row by row
	i    int
}

// run merges the range s. Of a post that stands in several runs, the later run is the later line.
func (m *merger) run(s *span, runs []*coldstore.File) {
	columns := len(m.r.o.Counter.Columns)
	if m.cursors == nil {
		m.cursors = make([]cursor, len(runs))
	}
	n := 0
	for k, f := range runs {
		c := &m.cursors[k]
		c.mids, c.rows, c.i = c.mids[:0], c.rows[:0], 0
		if s.err = f.Iterate(s.lo, func(mid uint64, vals []uint64) bool {
			if mid > s.hi {
				return false
			}
			c.mids, c.rows = append(c.mids, mid), append(c.rows, vals...)
			return true
		}); s.err != nil {
			return
		}
		n += len(c.mids)
	}
	out := counter.Posts{Mids: make([]uint64, 0, n), Columns: make([][]uint64, columns)}
	for i := range out.Columns {
		out.Columns[i] = make([]uint64, 0, n)
	}
	m.heap = m.heap[:0]
	for k := range m.cursors {
		if len(m.cursors[k].mids) > 0 {
			m.heap = append(m.heap, k)
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	for len(m.heap) > 0 {
		c := &m.cursors[m.heap[0]]
		mid, row := c.mids[c.i], c.rows[c.i*columns:][:columns]
		if k := len(out.Mids); k > 0 && out.Mids[k-1] == mid {
			s.dups++
			if m.r.o.Duplicates == Refuse {
				s.err = &DuplicateError{Mid: mid}
				return
			}
			for i, v := range row {
				if v, s.err = m.r.both(i, mid, out.Columns[i][k-1], v); s.err != nil {
					return
				}
				out.Columns[i][k-1] = v
			}
		} else {
			out.Mids = append(out.Mids, mid)
			for i, v := range row {
				out.Columns[i] = append(out.Columns[i], v)
			}
		}
		if c.i++; c.i == len(c.mids) {
			last := len(m.heap) - 1
			m.heap[0] = m.heap[last]
			m.heap = m.heap[:last]
		}
		m.down(0)
	}
	s.posts = out
}

// down moves the cursor at place i of the heap to where it belongs.
func (m *merger) down(i int) {
	h := m.heap
	for {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if right := least + 1; right < len(h) && m.before(h[right], h[least]) {
			least = right
		}
		if !m.before(h[least], h[i]) {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// before tells whether cursor a's next post comes before b's.
func (m *merger) before(a, b int) bool {
	x, y := &m.cursors[a], &m.cursors[b]
	mx, my := x.mids[x.i], y.mids[y.i]
	return mx < my || mx == my && a < b
}

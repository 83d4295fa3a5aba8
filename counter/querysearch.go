package counter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/schema"
)

const (
	// stepTime is about how long a step takes, and stepRows how many rows it finds at most: a reply goes out, or a loop
	// serves others, in between.
	stepTime = time.Millisecond
	stepRows = 4096
)

// search finds the items of a query, a step at a time, in the order of their mids. Between two steps anything may
// happen to the store: blocks are found again by the mid to go on at.
//
// An item that meets the query from the first step to the last is found exactly once; one that changes meanwhile is
// found if it met the query when its block was looked at.
type search struct {
	q       Query
	spans   []span
	mids    []uint64 // of Query.Mids, sorted, each once
	not     []uint64 // the same of Query.NotMids
	columns []int16  // of the rows

	most int // rows of a step

	at   uint64 // the next mid to look at
	over bool   // there is none

	// Of the schema in force, see bind.
	bound *schema.Counter
	ks    *keyspace
	rows  Rows // of the present step

	wanted []int // columns of rows, as indexes in ks.def.Columns
	tested []int // the same of spans
}

func (s *search) init(q Query, columns []int16) error {
	if err := q.check(); err != nil {
		return err
	}
	s.q, s.columns, s.most = q, columns, stepRows
	if s.columns == nil {
		for c := range q.Counter.Columns {
			s.columns = append(s.columns, int16(c))
		}
	}
	s.rows.width = 1 + len(s.columns)
	var any bool
	s.spans, any = q.spans()
	s.q.To = min(q.To, schema.MaxMid)
	s.mids, s.not = sortedSet(q.Mids), sortedSet(q.NotMids)
	if s.at = q.From; q.Desc {
		s.at = s.q.To
	}
	s.over = !any || q.From > s.q.To || q.Mids != nil && len(q.Mids) == 0
	s.list()
	return nil
}

// sortedSet returns a sorted copy without repetitions.
func sortedSet(mids []uint64) []uint64 {
	if len(mids) == 0 {
		return nil
	}
	set := slices.Clone(mids)
	slices.Sort(set)
	return slices.Compact(set)
}

// list moves at to the next mid of the list, where there is one.
func (s *search) list() {
	if s.over || s.mids == nil {
		return
	}
	i, found := slices.BinarySearch(s.mids, s.at)
	if s.q.Desc && !found {
		i--
	}
	if i < 0 || i == len(s.mids) || s.mids[i] < s.q.From || s.mids[i] > s.q.To {
		s.over = true
		return
	}
	s.at = s.mids[i]
}

// pass moves at behind all mids up to mid, in the order of the query.
func (s *search) pass(mid uint64) {
	if s.q.Desc {
		s.over, s.at = mid <= s.q.From, mid-1
	} else {
		s.over, s.at = mid >= s.q.To, mid+1
	}
	s.list()
}

// bind finds the counter and the columns in the schema in force. REQUIRES b to be open.
func (s *search) bind(b *Batch) error {
	def := b.Schema().CounterByID(s.q.Counter.ID)
	if def == nil {
		return fmt.Errorf("%w: %s was dropped", ErrNoKey, s.q.Counter.Name)
	}
	s.ks = b.s.spaces[def.ID]
	if s.bound == def {
		return nil
	}
	place := func(c int) (int, error) {
		i := def.Index(s.q.Counter.Columns[c].ID)
		if i < 0 {
			return 0, fmt.Errorf("%w: column %s of %s was dropped", ErrNoKey, s.q.Counter.Columns[c].Name, s.q.Counter.Name)
		}
		return i, nil
	}
	s.wanted, s.tested = s.wanted[:0], s.tested[:0]
	for _, c := range s.columns {
		i, err := place(int(c))
		if err != nil {
			return err
		}
		s.wanted = append(s.wanted, i)
	}
	for _, sp := range s.spans {
		i, err := place(sp.column)
		if err != nil {
			return err
		}
		s.tested = append(s.tested, i)
	}
	s.bound = def
	return nil
}

// step finds the next rows, at most so many. REQUIRES b to be open.
func (s *search) step(b *Batch, limit int) error {
	s.rows.clear()
	if err := s.bind(b); err != nil {
		return err
	}
	limit = min(limit, s.most)
	for began := time.Now(); !s.over && s.rows.Len() < limit && time.Since(began) < stepTime; {
		var err error
		if s.mids != nil {
			err = s.one(b)
		} else {
			err = s.block(b, limit-s.rows.Len())
		}
		if err != nil {
			if s.rows.Len() > 0 { // those first: the next step comes here again
				return nil
			}
			return err
		}
	}
	return nil
}

// one looks at the item at.
func (s *search) one(b *Batch) error {
	blk := s.ks.lock(s.at)
	defer blk.mu.Unlock()
	b.show(blk.logged)
	mid := s.at
	p, err := s.ks.find(blk, mid)
	if err != nil {
		return s.damage(mid, mid+1, err)
	}
	if p.found() {
		if err := s.item(blk, mid, p); err != nil {
			return s.damage(mid, mid+1, err)
		}
	}
	s.pass(mid)
	return nil
}

// item takes the item at p, which was found, if it meets the query.
func (s *search) item(blk *block, mid uint64, p location) error {
	if s.excluded(mid) {
		return nil
	}
	for i, c := range s.tested {
		v, err := s.ks.value(blk, mid, p, c)
		if err != nil {
			// What is known of a partial row may leave it out all the same.
			for j := i + 1; j < len(s.tested); j++ {
				if v, err := s.ks.value(blk, mid, p, s.tested[j]); err == nil && !s.spans[j].holds(v) {
					return nil
				}
			}
			return err
		}
		if !s.spans[i].holds(v) {
			return nil
		}
	}
	n := len(s.rows.flat)
	s.rows.flat = append(s.rows.flat, mid)
	for _, c := range s.wanted {
		v, err := s.ks.value(blk, mid, p, c)
		if err != nil {
			s.rows.flat = s.rows.flat[:n]
			return err
		}
		s.rows.flat = append(s.rows.flat, v)
	}
	return nil
}

// excluded tells whether a mid is one of NotMids.
func (s *search) excluded(mid uint64) bool {
	if len(s.not) == 0 {
		return false
	}
	_, found := slices.BinarySearch(s.not, mid)
	return found
}

func (s *search) damage(lo, hi uint64, err error) error {
	return &RangeError{s.ks.def, persist.MidRange{Lo: lo, Hi: hi}, err}
}

// block looks at the items of the block that holds at, from there on, and takes at most so many.
func (s *search) block(b *Batch, limit int) error {
	blk := s.ks.lock(s.at)
	defer blk.mu.Unlock()
	b.show(blk.logged)
	from, to := s.at, min(s.q.To, blk.hi-1)
	if s.q.Desc {
		from, to = max(s.q.From, blk.lo), s.at
	}
	first := s.rows.Len()
	var lost lostRanges // that matter
	m := merged{table: &blk.tab, columns: s.ks.fileColumns(), lost: func(r persist.MidRange) {
		if r.Hi > from && r.Lo <= to {
			lost.add(r)
		}
	}}
	if blk.cold != nil {
		m.file, m.partial = blk.cold.file, blk.cold.partialMids()
	}
	last := to
	err := m.each(from, func(mid uint64, vals []uint64) error {
		if mid > to || !s.q.Desc && len(lost) > 0 && mid >= lost[0].Lo {
			return errEnough
		}
		if s.q.Desc && len(lost) > 0 { // only what lies above it comes first
			if r := lost[len(lost)-1]; mid >= r.Lo && mid < r.Hi {
				return nil
			}
		}
		var err error
		if vals == nil {
			if err = s.item(blk, mid, location{where: inPartial}); err != nil {
				lost.add(persist.MidRange{Lo: mid, Hi: mid + 1})
			}
		} else {
			s.take(mid, vals)
		}
		if !s.q.Desc && s.rows.Len()-first == limit {
			last = mid
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return s.passBlock(from, to, last, first, limit, lost)
}

// passBlock moves at behind what was looked at of a block, and leaves of the rows those that the next step need not
// find again.
func (s *search) passBlock(from, to, last uint64, first, limit int, lost lostRanges) error {
	if !s.q.Desc {
		if len(lost) > 0 && lost[0].Lo <= last {
			if lost[0].Lo > from {
				s.pass(lost[0].Lo - 1)
				return nil
			}
			return s.damage(lost[0].Lo, lost[0].Hi, errDamaged)
		}
		s.pass(last)
		return nil
	}
	last = from
	s.rows.reverse(first)
	if n := len(lost); n > 0 {
		r := lost[n-1]
		if r.Hi > to {
			s.rows.cut(first)
			return s.damage(r.Lo, r.Hi, errDamaged)
		}
		last = r.Hi
		for n := s.rows.Len(); n > first; n-- {
			if mid, _ := s.rows.At(n - 1); mid >= last {
				break
			}
			s.rows.cut(n - 1)
		}
	}
	if s.rows.Len()-first > limit {
		s.rows.cut(first + limit)
		last, _ = s.rows.At(first + limit - 1)
	}
	s.pass(last)
	return nil
}

var errDamaged = errors.New("a page of its file is damaged")

// take takes a row if it meets the query. vals are all columns.
func (s *search) take(mid uint64, vals []uint64) {
	for i, c := range s.tested {
		if !s.spans[i].holds(vals[c]) {
			return
		}
	}
	if s.excluded(mid) {
		return
	}
	s.rows.flat = append(s.rows.flat, mid)
	for _, c := range s.wanted {
		s.rows.flat = append(s.rows.flat, vals[c])
	}
}

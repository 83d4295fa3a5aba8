package query

// How long a hot block is held, by estimates: so many buckets at a time take 1 us, each row found some more, and after
// 3 us others have their turn. Without Gosched they hardly would: a goroutine that waits for a lock gets it by force
// after a millisecond only, if who lets it go takes it again at once. Reads of 16 blocks beside a query that is in one
// of them all the time took 670 us at p99.9 so, 100 with 8 us, and take 31 with 3, which costs the query a tenth.
const (
	SelectBuckets = 64
	SelectCost    = 1000 // ns
	FoundCost     = 25
	PickedCost    = 5 // of an item that is picked
	SelectHold    = 3000
)

// wayEvery is how often GiveWay is called in the place of Pause, about each 50 to 100 us. A goroutine that waits for the network is not woken by
// Gosched while others work, and GiveWay, which looks for it, takes too long for each pause.
const wayEvery = 8

// turns lets others have their turn during a search.
type turns struct {
	// Called while a block's lock is let go, for others: runtime.Gosched.
	Pause func()
	// GiveWay is called in the place of Pause now and then, and may take longer; nil: Pause is always called.
	GiveWay func()
	pauses  int
}

// pause lets others have their turn.
func pause(t *turns) {
	if t.pauses++; t.pauses%wayEvery == 0 {
		giveWay(t)
		return
	}
	t.Pause()
}

// giveWay lets others have their turn, for longer.
func giveWay(t *turns) {
	if t.GiveWay != nil {
		t.GiveWay()
		return
	}
	t.Pause()
}

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
	s.edits, s.sorter.pause = blk.Edits, func() { giveWay(&s.turns) } // the rows are sorted without the lock
	keep := max(maxFront/s.Front.width, 64)
	if s.sink == nil {
		keep = min(keep, max(left, 64))
	}
	buckets := blk.Tab.Buckets()
	if blk.Tab.Rare(&s.hot) {
		buckets = 1
	}
	n := 1 // or more, if there is memory
	if len(s.hot.Ranges) == 0 && s.lo <= blk.Lo && s.hi >= blk.Hi-1 {
		n = min(blk.Tab.Len(), keep) // all are found
	}
	cost := FoundCost
	if s.items == nil {
		s.items = hotItemsOf.Get().(*hotItems)
	}
	if s.items.on = s.sink == nil && !s.excludes() && s.items.picked.Begin(&blk.Tab, &s.hot, false); s.items.on {
		cost, n = PickedCost, blk.Tab.Len()
		if len(s.hot.Ranges) > 0 {
			n /= 8 // as a guess
		}
		s.items.begin(n, s.Query.Desc)
	} else if s.Front.Len() == 0 {
		s.Front.flat = take(&rowMemory, s.Front.flat, n*s.Front.width)
	}
	for from, held := 0, 0; ; {
		to := min(from+SelectBuckets, buckets)
		before := s.found()
		if s.items.on {
			blk.Tab.Pick(&s.items.picked, from, to, &s.hot)
			if s.items.picked.Unfit {
				s.items.again(&blk.Tab, &s.hot)
				to = 0
			}
			s.items.collect(to == buckets)
		} else {
			s.Front.flat = blk.Tab.Select(s.Front.flat, from, to, &s.hot)
		}
		if from = to; from == buckets {
			break
		}
		if held += SelectCost + cost*max(0, s.found()-before); held < SelectHold {
			continue
		}
		held = 0
		blk.Mu.Unlock() // others have their turn
		pause(&s.turns)
		if s.sink == nil && s.found() > 2*keep {
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
		if s.sort(); s.found() > keep {
			s.shorten(keep)
		}
		if s.items.on {
			s.items.open(edited)
		}
	case edited && !s.bare: // an item may be there twice
		s.sort()
	}
}

// found is how many items of a hot block were found so far.
func (s *Search) found() int {
	if s.items.used() {
		return s.items.found()
	}
	return s.Front.Len()
}

// shorten leaves of front, which is sorted, so many rows, those that come first.
func (s *Search) shorten(keep int) {
	if s.items.used() {
		s.lo, s.hi = s.items.shorten(keep, s.lo, s.hi)
		s.hot.Lo, s.hot.Hi = s.lo, s.hi
		return
	}
	w := s.Front.width
	if n := s.Front.Len(); n > keep {
		if s.Query.Desc {
			s.Front.drop(n - keep)
			s.lo = s.Front.flat[0]
		} else {
			s.Front.cut(keep)
			s.hi = s.Front.flat[(keep-1)*w]
		}
	}
	s.rest = s.Front.flat
	s.hot.Lo, s.hot.Hi = s.lo, s.hi
}

// giveFront moves rows of front, of a hot block, to rows: so many, or all, and leaves the block then.
func (s *Search) giveFront(left int) {
	if s.sink != nil {
		s.Rows.flat = append(s.Rows.flat, s.Front.flat...)
		s.done()
		return
	}
	if s.items.used() {
		if !s.items.give(&s.Rows, min(left, max(s.Most-s.Rows.Len(), 1))) {
			s.done()
			return
		}
		mid, _ := s.Rows.At(s.Rows.Len() - 1)
		s.passTo(mid)
		return
	}
	w := s.Front.width
	n := min(left, len(s.rest)/w, max(s.Most-s.Rows.Len(), 1)) * w
	if s.Query.Desc {
		from := s.Rows.Len()
		s.Rows.flat = append(s.Rows.flat, s.rest[len(s.rest)-n:]...)
		s.Rows.reverse(from)
		s.rest = s.rest[:len(s.rest)-n]
	} else {
		s.Rows.flat = append(s.Rows.flat, s.rest[:n]...)
		s.rest = s.rest[n:]
	}
	if len(s.rest) == 0 {
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

// sort makes the rows of front rising, with each mid once, and all of them rest. An item that was deleted and made again
// while its block was looked at may be there twice; the row that was found later stays.
func (s *Search) sort() {
	if s.items.used() { // heaps are sorted one by one
		return
	}
	s.sorter.sort(&s.Front)
	s.rest = s.Front.flat
}

package coldstore

// Lookup is one row of a batch: the question, and the answer GetBatch stores.
type Lookup struct {
	File *File // not nil
	Mid  uint64
	Cols []int    // positions, nil for all, as in Get
	Vals []uint64 // room for the values

	Found bool
	Err   error // of this row alone
}

// GetBatch answers all lookups, of one file or of many: it first asks the disk for every page that is not in
// memory, then waits for them one by one, so that a batch of cold pages takes hardly longer than one. It
// allocates nothing.
func GetBatch(batch []Lookup) {
	asked, probed := generation.Load(), false
	for i := range batch {
		l := &batch[i]
		// All pages are asked for at the first row, and again when memory turns out to have been taken away.
		if i == 0 || asked != generation.Load() {
			probed = prefetch(batch[i:], probed)
			asked = generation.Load()
		}
		l.Found, l.Err = l.File.Get(l.Mid, l.Cols, l.Vals)
	}
}

// Prefetch asks the disk for the pages of the mids that are not in memory, and does not wait.
func (f *File) Prefetch(mids []uint64) {
	if f.broken != nil {
		return
	}
	for _, mid := range mids {
		f.prefetchPage(mid, false)
	}
}

// prefetch asks for the pages of the batch. Unless probed, it first asks the kernel about one page that should be
// resident: if it is not, none is believed to be any longer. It returns whether the question was put.
func prefetch(batch []Lookup, probed bool) bool {
	if len(batch) == 1 { // the read itself asks the disk
		return probed
	}
	for i := range batch {
		probed = batch[i].File.prefetchPage(batch[i].Mid, !probed) || probed
	}
	return probed
}

// prefetchPage asks for the page of mid unless it is cached or believed to be in memory. With probe, such belief is
// put to the test, which it reports.
func (f *File) prefetchPage(mid uint64, probe bool) (probed bool) {
	i := f.page(mid)
	if i < 0 || f.broken != nil || f.closed.Load() {
		return false
	}
	key := pageKey(f.id, i)
	s := f.cache.shard(key)
	s.mu.Lock()
	_, cached := s.slot[key]
	s.mu.Unlock()
	if cached {
		return false
	}
	off, n := f.extent(i)
	now := generation.Load()
	if f.resident.believed(now, i) {
		if !probe || f.data.inMemory(off, int64(n)) {
			return probe
		}
		generation.CompareAndSwap(now, now+1)
		probed = true
	}
	f.data.willNeed(f.prefetch, off, int64(n))
	return probed
}

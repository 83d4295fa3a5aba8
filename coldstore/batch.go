package coldstore

// Lookup is one row of a batch: the question, and the answer GetBatch stores.
type Lookup struct {
	File *File // not nil
	Mid  uint64
	Cols []int    // positions, nil for all, as in Get
	Vals []uint64 // room for the values

	at Place

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
			probed = prefetchAll(batch[i:], probed)
			asked = generation.Load()
		}
		l.Found, l.Err = l.File.GetAt(l.at, l.Mid, l.Cols, l.Vals)
	}
}

// prefetchAll asks for the pages of the batch. Unless probed, it first asks the kernel about one page that should be
// resident: if it is not, none is believed to be any longer. It returns whether the question was put.
func prefetchAll(batch []Lookup, probed bool) bool {
	if len(batch) == 1 { // the read itself asks the disk
		batch[0].at = NoPlace
		return probed
	}
	for i := range batch {
		l := &batch[i]
		l.at = l.File.Locate(l.Mid)
		probed = l.File.ask(l.at, !probed) || probed
	}
	for i := range batch {
		batch[i].File.Touch(batch[i].at, batch[i].Mid)
	}
	return probed
}

// Place is the page of a file that holds a mid if any does. A batch of many lookups is faster in three rounds:
//
//	Locate, Ask   of each: searches the index, asks the disk if the page is nowhere in memory, and the processor for the
//	              directory of a cached one
//	Touch         of each: asks the processor for the cache lines of a cached page that the lookup will read
//	GetAt         of each
//
// A lookup alone takes 8 cache misses, of which 5 wait for one another; the rounds have those of all lookups under way
// at once.
type Place int32

// NoPlace makes GetAt search.
const NoPlace Place = -1

// Locate returns the place of mid. It takes no lock.
func (f *File) Locate(mid uint64) Place { return Place(f.page(mid)) }

// placed is page with a guess, which it checks.
func (f *File) placed(at Place, mid uint64) int {
	i := int(at)
	if uint(i) < uint(len(f.index)) && f.index[i] <= mid && (i+1 == len(f.index) || mid < f.index[i+1]) {
		return i
	}
	return f.page(mid)
}

// Cached tells whether a read at a place of this file needs nothing but memory, as far as can be known: the page may be
// pushed out of the cache at any time.
func (f *File) Cached(at Place) bool {
	i := int(at)
	return uint(i) >= uint(len(f.cached)) || f.cached[i].Load() != 0
}

// Ask starts to bring the page at a place of this file into memory, and does not wait.
func (f *File) Ask(at Place) { f.ask(at, false) }

// Touch asks the processor for what a lookup of mid at a place of this file is going to read, if that is cached.
func (f *File) Touch(at Place, mid uint64) {
	i := int(at)
	if uint(i) >= uint(len(f.cached)) {
		return
	}
	if id := f.cached[i].Load(); id != 0 {
		b, d := f.cache.slots.at(slotID(id))
		d.touch(b, mid)
	}
}

// ask asks the disk for a page unless it is cached or believed to be in memory. With probe, such belief is put to the
// test, which it reports.
func (f *File) ask(at Place, probe bool) (probed bool) {
	i := int(at)
	if uint(i) >= uint(len(f.cached)) || f.closed.Load() {
		return false
	}
	if id := f.cached[i].Load(); id != 0 {
		_, d := f.cache.slots.at(slotID(id))
		d.prefetch()
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

package block

import "slices"

// NewestKept is how many mids Newest has at least, once as many have come: the newest of 256 groups are the newest 8,000 posts. A list
// takes 0.5 KiB, and only a group with new posts has one.
const NewestKept = 32

// Newest lists the largest mids of the open block of a group of hash slots, so that the newest few posts of all groups are found without
// a look at all tables. Block.Mu guards it.
//
// Invariants: mids[:n] rises; each item of the block with a mid of floor or above is one of them. An item that was deleted may be one too.
type Newest struct {
	floor uint64
	n     int
	mids  [2 * NewestKept]uint64
}

// note takes a mid that came.
func (l *Newest) note(mid uint64) {
	at := l.n
	for at > 0 && l.mids[at-1] > mid { // few: mids of an open block rise, nearly
		at--
	}
	if mid < l.floor || at > 0 && l.mids[at-1] == mid { // too low; deleted and made again
		return
	}
	if l.n == len(l.mids) {
		l.n = copy(l.mids[:], l.mids[NewestKept:])
		l.floor = l.mids[0]
		if at -= NewestKept; at <= 0 {
			return
		}
	}
	copy(l.mids[at+1:l.n+1], l.mids[at:l.n])
	l.mids[at] = mid
	l.n++
}

// AppendNewest appends mids of b from lo to hi, rising: the largest, so many at most. Each item of b with a mid from floor to hi is one of
// them. REQUIRES b.Mu held.
func (b *Block) AppendNewest(dst []uint64, lo, hi uint64, most int) (list []uint64, floor uint64) {
	l := b.Newest
	if l == nil {
		return dst, b.Hi
	}
	mids := l.mids[:l.n]
	to := len(mids)
	for to > 0 && mids[to-1] > hi {
		to--
	}
	from, _ := slices.BinarySearch(mids[:to], lo)
	floor = max(l.floor, b.Lo)
	if to-from > most {
		from = to - most
		floor = max(floor, mids[from])
	}
	return append(dst, mids[from:to]...), floor
}

// FindNewest makes the list of an open block whose table was read from a file.
func (b *Block) FindNewest() {
	if !b.Open() || b.Cold != nil || b.Tab.Len() == 0 {
		return
	}
	b.Newest = new(Newest)
	for _, mid := range b.Tab.AppendMids(nil, 0) {
		b.Newest.note(mid)
	}
}

// noteNewest takes an item that was just inserted. The list begins with the first item of a block.
func (b *Block) noteNewest(mid uint64) {
	if b.Newest == nil && b.Tab.Len() == 1 {
		b.Newest = new(Newest)
	}
	if b.Newest != nil {
		b.Newest.note(mid)
	}
}

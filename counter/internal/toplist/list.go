package toplist

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// Entry is a post and its value.
type Entry struct{ Value, Mid uint64 }

// Below tells whether e ranks below x: posts are ranked by value, those with the same value by mid.
func (e Entry) Below(x Entry) bool { return e.Value < x.Value || e.Value == x.Value && e.Mid < x.Mid }

// beyond ranks above every post.
var beyond = Entry{math.MaxUint64, math.MaxUint64}

// List is the posts with the largest values of a column. Safe for concurrent use.
//
// Invariants, with mu held: entries are distinct posts, none below least; at is where each stands in entries; sure is not
// below least; edge is least.Value, except that it is math.MaxUint64 while the list takes nothing.
type List struct {
	Column  uint16 // its id
	Default uint64 // the column's
	Want    int    // how many of the best the list is for

	edge atomic.Uint64 // values below are not kept

	mu          sync.Mutex
	entries     []Entry // in no order
	at          map[uint64]int32
	least, sure Entry
	building    uint64 // number of the last Build, or Reset
	seen        uint64 // log offset behind the changes that the entries come from
	version     uint64 // counts what may change answers of Top
}

// New returns a list that knows nothing yet.
func New(column uint16, dflt uint64, want int) *List {
	l := &List{Column: column, Default: dflt, Want: want, least: beyond, sure: beyond}
	l.edge.Store(math.MaxUint64)
	return l
}

// Reaches tells whether a post with this value may be in the list.
func (l *List) Reaches(value uint64) bool { return value >= l.edge.Load() }

// Takes tells whether the list keeps anything: it does not before the first Build.
func (l *List) Takes() bool { return l.edge.Load() != math.MaxUint64 }

// note takes over the present value of a post; gone: it is no post any more. REQUIRES l.mu held.
func (l *List) note(e Entry, gone bool) {
	i, here := l.at[e.Mid]
	switch kept := !gone && !e.Below(l.least); {
	case kept && here:
		l.entries[i].Value = e.Value
	case kept:
		l.at[e.Mid] = int32(len(l.entries))
		l.entries = append(l.entries, e)
		if len(l.entries) > 3*l.Want {
			l.trim()
		}
	case here:
		l.remove(i)
	default:
		return
	}
	l.version++
}

// remove takes entry i out.
func (l *List) remove(i int32) {
	last := len(l.entries) - 1
	delete(l.at, l.entries[i].Mid)
	if int(i) != last {
		l.entries[i] = l.entries[last]
		l.at[l.entries[i].Mid] = i
	}
	l.entries = l.entries[:last]
}

// trim keeps the best 2*Want.
func (l *List) trim() {
	keep := selectBest(l.entries, 2*l.Want)
	for _, e := range l.entries[len(keep):] {
		delete(l.at, e.Mid)
	}
	l.entries = keep
	least := beyond
	for i, e := range keep {
		l.at[e.Mid] = int32(i)
		if e.Below(least) {
			least = e
		}
	}
	l.raise(least)
}

// raise moves the marks up to a rank that all entries have.
func (l *List) raise(to Entry) {
	l.least = to
	if l.sure.Below(to) {
		l.sure = to
	}
	l.edge.Store(to.Value)
}

// best orders entries, the best first.
func best(a, b Entry) int { return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(b.Mid, a.Mid)) }

// Remove takes out the posts that gone tells of; logged is the log offset behind their removal. It answers whether the list has to be built
// again.
func (l *List) Remove(logged uint64, gone func(mid uint64) bool) (short bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = max(l.seen, logged)
	for i := len(l.entries) - 1; i >= 0; i-- {
		if gone(l.entries[i].Mid) {
			l.remove(int32(i))
			l.version++
		}
	}
	return l.short()
}

// Reset forgets everything: posts have come or gone of which the list was not told.
func (l *List) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
}

func (l *List) forget() {
	l.edge.Store(math.MaxUint64)
	l.entries, l.at, l.least, l.sure = nil, nil, beyond, beyond
	l.building++
	l.version++
}

// Build has the list take every change from now on. The number is for Done.
func (l *List) Build() (number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at = make(map[uint64]int32)
	}
	l.least = Entry{}
	l.edge.Store(0)
	l.building++
	return l.building
}

// Add is told of a post that a look at all posts has found, under the lock of its block. logged is the log offset behind the block's last change.
func (l *List) Add(e Entry, logged uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.edge.Load() == math.MaxUint64 {
		return
	}
	l.seen = max(l.seen, logged)
	l.note(e, false)
}

// Refresh tells the present value of a post that may be in the list, under the lock of its block; gone: there is none. Values fall by time alone, without a
// change, in a window of time. The marks stay: a post that is not in the list ranked below them, and cannot rise by this.
func (l *List) Refresh(e Entry, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at != nil {
		l.note(e, gone)
	}
}

// Mids are the posts of the list.
func (l *List) Mids() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	mids := make([]uint64, len(l.entries))
	for i := range l.entries {
		mids[i] = l.entries[i].Mid
	}
	return mids
}

// Done says that every post that was not changed since Build, and ranks at or above from, was added. seen is the log offset behind all that the look has
// met: a post that is in no entry, as it was removed before Build, must not be missed before its removal may be told. It answers false if the list was
// reset since.
func (l *List) Done(number uint64, from Entry, seen uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.building != number {
		return false
	}
	l.seen = max(l.seen, seen)
	if l.least.Below(from) {
		l.cut(from)
	}
	l.sure = l.least
	l.version++
	return true
}

// Abandon ends a Build without Done: the part that was known before is kept up to date.
func (l *List) Abandon(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.building != number:
	case l.sure == beyond:
		l.forget()
	default:
		l.cut(l.sure)
	}
}

// cut removes the entries below a mark, and moves the marks up to it.
func (l *List) cut(to Entry) {
	for i := len(l.entries) - 1; i >= 0; i-- {
		if l.entries[i].Below(to) {
			l.remove(int32(i))
		}
	}
	l.raise(to)
}

// Short tells whether the list has to be built again: fewer than Want are known, and there may be more posts.
func (l *List) Short() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.short()
}

func (l *List) short() bool {
	if l.sure == (Entry{}) {
		return false
	}
	if l.sure == beyond || len(l.entries) < l.Want {
		return true
	}
	n := 0
	if l.sure != l.least { // it is being built
		for _, e := range l.entries {
			if !e.Below(l.sure) {
				n++
			}
		}
		return n < l.Want
	}
	return false
}

// Top returns the best k posts, the best first: all there are, if they are fewer. seen is a log offset: the answer must not be told before
// the log has reached it. ok is false if the list does not know them.
func (l *List) Top(k int) (top []Entry, seen uint64, ok bool) {
	l.mu.Lock()
	if l.sure == beyond || l.sure != (Entry{}) && len(l.entries) < k {
		l.mu.Unlock()
		return nil, 0, false
	}
	all, sure := slices.Clone(l.entries), l.sure
	seen = l.seen
	l.mu.Unlock()
	top = pick(all, k)
	if len(top) == k && k > 0 && top[k-1].Below(sure) || len(top) < k && sure != (Entry{}) {
		return nil, 0, false
	}
	return top, seen, true
}

// Reaching returns the mids of at most so many posts, in no order: of all posts whose values reach something, and perhaps of some whose values have fallen by
// time since. reaches is true of a value and of all above it. seen is as that of Top. ok is false if there are more, or if the list may lack some.
func (l *List) Reaching(reaches func(value uint64) bool, most int) (mids []uint64, seen uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sure == beyond || l.sure != (Entry{}) && reaches(l.sure.Value) { // a post below sure may have the same value
		return nil, 0, false
	}
	mids = []uint64{}
	for _, e := range l.entries {
		if !reaches(e.Value) {
			continue
		}
		if len(mids) == most {
			return nil, 0, false
		}
		mids = append(mids, e.Mid)
	}
	return mids, l.seen, true
}

// Version counts changes: as long as it stays, so do the answers of Top.
func (l *List) Version() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// Best moves the best k of all to the front, the best first, and returns them.
func Best(all []Entry, k int) []Entry { return pick(all, k) }

// pick sorts the best k to the front of all, and returns them.
func pick(all []Entry, k int) []Entry {
	if k < len(all)/2 {
		all = selectBest(all, k)
	}
	slices.SortFunc(all, best)
	return all[:min(k, len(all))]
}

// selectBest moves the best k to the front, in no order, and returns them: quickselect, with the middle of three as the pivot.
func selectBest(all []Entry, k int) []Entry {
	lo, hi := 0, len(all)
	for hi-lo > 32 {
		a, b, c := all[lo], all[lo+(hi-lo)/2], all[hi-1]
		if a.Below(b) {
			a, b = b, a
		}
		pivot := b
		if b.Below(c) {
			if pivot = c; a.Below(c) {
				pivot = a
			}
		}
		i, j := lo, hi-1 // Hoare: all[lo:i] are not below the pivot, all[j+1:hi] not above
		for i <= j {
			for pivot.Below(all[i]) {
				i++
			}
			for all[j].Below(pivot) {
				j--
			}
			if i <= j {
				all[i], all[j] = all[j], all[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			hi = j + 1
		case k >= i:
			lo = i
		default:
			return all[:k]
		}
	}
	slices.SortFunc(all[lo:hi], best)
	return all[:k]
}

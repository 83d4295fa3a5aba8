package counter

import (
	"github.com/counterd/counterd/persist"
)

// appendMids appends the mids of all items, in no order, and returns the ranges of the pages that cannot be read: of those it knows only what was
// changed since.
func (b *block) appendMids(dst []uint64) (mids []uint64, lost []persist.MidRange) {
	if b.cold == nil {
		return b.tab.AppendMids(dst, 0), nil
	}
	lost, _ = coldRows(b.cold.file, func(mid uint64, _ []uint64) error { // fn returns nil
		if b.tab.Len() > 0 {
			if _, ok := b.tab.Find(mid); ok {
				return nil // the overlay knows better
			}
		}
		if _, ok := b.cold.partial[mid]; !ok {
			dst = append(dst, mid)
		}
		return nil
	})
	for mid := range b.cold.partial {
		dst = append(dst, mid)
	}
	if b.tab.Len() == 0 {
		return dst, lost
	}
	for _, mid := range b.tab.AppendMids(nil, 0) {
		if slot, _ := b.tab.Find(mid); b.tab.Get(slot, 0) != rowGone {
			dst = append(dst, mid)
		}
	}
	return dst, lost
}

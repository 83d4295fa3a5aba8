package scancache

import "slices"

// fewMids are sorted by comparisons.
const fewMids = 256

// sortMids sorts mids, one byte after the other from the lowest on: those of a block of 64 Ki posts have 28 bits that differ. An event loop does
// that, so all its connections wait for it. sortMids uses the memory of mids.
func sortMids(mids []uint64) []uint64 {
	if len(mids) < fewMids {
		slices.Sort(mids)
		return mids
	}
	least, most := slices.Min(mids), slices.Max(mids)
	spare := make([]uint64, len(mids))
	for shift := 0; shift < 64 && (most-least)>>shift > 0; shift += 8 {
		var at [256]int // where the next mid with a byte goes
		for _, mid := range mids {
			at[uint8((mid-least)>>shift)]++
		}
		next := 0
		for i, n := range at {
			at[i], next = next, next+n
		}
		for _, mid := range mids {
			to := &at[uint8((mid-least)>>shift)]
			spare[*to] = mid
			*to++
		}
		mids, spare = spare, mids
	}
	return mids
}

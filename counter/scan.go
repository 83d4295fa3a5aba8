package counter

import (
	"fmt"
	"strings"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/scancache"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/schema"
)

// ScanItem is an item met by Scan.
type ScanItem struct {
	Counter *schema.Counter
	Mid     uint64
}

// LostError is the error of Scan when it comes to items that cannot be listed, as a cold file is damaged. It matches
// ErrCold.
type LostError struct {
	Lost   []LostRange
	Resume uint64 // the cursor to go on with: items in these ranges that were set since are listed, and what is behind
}

// LostRange is a range of mids of a counter that cannot be listed.
type LostRange struct {
	Counter *schema.Counter
	snapfile.MidRange
}

func (e *LostError) Error() string {
	ranges := make([]string, len(e.Lost))
	for i, r := range e.Lost {
		ranges[i] = fmt.Sprintf("%s from %d to %d", r.Counter.Name, r.Lo, r.Hi-1)
	}
	return fmt.Sprintf("%v: what is there of %s cannot be listed; a SCAN with cursor %d goes on, with those of them that were set since",
		block.ErrCold, strings.Join(ranges, ", "), e.Resume)
}

// Is makes errors.Is(err, ErrCold) true.
func (e *LostError) Is(target error) bool { return target == block.ErrCold }

// toldCursor is set in a cursor of a scan that goes on behind a LostError, as long as it is in the ranges that the
// error named.
const toldCursor = hot.EndMid

// Scan appends about count items with mids from cursor on, in the order of their mids and, for equal mids, of the
// counters in the schema. It returns the cursor to go on with, 0 when there is no more; 0 starts as well.
//
// In a store made of groups the order is that of the groups of hash slots, from that of mid 0 on and behind the last one
// from group 0 on, and within a group as said: a cursor is a mid of the group that it is in, whichever node has it. A
// store that is not made of groups keeps that order too while some are not its own, so that the shards of a cluster have
// one, and what it looks at in vain for a group is bounded: a call may return fewer items than there are, or none.
//
// An item that is there from the first call to the last is returned exactly once; one that comes or goes meanwhile may
// be. The cursor is the next mid to look at, so it stays good for ever and any number of scans run side by side.
// Nothing is left out in silence: before a range that cannot be listed the scan stops, and the call that begins there
// returns a *LostError. REQUIRES the batch to be open.
func (r Reader) Scan(dst []ScanItem, cursor uint64, count int) (items []ScanItem, next uint64, err error) {
	count = max(1, count)
	if !r.s.SlotGroups && !r.s.Own.Some {
		return r.scanGroup(dst, 0, false, cursor, count)
	}
	first, group, upto := slot.Group(0), slot.Group(cursor&^toldCursor), len(dst)+count
	for {
		if next = 0; !r.s.Own.Lacks(group) {
			dst, next, err = r.scanGroup(dst, group, true, cursor, upto-len(dst))
		}
		if err != nil || next != 0 {
			return dst, next, err
		}
		if group++; group == first {
			return dst, 0, nil
		}
		if cursor = slot.Least(group, 0); len(dst) >= upto {
			return dst, cursor, nil
		}
	}
}

// mixedScan is how many posts of all groups a call looks at for some of one, where a store is not made of groups: 16.
const mixedScan = 16 * slot.Groups

// scanGroup is Scan of one group, the one that cursor is in, or of all there are; the end is 0.
func (r Reader) scanGroup(dst []ScanItem, group uint8, only bool, cursor uint64, count int) ([]ScanItem, uint64, error) {
	place := group
	if !r.s.SlotGroups {
		place = 0
	}
	mixed := only && !r.s.SlotGroups
	if mixed {
		count = mixedScan
	}
	told := cursor >= toldCursor
	cursor &^= toldCursor
	type source struct {
		def    *schema.Counter
		ks     *block.Keyspace
		mids   []uint64
		copies []*scancache.Copy // that mids came from
	}
	var sources []source
	upto := hot.EndMid // all mids below are in sources
	ahead := max(scancache.LeastAhead, scancache.Ahead/max(1, len(r.b.Schema().Counters())))
	for _, def := range r.b.Schema().Counters() {
		ks := r.s.Spaces[def.ID][place]
		if r.s.SlotGroups && core.Vacant(r.b, ks) {
			continue
		}
		mids, end, copies := r.s.Scans.Mids(ks, cursor, count, ahead)
		sources = append(sources, source{def, ks, mids, copies})
		for _, c := range copies {
			core.NoteSeen(r.b, c.Logged)
		}
		upto = min(upto, end)
	}
	var lost, skipped []LostRange
	stop := hot.EndMid // where the next range that cannot be listed begins
	for _, p := range sources {
		for _, c := range p.copies {
			for _, r := range c.Lost {
				switch {
				case r.Hi <= cursor:
				case r.Lo > cursor:
					stop = min(stop, r.Lo)
				case told:
					skipped = append(skipped, LostRange{p.def, r})
				default:
					lost = append(lost, LostRange{p.def, r})
				}
			}
		}
	}
	if len(lost) > 0 {
		return dst, 0, &LostError{lost, cursor | toldCursor}
	}
	upto = min(upto, stop)
	next, stopped := uint64(0), false
	for taken := 0; ; taken++ {
		first := upto
		for i := range sources {
			if m := sources[i].mids; len(m) > 0 {
				first = min(first, m[0])
			}
		}
		if first == upto || taken >= count {
			if next, stopped = first, first == stop; only {
				next = slot.Least(group, next)
			}
			if next >= hot.EndMid {
				next = 0
			}
			break
		}
		for i := range sources {
			p := &sources[i]
			if len(p.mids) == 0 || p.mids[0] != first {
				continue
			}
			p.mids = p.mids[1:]
			if !(mixed && slot.Group(first) != group) && !r.s.Own.Hides(first) && exists(r.b, p.ks, first) {
				dst = append(dst, ScanItem{p.def, first})
			}
		}
	}
	if next != 0 {
		used := make(map[*block.Keyspace][]*scancache.Copy, len(sources))
		for _, p := range sources {
			used[p.ks] = p.copies
		}
		r.s.Scans.Expect(next, used, ahead)
	}
	for _, r := range skipped {
		if !stopped && next != 0 && next < r.Hi {
			return dst, next | toldCursor, nil
		}
	}
	return dst, next, nil
}

// exists tells whether an item exists; an item that cannot be read counts as existing.
func exists(batch *Batch, ks *block.Keyspace, mid uint64) bool {
	b := ks.Lock(mid)
	defer b.Mu.Unlock()
	core.NoteSeen(batch, b.Logged)
	found, err := ks.Has(b, mid)
	return found || err != nil
}

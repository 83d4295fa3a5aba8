package persist

import (
	"sync"

	"github.com/counterd/counterd/persist/format"
)

// While the disk takes nothing, the newest changes are in memory only, and a crash takes them back. Their items must not be
// shown to readers; all other items can be. The log knows which items these are: their records are in its tail. Changes are
// refused soon, so the items are few: those that were changed when the disk began to fail, or to stall.

// itemKey names an item.
type itemKey struct {
	counter uint32
	mid     uint64
}

// doubt is the set of the items that the tail changes, for the part of the tail that was read so far. Each item has the log
// offset behind its last change.
type doubt struct {
	from, to uint64 // log offsets between which it knows
	all      uint64 // log offset behind the last record that changes more than one item
	many     bool   // there are too many items: it knows none
	items    map[itemKey]uint64
}

// maxDoubted bounds the memory of the set: 16 MiB and more. A tail that holds more puts everything in doubt.
const maxDoubted = 1 << 18

// doubts finds the items whose last change is not safe. It reads the tail and reaches nothing else of the log.
type doubts struct {
	lock     *sync.Mutex // Log.mu: guards the tail and known
	tail     *tail
	progress *progress
	known    *doubt // what was found out; nil: nobody has asked since the disk was well
}

// forget is called when the disk is well again. REQUIRES: Log.mu.
func (d *doubts) forget() { d.known = nil }

// has is Log.Doubts.
func (d *doubts) has(item itemKey, safe, below uint64) bool {
	d.lock.Lock()
	defer d.lock.Unlock()
	if !d.progress.doubtful() || safe < d.tail.durable { // soon all is safe; the tail begins behind it
		return true
	}
	known := d.known
	if known == nil || safe < known.from {
		known = &doubt{from: safe, to: safe, items: map[itemKey]uint64{}}
		d.known = known
	}
	if known.to < min(below, d.tail.position()) {
		d.tail.extend(known)
	}
	return known.many || known.all > safe || known.items[item] > safe
}

// extend has d know all bytes up to the position, those of the open frame too.
func (t *tail) extend(d *doubt) {
	var rec format.Record
	for _, c := range t.chunks {
		at := max(t.durable, c.start)
		if at >= c.end() || c.end() <= d.to {
			continue
		}
		for b := c.buf[at-c.start:]; len(b) > 0 && !d.many; {
			n, start := len(b), c.end()-uint64(len(b)) // the open frame has no length yet
			if start < t.sealed {
				n = format.RawFrameLen(b)
			}
			f := format.Frame{FrameHeader: format.FrameHeader{Start: start}, Payload: b[format.FrameHeaderLen:n]}
			if start+uint64(n) > d.to && f.Records(&rec, d.to, d.add) != nil {
				d.many = true // cannot be: they were checked, or made here
			}
			b = b[n:]
		}
	}
	d.to = t.position()
}

func (d *doubt) add(pos uint64, rec *format.Record) error {
	switch rec.Kind {
	case format.KindSet, format.KindSetItem, format.KindDelete:
		d.items[itemKey{rec.Counter, rec.Mid}] = pos
		d.many = len(d.items) > maxDoubted
	case format.KindDefine, format.KindOnce, format.KindFloor, format.KindCursor, format.KindTick: // of producers and feeds, and the time
	default:
		d.all = pos
	}
	return nil
}

package persist

import "github.com/counterd/counterd/persist/format"

// While the disk takes nothing, what was changed last is in memory only, and a crash takes it back: it must not be
// shown, and all else can be. The log knows which items these are: their records are in its tail. Changes are refused
// soon, so they are few and become no more: what was on its way when the disk began to fail, or to stall.

// itemKey names an item.
type itemKey struct {
	counter uint32
	mid     uint64
}

// doubt is the set of the items that the tail changes, as far as it was looked at, with the log offset behind the last
// change of each.
type doubt struct {
	from, to uint64 // log offsets between which it knows
	all      uint64 // log offset behind the last record that changes more than one item
	many     bool   // there are too many items: it knows none
	items    map[itemKey]uint64
}

// maxDoubted bounds the memory of the set: 16 MiB and more. A tail that holds more puts everything in doubt.
const maxDoubted = 1 << 18

// Doubts tells whether the log behind the offset safe changes an item. below is a log offset that all changes of the
// item seen end at or before. It is meant for a log that is Doubtful: it takes the log's lock.
func (l *Log) Doubts(counter uint32, mid, safe, below uint64) bool {
	if below <= safe {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Doubtful() || safe < l.tail.durable { // soon all is safe; the tail begins behind it
		return true
	}
	d := l.doubt
	if d == nil || safe < d.from {
		d = &doubt{from: safe, to: safe, items: map[itemKey]uint64{}}
		l.doubt = d
	}
	if d.to < min(below, l.tail.position()) {
		l.tail.extend(d)
	}
	return d.many || d.all > safe || d.items[itemKey{counter, mid}] > safe
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
	case format.KindDefine, format.KindOnce, format.KindFloor: // of producers
	default:
		d.all = pos
	}
	return nil
}

package persist

// While the disk takes nothing, what was changed last is in memory only, and a crash takes it back. Under SyncAlways it
// must not be shown; all else can be. The log knows which items these are: their records are in its tail. Changes are
// refused then, so they are few and become no more: what was on its way when the disk began to fail.

// itemKey names an item.
type itemKey struct {
	counter uint32
	mid     uint64
}

// doubt is the set of the items that the tail changes, as far as it was looked at.
type doubt struct {
	to    uint64 // log offset up to which it knows
	all   bool   // a record changes more than one item, or they are too many
	items map[itemKey]struct{}
}

// maxDoubted bounds the memory of the set: 16 MiB and more. A tail that holds more puts everything in doubt.
const maxDoubted = 1 << 18

// Doubts tells whether the bytes that are not durable change an item. below is a log offset that all changes of the
// item seen end at or before. It is meant for a log that is Failing: it takes the log's lock.
func (l *Log) Doubts(counter uint32, mid uint64, below uint64) bool {
	if below <= l.durable.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trouble == nil || l.durable.Load() >= below {
		return l.durable.Load() < below
	}
	if l.doubt == nil || l.doubt.to < min(below, l.tail.position()) {
		l.doubt = l.tail.doubt()
	}
	if l.doubt.all {
		return true
	}
	_, found := l.doubt.items[itemKey{counter, mid}]
	return found
}

// doubt looks at all bytes behind the durable offset, those of the open frame too.
func (t *tail) doubt() *doubt {
	d := &doubt{to: t.position(), items: make(map[itemKey]struct{})}
	var rec Record
	for _, c := range t.chunks {
		at := max(t.durable, c.start)
		if at >= c.end() {
			continue
		}
		for b := c.buf[at-c.start:]; len(b) > 0 && !d.all; {
			n := len(b) // the open frame has no length yet
			if c.end()-uint64(len(b)) < t.sealed {
				n = rawFrameLen(b)
			}
			f := Frame{Payload: b[FrameHeaderLen:n]}
			if f.Records(&rec, 0, d.add) != nil {
				d.all = true // cannot be: they were checked, or made here
			}
			b = b[n:]
		}
	}
	return d
}

func (d *doubt) add(_ uint64, rec *Record) error {
	switch rec.Kind {
	case KindSet, KindSetItem, KindDelete:
		d.items[itemKey{rec.Counter, rec.Mid}] = struct{}{}
		d.all = d.all || len(d.items) > maxDoubted
	case KindFlush, KindSchema:
		d.all = true
	}
	return nil
}

package core

import (
	"slices"

	"github.com/counterd/counterd/counter/internal/producers"
)

// defineLog tells which producer a number in a record of the log stands for: the define records before that record say it. It knows those
// that this process has logged, applied or replayed, and the table of the snapshot that the start began with. A feed that reads older
// log reads the define records there, or does not know.
//
// Invariant: the entries of a number ascend by place.
type defineLog struct {
	by map[uint32][]defined
	n  int // entries
}

// defined is the producer of a number from a log offset on.
type defined struct {
	pos  uint64 // behind the define record, or behind the records that were appended with it
	id   string // empty: for nobody
	base uint64
}

// maxDefined bounds the memory to 4 MiB, and 200 bytes for each producer there is: one takes a further entry each 16,384 changes.
const maxDefined = 1 << 16

// reset begins with a table as it was at a log offset.
func (d *defineLog) reset(t *producers.Table, pos uint64) {
	*d = defineLog{}
	t.Each(func(number uint32, id string, base uint64) { d.add(number, pos, id, base) })
}

// add says which producer a number has from pos on. Of too many entries all but the last of each number go: the producers of older
// records are not known then.
func (d *defineLog) add(number uint32, pos uint64, id string, base uint64) {
	if d.by == nil {
		d.by = make(map[uint32][]defined)
	}
	if d.n >= maxDefined+2*len(d.by) {
		d.n = 0
		for number, list := range d.by {
			d.by[number] = slices.Clone(list[len(list)-1:])
			d.n++
		}
	}
	d.by[number] = append(d.by[number], defined{pos, id, base})
	d.n++
}

// at tells which producer a number has in a record that ends at pos. ok is false where it is not known.
func (d *defineLog) at(number uint32, pos uint64) (id string, base uint64, ok bool) {
	list := d.by[number]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].pos <= pos {
			return list[i].id, list[i].base, list[i].id != ""
		}
	}
	return "", 0, false
}

// ProducerAt tells which producer a number in a record of the log that ends at pos stands for, and the base of its sequence numbers
// there. ok is false where that is not known: see defineLog.
func (d *Data) ProducerAt(number uint32, pos uint64) (id string, base uint64, ok bool) {
	l := &d.Producers
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.defines.at(number, pos)
}

package feed

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// decoder makes changes of the records of one frame.
//
// Invariant: src are the records of frame that end behind log offset pos, and at is the position there. Without a frame src is
// empty.
type decoder struct {
	filter Filter
	at     Position
	frame  *format.Frame
	src    []byte
	pos    uint64

	schema *schema.Schema // that names come from
	view   view           // of the counter seen last
	rec    format.Record
	change Change
	values []Value
	olds   []Value // of Old

	numbers numbers
}

// retained is how many parts, and how many values, memory is kept for from one change to the next.
const retained = 4 << 10

// begin makes f the frame that is decoded, from at on. now is the schema in force, loaded after the frame was read: only records of
// this frame may be newer. The error is a *MalformedError if at is no place between two changes of the frame, and then
// nothing was changed.
func (d *decoder) begin(f *format.Frame, now *schema.Schema) error {
	into := uint64(d.at.Into)
	if into > 0 && (f.Whole || into < format.FrameHeaderLen || d.at.Offset() >= f.End()) {
		return d.malformed()
	}
	d.frame, d.src, d.pos, d.schema = f, f.Payload, f.Start+format.FrameHeaderLen, now
	for into > 0 && d.pos < d.at.Offset() {
		if err := d.record(); err != nil {
			return err
		}
		if d.rec.Kind == format.KindSchema { // it may not be in force yet
			if err := d.adopt(); err != nil {
				return err
			}
		}
	}
	if into > 0 && d.pos != d.at.Offset() {
		d.drop()
		return d.malformed()
	}
	return nil
}

func (d *decoder) malformed() error {
	return &MalformedError{clip(d.at.String()), "no change of the log ends there"}
}

// drop forgets the frame.
func (d *decoder) drop() { d.frame, d.src = nil, nil }

// record decodes the next record.
func (d *decoder) record() error {
	n, err := format.DecodeRecord(d.src, &d.rec)
	if err != nil {
		return fmt.Errorf("log offset %d: %w", d.pos, err)
	}
	d.src = d.src[n:]
	d.pos += uint64(n)
	return nil
}

// next decodes the next change of the frame into change, which has no parts if nothing of it is shown. REQUIRES a frame.
func (d *decoder) next() error {
	c := &d.change
	if cap(c.Parts) > retained || cap(d.values) > retained || cap(d.olds) > retained {
		c.Parts, d.values, d.olds = nil, nil, nil
	}
	c.Parts, d.values, d.olds = c.Parts[:0], d.values[:0], d.olds[:0]
	c.Numbered, c.Producer, c.Seq = false, "", 0
	for more := true; more && len(d.src) > 0; {
		if err := d.record(); err != nil {
			return err
		}
		if err := d.part(); err != nil {
			return err
		}
		more = d.frame.Whole || d.rec.Kind == format.KindOnce || d.rec.Kind == format.KindDefine || d.rec.Kind == format.KindFloor
	}
	if len(d.src) == 0 {
		d.at.Frame, d.at.Into = d.frame.End(), 0
	} else {
		d.at.Frame, d.at.Into = d.frame.Start, uint32(d.pos-d.frame.Start)
	}
	c.Position, c.TimeMS = d.at, d.frame.TimeMS
	if len(d.src) == 0 {
		d.drop()
	}
	return nil
}

// part appends what the record shows to the change.
func (d *decoder) part() error {
	rec := &d.rec
	switch rec.Kind {
	case format.KindDefine:
		d.numbers.define(rec)
	case format.KindOnce:
		if !d.at.Coming.Has(rec.Group) || rec.Result == format.ResultNext {
			d.numbers.look(&d.change, rec, d.pos)
		}
	case format.KindSet, format.KindSetItem, format.KindDelete:
		if d.filter.mid(rec.Mid) && (d.at.Coming == slot.Set{} || !d.at.Coming.Has(slot.Group(rec.Mid))) {
			d.post()
		}
	case format.KindFlush:
		d.add(Part{Kind: Flush})
	case format.KindDropRange:
		d.dropRange()
	case format.KindSchema:
		if err := d.adopt(); err != nil {
			return err
		}
		d.add(Part{Kind: Schema, Text: string(rec.Text)})
	case format.KindImport:
		d.at.Coming = d.at.Coming.Union(rec.Groups)
	case format.KindAccept:
		d.groups(Gain, rec.Groups.Both(d.at.Coming))
		d.at.Coming = d.at.Coming.Minus(rec.Groups)
	case format.KindDrop:
		d.groups(Lose, rec.Groups.Minus(d.at.Coming)) // those that were coming never were here
		d.at.Coming = d.at.Coming.Minus(rec.Groups)
	}
	return nil
}

func (d *decoder) add(p Part) { d.change.Parts = append(d.change.Parts, p) }

// groups adds what became of groups of hash slots.
func (d *decoder) groups(kind Kind, set slot.Set) {
	if set != (slot.Set{}) {
		p := Part{Kind: kind, Groups: &set}
		p.Text, p.Shard, p.Offset = format.ParseMoveFrom(string(d.rec.Text))
		d.add(p)
	}
}

// dropRange adds the range of mids that the record drops. Posts of groups that are coming are the source's to drop.
func (d *decoder) dropRange() {
	rec, v := &d.rec, d.filter.look(d.schema, d.rec.Counter)
	groups := rec.Groups.Minus(d.at.Coming)
	if v.def == nil || !d.filter.meets(rec.Mid, rec.Value) || groups == (slot.Set{}) {
		return
	}
	p := Part{Kind: Drop, Counter: v.def, Mid: rec.Mid, End: rec.Value}
	if groups != slot.AllGroups() {
		p.Groups = &groups
	}
	d.add(p)
}

// post adds what the record says of a post.
func (d *decoder) post() {
	rec, v := &d.rec, &d.view
	if v.id != rec.Counter || v.schema != d.schema {
		*v = d.filter.look(d.schema, rec.Counter)
	}
	if v.def == nil {
		return
	}
	if rec.Kind == format.KindDelete {
		d.add(Part{Kind: Del, Counter: v.def, Mid: rec.Mid, Old: d.old()})
		return
	}
	from, dropped := len(d.values), false
	if rec.Kind == format.KindSet {
		dropped = !d.value(rec.Column, rec.Value)
	}
	for _, c := range rec.Columns {
		dropped = !d.value(c.Column, c.Value) || dropped
	}
	if len(d.values) > from || dropped && v.hidden == nil {
		// If values moves when it grows, this part keeps the old array, in which nothing changes any more.
		d.add(Part{Kind: Set, Counter: v.def, Mid: rec.Mid, Values: d.values[from:len(d.values):len(d.values)], Old: d.old()})
	}
}

// old has the values before the change, if the record tells them: none of a column that is not shown, or was dropped since.
func (d *decoder) old() Old {
	told, v, from := &d.rec.Old, &d.view, len(d.olds)
	if !d.filter.Old || !told.Told || !told.There {
		return Old{Told: d.filter.Old && told.Told}
	}
	if d.rec.Kind == format.KindDelete { // columns that the record does not name had their defaults
		for i := range v.def.Columns {
			if v.hidden == nil || !v.hidden[i] {
				d.olds = append(d.olds, Value{i, v.def.Columns[i].Default})
			}
		}
	}
	for _, c := range told.Columns {
		i := v.def.Index(c.Column)
		if i < 0 || v.hidden != nil && v.hidden[i] {
			continue
		}
		have := d.olds[from:]
		at := slices.IndexFunc(have, func(v Value) bool { return v.Column == i })
		switch {
		case at < 0:
			d.olds = append(d.olds, Value{i, c.Value})
		case d.rec.Kind == format.KindDelete: // else it was set twice, and the first value is that before the change
			have[at].Value = c.Value
		}
	}
	return Old{Told: true, There: true, Values: d.olds[from:len(d.olds):len(d.olds)]} // an old array stays as it is, as that of a part
}

// value adds a column, if it is shown. It is false where the column was dropped since.
func (d *decoder) value(column uint16, value uint64) bool {
	i := d.view.def.Index(column)
	if i >= 0 && (d.view.hidden == nil || !d.view.hidden[i]) {
		d.values = append(d.values, Value{i, value})
	}
	return i >= 0
}

// adopt reads the schema of a record. If it has ids that the schema in force does not know, that one is older: the record was
// logged and is not applied yet. Names come from the record's then.
func (d *decoder) adopt() error {
	next, err := schema.ParseDurable(d.rec.Text)
	if err != nil {
		return fmt.Errorf("log offset %d: %w: %w", d.pos, format.ErrCorrupt, err)
	}
	newer := next.LastCounter() > d.schema.LastCounter()
	for _, def := range next.Counters() {
		was := d.schema.CounterByID(def.ID)
		newer = newer || was != nil && def.LastColumn() > was.LastColumn()
	}
	if newer {
		d.schema = next
	}
	return nil
}

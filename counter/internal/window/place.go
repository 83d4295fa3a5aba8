package window

import (
	"math"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Place is an item of the space of a derived column: the counts of a post in the buckets of the window, and the number of the newest bucket. So an
// addition clears the buckets that have come since the one before, and a read passes over those that have gone: nothing happens
// when only time passes. Of a column that decays the item has one sum (package decay).
//
// REQUIRES for all methods: Block is locked, and At is where the item is in it (Find).
type Place struct {
	Of    *schema.Derived
	Ks    *block.Keyspace
	Block *block.Block
	At    block.Location
	Made  bool // it was not there before the change at hand
}

// Find finds the item.
func (p *Place) Find(mid uint64) (err error) {
	p.At, err = p.Ks.Find(p.Block, mid)
	return err
}

// FindInTable finds the item where a change leaves its block as it is: in the table of a block that has all columns and no file. home is the item's in
// that table. With room an item that is not there is made, if the table has a place for it. Where ok is false, nothing was changed: Find and Ensure see
// to the item then.
func (p *Place) FindInTable(mid uint64, home hot.Home, room bool) (ok bool) {
	if !p.InTable() {
		return false
	}
	ref, ok := p.Block.Tab.FindAt(home)
	if !ok {
		return room && p.TryAdd(mid, home)
	}
	p.At = block.Location{Where: block.InTable, Ref: ref}
	return true
}

// InTable tells whether a change of any item leaves the block as it is: it has a table with all columns, and no file.
func (p *Place) InTable() bool { return p.Block.Cold == nil && p.Block.Shape == p.Ks.Layout }

// TryAdd makes the item, which is absent, if the table of its block has a place for it. REQUIRES InTable.
func (p *Place) TryAdd(mid uint64, home hot.Home) (ok bool) {
	ref, ok := block.TryAdd(p.Ks, p.Block, mid, home)
	if ok {
		p.At, p.Made = block.Location{Where: block.InTable, Ref: ref}, true
	}
	return ok
}

// Ensure makes the item if it is not there, and brings it into the table of its block, which another block may take the place of. On an error nothing
// was changed; it matches block.ErrCold where some buckets of the item are not known, as their file is damaged.
func (p *Place) Ensure(mid uint64) (err error) {
	if !p.At.Readable() {
		if _, err := p.Sum(mid, 0); err != nil {
			return err
		}
	}
	found := p.At.Found()
	if p.Block, p.At.Ref, err = p.Ks.Ensure(p.Block, mid, p.At); err != nil {
		return err
	}
	p.At.Where, p.Made = block.InTable, !found
	return nil
}

// FindToRemove finds the item, and brings it to where its removal takes no memory: out of its file. On an error nothing was changed.
func (p *Place) FindToRemove(mid uint64) error {
	if err := p.Find(mid); err != nil {
		return err
	}
	switch p.At.Where {
	case block.InFile:
		return p.Ensure(mid)
	case block.InPartial: // it has no values to bring
		return p.Ks.Builder.ReserveOverlay(p.Block, p.Ks.Over, 1)
	}
	return nil
}

// Unmake removes the item if it counts nothing: it was made, and not changed since.
func (p *Place) Unmake(mid uint64) {
	if p.At.Where == block.InTable && p.Empty() {
		_ = p.Ks.Remove(p.Block, mid, p.At) // it is in the table, and so it needs no memory
	}
}

// Empty tells whether the item, in the table of its block, counts nothing at all.
func (p *Place) Empty() bool {
	if len(p.Ks.Def.Columns) == 1 {
		return p.value(schema.DecayedSum) == 0
	}
	for i := range len(p.Ks.Def.Columns) - schema.FirstBucket {
		if p.value(schema.FirstBucket+i) > 0 {
			return false
		}
	}
	return true
}

// Add counts n additions at a moment, and appends the columns that it has changed, with their values, to dst.
func (p *Place) Add(n uint64, at *Moment, dst []format.ColumnValue) []format.ColumnValue {
	m := at.of(p.Of)
	if p.Of.Decays() {
		return p.set(dst, schema.DecayedSum, m.scale.Add(p.value(schema.DecayedSum), n))
	}
	if !p.Made && p.InTable() {
		if sum, ok := p.AddAgain(n, &m.bucket); ok {
			return append(dst, format.ColumnValue{Column: m.bucket.ID, Value: sum})
		}
	}
	buckets, today := m.buckets, m.today
	last := today
	if !p.Made {
		last = p.bucket(today)
	}
	bucket := max(last, today)
	if p.Made || bucket != last {
		dst = p.set(dst, schema.LastBucket, uint64(bucket)&(1<<schema.BucketBits-1))
	}
	if bucket != last {
		dst = p.clear(max(last+1, bucket-buckets+1, 0), bucket, buckets, dst)
	}
	c := schema.FirstBucket + int(bucket%buckets)
	was := uint64(0)
	if bucket == last {
		was = p.value(c)
	}
	return p.set(dst, c, min(was+n, math.MaxInt64)) // both are below 2^63
}

// AddAgain is Add where the newest bucket of the item is the one of the moment, which is that of Moment.Bucket: it changes nothing but a count, and returns it.
// Where ok is false, nothing was changed. REQUIRES InTable, and an item that was not made just now.
func (p *Place) AddAgain(n uint64, at *Bucket) (sum uint64, ok bool) {
	return hot.AddIf(&p.Block.Tab, p.At.Ref, schema.LastBucket, at.Kept, at.Count, int64(n), math.MaxInt64)
}

// clear clears the counts of the buckets with numbers from first on, below end: fewer than the window has.
func (p *Place) clear(first, end, buckets int64, dst []format.ColumnValue) []format.ColumnValue {
	set := hot.Nonzero(&p.Block.Tab, p.At.Ref, p.Ks.Field(p.Block, schema.FirstBucket), int(buckets))
	if set == 0 || first >= end {
		return dst
	}
	at := first % buckets
	for range end - first {
		if set>>at&1 != 0 {
			dst = p.set(dst, schema.FirstBucket+int(at), 0)
		}
		if at++; at == buckets {
			at = 0
		}
	}
	return dst
}

func (p *Place) set(dst []format.ColumnValue, column int, v uint64) []format.ColumnValue {
	p.Block.Tab.Set(p.At.Ref, p.Ks.Field(p.Block, column), v)
	return append(dst, format.ColumnValue{Column: p.Of.Space.Columns[column].ID, Value: v})
}

// value is a column of the item in the table of its block.
func (p *Place) value(column int) uint64 {
	return p.Block.Tab.Get(p.At.Ref, p.Ks.Field(p.Block, column))
}

// bucket is the number of the newest bucket of the item. Its lowest bits are kept: it is the one of those that is nearest to today's.
func (p *Place) bucket(today int64) int64 {
	return schema.NearestBucket(p.value(schema.LastBucket), today)
}

// Sum is the count of the item at a moment of the log's time; 0: the item is not there.
func (p *Place) Sum(mid uint64, now int64) (uint64, error) {
	if !p.At.Found() {
		return 0, nil
	}
	var row [schema.MaxColumns]uint64
	read, err := p.Ks.AppendRow(row[:0], p.Block, mid, p.At)
	if err != nil {
		return 0, err
	}
	return p.Of.Sum(read, now), nil
}

// AppendRecord appends the record of the columns that Add has changed to dst.
func (p *Place) AppendRecord(dst []byte, mid uint64, columns []format.ColumnValue) []byte {
	if len(columns) == 1 {
		return format.AppendSet(dst, p.Ks.ID, columns[0].Column, mid, columns[0].Value)
	}
	return format.AppendSetItem(dst, p.Ks.ID, mid, columns)
}

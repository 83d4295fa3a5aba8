package format

import "encoding/binary"

// Kinds of records of counters that log old values. DecodeRecord gives them the kinds KindSet, KindSetItem and KindDelete, so that a
// replay need not know them, and puts the values before the change into Record.Old.
const (
	KindSetOld     Kind = 20
	KindSetItemOld Kind = 21
	KindDeleteOld  Kind = 22
)

// Old has the values of an item before the change of a record. The zero Old tells nothing.
type Old struct {
	Told  bool // the record tells it
	There bool // the item existed
	// The values before the change, if the item existed: those of the columns that the change sets, in their order; of a KindDelete those of all
	// columns that differ from their defaults.
	Columns []ColumnValue
}

// The records, as in record.go:
//
//	set with old       20 | counter v | column v | mid v | value v | old v
//	setitem with old   21 | counter v | mid v | (n << 1 | there) v | n x (column v | value v | if there: difference v)
//	delete with old    22 | counter v | mid v | n v | n x (column v | value v)
//
// old is 0 if the item was not there, and the difference and 1 if it was. The difference is the value less the old value, zigzag encoded: its
// absolute value shifted by one bit, less one if it is negative. So an INCR takes one byte more than without its old value. The columns of a
// delete are those that differed from their defaults, with their values.
//
// A counter logs these kinds while its old=on is in force. Programs that do not know them do not read the schema of such a counter (package
// schema, format 7).

// AppendSetOld appends a KindSetOld record to dst; there: the item existed, and the column was old. REQUIRES: value and old are below 1<<63.
func AppendSetOld(dst []byte, counter uint32, column uint16, mid, value uint64, there bool, old uint64) []byte {
	dst = append(dst, byte(KindSetOld))
	dst = binary.AppendUvarint(dst, uint64(counter))
	dst = binary.AppendUvarint(dst, uint64(column))
	dst = binary.AppendUvarint(dst, mid)
	dst = binary.AppendUvarint(dst, value)
	if !there {
		return append(dst, 0)
	}
	return binary.AppendUvarint(dst, difference(value, old)+1)
}

// AppendSetItemOld appends a KindSetItemOld record to dst; there: the item existed, and its columns were old, which are as many. REQUIRES as
// AppendSetItem, and as AppendSetOld.
func AppendSetItemOld(dst []byte, counter uint32, mid uint64, columns []ColumnValue, there bool, old []uint64) []byte {
	dst = append(dst, byte(KindSetItemOld))
	dst = binary.AppendUvarint(dst, uint64(counter))
	dst = binary.AppendUvarint(dst, mid)
	head := uint64(len(columns)) << 1
	if there {
		head |= 1
	}
	dst = binary.AppendUvarint(dst, head)
	for i, c := range columns {
		dst = binary.AppendUvarint(dst, uint64(c.Column))
		dst = binary.AppendUvarint(dst, c.Value)
		if there {
			dst = binary.AppendUvarint(dst, difference(c.Value, old[i]))
		}
	}
	return dst
}

// AppendDeleteOld appends a KindDeleteOld record to dst. REQUIRES: len(old) <= MaxColumns.
func AppendDeleteOld(dst []byte, counter uint32, mid uint64, old []ColumnValue) []byte {
	return appendItem(dst, KindDeleteOld, counter, mid, old)
}

// old reads the fields of a record with old values, and gives it the kind without them.
func (f *fields) old(rec *Record) {
	o := &rec.Old
	o.Told, o.There = true, true
	rec.Counter = uint32(f.uvarint("counter", maxUint32))
	switch rec.Kind {
	case KindSetOld:
		rec.Kind = KindSet
		rec.Column = uint16(f.uvarint("column", maxUint16))
		rec.Mid = f.uvarint("mid", maxUint64)
		rec.Value = f.uvarint("value", maxUint64)
		if d := f.uvarint("old value", maxUint64); d > 0 {
			o.Columns = append(o.Columns, ColumnValue{rec.Column, rec.Value - uint64(zigzag(d-1))})
		} else {
			o.There = false
		}
	case KindSetItemOld:
		rec.Kind = KindSetItem
		rec.Mid = f.uvarint("mid", maxUint64)
		n := f.uvarint("number of columns", MaxColumns<<1|1)
		o.There = n&1 != 0
		for n >>= 1; n > 0 && f.fault == ""; n-- {
			c := ColumnValue{uint16(f.uvarint("column", maxUint16)), f.uvarint("value", maxUint64)}
			rec.Columns = append(rec.Columns, c)
			if o.There {
				o.Columns = append(o.Columns, ColumnValue{c.Column, c.Value - uint64(zigzag(f.uvarint("old value", maxUint64)))})
			}
		}
	default:
		rec.Kind = KindDelete
		rec.Mid = f.uvarint("mid", maxUint64)
		o.Columns = f.columns(o.Columns)
	}
}

// difference is value less old, zigzag encoded.
func difference(value, old uint64) uint64 {
	d := value - old
	return d<<1 ^ uint64(int64(d)>>63)
}

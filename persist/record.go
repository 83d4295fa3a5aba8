package persist

import (
	"encoding/binary"
	"fmt"
)

// Kind says what a record changes. The numbers are part of the format and must not change; new kinds get new numbers.
type Kind uint8

// Kinds of records.
const (
	KindSet      Kind = 1 // one column of one item
	KindSetItem  Kind = 2 // several columns of one item; columns not named keep their value
	KindDelete   Kind = 3 // the whole item
	KindFlush    Kind = 4 // all items of all counters; the schema stays
	KindSchema   Kind = 5 // one schema statement, as text
	KindProducer Kind = 6 // prefix: who asked for the next record, to answer a repeated request
	KindSlot     Kind = 7 // prefix: hash slot of the next record's mid
)

// String returns the kind's name as tools print it.
func (k Kind) String() string {
	switch k {
	case KindSet:
		return "set"
	case KindSetItem:
		return "setitem"
	case KindDelete:
		return "delete"
	case KindFlush:
		return "flush"
	case KindSchema:
		return "schema"
	case KindProducer:
		return "producer"
	case KindSlot:
		return "slot"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Limits of a record, checked before memory is taken.
const (
	MaxColumns    = 1024                // columns in one KindSetItem
	MaxSchemaText = 1 << 16             // bytes of one schema statement
	MaxProducerID = 32                  // bytes of a producer id
	MaxAppend     = 2 << 20             // bytes of the records of one Append call: they stay in one frame
	MaxSetLen     = 1 + 5 + 3 + 10 + 10 // bytes of a KindSet
	maxDeleteLen  = 1 + 5 + 10
	maxColumnLen  = 3 + 10
)

// ColumnValue is one column of an item and its value after the change.
type ColumnValue struct {
	Column uint16
	Value  uint64
}

// Record is one decoded record. Values are those after the change, so applying a record twice does no harm. Which
// fields mean something depends on Kind; the others are zero. Slices are valid until the next decode.
type Record struct {
	Kind     Kind
	Counter  uint32        // KindSet, KindSetItem, KindDelete
	Column   uint16        // KindSet
	Mid      uint64        // KindSet, KindSetItem, KindDelete
	Value    uint64        // KindSet
	Columns  []ColumnValue // KindSetItem; its array is reused from decode to decode
	Text     []byte        // KindSchema: the statement; KindProducer: the producer's id
	Sequence uint64        // KindProducer
	ArgHash  uint64        // KindProducer: hash of the request's arguments
	Slot     uint16        // KindSlot
}

// A record is its kind and the fields of that kind, nothing else: frames carry length and checksum.
//
//	set       1 | counter v | column v | mid v | value v
//	setitem   2 | counter v | mid v | n v | n x (column v | value v)
//	delete    3 | counter v | mid v
//	flush     4
//	schema    5 | length v | text
//	producer  6 | length v | id | sequence v | argument hash 8 bytes
//	slot      7 | slot v
//
// v is a base-128 varint (encoding/binary), fixed integers are little-endian. An INCR of a post with an 11 to 16 digit
// mid takes 10 to 13 bytes. A prefix (producer, slot) belongs to the next record of the same frame that is no prefix.

// AppendSet appends a KindSet record to dst.
func AppendSet(dst []byte, counter uint32, column uint16, mid, value uint64) []byte {
	if counter < 0x80 && column < 0x80 { // the usual case, and one bounds check
		dst = append(dst, byte(KindSet), byte(counter), byte(column))
	} else {
		dst = append(dst, byte(KindSet))
		dst = binary.AppendUvarint(dst, uint64(counter))
		dst = binary.AppendUvarint(dst, uint64(column))
	}
	dst = binary.AppendUvarint(dst, mid)
	return binary.AppendUvarint(dst, value)
}

// AppendSetItem appends a KindSetItem record to dst. REQUIRES: len(columns) <= MaxColumns.
func AppendSetItem(dst []byte, counter uint32, mid uint64, columns []ColumnValue) []byte {
	dst = append(dst, byte(KindSetItem))
	dst = binary.AppendUvarint(dst, uint64(counter))
	dst = binary.AppendUvarint(dst, mid)
	dst = binary.AppendUvarint(dst, uint64(len(columns)))
	for _, c := range columns {
		dst = binary.AppendUvarint(dst, uint64(c.Column))
		dst = binary.AppendUvarint(dst, c.Value)
	}
	return dst
}

// AppendDelete appends a KindDelete record to dst.
func AppendDelete(dst []byte, counter uint32, mid uint64) []byte {
	dst = append(dst, byte(KindDelete))
	dst = binary.AppendUvarint(dst, uint64(counter))
	return binary.AppendUvarint(dst, mid)
}

// AppendFlush appends a KindFlush record to dst.
func AppendFlush(dst []byte) []byte { return append(dst, byte(KindFlush)) }

// AppendSchema appends a KindSchema record to dst. REQUIRES: len(text) <= MaxSchemaText.
func AppendSchema(dst []byte, text string) []byte {
	dst = append(dst, byte(KindSchema))
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// AppendProducer appends a KindProducer prefix to dst. REQUIRES: len(id) <= MaxProducerID.
func AppendProducer(dst []byte, id string, sequence, argHash uint64) []byte {
	dst = append(dst, byte(KindProducer))
	dst = binary.AppendUvarint(dst, uint64(len(id)))
	dst = append(dst, id...)
	dst = binary.AppendUvarint(dst, sequence)
	return binary.LittleEndian.AppendUint64(dst, argHash)
}

// AppendSlot appends a KindSlot prefix to dst.
func AppendSlot(dst []byte, slot uint16) []byte {
	dst = append(dst, byte(KindSlot))
	return binary.AppendUvarint(dst, uint64(slot))
}

// RecordError says why bytes are no record. It matches ErrCorrupt.
type RecordError struct {
	Kind  Kind // 0: not even a kind byte
	Fault string
}

// Error gives kind and fault.
func (e *RecordError) Error() string { return "record " + e.Kind.String() + ": " + e.Fault }

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *RecordError) Is(target error) bool { return target == ErrCorrupt }

// fields reads a record's fields one by one; after the first fault the rest reads as zero and fault stays.
type fields struct {
	src   []byte
	fault string
}

// uvarint reads one number that must not exceed max.
func (f *fields) uvarint(name string, max uint64) uint64 {
	if f.fault != "" {
		return 0
	}
	v, n := binary.Uvarint(f.src)
	switch {
	case n == 0:
		f.fault = name + " cut short"
		return 0
	case n < 0 || v > max:
		f.fault = fmt.Sprintf("%s above %d", name, max)
		return 0
	}
	f.src = f.src[n:]
	return v
}

// bytes reads n bytes.
func (f *fields) bytes(name string, n uint64) []byte {
	if f.fault != "" {
		return nil
	}
	if uint64(len(f.src)) < n {
		f.fault = fmt.Sprintf("%s of %d bytes with %d left", name, n, len(f.src))
		return nil
	}
	b := f.src[:n:n]
	f.src = f.src[n:]
	return b
}

const (
	maxUint16 = 1<<16 - 1
	maxUint32 = 1<<32 - 1
	maxUint64 = 1<<64 - 1
)

// DecodeRecord decodes the record at the start of src into rec and returns how many bytes it takes. rec keeps no
// memory of src but the slices it names. A bad record gives a *RecordError; rec is then undefined.
func DecodeRecord(src []byte, rec *Record) (n int, err error) {
	if len(src) == 0 {
		return 0, &RecordError{Fault: "no kind byte"}
	}
	columns := rec.Columns[:0]
	*rec = Record{Kind: Kind(src[0]), Columns: columns}
	f := fields{src: src[1:]}
	switch rec.Kind {
	case KindSet:
		rec.Counter = uint32(f.uvarint("counter", maxUint32))
		rec.Column = uint16(f.uvarint("column", maxUint16))
		rec.Mid = f.uvarint("mid", maxUint64)
		rec.Value = f.uvarint("value", maxUint64)
	case KindSetItem:
		rec.Counter = uint32(f.uvarint("counter", maxUint32))
		rec.Mid = f.uvarint("mid", maxUint64)
		for n := f.uvarint("number of columns", MaxColumns); n > 0 && f.fault == ""; n-- {
			c := uint16(f.uvarint("column", maxUint16))
			rec.Columns = append(rec.Columns, ColumnValue{c, f.uvarint("value", maxUint64)})
		}
	case KindDelete:
		rec.Counter = uint32(f.uvarint("counter", maxUint32))
		rec.Mid = f.uvarint("mid", maxUint64)
	case KindFlush:
	case KindSchema:
		rec.Text = f.bytes("schema statement", f.uvarint("length", MaxSchemaText))
	case KindProducer:
		rec.Text = f.bytes("producer id", f.uvarint("length", MaxProducerID))
		rec.Sequence = f.uvarint("sequence", maxUint64)
		if b := f.bytes("argument hash", 8); b != nil {
			rec.ArgHash = binary.LittleEndian.Uint64(b)
		}
	case KindSlot:
		rec.Slot = uint16(f.uvarint("slot", maxUint16))
	default:
		return 0, &RecordError{rec.Kind, "unknown kind"}
	}
	if f.fault != "" {
		return 0, &RecordError{rec.Kind, f.fault}
	}
	return len(src) - len(f.src), nil
}

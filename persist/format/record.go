package format

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/counterd/counterd/internal/slot"
)

// Kind says what a record changes. The numbers are part of the format and must not change; new kinds get new numbers.
// 6 and 7 never stood in a log.
type Kind uint8

// Kinds of records.
const (
	KindSet     Kind = 1 // one column of one item
	KindSetItem Kind = 2 // several columns of one item; columns not named keep their value
	KindDelete  Kind = 3 // the whole item
	KindFlush   Kind = 4 // all items of all counters; the schema stays
	KindSchema  Kind = 5 // one schema statement, as text
	KindDefine  Kind = 8 // a producer, its number in the records behind, and its epoch
	KindOnce    Kind = 9 // prefix: the change behind it was asked for by a producer, and what it answered
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
	case KindDefine:
		return "define"
	case KindOnce:
		return "once"
	case KindImport:
		return "import"
	case KindRows:
		return "rows"
	case KindAccept:
		return "accept"
	case KindDrop:
		return "drop"
	case KindFloor:
		return "floor"
	case KindCursor:
		return "cursor"
	case KindDropRange:
		return "droprange"
	case KindTick:
		return "tick"
	case KindSetOld:
		return "set with old"
	case KindSetItemOld:
		return "setitem with old"
	case KindDeleteOld:
		return "delete with old"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Limits of a record, checked before memory is taken.
const (
	MaxColumns    = 1024              // columns in one KindSetItem
	MaxSchemaText = 1 << 16           // bytes of one schema statement
	MaxProducerID = 32                // bytes of a producer's id; 1 at least
	MaxProducers  = 1 << 20           // numbers of producers are below: 3 bytes at most. Programs before 2026-11-24 know 1 << 14
	MaxEpoch      = 1<<63 - 1         // of a producer: it can be told as an integer
	MaxResult     = 64 << 10          // bytes of a result's blob
	HashBits      = 21                // of the hash of a write's arguments are kept
	MinDefineLen  = 1 + 3 + 1 + 1 + 1 // without an id, at most
	MaxDefineLen  = 1 + 3 + 10 + 10 + 1 + MaxProducerID
	MaxOnceLen    = 1 + 3 + 10 + 3 + 1 + 3 + MaxResult // without a blob 28 at most
	MaxAppend     = 2 << 20                            // bytes of the records of one Append call: they stay in one frame
	MaxSetLen     = 1 + 5 + 3 + 10 + 10                // bytes of a KindSet
	MaxDeleteLen  = 1 + 5 + 10
	MaxColumnLen  = 3 + 10
	MaxZeroLen    = 3 + 1 // of a column whose value is 0
)

// ColumnValue is one column of an item and its value after the change.
type ColumnValue struct {
	Column uint16
	Value  uint64
}

// Record is one decoded record. Values are those after the change, so applying a record twice does no harm. Which
// fields mean something depends on Kind; the others are zero. Slices are valid until the next decode.
type Record struct {
	Kind    Kind
	Result  ResultKind    // KindOnce
	Group   uint8         // KindOnce, but for ResultNext: hash slot group of the change
	Column  uint16        // KindSet
	Counter uint32        // KindSet, KindSetItem, KindDelete, KindRows, KindDropRange
	Number  uint32        // KindDefine, KindOnce, KindFloor: of the producer
	Hash    uint32        // KindOnce: HashBits of the arguments' hash
	Mid     uint64        // KindSet, KindSetItem, KindDelete; KindDropRange: the first mid
	Value   uint64        // KindSet; KindOnce: Result.N; KindCursor: the offset; KindDropRange: the mid behind the last; KindTick: the time
	Epoch   uint64        // KindDefine
	Seq     uint64        // KindDefine: what the producer's next sequence numbers count from; KindOnce: the number, less that; KindFloor: the lowest that is known
	Columns []ColumnValue // KindSetItem; KindRows: no values; its array is reused from decode to decode
	// KindSchema: the statement; KindDefine: the producer's id; KindOnce: Result.Blob; KindRows: the items; KindImport,
	// KindAccept, KindDrop: the move's id; KindCursor: the name
	Text     []byte
	Position []byte   // KindCursor: text; empty: the cursor is gone
	Old      Old      // KindSet, KindSetItem, KindDelete: the item before the change
	Groups   slot.Set // KindImport, KindAccept, KindDrop, KindDropRange
	TimeMS   int64    // of the record's frame; it is no part of the record: Frame.Records sets it
}

// A record is its kind and the fields of that kind, nothing else: frames carry length and checksum.
//
//	set       1 | counter v | column v | mid v | value v
//	setitem   2 | counter v | mid v | n v | n x (column v | value v)
//	delete    3 | counter v | mid v
//	flush     4
//	schema    5 | length v | text
//	define    8 | number v | epoch v | base v | length v | id
//	once      9 | number v | seq - base v | 3 bytes: hash, and from bit 21 on the kind of the result
//	            | but for next: hash slot group, 1 byte
//	            | int and bulk: n v
//	            | blob: length v | bytes
//
// v is a base-128 varint (encoding/binary), fixed integers are little-endian. An INCR of a post with an 11 to 16 digit
// mid takes 10 to 13 bytes.
//
// A once says that the change behind it, in the same frame, is a producer's number seq, so that the two are there or
// neither is. If the frame is one change it speaks of all of that, wherever it stands. If not, it speaks of the next
// record, which a result of kind next must have, and be a set; a once whose change changed nothing has none, and ends its frame. A
// define gives a number to a producer; the producer that had the number before loses it. For a producer that has the number
// already, define sets a higher epoch, or another base. A define without an id frees the number. With the base near to the
// producer's present sequence numbers, an INCR's once takes at most 9 bytes, and 8 with up to 16,384 producers; the id alone would
// take as many, in each record.

// AppendSet appends a KindSet record to dst. It does not move dst where MaxSetLen more bytes fit: a chunk of the log's tail must not grow, as no frame in it may.
func AppendSet(dst []byte, counter uint32, column uint16, mid, value uint64) []byte {
	n := len(dst)
	if cap(dst)-n < setRoom {
		dst = append(dst, byte(KindSet))
		for _, v := range [...]uint64{uint64(counter), uint64(column), mid, value} {
			dst = binary.AppendUvarint(dst, v)
		}
		return dst
	}
	b := (*[setRoom]byte)(dst[n : n+setRoom])
	var at uint
	if counter < 0x80 && column < 0x80 { // the usual case
		b[0], b[1], b[2] = byte(KindSet), byte(counter), byte(column)
		at = 3
	} else {
		b[0] = byte(KindSet)
		at = putVarint(b, 1, uint64(counter))
		at = putVarint(b, at, uint64(column))
	}
	at = putVarint(b, at, mid)
	at = putVarint(b, at, value)
	return dst[:n+int(at)]
}

// AppendOnceSet is AppendOnce with a result of kind next, and AppendSet. It is for many records in a row, and takes room for the longest records at once.
func AppendOnceSet(dst []byte, number uint32, seq uint64, hash uint32, counter uint32, column uint16, mid, value uint64) []byte {
	n := len(dst)
	if cap(dst)-n < setRoom {
		dst = slices.Grow(dst, setRoom)
	}
	b := (*[setRoom]byte)(dst[n : n+setRoom])
	var at uint
	if number < 0x80 && seq-0x80 < 0x4000-0x80 && counter < 0x80 && column < 0x80 { // most records: eight bytes, and two
		binary.LittleEndian.PutUint64(b[:], uint64(KindOnce)|uint64(number)<<8|(seq&0x7f|0x80)<<16|seq>>7<<24|uint64(hash&0xffffff)<<32|uint64(KindSet)<<56) // ResultNext is 0
		b[8], b[9] = byte(counter), byte(column)
		at = 10
	} else {
		b[0] = byte(KindOnce)
		at = putOnceSet(b, 1, uint64(number))
		at = putOnceSet(b, at, seq)
		b[at%setRoom], b[(at+1)%setRoom], b[(at+2)%setRoom] = byte(hash), byte(hash>>8), byte(hash>>16)
		b[(at+3)%setRoom] = byte(KindSet)
		at = putOnceSet(b, at+4, uint64(counter))
		at = putOnceSet(b, at, uint64(column))
	}
	at = putOnceSet(b, at, mid)
	at = putOnceSet(b, at, value)
	return dst[:n+int(at)]
}

// SetItemLen is how many bytes AppendSetItem appends at most.
func SetItemLen(columns int) int { return MaxDeleteLen + 3 + columns*MaxColumnLen }

// AppendSetItem appends a KindSetItem record to dst. REQUIRES: len(columns) <= MaxColumns.
func AppendSetItem(dst []byte, counter uint32, mid uint64, columns []ColumnValue) []byte {
	return appendItem(dst, KindSetItem, counter, mid, columns)
}

// appendItem appends a record that is a kind, an item, and columns with values.
func appendItem(dst []byte, kind Kind, counter uint32, mid uint64, columns []ColumnValue) []byte {
	dst = append(dst, byte(kind))
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

// AppendDefine appends a KindDefine record to dst. REQUIRES: number < MaxProducers, epoch <= MaxEpoch, len(id) <=
// MaxProducerID; without an id epoch and base are 0.
func AppendDefine(dst []byte, number uint32, epoch, base uint64, id []byte) []byte {
	dst = append(dst, byte(KindDefine))
	dst = binary.AppendUvarint(dst, uint64(number))
	dst = binary.AppendUvarint(dst, epoch)
	dst = binary.AppendUvarint(dst, base)
	dst = binary.AppendUvarint(dst, uint64(len(id)))
	return append(dst, id...)
}

// AppendOnce appends a KindOnce record to dst; seq is less the producer's base. REQUIRES: number < MaxProducers, hash <
// 1<<HashBits, len(r.Blob) <= MaxResult.
func AppendOnce(dst []byte, number uint32, seq uint64, hash uint32, group uint8, r Result) []byte {
	dst = append(dst, byte(KindOnce))
	dst = binary.AppendUvarint(dst, uint64(number))
	dst = binary.AppendUvarint(dst, seq)
	word := hash | uint32(r.Kind)<<HashBits
	dst = append(dst, byte(word), byte(word>>8), byte(word>>16))
	if r.Kind == ResultNext {
		return dst
	}
	dst = append(dst, group)
	switch r.Kind {
	case ResultInt, ResultBulk:
		dst = binary.AppendUvarint(dst, r.N)
	case ResultBlob:
		dst = binary.AppendUvarint(dst, uint64(len(r.Blob)))
		dst = append(dst, r.Blob...)
	}
	return dst
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

// columns reads how many columns there are, and the columns with their values.
func (f *fields) columns(dst []ColumnValue) []ColumnValue {
	for n := f.uvarint("number of columns", MaxColumns); n > 0 && f.fault == ""; n-- {
		c := uint16(f.uvarint("column", maxUint16))
		dst = append(dst, ColumnValue{c, f.uvarint("value", maxUint64)})
	}
	return dst
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
// memory of src but the slices it names. A bad record gives a *RecordError, and the schema of a newer program, behind which records may be of kinds that
// are not known here, a *VersionError; rec is then undefined.
func DecodeRecord(src []byte, rec *Record) (n int, err error) {
	if len(src) == 0 {
		return 0, &RecordError{Fault: "no kind byte"}
	}
	columns, old := rec.Columns[:0], rec.Old.Columns[:0]
	*rec = Record{Kind: Kind(src[0]), Columns: columns}
	rec.Old.Columns = old
	if rec.Kind == KindSet {
		if n := decodeSet(src, rec); n > 0 {
			return n, nil
		}
	}
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
		rec.Columns = f.columns(rec.Columns)
	case KindDelete:
		rec.Counter = uint32(f.uvarint("counter", maxUint32))
		rec.Mid = f.uvarint("mid", maxUint64)
	case KindFlush:
	case KindSchema:
		rec.Text = f.bytes("schema statement", f.uvarint("length", MaxSchemaText))
	case KindDefine:
		rec.Number = uint32(f.uvarint("number", MaxProducers-1))
		rec.Epoch = f.uvarint("epoch", MaxEpoch)
		rec.Seq = f.uvarint("base", maxUint64)
		rec.Text = f.bytes("producer id", f.uvarint("length", MaxProducerID))
		if f.fault == "" && len(rec.Text) == 0 && rec.Epoch|rec.Seq != 0 {
			f.fault = "epoch and base without a producer id"
		}
	case KindOnce:
		f.once(rec)
	case KindImport, KindAccept, KindDrop:
		f.move(rec)
	case KindRows:
		f.rows(rec)
	case KindCursor:
		f.cursor(rec)
	case KindDropRange:
		f.dropRange(rec)
	case KindSetOld, KindSetItemOld, KindDeleteOld:
		f.old(rec)
	case KindTick:
		rec.Value = f.uvarint("time", MaxTick)
	case KindFloor:
		rec.Number = uint32(f.uvarint("number", MaxProducers-1))
		rec.Seq = f.uvarint("sequence", maxUint64)
	default:
		return 0, &RecordError{rec.Kind, "unknown kind"}
	}
	if f.fault != "" {
		return 0, &RecordError{rec.Kind, f.fault}
	}
	if rec.Kind == KindSchema {
		if err := checkSchema("the log (schema)", rec.Text); err != nil {
			return 0, err
		}
	}
	return len(src) - len(f.src), nil
}

// decodeSet decodes a KindSet as AppendSet usually writes it: counter and column in one byte each. It returns 0 for others, and for bad ones.
// Nearly all records are of this kind.
func decodeSet(src []byte, rec *Record) int {
	if len(src) < 3 || src[1]|src[2] >= 0x80 {
		return 0
	}
	mid, n := binary.Uvarint(src[3:])
	if n <= 0 {
		return 0
	}
	value, m := binary.Uvarint(src[3+n:])
	if m <= 0 {
		return 0
	}
	rec.Counter, rec.Column, rec.Mid, rec.Value = uint32(src[1]), uint16(src[2]), mid, value
	return 3 + n + m
}

// once reads the fields of a KindOnce.
func (f *fields) once(rec *Record) {
	rec.Number = uint32(f.uvarint("number", MaxProducers-1))
	rec.Seq = f.uvarint("sequence", maxUint64)
	b := f.bytes("hash and result", 3)
	if b == nil {
		return
	}
	word := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	rec.Hash, rec.Result = word&(1<<HashBits-1), ResultKind(word>>HashBits)
	if rec.Result == ResultNext {
		return
	}
	if b = f.bytes("slot group", 1); b != nil {
		rec.Group = b[0]
	}
	switch rec.Result {
	case ResultInt, ResultBulk:
		rec.Value = f.uvarint("result", maxUint64)
	case ResultBlob:
		rec.Text = f.bytes("result", f.uvarint("length of the result", MaxResult))
	default:
		if rec.Result >= resultKinds && f.fault == "" {
			f.fault = "unknown " + rec.Result.String()
		}
	}
}

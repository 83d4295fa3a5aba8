package format

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/slot"
)

// Kinds of records that move groups of hash slots from one log to another: see package counter.
const (
	KindImport Kind = 10 // rows of groups are going to come; those that are there are gone
	KindRows   Kind = 11 // many items of one counter, all of their columns
	KindAccept Kind = 12 // groups that came are this log's own from now on
	KindDrop   Kind = 13 // groups are another log's: their items are gone
	KindFloor  Kind = 14 // what a producer did below a number, and is not remembered, is not known
)

// Limits of these records, checked before memory is taken.
const (
	MaxMoveID = 64       // bytes of a move's id; 1 at least
	MaxPage   = 64 << 10 // bytes of the items of a KindRows
	groupsLen = 32
	// MaxMoveLen is what a KindImport, KindAccept or KindDrop takes at most.
	MaxMoveLen  = 1 + 1 + MaxMoveID + groupsLen
	MaxFloorLen = 1 + 3 + 10
)

// The records, as in record.go:
//
//	import   10 | length v | move's id | groups: 32 bytes
//	rows     11 | counter v | n v | n x column v | length v | items
//	accept   12 | as import
//	drop     13 | as import
//	floor    14 | number v | from v
//
// groups is a bit for each, the words of slot.Set in little-endian. What the items' bytes are is the engine's: a page of a cold file, about 2
// bytes an item, whose columns are those named, in their order. A column that is not named has its default.
//
// The id of an accept may name, behind an "@", the place of the source's log behind which nothing of these groups follows: the source's
// shard, a colon and the log offset, in decimal. The effect of the record depends on neither.
//
// A floor says that what a producer did with sequence numbers below from, and has no once, may have been made: the log
// that its onces came from had forgotten that.

// AppendMove appends a KindImport, KindAccept or KindDrop record to dst. REQUIRES: len(id) is 1 to MaxMoveID.
func AppendMove(dst []byte, kind Kind, id string, groups slot.Set) []byte {
	dst = append(dst, byte(kind))
	dst = binary.AppendUvarint(dst, uint64(len(id)))
	dst = append(dst, id...)
	return appendGroups(dst, groups)
}

func appendGroups(dst []byte, groups slot.Set) []byte {
	for _, word := range groups {
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	return dst
}

// MoveFrom is the id of an accept whose groups came from a shard, whose log has nothing of them from an offset on. It is the move's id alone if
// the offset is 0, which stands for none, or if there is no room for more.
func MoveFrom(move string, shard, offset uint64) string {
	text := fmt.Sprintf("%s@%d:%d", move, shard, offset)
	if offset == 0 || len(text) > MaxMoveID {
		return move
	}
	return text
}

// ParseMoveFrom is the inverse of MoveFrom. The offset is 0 where the text names no place.
func ParseMoveFrom(text string) (move string, shard, offset uint64) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return text, 0, 0
	}
	from, end, _ := strings.Cut(text[at+1:], ":")
	shard, err := strconv.ParseUint(from, 10, 64)
	offset, err2 := strconv.ParseUint(end, 10, 64)
	if err != nil || err2 != nil {
		return text, 0, 0
	}
	return text[:at], shard, offset
}

// AppendRows appends a KindRows record to dst. REQUIRES: len(columns) <= MaxColumns, len(page) <= MaxPage.
func AppendRows(dst []byte, counter uint32, columns []uint16, page []byte) []byte {
	dst = append(dst, byte(KindRows))
	dst = binary.AppendUvarint(dst, uint64(counter))
	dst = binary.AppendUvarint(dst, uint64(len(columns)))
	for _, c := range columns {
		dst = binary.AppendUvarint(dst, uint64(c))
	}
	dst = binary.AppendUvarint(dst, uint64(len(page)))
	return append(dst, page...)
}

// AppendFloor appends a KindFloor record to dst. REQUIRES: number < MaxProducers.
func AppendFloor(dst []byte, number uint32, from uint64) []byte {
	dst = append(dst, byte(KindFloor))
	dst = binary.AppendUvarint(dst, uint64(number))
	return binary.AppendUvarint(dst, from)
}

// move reads the fields of a KindImport, KindAccept or KindDrop.
func (f *fields) move(rec *Record) {
	rec.Text = f.bytes("move's id", f.uvarint("length", MaxMoveID))
	if f.groups(rec); f.fault == "" && len(rec.Text) == 0 {
		f.fault = "no move's id"
	}
}

// groups reads 32 bytes.
func (f *fields) groups(rec *Record) {
	b := f.bytes("groups", groupsLen)
	if b == nil {
		return
	}
	for i := range rec.Groups {
		rec.Groups[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
}

// rows reads the fields of a KindRows.
func (f *fields) rows(rec *Record) {
	rec.Counter = uint32(f.uvarint("counter", maxUint32))
	for n := f.uvarint("number of columns", MaxColumns); n > 0 && f.fault == ""; n-- {
		rec.Columns = append(rec.Columns, ColumnValue{Column: uint16(f.uvarint("column", maxUint16))})
	}
	rec.Text = f.bytes("items", f.uvarint("length of the items", MaxPage))
}

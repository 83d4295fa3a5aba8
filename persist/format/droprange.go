package format

import (
	"encoding/binary"

	"github.com/counterd/counterd/internal/slot"
)

// KindDropRange removes all items of a range of mids of one counter.
const KindDropRange Kind = 18

// MaxDropRangeLen is the most bytes that a KindDropRange takes.
const MaxDropRangeLen = 1 + 5 + 10 + 10 + 1 + groupsLen

// The record, as in record.go:
//
//	droprange  18 | counter v | from v | to v | 0
//	           18 | counter v | from v | to v | 1 | groups: 32 bytes
//
// It removes the items with mids from from on and below to, which is at most 2^63. With groups, those of these groups of hash slots
// alone: other items of the range are another log's. The blocks of a store are not named, since each node has its own.

// AppendDropRange appends a KindDropRange record to dst. REQUIRES: from < to.
func AppendDropRange(dst []byte, counter uint32, from, to uint64, groups slot.Set) []byte {
	dst = append(dst, byte(KindDropRange))
	dst = binary.AppendUvarint(dst, uint64(counter))
	dst = binary.AppendUvarint(dst, from)
	dst = binary.AppendUvarint(dst, to)
	if groups == slot.AllGroups() {
		return append(dst, 0)
	}
	return appendGroups(append(dst, 1), groups)
}

// dropRange reads the fields of a KindDropRange.
func (f *fields) dropRange(rec *Record) {
	rec.Counter = uint32(f.uvarint("counter", maxUint32))
	rec.Mid = f.uvarint("first mid", 1<<63-1)
	rec.Value = f.uvarint("end of the range", 1<<63)
	if rec.Mid >= rec.Value && f.fault == "" {
		f.fault = "a range without a mid"
	}
	if rec.Groups = slot.AllGroups(); f.uvarint("whether there are groups", 1) == 1 {
		f.groups(rec)
	}
}

package format

import "encoding/binary"

// KindTick says what time it is: windows of time are counted from it on. See package core.
const KindTick Kind = 19

// MaxTick is the latest time of a tick, in seconds since 1970: some 35,000 years.
const MaxTick = 1 << 40

// MaxTickLen is the most bytes that a KindTick takes.
const MaxTickLen = 1 + 6

// The record, as in record.go:
//
//	tick  19 | time v
//
// The time is in seconds since 1970, by the clock of the primary. It never goes back: a tick with an earlier time than one before says
// nothing. Programs that do not know ticks must not read the log: HISTORY says so before the first one (Lineage.Cursors), and so does the
// schema, as ticks are logged while there are derived columns.

// AppendTick appends a KindTick record to dst. REQUIRES: seconds <= MaxTick.
func AppendTick(dst []byte, seconds uint64) []byte {
	return binary.AppendUvarint(append(dst, byte(KindTick)), seconds)
}

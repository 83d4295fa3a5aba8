package format

import (
	"encoding/binary"
	"fmt"
)

// KindCursor is a record that moves, makes or removes a named cursor of the feed of changes. Programs that do not know it must not
// read the log: HISTORY says so before the first such record is logged (Lineage.Cursors).
const KindCursor Kind = 15

// Limits of a cursor, checked before memory is taken.
const (
	MaxCursors        = 64  // of a log
	MaxCursorName     = 64  // bytes; 1 at least
	MaxCursorPosition = 256 // bytes of a position's text; none: the cursor is gone
	MaxCursorLen      = 1 + 1 + MaxCursorName + 10 + 2 + MaxCursorPosition
)

// Cursor is a named place in a log.
type Cursor struct {
	Name     string // see ValidCursorName
	Position string // as package feed writes it
	Offset   uint64 // log offset from which on the cursor needs the log
	TimeMS   int64  // when it was set: wall time of the primary, ms since 1970
}

// The record, as in record.go:
//
//	cursor   15 | length v | name | offset v | length v | position
//
// A later record of a name takes the place of an earlier one. One without a position, whose offset is 0, removes the cursor. The time of
// a cursor is that of the frame.

// AppendCursor appends a KindCursor record to dst; without a position the offset is 0. REQUIRES: ValidCursorName(name), len(position) <= MaxCursorPosition.
func AppendCursor(dst []byte, name string, offset uint64, position string) []byte {
	dst = append(dst, byte(KindCursor))
	dst = binary.AppendUvarint(dst, uint64(len(name)))
	dst = append(dst, name...)
	dst = binary.AppendUvarint(dst, offset)
	dst = binary.AppendUvarint(dst, uint64(len(position)))
	return append(dst, position...)
}

// ValidCursorName tells whether a name is 1 to 64 letters, digits, points, hyphens and underscores: it is part of lines of INFO, of labels of
// metrics and of manifests.
func ValidCursorName[T string | []byte](name T) bool {
	if len(name) == 0 || len(name) > MaxCursorName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// validate tells which rule a cursor of a manifest breaks.
func (c *Cursor) validate() error {
	switch {
	case !ValidCursorName(c.Name):
		return fmt.Errorf("name %q", c.Name)
	case len(c.Position) == 0 || len(c.Position) > MaxCursorPosition:
		return fmt.Errorf("position of %d bytes, want 1 to %d", len(c.Position), MaxCursorPosition)
	case c.Offset > maxCount || c.TimeMS < 0:
		return fmt.Errorf("offset %d and time %d", c.Offset, c.TimeMS)
	}
	return nil
}

// cursor reads the fields of a KindCursor.
func (f *fields) cursor(rec *Record) {
	rec.Text = f.bytes("cursor's name", f.uvarint("length", MaxCursorName))
	rec.Value = f.uvarint("offset", maxCount)
	rec.Position = f.bytes("position", f.uvarint("length of the position", MaxCursorPosition))
	switch {
	case f.fault != "":
	case !ValidCursorName(rec.Text):
		f.fault = "a name that is none"
	case len(rec.Position) == 0 && rec.Value != 0:
		f.fault = "offset without a position"
	}
}

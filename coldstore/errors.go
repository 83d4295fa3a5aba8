package coldstore

import (
	"errors"
	"fmt"
)

// Sentinels. Every error of this package wraps one of them or an error of the file system.
var (
	// ErrCorrupt: bytes of a file are not what the writer wrote. See CorruptError.
	ErrCorrupt = errors.New("coldstore: corrupt file")

	// ErrUnreadable: the file system could not deliver bytes that should be there (a fault in the mapping, a
	// failed read, a file cut short under us). See UnreadableError.
	ErrUnreadable = errors.New("coldstore: unreadable file")

	// ErrUnsupportedFormat: the file has a format version that this program does not read. It is not damaged.
	ErrUnsupportedFormat = errors.New("coldstore: unsupported file format")

	// ErrClosed: the file or the writer is closed.
	ErrClosed = errors.New("coldstore: closed")

	// ErrInput: the caller's rows or Meta break a rule of the format. Nothing was written for that call.
	ErrInput = errors.New("coldstore: invalid input")
)

// CorruptError says which bytes of which file are wrong. errors.Is(err, ErrCorrupt) holds.
//
// When one page is damaged only the keys of that page give this error; the rest of the file is served.
type CorruptError struct {
	File   string // name the file was opened by
	Offset int64  // byte offset in the file of the damaged part
	Part   string // the checked part: "page checksum", "footer magic", ...
	Want   uint64 // value, or bound, the format asks for
	Got    uint64 // value found; Want and Got are both 0 where the damage is not one number
}

func (e *CorruptError) Error() string {
	if e.Want == e.Got {
		return fmt.Sprintf("coldstore: corrupt file %s at offset %d: %s", e.File, e.Offset, e.Part)
	}
	return fmt.Sprintf("coldstore: corrupt file %s at offset %d: %s is %#x, want %#x", e.File, e.Offset, e.Part, e.Got, e.Want)
}

// Is makes every CorruptError match ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// UnreadableError says which bytes of which file could not be read, and why. errors.Is(err, ErrUnreadable) holds,
// and so does errors.Is for the cause.
type UnreadableError struct {
	File   string
	Offset int64 // byte offset of the read that failed
	Len    int   // its length in bytes
	Err    error // the cause
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("coldstore: unreadable file %s: %d bytes at offset %d: %v", e.File, e.Len, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Is makes every UnreadableError match ErrUnreadable.
func (e *UnreadableError) Is(target error) bool { return target == ErrUnreadable }

func inputErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInput, fmt.Sprintf(format, args...))
}

// NoteDamage notes that the file is to be replaced by another, and counts it. Reads that find damage call it.
func (f *File) NoteDamage() {
	if !f.damaged.Swap(true) && f.cache != nil {
		f.cache.damaged.Add(1)
	}
}

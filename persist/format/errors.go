package format

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/schema"
)

// Sentinels. Every error of this package that a caller may want to tell apart matches one of them with errors.Is.
var (
	// ErrCorrupt: bytes that were durable are damaged or missing. Nothing was changed; a human decides
	// (see CorruptError). Never returned for a tail that a power failure may have torn.
	ErrCorrupt = errors.New("corrupt")

	// ErrTornTail: the log ends in bytes that were never durable. Opening cuts them and reports it in
	// Recovery.Torn; tools that only read return it as an error.
	ErrTornTail = errors.New("torn tail")

	// ErrGap: log bytes that are needed are not in any segment. Comes inside a CorruptError.
	ErrGap = errors.New("log segment missing")

	// ErrUnsupportedFormat: the file has a format version that this program does not read. The file is neither read nor
	// changed. It matches every *VersionError.
	ErrUnsupportedFormat = errors.New("unsupported file format")

	// ErrGone: the offset asked for is older than the oldest segment kept.
	ErrGone = errors.New("log offset no longer kept")

	// ErrAhead: the offset asked for lies beyond the end of the log.
	ErrAhead = errors.New("log offset beyond the end")

	// ErrNotReady: the log takes no changes now (see NotReadyError). Nothing was changed.
	ErrNotReady = errors.New("log cannot take writes")

	// ErrTooLarge: more bytes or columns than one record may have. Nothing was changed.
	ErrTooLarge = errors.New("record too large")

	// ErrClosed: the log or the directory was closed.
	ErrClosed = errors.New("closed")
)

// CorruptError says what is damaged, where, and what to do.
type CorruptError struct {
	Dir         string // data directory, for the repair command; empty when only the file is known
	File        string // path of the damaged file
	Offset      int64  // byte in that file where the damage begins
	LogOffset   uint64 // the same place as a log offset; 0 for other files
	Want, Got   string // what should be there, what is
	LaterFrames int    // whole frames found behind the damage: what a repair would cut with it
	Err         error  // a sentinel that says more (ErrGap), or the cause; may be nil
}

// Error gives one line with file, byte, expectation and the repair command.
func (e *CorruptError) Error() string {
	s := fmt.Sprintf("corrupt file %s at byte %d: want %s, got %s", e.File, e.Offset, e.Want, e.Got)
	if e.LogOffset != 0 {
		s += fmt.Sprintf(" (log offset %d)", e.LogOffset)
	}
	if e.LaterFrames > 0 {
		s += fmt.Sprintf("; %d whole frames behind it", e.LaterFrames)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Dir != "" {
		s += "; to repair the log, and keep the damaged files aside, run: " + RepairCommand(e.Dir)
	}
	return s
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// RepairCommand returns the command line that repairs a data directory.
func RepairCommand(dir string) string { return "counterctl repair " + dir }

// TornTail describes the end of a log that a power failure or a kill left unfinished. No byte of it was
// ever durable, as far as frames, headers, images and the file DURABLE say.
type TornTail struct {
	File      string // segment with the first bad frame
	Offset    int64  // byte in that file
	LogOffset uint64 // the log ends here
	Bytes     uint64 // bytes behind it that are not zero padding: what is cut
	Frames    int    // whole frames among them (written out of order by the disk)
	Reason    string // what was found in place of a frame
	Kept      string // path of the file with the bytes that were cut; "" while nothing was
}

// Error makes a TornTail an error for callers that only read.
func (t *TornTail) Error() string {
	s := fmt.Sprintf("torn tail in %s at byte %d (log offset %d): %s; %d bytes with %d whole frames, and nothing says that they were durable",
		t.File, t.Offset, t.LogOffset, t.Reason, t.Bytes, t.Frames)
	if t.Kept != "" {
		s += "; kept in " + t.Kept
	}
	return s
}

// Is makes errors.Is(err, ErrTornTail) true.
func (t *TornTail) Is(target error) bool { return target == ErrTornTail }

// VersionError says which format version a file has, and which versions this program reads. It matches
// ErrUnsupportedFormat.
type VersionError struct {
	File           string
	Found          uint32
	Oldest, Newest uint32 // versions that are read
}

// Error gives one line with the file and the versions.
func (e *VersionError) Error() string {
	age, reads := "newer", fmt.Sprintf("versions %d to %d", e.Oldest, e.Newest)
	if e.Found < e.Oldest {
		age = "older"
	}
	if e.Oldest == e.Newest {
		reads = fmt.Sprintf("version %d", e.Newest)
	}
	return fmt.Sprintf("%s: %v: the file has version %d, which is %s than this program reads (%s)", e.File, ErrUnsupportedFormat, e.Found, age, reads)
}

// Is makes errors.Is(err, ErrUnsupportedFormat) true.
func (e *VersionError) Is(target error) bool { return target == ErrUnsupportedFormat }

// WithDir adds the data directory to a corruption error, so that it prints the repair command.
func WithDir(err error, dir string) error {
	var c *CorruptError
	if errors.As(err, &c) {
		c.Dir = dir
	}
	return err
}

// checkSchema gives a *VersionError for the durable form of a schema that a newer program wrote.
func checkSchema(file string, text []byte) error {
	if found, err := schema.FormatOf(text); err == nil && found > schema.NewestFormat {
		return &VersionError{File: file, Found: found, Oldest: 1, Newest: schema.NewestFormat}
	}
	return nil
}

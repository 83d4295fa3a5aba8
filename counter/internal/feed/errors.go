package feed

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/counterd/counterd/persist/vfs"
)

// ErrUnreadable: the disk does not give a part of the log, or a file of the log is gone.
var ErrUnreadable = errors.New("the log cannot be read")

// unreadable marks an error of the file system.
func unreadable(err error) error {
	_, path := errors.AsType[*fs.PathError](err)
	if _, read := errors.AsType[*vfs.IOError](err); path || read {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return err
}

// ErrMalformed: a text is no position, or a position is none of this log: no change ends there. Matches every
// *MalformedError.
var ErrMalformed = errors.New("not a position of a feed")

// MalformedError says why a position is none.
type MalformedError struct {
	Got string // the text, or a part of it
	Why string
}

// Error gives one line.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("not a position of a feed: %s: %q", e.Why, e.Got)
}

// Is makes errors.Is(err, ErrMalformed) true.
func (e *MalformedError) Is(target error) bool { return target == ErrMalformed }

// ErrGone: the log no longer reaches back to the position. Matches every *GoneError.
var ErrGone = errors.New("the log before this position is no longer kept")

// GoneError says that the log no longer reaches back to a position. Changes between it and Oldest cannot be had any more.
type GoneError struct {
	Oldest Position // the oldest that can be read
}

// Error gives one line.
func (e *GoneError) Error() string {
	return fmt.Sprintf("the log behind this position is no longer kept: the oldest position is %s", e.Oldest)
}

// Is makes errors.Is(err, ErrGone) true.
func (e *GoneError) Is(target error) bool { return target == ErrGone }

// ErrHistory: the log went on differently from a place before the position. Matches every *HistoryError.
var ErrHistory = errors.New("the position is of another history of the log")

// HistoryError says that a position lies in a part of another log that this one does not have. A consumer that undoes the
// changes behind Common, or takes all data anew, may go on from there.
type HistoryError struct {
	Common Position
	Known  bool // else nothing is known to be common, and Common is the zero value
}

// Error gives one line.
func (e *HistoryError) Error() string {
	if !e.Known {
		return "the position is of another history of the log, and no common position is known"
	}
	return fmt.Sprintf("the position is of another history of the log: the two agree up to %s", e.Common)
}

// Is makes errors.Is(err, ErrHistory) true.
func (e *HistoryError) Is(target error) bool { return target == ErrHistory }

// ErrUnsettled: the position of now cannot be told, as it is not known yet how far the log is safe, or as a change of the schema or
// of all posts is not safe yet. The same goes well in a moment.
var ErrUnsettled = errors.New("it is not known yet how far the log is safe")

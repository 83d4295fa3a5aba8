package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

var (
	// ErrLocked is returned by FS.Lock when the lock is held already.
	ErrLocked = errors.New("lock is held by another process")

	// ErrCrashed is returned by every call on a Sim from its crash point on.
	ErrCrashed = errors.New("simulated crash")

	// ErrTooLarge is returned by ReadFile for a file above its limit.
	ErrTooLarge = errors.New("file is too large")
)

// IOError is a failed read, write or map of a file.
type IOError struct {
	Op   string // "read", "write" or "map"
	Name string // the name the file was opened by
	Off  int64  // where the call began, in bytes
	Want int    // bytes asked for
	Done int    // bytes certainly read or written before the error
	Err  error  // the cause, a syscall.Errno if the kernel gave it
}

// Error implements error.
func (e *IOError) Error() string {
	return fmt.Sprintf("%s %s at offset %d (%d of %d bytes done): %v", e.Op, e.Name, e.Off, e.Done, e.Want, e.Err)
}

// Unwrap returns the cause.
func (e *IOError) Unwrap() error { return e.Err }

// IsNoSpace reports whether err says that the disk or the user's quota on it is full, the one write error that
// goes away by itself.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// IsTrouble reports whether err is the system's refusal to do something: the disk is full, read-only, failing, or not
// allowed. It may go away by itself.
func IsTrouble(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ENOENT && errno != syscall.EEXIST
}

// pathError is the error of an operation on a name.
func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

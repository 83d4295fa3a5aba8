package vfs

import (
	"io/fs"
	"math"
	"os"
)

// MaxSpace is the Free of a file system without a limit, or with one that is not known.
const MaxSpace = math.MaxInt64

// Space is the room on a file system, in bytes. Others use it too, and a user's quota does not show: a write may meet
// ENOSPC though there is room.
type Space struct {
	Free  int64 // what this process may still take
	Total int64 // the size of the file system, 0: not known
}

// SameFile reports whether two results of Stat, of one FS, are of one file, whatever its names. It is certain while
// somebody has the file open: its number is not given out again then.
func SameFile(a, b fs.FileInfo) bool {
	if x, ok := a.(simInfo); ok {
		y, ok := b.(simInfo)
		return ok && x.ino == y.ino
	}
	if x, ok := a.(interface{ SameFile(fs.FileInfo) bool }); ok { // of a file system that is none of the system's
		return x.SameFile(b)
	}
	return os.SameFile(a, b)
}

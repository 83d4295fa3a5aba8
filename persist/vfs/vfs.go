package vfs

import (
	"io"
	"io/fs"
)

// FS is a file system. All methods may be called concurrently. Errors satisfy errors.Is with the fs.Err*
// sentinels where they apply, and with syscall.Errno values (ENOSPC, EIO, EROFS ...) otherwise.
type FS interface {
	// Create makes a new, empty file, mode 0640, open for reading and writing. A file of that name must not
	// exist: storage files are never overwritten in place, so an existing one is a bug or a stranger's file
	// and gives fs.ErrExist.
	Create(name string) (File, error)

	// Open opens an existing file for reading only. A directory gives EISDIR, here and in OpenRW.
	Open(name string) (File, error)

	// OpenRW opens an existing file for reading and writing. Nothing is truncated.
	OpenRW(name string) (File, error)

	// Remove deletes a file or an empty directory. Files still open or mapped stay readable through their handle.
	Remove(name string) error

	// Rename replaces newname by oldname atomically: after a crash either the old or the new file is there.
	// Both names must be in one directory (else EXDEV): one SyncDir then makes the whole of it durable.
	Rename(oldname, newname string) error

	// List returns the base names in dir, sorted.
	List(dir string) ([]string, error)

	// Stat returns the size in bytes and the mode of a file.
	Stat(name string) (fs.FileInfo, error)

	// MkdirAll creates a directory and its missing parents, mode 0750.
	MkdirAll(dir string) error

	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error

	// Space returns how much room the file system of a directory has. Where that is not known, Free is MaxSpace.
	Space(dir string) (Space, error)

	// Lock takes an exclusive advisory lock on the named file, creating it if needed, and holds it until the
	// returned Closer is closed or the process ends. A lock held elsewhere, in this process too, gives
	// ErrLocked at once. The file must never be removed: a second process would then lock another file.
	Lock(name string) (io.Closer, error)
}

// File is an open file. ReadAt, WriteAt and Sync may run concurrently, reads and writes on disjoint ranges; a Sync
// covers the writes that had returned when it was called. Other calls must not overlap with any call.
//
// A failed read or write gives an *IOError with the name, the offset and the bytes done. A call after Close gives
// fs.ErrClosed.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Sync makes all bytes written so far, and the size needed to read them back, durable (fdatasync).
	Sync() error

	// Truncate sets the size.
	Truncate(size int64) error

	// Preallocate reserves disk space for the first size bytes and extends the file to size with zeros, so that
	// later writes inside it find room and do not change the size. On ext4 the reserved blocks count as unwritten
	// until their first write, which still costs the journal something. Median of a 4 KiB write and Sync on ext4
	// with other load: 233-262 us extending the file, 186-235 us preallocated, 132-165 us over written zeros.
	// Where the file system cannot do that it extends the file only. A file larger than size stays as it is;
	// on an error (ENOSPC) the file has its old size.
	Preallocate(size int64) error

	// Size returns the current size in bytes.
	Size() (int64, error)

	// Map maps the first size bytes read-only; more than the file has gives io.ErrUnexpectedEOF. The slice is
	// valid until unmap is called, once, also after Close and Remove; whether it shows bytes written later is not
	// defined. Reading it may fault
	// (SIGBUS) when the file was truncated or the disk fails: readers must run under debug.SetPanicOnFault.
	Map(size int64) (data []byte, unmap func() error, err error)

	// Name returns the name the file was opened by.
	Name() string
}

package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// Archive is an open archive, seen as a data directory of the archive's own path: Check, Restore and the engine,
// through a vfs.View, read it as they read any other. It is never written to. All methods may be called concurrently.
type Archive struct {
	file  vfs.File
	path  string
	size  int64
	parts map[string]archivePart // by path: a/b for part b of archive a
	order []string
	end   uint64

	mapOnce sync.Once
	data    []byte // the whole file; nil: it was not mapped
	unmap   func() error
	mapErr  error
}

var _ vfs.FS = (*Archive)(nil)

// archivePart is where a part's content lies.
type archivePart struct {
	off, length int64
	packed      bool
	raw         int64 // of the content, unpacked
}

// Open opens an archive and reads what its parts are; Verify reads the rest. A file that is damaged, cut short
// or no archive gives a *CorruptError, which also matches io.ErrUnexpectedEOF where bytes are missing, one of a newer
// version ErrUnsupportedFormat. It takes memory for parts that are there, whatever the header says.
func Open(fsys vfs.FS, name string) (*Archive, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	a := &Archive{file: file, path: filepath.Clean(name), parts: map[string]archivePart{}}
	if err := a.load(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return a, nil
}

func (a *Archive) corrupt(off int64, want, got string) error {
	return &format.CorruptError{File: a.path, Offset: off, Want: want, Got: got}
}

// read reads bytes that must be there.
func (a *Archive) read(b []byte, off int64, what string) error {
	got, err := vfs.ReadAtMost(a.file, b, off)
	if err == nil && len(got) < len(b) {
		err = &format.CorruptError{File: a.path, Offset: off, Want: fmt.Sprintf("%s of %d bytes", what, len(b)), Got: fmt.Sprintf("%d", len(got)), Err: io.ErrUnexpectedEOF}
	}
	return err
}

func (a *Archive) load() (err error) {
	if a.size, err = a.file.Size(); err != nil {
		return err
	}
	head := make([]byte, archiveHeaderLen)
	if err := a.read(head[:min(a.size, archiveHeaderLen)], 0, "header"); err != nil {
		return err
	}
	if got := head[:len(archiveMagic)]; string(got) != archiveMagic {
		return a.corrupt(0, fmt.Sprintf("magic %q of an archive", archiveMagic), fmt.Sprintf("%q", got))
	}
	if err := a.read(head, 0, "header"); err != nil {
		return err
	}
	if want, got := binary.LittleEndian.Uint32(head[24:]), format.Checksum(head[:24]); want != got {
		return a.corrupt(24, fmt.Sprintf("header crc32c %08x", want), fmt.Sprintf("%08x", got))
	}
	// A newer version keeps magic, version and a crc32c in the last 4 of its first 28 bytes.
	v := binary.LittleEndian.Uint16(head[8:])
	if v != archiveVersion && v != archiveCompressed || head[10]|head[11] != 0 {
		return &format.VersionError{File: a.path, Found: uint32(v), Oldest: archiveVersion, Newest: archiveCompressed}
	}
	if v == archiveCompressed {
		return a.loadCompressed()
	}
	parts := binary.LittleEndian.Uint32(head[12:])
	switch size := binary.LittleEndian.Uint64(head[16:]); {
	case size > uint64(a.size):
		return &format.CorruptError{File: a.path, Offset: a.size, Want: fmt.Sprintf("%d bytes as the header says", size), Got: fmt.Sprint(a.size), Err: io.ErrUnexpectedEOF}
	case size < uint64(a.size):
		return a.corrupt(int64(size), "the end of the archive", fmt.Sprintf("%d more bytes", a.size-int64(size)))
	}
	at := int64(archiveHeaderLen)
	for range parts {
		if at, _, err = a.loadPart(at, false); err != nil {
			return err
		}
	}
	if at != a.size {
		return a.corrupt(at, fmt.Sprintf("the end behind %d parts", parts), fmt.Sprintf("%d more bytes", a.size-at))
	}
	return a.checkLog()
}

// loadCompressed reads the parts of a compressed archive, up to its end.
func (a *Archive) loadCompressed() (err error) {
	at, end := int64(archiveHeaderLen), false
	for !end {
		if at, end, err = a.loadPart(at, true); err != nil {
			return err
		}
	}
	if more := a.size - at; more != 0 && more != archiveEndMark {
		return a.corrupt(at, "the end of the archive", fmt.Sprintf("%d more bytes", more))
	}
	return a.checkLog()
}

// loadPart reads what stands before a part's content and returns where the next part is. end: it was the end.
func (a *Archive) loadPart(at int64, compressed bool) (next int64, end bool, err error) {
	var head [archivePartLen]byte
	if err := a.read(head[:], at, "part header"); err != nil {
		return 0, false, err
	}
	length, n := binary.LittleEndian.Uint64(head[:]), int64(binary.LittleEndian.Uint16(head[8:]))
	kind := binary.LittleEndian.Uint16(head[10:])
	if compressed && kind == archiveEnd && n == 0 && binary.LittleEndian.Uint32(head[12:]) == format.Checksum(head[:12]) {
		if length != uint64(at) {
			return 0, false, a.corrupt(at, fmt.Sprintf("an end behind %d bytes", at), fmt.Sprint(length))
		}
		return at + archivePartLen, true, nil
	}
	next, err = a.loadContent(head, at, length, n, compressed && kind == archiveZstd)
	return next, false, err
}

// loadContent goes on with a part that has a name of n bytes.
func (a *Archive) loadContent(head [archivePartLen]byte, at int64, length uint64, n int64, packed bool) (next int64, err error) {
	if kind := binary.LittleEndian.Uint16(head[10:]); n == 0 || n > maxArchiveName || kind != archivePlain && !packed {
		return 0, a.corrupt(at+8, fmt.Sprintf("a name of 1 to %d bytes, and a kind that is known", maxArchiveName), fmt.Sprintf("% x", head[8:12]))
	}
	name := make([]byte, n)
	if err := a.read(name, at+archivePartLen, "part name"); err != nil {
		return 0, err
	}
	if want, got := binary.LittleEndian.Uint32(head[12:]), crc32.Update(format.Checksum(head[:12]), format.Castagnoli, name); want != got {
		return 0, a.corrupt(at+12, fmt.Sprintf("part crc32c %08x", want), fmt.Sprintf("%08x", got))
	}
	if !isArchiveName(string(name)) {
		return 0, a.corrupt(at+archivePartLen, "the name of a file of a data directory", fmt.Sprintf("%q", name))
	}
	off := at + archivePartLen + n
	if room := a.size - off - archiveSumLen; room < 0 || length > uint64(room) {
		return 0, &format.CorruptError{File: a.path, Offset: at, Want: fmt.Sprintf("at most %d bytes for %s", max(room, 0), name), Got: fmt.Sprint(length), Err: io.ErrUnexpectedEOF}
	}
	part := archivePart{off: off, length: int64(length), raw: int64(length), packed: packed}
	if packed {
		var b [8]byte
		if length < uint64(len(b)) {
			return 0, a.corrupt(off, "the length of what is compressed", fmt.Sprintf("%d bytes", length))
		}
		if err := a.read(b[:], off, "length"); err != nil {
			return 0, err
		}
		raw := binary.LittleEndian.Uint64(b[:])
		if raw > maxArchivePacked {
			return 0, a.corrupt(off, fmt.Sprintf("at most %d bytes for %s", maxArchivePacked, name), fmt.Sprint(raw))
		}
		part.raw = int64(raw)
	}
	full := filepath.Join(a.path, filepath.FromSlash(string(name)))
	if _, twice := a.parts[full]; twice {
		return 0, a.corrupt(at+archivePartLen, "each file once", fmt.Sprintf("%q again", name))
	}
	a.parts[full] = part
	a.order = append(a.order, full)
	return off + int64(length) + archiveSumLen, nil
}

// isArchiveName reports whether a part may have a name.
func isArchiveName(name string) bool {
	dir, base := path.Split(name)
	switch dir {
	case "":
		_, manifest := format.ParseManifestName(base)
		return manifest || base == format.HistoryName
	case format.LogDirName + "/":
		_, ok := format.ParseSegmentName(base)
		return ok
	case format.ImageDirName + "/":
		return strings.HasSuffix(base, format.ImageSuffix) && format.IsBaseName(base)
	case format.ColdDirName + "/":
		return strings.HasSuffix(base, format.ColdSuffix) && format.IsBaseName(base)
	}
	return false
}

// checkLog finds the log's end: its segments must follow each other without a gap.
func (a *Archive) checkLog() error {
	segs, err := logfile.ListSegments(a, a.path)
	if err != nil {
		return err
	}
	if len(segs) == 0 {
		return a.corrupt(a.size, "a log", "none")
	}
	for i, s := range segs {
		p := a.parts[s.Path]
		file, err := logfile.OpenSegmentFile(a, &s)
		if err != nil {
			return err
		}
		length, err := file.Size()
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		if i > 0 && s.Start != a.end || length < format.SegmentHeaderLen {
			return a.corrupt(p.off, fmt.Sprintf("a segment that starts at %d", a.end), fmt.Sprintf("one at %d of %d bytes", s.Start, length))
		}
		a.end = s.Start + uint64(length) - format.SegmentHeaderLen
	}
	return nil
}

// End returns the log offset that the archive's state is of.
func (a *Archive) End() uint64 { return a.end }

// Path returns the path of the archive, which is that of the directory it shows.
func (a *Archive) Path() string { return a.path }

// Verify compares every part with its checksum: a *CorruptError names the first that differs. progress, if not nil, is
// told the bytes done and in all.
func (a *Archive) Verify(progress func(done, total uint64)) error {
	buf := make([]byte, archiveCopyBuffer)
	for _, name := range a.order {
		p := a.parts[name]
		sum := uint32(0)
		for at := int64(0); at < p.length; {
			b := buf[:min(int64(len(buf)), p.length-at)]
			if err := a.read(b, p.off+at, "content"); err != nil {
				return err
			}
			sum = crc32.Update(sum, format.Castagnoli, b)
			at += int64(len(b))
			if progress != nil {
				progress(uint64(p.off+at), uint64(a.size))
			}
		}
		if err := a.read(buf[:archiveSumLen], p.off+p.length, "content crc32c"); err != nil {
			return err
		}
		if want := binary.LittleEndian.Uint32(buf); want != sum {
			rel := strings.TrimPrefix(name, a.path)
			return a.corrupt(p.off, fmt.Sprintf("crc32c %08x of %d bytes of %s", want, p.length, rel), fmt.Sprintf("%08x", sum))
		}
	}
	return nil
}

// Close closes the file. What was opened or mapped of it cannot be read any more.
func (a *Archive) Close() error {
	var err error
	if a.data != nil {
		err = a.unmap()
	}
	return errors.Join(err, a.file.Close())
}

// Open implements vfs.FS.
func (a *Archive) Open(name string) (vfs.File, error) {
	p, ok := a.parts[filepath.Clean(name)]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f := &archiveFile{SectionReader: io.NewSectionReader(a.file, p.off, p.length), archive: a, part: p, name: name}
	if p.packed {
		raw, err := a.unpack(name, p)
		if err != nil {
			return nil, err
		}
		f.SectionReader, f.raw = io.NewSectionReader(bytes.NewReader(raw), 0, p.raw), raw
	}
	return f, nil
}

// List implements vfs.FS.
func (a *Archive) List(dir string) ([]string, error) {
	dir = filepath.Clean(dir)
	var names []string
	for _, name := range a.order {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	if len(names) == 0 && !a.isDir(dir) {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	slices.Sort(names)
	return names, nil
}

// isDir reports whether a path is one of the directories of a data directory.
func (a *Archive) isDir(name string) bool {
	return name == a.path || name == format.LogDir(a.path) || name == format.ImageDir(a.path) || name == format.ColdDir(a.path)
}

// Stat implements vfs.FS.
func (a *Archive) Stat(name string) (fs.FileInfo, error) {
	name = filepath.Clean(name)
	if a.isDir(name) {
		return archiveInfo{name: name, mode: fs.ModeDir | 0o550}, nil
	}
	p, ok := a.parts[name]
	if !ok {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return archiveInfo{name: name, size: p.raw, mode: 0o440}, nil
}

// Create implements vfs.FS: nothing in an archive is ever changed.
func (a *Archive) Create(name string) (vfs.File, error) { return nil, vfs.ReadOnly("create", name) }

// OpenRW implements vfs.FS.
func (a *Archive) OpenRW(name string) (vfs.File, error) { return nil, vfs.ReadOnly("open", name) }

// Remove implements vfs.FS.
func (a *Archive) Remove(name string) error { return vfs.ReadOnly("remove", name) }

// Rename implements vfs.FS.
func (a *Archive) Rename(oldname, _ string) error { return vfs.ReadOnly("rename", oldname) }

// MkdirAll implements vfs.FS.
func (a *Archive) MkdirAll(dir string) error { return vfs.ReadOnly("mkdir", dir) }

// SyncDir implements vfs.FS.
func (a *Archive) SyncDir(dir string) error { return vfs.ReadOnly("sync", dir) }

// Space implements vfs.FS: there is none.
func (a *Archive) Space(string) (vfs.Space, error) { return vfs.Space{}, nil }

// Lock implements vfs.FS.
func (a *Archive) Lock(name string) (io.Closer, error) { return nil, vfs.ReadOnly("lock", name) }

// archiveInfo describes a part or a directory.
type archiveInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (i archiveInfo) Name() string       { return filepath.Base(i.name) }
func (i archiveInfo) Size() int64        { return i.size }
func (i archiveInfo) Mode() fs.FileMode  { return i.mode }
func (i archiveInfo) ModTime() time.Time { return time.Time{} }
func (i archiveInfo) IsDir() bool        { return i.mode.IsDir() }
func (i archiveInfo) Sys() any           { return nil }

// SameFile implements what vfs.SameFile asks for: nothing in an archive ever changes its name.
func (i archiveInfo) SameFile(o fs.FileInfo) bool {
	other, ok := o.(archiveInfo)
	return ok && i.name == other.name
}

// archiveFile is an open part. It reads the archive's file: closing it does nothing.
type archiveFile struct {
	*io.SectionReader
	archive *Archive
	part    archivePart
	raw     []byte // of a part that is compressed
	name    string
}

func (f *archiveFile) Name() string         { return f.name }
func (f *archiveFile) Size() (int64, error) { return f.part.raw, nil }
func (f *archiveFile) Close() error         { return nil }
func (f *archiveFile) WriteAt(_ []byte, _ int64) (int, error) {
	return 0, vfs.ReadOnly("write", f.name)
}
func (f *archiveFile) Sync() error             { return vfs.ReadOnly("sync", f.name) }
func (f *archiveFile) Truncate(int64) error    { return vfs.ReadOnly("truncate", f.name) }
func (f *archiveFile) Preallocate(int64) error { return vfs.ReadOnly("preallocate", f.name) }

// Map implements vfs.File. The archive is mapped once, as a whole: a store with thousands of cold files opens here too.
func (f *archiveFile) Map(size int64) ([]byte, func() error, error) {
	if size > f.part.raw {
		return nil, nil, io.ErrUnexpectedEOF
	}
	if f.part.packed {
		return f.raw[:size:size], func() error { return nil }, nil
	}
	a := f.archive
	a.mapOnce.Do(func() { a.data, a.unmap, a.mapErr = a.file.Map(a.size) })
	if a.mapErr != nil {
		return nil, nil, a.mapErr
	}
	return a.data[f.part.off : f.part.off+size : f.part.off+size], func() error { return nil }, nil
}

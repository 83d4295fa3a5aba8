package persist

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/counterd/counterd/persist/vfs"
)

// segmentMaker makes the segment files of a directory: prepared ones without frames for the log's writer, and durable
// ones with frames (rewrite). It knows nothing of the log but the room to leave, and takes no lock. Safe for concurrent
// use; not to be copied.
//
// Invariant: no two files that it makes have one temporary name.
type segmentMaker struct {
	fsys    vfs.FS
	dir     string        // the data directory
	least   int64         // bytes that a segment is preallocated with at least
	guard   func() error  // see LogOptions.Guard; nil: nobody is asked
	reserve atomic.Int64  // see Log.Reserve
	tempNo  atomic.Uint64 // for names of temporary files
}

// guarded asks the owner whether the directory is this process's.
func (m *segmentMaker) guarded() error {
	if m.guard == nil {
		return nil
	}
	return m.guard()
}

// NoRoomError says that the next segment would take what is kept free. It matches syscall.ENOSPC.
type NoRoomError struct {
	Free, Reserve, Want int64 // bytes
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("%v: %d bytes are free, want %d and %d that are kept for a snapshot", syscall.ENOSPC, e.Free, e.Want, e.Reserve)
}

// Unwrap makes vfs.IsNoSpace true.
func (e *NoRoomError) Unwrap() error { return syscall.ENOSPC }

// fitting returns how large the next segment is to be: size, or half of the room beyond the reserve if that is less, so
// that others find room too, but never less than the first one of a process.
func (m *segmentMaker) fitting(size int64) (int64, error) {
	space, err := m.fsys.Space(LogDir(m.dir))
	if err != nil {
		return size, nil // making it will tell
	}
	least, reserve := m.least, m.reserve.Load()
	room := space.Free - reserve
	if room < least {
		return size, &NoRoomError{Free: space.Free, Reserve: reserve, Want: least}
	}
	return min(size, max(room/2, least)), nil
}

// createFitting is createSynced for as much of size as the disk gives. A quota does not show in the free space.
func (m *segmentMaker) createFitting(size int64) (*openSegment, error) {
	for {
		s, err := m.createSynced(size)
		if err == nil || !vfs.IsNoSpace(err) || size <= m.least {
			return s, err
		}
		size = max(size/2, m.least)
	}
}

// createTemp makes a preallocated segment file under a temporary name.
func (m *segmentMaker) createTemp(size int64) (*openSegment, error) {
	if err := m.guarded(); err != nil {
		return nil, err
	}
	path := filepath.Join(LogDir(m.dir), fmt.Sprintf("segment-%d%s", m.tempNo.Add(1), tempSuffix))
	file, err := m.fsys.Create(path)
	if err != nil {
		return nil, err
	}
	s := &openSegment{segment: segment{path: path}, file: file, capacity: size, used: segmentHeaderLen}
	if err := file.Preallocate(size); err != nil {
		m.discard(s, path)
		return nil, err
	}
	return s, nil
}

// createSynced is createTemp for a file that gets its name before it is synced again: with a prepared header.
func (m *segmentMaker) createSynced(size int64) (*openSegment, error) {
	s, err := m.createTemp(size)
	if err != nil {
		return nil, err
	}
	h := segmentHeader{start: preparedStart, size: uint32(size)}
	if _, err = s.file.WriteAt(h.appendTo(nil), 0); err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		m.discard(s, s.path)
		return nil, err
	}
	return s, nil
}

// discard gives up a segment file that never got its name. What cannot be removed now is removed at the next start.
func (m *segmentMaker) discard(s *openSegment, temp string) {
	_ = s.file.Close()
	_ = m.fsys.Remove(temp)
}

// rewrite does the four steps of heal.go. On an error nothing counts.
func (m *segmentMaker) rewrite(h segmentHeader, pieces [][]byte, later []segment) (s *openSegment, err error) {
	size := int64(segmentHeaderLen)
	for _, p := range pieces {
		size += int64(len(p))
	}
	s, err = m.createTemp(max(size, m.least))
	if err != nil {
		return nil, err
	}
	temp := s.path
	h.size = uint32(s.capacity)
	s.segment = segment{h.start, filepath.Join(LogDir(m.dir), SegmentName(h.start))}
	if err = writeAll(s, append([][]byte{h.appendTo(nil)}, pieces...)); err == nil {
		if err = s.file.Sync(); err == nil {
			err = m.fsys.Rename(temp, s.path)
		}
	}
	if err != nil {
		m.discard(s, temp)
		return nil, err
	}
	err = m.fsys.SyncDir(LogDir(m.dir))
	for _, seg := range later { // in this order the new one always reaches up to the next one left
		if seg.start > h.start && err == nil {
			if err = removeIfThere(m.fsys, seg.path); err == nil {
				err = m.fsys.SyncDir(LogDir(m.dir))
			}
		}
	}
	s.name = nameOf(m.fsys, s.path)
	if err != nil {
		// The file keeps its name: what it replaced is gone, and its bytes are right.
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// writeAll writes pieces one behind the other from the start of the file.
func writeAll(s *openSegment, pieces [][]byte) error {
	var off int64
	for _, p := range pieces {
		if _, err := s.file.WriteAt(p, off); err != nil {
			return err
		}
		off += int64(len(p))
	}
	s.used = off
	return nil
}

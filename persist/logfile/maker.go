package logfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Maker makes the segment files of a directory: prepared ones without frames for the log's writer, and durable
// ones with frames (rewrite). It knows nothing of the log but the room to leave, and takes no lock. Safe for concurrent
// use; not to be copied.
//
// Invariant: no two files that it makes have one temporary name.
type Maker struct {
	FS      vfs.FS
	Dir     string        // the data directory
	Least   int64         // bytes that a segment is preallocated with at least
	Guard   func() error  // see LogOptions.Guard; nil: nobody is asked
	Reserve atomic.Int64  // see Log.Reserve
	tempNo  atomic.Uint64 // for names of temporary files
}

// Guarded asks the owner whether the directory is this process's.
func (m *Maker) Guarded() error {
	if m.Guard == nil {
		return nil
	}
	return m.Guard()
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

// Fitting returns how large the next segment is to be: size, or half of the room beyond the reserve if that is less, so
// that others find room too, but never less than the first one of a process.
func (m *Maker) Fitting(size int64) (int64, error) {
	space, err := m.FS.Space(format.LogDir(m.Dir))
	if err != nil {
		return size, nil // making it will tell
	}
	least, reserve := m.Least, m.Reserve.Load()
	room := space.Free - reserve
	if room < least {
		return size, &NoRoomError{Free: space.Free, Reserve: reserve, Want: least}
	}
	return min(size, max(room/2, least)), nil
}

// CreateFitting is createSynced for as much of size as the disk gives. A quota does not show in the free space.
func (m *Maker) CreateFitting(size int64) (*OpenSegment, error) {
	for {
		s, err := m.createSynced(size)
		if err == nil || !vfs.IsNoSpace(err) || size <= m.Least {
			return s, err
		}
		size = max(size/2, m.Least)
	}
}

// createTemp makes a preallocated segment file under a temporary name.
func (m *Maker) createTemp(size int64) (*OpenSegment, error) {
	if err := m.Guarded(); err != nil {
		return nil, err
	}
	path := m.TempPath()
	file, err := m.FS.Create(path)
	if err != nil {
		return nil, err
	}
	s := &OpenSegment{Segment: Segment{Path: path}, File: file, Capacity: size, Used: format.SegmentHeaderLen}
	if err := file.Preallocate(size); err != nil {
		m.Discard(s, path)
		return nil, err
	}
	return s, nil
}

// createSynced is createTemp for a file that gets its name before it is synced again: with a prepared header.
func (m *Maker) createSynced(size int64) (*OpenSegment, error) {
	s, err := m.createTemp(size)
	if err != nil {
		return nil, err
	}
	h := format.SegmentHeader{Start: format.PreparedStart, Size: uint32(size)}
	if _, err = s.File.WriteAt(h.AppendTo(nil), 0); err == nil {
		err = s.File.Sync()
	}
	if err != nil {
		m.Discard(s, s.Path)
		return nil, err
	}
	return s, nil
}

// TempPath returns a temporary name that nobody has.
func (m *Maker) TempPath() string {
	return filepath.Join(format.LogDir(m.Dir), fmt.Sprintf("segment-%d%s", m.tempNo.Add(1), format.TempSuffix))
}

// Discard gives up a segment file that never got its name. What cannot be removed now is removed at the next start.
func (m *Maker) Discard(s *OpenSegment, temp string) {
	_ = s.File.Close()
	_ = m.FS.Remove(temp)
}

// Rewrite does the four steps of persist/heal.go. On an error nothing counts.
func (m *Maker) Rewrite(h format.SegmentHeader, pieces [][]byte, later []Segment) (s *OpenSegment, err error) {
	size := int64(format.SegmentHeaderLen)
	for _, p := range pieces {
		size += int64(len(p))
	}
	s, err = m.createTemp(max(size, m.Least))
	if err != nil {
		return nil, err
	}
	temp := s.Path
	h.Size = uint32(s.Capacity)
	s.Segment = Segment{h.Start, filepath.Join(format.LogDir(m.Dir), format.SegmentName(h.Start))}
	if err = writeAll(s, append([][]byte{h.AppendTo(nil)}, pieces...)); err == nil {
		if err = s.File.Sync(); err == nil {
			err = m.FS.Rename(temp, s.Path)
		}
	}
	if err != nil {
		m.Discard(s, temp)
		return nil, err
	}
	err = m.FS.SyncDir(format.LogDir(m.Dir))
	for _, seg := range later { // in this order the new one always reaches up to the next one left
		if seg.Start > h.Start && err == nil {
			if err = vfs.RemoveIfThere(m.FS, seg.Path); err == nil {
				err = m.FS.SyncDir(format.LogDir(m.Dir))
			}
		}
	}
	s.Name = NameOf(m.FS, s.Path)
	if err != nil {
		// The file keeps its name: what it replaced is gone, and its bytes are right.
		return nil, errors.Join(err, s.File.Close())
	}
	return s, nil
}

// writeAll writes pieces one behind the other from the start of the file.
func writeAll(s *OpenSegment, pieces [][]byte) error {
	var off int64
	for _, p := range pieces {
		if _, err := s.File.WriteAt(p, off); err != nil {
			return err
		}
		off += int64(len(p))
	}
	s.Used = off
	return nil
}

// OpenSegment is a segment file that is being written.
type OpenSegment struct {
	Segment
	File     vfs.File
	Name     Named // once it has one
	Capacity int64 // preallocated bytes
	Used     int64 // bytes from the file's start up to the last frame's end; the writer's
}

package persist

import (
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/counterd/counterd/persist/vfs"
)

// prepareLoop makes the next segment while the active one fills: preallocating 64 MiB must not delay a write.
func (l *Log) prepareLoop() {
	defer l.loops.Done()
	for {
		select {
		case <-l.stop:
			return
		case <-l.prepare:
			l.prepareNext()
		}
	}
}

// nextSize is the size of the next segment: twice the last one's. REQUIRES: mu.
func (l *Log) nextSize() int64 {
	if l.active == nil {
		return l.opts.FirstSegmentBytes
	}
	return min(max(2*l.active.capacity, l.opts.FirstSegmentBytes), l.opts.SegmentBytes)
}

// prepareNext makes the next segment if one is wanted. It is synced under its temporary name, so that later syncs
// change no metadata, and a full disk shows here, while the active segment has room.
func (l *Log) prepareNext() {
	l.mu.Lock()
	want, size := l.wantNext && l.next == nil && !l.closed, l.nextSize()
	l.mu.Unlock()
	if !want {
		return
	}
	var s *openSegment
	size, err := l.fitting(size)
	if err == nil {
		s, err = l.createFitting(size)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.next = s
	} else {
		// Also when a rotation, which made its own meanwhile, no longer asks: while spaceErr is set changes may be refused,
		// and then nothing but this asks again.
		l.wantNext = true
		if l.spaceErr == nil {
			l.opts.Logger.Warn("cannot prepare the next log segment", "error", err, "bytes", size)
		}
	}
	l.spaceErr = err
	l.judgeSpace()
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
func (l *Log) fitting(size int64) (int64, error) {
	space, err := l.opts.FS.Space(LogDir(l.opts.Dir))
	if err != nil {
		return size, nil // making it will tell
	}
	least, reserve := l.opts.FirstSegmentBytes, l.reserve.Load()
	room := space.Free - reserve
	if room < least {
		return size, &NoRoomError{Free: space.Free, Reserve: reserve, Want: least}
	}
	return min(size, max(room/2, least)), nil
}

// createFitting is createSynced for as much of size as the disk gives. A quota does not show in the free space.
func (l *Log) createFitting(size int64) (*openSegment, error) {
	for {
		s, err := l.createSynced(size)
		if err == nil || !vfs.IsNoSpace(err) || size <= l.opts.FirstSegmentBytes {
			return s, err
		}
		size = max(size/2, l.opts.FirstSegmentBytes)
	}
}

// createTemp makes a preallocated segment file under a temporary name.
func (l *Log) createTemp(size int64) (*openSegment, error) {
	if err := l.guard(); err != nil {
		return nil, err
	}
	path := filepath.Join(LogDir(l.opts.Dir), fmt.Sprintf("segment-%d%s", l.tempNo.Add(1), tempSuffix))
	file, err := l.opts.FS.Create(path)
	if err != nil {
		return nil, err
	}
	s := &openSegment{segment: segment{path: path}, file: file, capacity: size, used: segmentHeaderLen}
	if err := file.Preallocate(size); err != nil {
		l.discard(s, path)
		return nil, err
	}
	return s, nil
}

// createSynced is createTemp for a file that gets its name before it is synced again: with a prepared header.
func (l *Log) createSynced(size int64) (*openSegment, error) {
	s, err := l.createTemp(size)
	if err != nil {
		return nil, err
	}
	h := segmentHeader{start: preparedStart, size: uint32(size)}
	if _, err = s.file.WriteAt(h.appendTo(nil), 0); err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		l.discard(s, s.path)
		return nil, err
	}
	return s, nil
}

// discard gives up a segment file that never got its name. What cannot be removed now is removed at the next start.
func (l *Log) discard(s *openSegment, temp string) {
	_ = s.file.Close()
	_ = l.opts.FS.Remove(temp)
}

package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// syncLoop syncs each SyncEvery, and early when much is not durable, and heals after disk trouble.
func (l *Log) syncLoop() {
	defer l.loops.Done()
	ticker := time.NewTicker(l.opts.SyncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			l.watchNames()
			l.tick(true)
		case <-l.kick:
			l.tick(false)
		}
	}
}

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

// Tick does what the background does each SyncEvery. REQUIRES: LogOptions.Manual.
func (l *Log) Tick() {
	l.prepareNext()
	l.watchNames()
	l.tick(true)
}

// tick syncs if it is time (due) or much is not durable.
func (l *Log) tick(due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trouble != nil && !l.healing && !l.opts.Now().Before(l.nextHeal) {
		l.heal()
	}
	much := l.tail.position()-l.tail.durable > syncAtBytes || l.behind.Load() || l.late()
	if much || due && l.Policy() != SyncNo {
		_ = l.syncTo(l.tail.position()) // an error is kept in trouble and told by Ready
	}
	if due && l.tail.position() == l.tail.durable {
		l.tail.free = nil
	}
	l.judgeAge()
	if l.wantNext && l.next == nil {
		l.wake(l.prepare)
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
		// Also when a rotation, which made its own meanwhile, no longer asks: while spaceErr is set changes may be refused, and then
		// nothing but this asks again.
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

// fitting returns how large the next segment is to be: size, or half of the room beyond the reserve if that is less, so that others find room
// too, but never less than the first one of a process.
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

// Close makes everything durable and ends the log. If the disk fails it returns the error: then bytes that Commit
// acknowledged are in the segment files as the kernel has them.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closing = true
	l.refuse(reasonClosed, ErrClosed)
	l.mu.Unlock()
	if !l.opts.Manual {
		close(l.stop)
		l.loops.Wait()
		l.watch.Stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trouble != nil && !l.healing {
		l.heal()
	}
	err := l.syncTo(l.tail.position())
	for l.writing || l.syncing || l.healing {
		if l.writing {
			l.writeDone.Wait()
		} else {
			l.syncDone.Wait()
		}
	}
	l.closed = true
	l.writeDone.Broadcast()
	l.syncDone.Broadcast()
	l.announce()
	for _, s := range append(l.retired, l.active) {
		if s != nil {
			err = errors.Join(err, s.file.Close())
		}
	}
	if l.next != nil {
		l.discard(l.next, l.next.path)
	}
	return err
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

// lastChain returns the checksum of the last frame in pieces, or chain if there is none.
func lastChain(pieces [][]byte, chain uint32) uint32 {
	for _, p := range pieces {
		for len(p) > 0 {
			chain = binary.LittleEndian.Uint32(p)
			p = p[rawFrameLen(p):]
		}
	}
	return chain
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// removeIfThere removes a file; that it is missing is no error.
func removeIfThere(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !isNotExist(err) {
		return err
	}
	return nil
}

// truncateTo cuts a file that is longer than size.
func truncateTo(fsys vfs.FS, path string, size int64) error {
	f, err := fsys.OpenRW(path)
	if err != nil {
		return err
	}
	have, err := f.Size()
	if err == nil && have > size {
		err = f.Truncate(size)
	}
	return errors.Join(err, f.Close())
}

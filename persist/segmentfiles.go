package persist

import (
	"path/filepath"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// segmentFiles are the segment files of a log: which there are, which are written, and the next one. What the writer
// and the syncer do to files is done here, without the lock.
//
// Invariants: segs are consecutive. active is the last of segs, or nil in trouble. retired are the segments before it
// that are not synced, oldest first. layout changes with segs. Roles of the log decide who calls write and sync.
type segmentFiles struct {
	maker    *logfile.Maker
	most     int64       // bytes that a segment is preallocated with at most, but for one written again
	lock     *sync.Mutex // Log.mu: guards the fields below
	progress *progress   // of the log

	history format.History    // of the segments that are begun from now on
	rotate  bool              // the next frame begins a new segment, as the history changed
	segs    []logfile.Segment // all on disk, by start
	// Bytes of the files of packed segments, by start; -1 of one that is not to be packed. Of others nothing is known yet.
	// packedSum is what they are together.
	packed    map[uint64]int64
	packedSum packedSum
	active    *logfile.OpenSegment   // the last of segs, nil in trouble
	retired   []*logfile.OpenSegment // written full, not yet synced
	dirDirty  bool                   // a segment got its name and the directory was not synced since
	next      *logfile.OpenSegment   // prepared, still under a temporary name
	wantNext  bool                   // next is to be prepared
	spaceErr  error                  // why preparing failed last
	chain     uint32                 // crc32c of the last frame given to write(); the writer's alone
}

// packedSum is what is known of packed segments.
type packedSum struct {
	n         int
	log, disk int64 // bytes of log in them, and of their files
}

// sumPacked counts the packed segments anew. Stats, which may be called often, thus need not walk the list.
// REQUIRES: Log.mu.
func (f *segmentFiles) sumPacked() {
	f.packedSum = packedSum{}
	for i, s := range f.segs[:len(f.segs)-1] {
		if size := f.packed[s.Start]; size > 0 {
			f.packedSum.n++
			f.packedSum.log += int64(f.segs[i+1].Start - s.Start)
			f.packedSum.disk += size
		}
	}
}

// bytesOf returns how many bytes the file of segment i takes, of a log that is written to an offset. REQUIRES: Log.mu.
func (f *segmentFiles) bytesOf(i int, written uint64) int64 {
	if n := f.packed[f.segs[i].Start]; n > 0 {
		return n
	}
	end := max(written, f.segs[i].Start)
	if i+1 < len(f.segs) {
		end = f.segs[i+1].Start
	}
	return f.segs[i].Offset(end)
}

// startAgain replaces all segments from an offset on by a new one that was written again, whose last frame has the
// checksum chain. REQUIRES: Log.mu, and the healer's role.
func (f *segmentFiles) startAgain(from uint64, s *logfile.OpenSegment, chain uint32) {
	keep := logfile.Below(f.segs, from) // counted anew: DropBefore may have taken one off the list, or put one back
	f.segs = append(f.segs[:keep:keep], s.Segment)
	f.active, f.chain = s, chain
	// wantNext stays: a next segment that could not be made must be asked for again.
	f.dirDirty, f.rotate = false, false
	f.progress.layout.Add(1)
}

// nextSize is the size of the next segment: twice the last one's. REQUIRES: Log.mu.
func (f *segmentFiles) nextSize() int64 {
	if f.active == nil {
		return f.maker.Least
	}
	return min(max(2*f.active.Capacity, f.maker.Least), f.most)
}

// Write writes whole frames that begin at log offset at, into as many segments as they need. REQUIRES: the writer's
// role.
func (f *segmentFiles) write(pieces [][]byte, at uint64) error {
	for _, piece := range pieces {
		for len(piece) > 0 {
			s := f.active
			n := 0
			for n < len(piece) && !f.rotate {
				frame := format.RawFrameLen(piece[n:])
				// An empty segment takes a frame of any size: the file grows.
				if s.Used+int64(n+frame) > s.Capacity && s.Used+int64(n) > format.SegmentHeaderLen {
					break
				}
				f.chain = format.RawFrameCRC(piece[n:])
				n += frame
			}
			if n == 0 {
				if err := f.rotateTo(at); err != nil {
					return err
				}
				continue
			}
			if _, err := s.File.WriteAt(piece[:n], s.Offset(at)); err != nil {
				return err
			}
			s.Used += int64(n)
			at += uint64(n)
			piece = piece[n:]
		}
	}
	return nil
}

// rotateTo makes a new segment that starts at a log offset the active one. The old one is left to the syncer: a
// write never waits for a sync. REQUIRES: the writer's role.
func (f *segmentFiles) rotateTo(at uint64) error {
	f.lock.Lock()
	s := f.next
	f.next = nil
	h := format.SegmentHeader{History: f.history, Start: at, Durable: f.progress.durable.Load(), Chain: f.chain}
	size := f.nextSize()
	f.lock.Unlock()
	if s == nil { // not prepared in time
		var err error
		if s, err = f.maker.CreateFitting(size); err != nil { // from the reserve if need be: Ready let these bytes in
			return err
		}
	}
	temp := s.Path
	s.Segment = logfile.Segment{Start: at, Path: filepath.Join(format.LogDir(f.maker.Dir), format.SegmentName(at))}
	s.Used = format.SegmentHeaderLen
	h.Size = uint32(s.Capacity)
	_, err := s.File.WriteAt(h.AppendTo(nil), 0)
	if err == nil {
		err = f.maker.FS.Rename(temp, s.Path)
	}
	if err != nil {
		f.maker.Discard(s, temp)
		return err
	}
	s.Name = logfile.NameOf(f.maker.FS, s.Path)
	f.lock.Lock()
	f.retired = append(f.retired, f.active)
	f.active = s
	if n := len(f.segs); f.segs[n-1].Start == at { // replaced an empty one, as the history changed
		f.segs = f.segs[: n-1 : n-1]
	}
	f.segs = append(f.segs, s.Segment)
	f.dirDirty, f.rotate, f.wantNext = true, false, false
	f.progress.layout.Add(1)
	f.lock.Unlock()
	return nil
}

// sync syncs in log order, so that durable bytes are always a prefix. Full segments lose their unused
// preallocated end and are closed. REQUIRES: the syncer's role.
func (f *segmentFiles) sync(retired []*logfile.OpenSegment, active *logfile.OpenSegment, dirDirty bool) error {
	if dirDirty { // before the cut: see format/segment.go
		if err := f.maker.FS.SyncDir(format.LogDir(f.maker.Dir)); err != nil {
			return err
		}
	}
	for _, s := range retired {
		if s.Used < s.Capacity {
			if err := s.File.Truncate(s.Used); err != nil {
				return err
			}
		}
		if err := s.File.Sync(); err != nil {
			return err
		}
	}
	if err := active.File.Sync(); err != nil {
		return err
	}
	for _, s := range retired {
		_ = s.File.Close() // its bytes are durable: an error changes nothing
	}
	return nil
}

// unchanged returns nil if the last segment on disk is the log's: a process that opened the directory meanwhile has
// made one of its own.
func (f *segmentFiles) unchanged() error {
	listed, err := logfile.ListSegments(f.maker.FS, f.maker.Dir)
	if err != nil {
		return err
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if n := len(listed); n == 0 || listed[n-1] != f.segs[len(f.segs)-1] {
		return &logfile.GoneError{Path: format.LogDir(f.maker.Dir), Why: "was changed by another process"}
	}
	return nil
}

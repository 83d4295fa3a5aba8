package persist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// Reader reads the frames of a log that may be appended to meanwhile, up to what is written, or visible. It is for
// replicas, dumps and restores. NOT safe for concurrent use; must be closed.
type Reader struct {
	log     *readers
	end     func() uint64 // where it stops for now: Log.Written or Log.Visible
	scanner logfile.Scanner
	layout  uint64 // progress.layout when segEnd was read
	segEnd  uint64 // log offset where the scanner's segment ends, MaxUint64: not known yet
	file    vfs.File
	frame   format.Frame
}

// readers makes the readers of a log. It knows the segment files, how far they are written, and the committer as what
// tells that there is more.
type readers struct {
	files     *segmentFiles
	progress  *progress
	committer interface {
		growth() (<-chan struct{}, error)
		syncs() (<-chan struct{}, error)
	}
	spare spare
}

// NewReader returns a reader of the frames that end behind an offset. The first of them may start before it. An offset
// that is dropped gives ErrGone, one behind Written gives ErrAhead.
func (l *Log) NewReader(from uint64) (*Reader, error) { return l.readers.open(from, l.Written) }

// NewFollower is NewReader for a caller that gives the frames to others, such as a replica: it reads up to Visible, as a
// replica must not have what a crash of its primary takes back. The first frame may be behind that.
func (l *Log) NewFollower(from uint64) (*Reader, error) { return l.readers.open(from, l.Visible) }

// NewReaderAt is NewReader for an offset where a frame begins: nothing before it is read.
func (l *Log) NewReaderAt(from uint64) (*Reader, error) {
	if w := l.Written(); from > w {
		return nil, fmt.Errorf("log offset %d, the log ends at %d: %w", from, w, format.ErrAhead)
	}
	r := &Reader{log: &l.readers, end: l.Written}
	return r, r.open(from, true)
}

func (rs *readers) open(from uint64, end func() uint64) (*Reader, error) {
	written := rs.progress.written.Load
	if w := written(); from > w {
		return nil, fmt.Errorf("log offset %d, the log ends at %d: %w", from, w, format.ErrAhead)
	}
	r := &Reader{log: rs, end: written}
	if err := r.open(from, false); err != nil {
		return nil, err
	}
	for r.scanner.Pos < from {
		fault, err := r.step()
		if err != nil || fault != nil {
			return nil, errors.Join(r.failure(fault, err), r.Close())
		}
		if r.scanner.Pos > from {
			r.scanner.Unread(&r.frame)
			break
		}
	}
	r.end = end
	return r, nil
}

// Pos returns the log offset of the next frame.
func (r *Reader) Pos() uint64 { return r.scanner.Pos }

// TryNext returns the next frame, or nil when all that there is was read. The frame is valid until the next call.
func (r *Reader) TryNext() (*format.Frame, error) {
	fault, err := r.step()
	if err == io.EOF {
		return nil, nil
	}
	if err != nil || fault != nil {
		return nil, r.failure(fault, err)
	}
	return &r.frame, nil
}

// Next returns the next frame and waits for it if need be, until ctx is done or the log is closed (ErrClosed).
func (r *Reader) Next(ctx context.Context) (*format.Frame, error) {
	for {
		f, err := r.TryNext()
		if f != nil || err != nil {
			return f, err
		}
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// Close closes the reader.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// Release closes the reader and gives its memory to later ones, and its file if that is the newest segment. REQUIRES that no frame of it is used
// any more.
func (r *Reader) Release() error {
	r.scanner.Release()
	if _, packed := r.file.(*logfile.PackedFile); r.file != nil && r.segEnd == math.MaxUint64 && !packed && r.log.spare.put(r.file, &r.scanner.Seg, r.layout) {
		r.file = nil
	}
	return r.Close()
}

// step decodes the next frame below end, whatever segment it is in.
func (r *Reader) step() (*format.Fault, error) {
	for retried := false; ; {
		end := r.end() // before layout: written passes a change only after it is seen there
		if r.scanner.Pos >= end {
			return nil, io.EOF
		}
		if layout := r.log.progress.layout.Load(); layout != r.layout || r.scanner.Pos >= r.segEnd {
			if err := r.open(r.scanner.Pos, true); err != nil {
				return nil, err
			}
		}
		r.scanner.Limit = min(end, r.segEnd)
		fault, err := r.scanner.Next(&r.frame)
		if fault == nil && err != io.EOF {
			return nil, err
		}
		// The file may have been replaced while it was read (heal.go): look again, once.
		if retried && r.log.progress.layout.Load() == r.layout {
			if fault == nil {
				fault = &format.Fault{Want: "a frame", Got: "the segment's end"}
			}
			return fault, nil
		}
		retried = true
		r.segEnd = 0
	}
}

// open makes the scanner read the segment that holds pos, from a frame's start before it or, if at is set, from pos.
func (r *Reader) open(pos uint64, at bool) error {
	r.log.files.lock.Lock()
	segs := r.log.files.segs
	i := len(segs) - 1
	for i > 0 && segs[i].Start > pos {
		i--
	}
	seg, end := segs[i], uint64(math.MaxUint64)
	if i+1 < len(segs) {
		end = segs[i+1].Start
	}
	layout, known := r.log.progress.layout.Load(), r.segEnd != 0
	r.log.files.lock.Unlock()
	if seg.Start > pos {
		if r.file != nil && pos < r.segEnd && r.segEnd != math.MaxUint64 {
			r.layout = layout // dropped while it is read: the open file is still there
			return nil
		}
		return fmt.Errorf("log offset %d, the oldest kept is %d: %w", pos, seg.Start, format.ErrGone)
	}
	if known && r.file != nil && seg == r.scanner.Seg {
		// Still the same name. If it is another file now, a frame will be missing and step comes again.
		r.layout, r.segEnd = layout, end
		return nil
	}
	file := vfs.File(nil)
	if r.file == nil {
		file = r.log.spare.take(&seg, layout)
	}
	if file == nil {
		var err error
		if file, err = logfile.OpenSegmentFile(r.log.files.maker.FS, &seg); err != nil {
			if r.log.progress.layout.Load() != layout { // dropped since it was looked up
				return r.open(pos, at)
			}
			return err
		}
	}
	if err := r.Close(); err != nil {
		return errors.Join(err, file.Close())
	}
	r.file, r.layout, r.segEnd = file, layout, end
	if !at {
		pos = logfile.FrameBefore(file, &seg, pos)
	}
	r.scanner.Reset(file, seg, pos, pos)
	return nil
}

// failure builds the error for a step that failed.
func (r *Reader) failure(fault *format.Fault, err error) error {
	if fault == nil {
		return err
	}
	s := &r.scanner
	return &format.CorruptError{Dir: r.log.files.maker.Dir, File: s.Seg.Path, Offset: s.Seg.Offset(s.Pos), LogOffset: s.Pos,
		Want: fault.Want, Got: fault.Got}
}

// wait returns when there is more, ctx is done or the log is closed.
func (r *Reader) wait(ctx context.Context) error {
	return r.log.await(ctx, func() bool { return r.end() > r.scanner.Pos })
}

// await returns when reached says so, which is asked when more is written or durable, ctx is done or the log is closed.
func (rs *readers) await(ctx context.Context, reached func() bool) error {
	return rs.awaitAt(ctx, rs.committer.growth, reached)
}

// awaitAt is await for a wait that another channel ends. REQUIRES the lock for grows.
func (rs *readers) awaitAt(ctx context.Context, grows func() (<-chan struct{}, error), reached func() bool) error {
	lock := rs.files.lock
	lock.Lock()
	for !reached() {
		grown, err := grows()
		lock.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
		lock.Lock()
	}
	lock.Unlock()
	return nil
}

// spare is the open file of the newest segment, left by a reader that was released. A client that follows the feed of changes asks 200 times a
// second, with a reader for each reply: to open and to close the file took 14 system calls each time.
//
// Invariant: while layout is that of the log, seg names file, or did when it was put here. A file that was replaced under its
// name since has the same durable bytes, and a reader to which it lacks a frame opens its segment anew.
type spare struct {
	mu     sync.Mutex // guards the rest
	file   vfs.File   // nil: there is none
	seg    logfile.Segment
	layout uint64 // progress.layout when the list of segments had seg
	used   bool   // since the last sweep
	ended  bool
}

// take gives the file of a segment to a reader, or nil.
func (s *spare) take(seg *logfile.Segment, layout uint64) vfs.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil || s.layout != layout || s.seg != *seg {
		return nil
	}
	file := s.file
	s.file = nil
	return file
}

// put keeps the file that a reader has done with. It is false if the reader has to close it.
func (s *spare) put(file vfs.File, seg *logfile.Segment, layout uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil || s.ended {
		return false
	}
	s.file, s.seg, s.layout, s.used = file, *seg, layout, true
	return true
}

// sweep closes a file that no reader wanted since the last sweep, or whose segment may be gone: it would keep the place on the disk.
func (s *spare) sweep(layout uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used || s.layout != layout {
		s.close()
	}
	s.used = false
}

// end closes the file, and keeps none from now on.
func (s *spare) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.close()
}

// close closes the file. REQUIRES: mu.
func (s *spare) close() {
	if s.file != nil {
		_ = s.file.Close() // it was only read
		s.file = nil
	}
}

package past

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// A log that damage keeps from being opened has its frames elsewhere: two logs of one term have the same frames at the same offsets. So
// the frames that are missing here are fetched, and those behind the damage are kept:
//
//	segment 0     |frame frame ##### frame frame|          ##### is damage, from offset 500 to 700
//	              |frame frame ...                         the file ends at 500 now, as the next one starts there
//	segment 500               |frame frame frame frame|    the fetched frames, and those behind the damage
//
// Each fetched frame is checked, must be of a term that HISTORY has at its offset, and must end where the whole ones go on. The next
// segment must name the last one as the frame before it. A crash leaves the damage, or a part of it.
//
// If no segment holds the offset where a start begins to read, a new first segment begins with the other log's frame that holds it. The frame
// before it is not needed, so nobody knows its checksum: the segment names none.
//
// A damaged end of the log has no frame behind it. The log then reaches as far as is known to have been durable here (DURABLE,
// manifests), or up to LogMend.Reach. If that is where the whole frames end, a segment without frames follows them. An end that is
// missing without any damage is fetched too, up to LogMend.Reach.
//
// Damage of the last segment with whole frames behind it, and zeros alone behind these, leaves the end of the log as it was: a clean end. So does
// a damaged header of a last segment without frames.

// LogMend is how a damaged log gets its frames back.
type LogMend struct {
	// Fetch returns whole frames of another node's log, from a log offset on and none behind end: as many as it likes. The other log
	// must have come to end in the term.
	Fetch func(term format.ReplID, from, end uint64) ([]byte, error)
	// Holding returns the log offset at which the other log's frame begins that holds a log offset. The other log must have come to end in
	// the term. nil: a log without its first segment is not mended.
	Holding func(term format.ReplID, at, end uint64) (start uint64, err error)
	// Reach is the log offset up to which the other node has the log. This log is to have as much: the node is a primary, and
	// nobody has more. 0: the log goes on elsewhere, as for a replica.
	Reach uint64
	// Ends is called before the file is written that makes a damaged end of the log whole. Changes behind it may be missing from then on,
	// and no damage tells a start so: Ends notes it durably. Its error is MendLog's. nil: nothing is noted. Damage in front of a clean end
	// is no reason to call it.
	Ends func() error
}

// MendedLog is the result of MendLog.
type MendedLog struct {
	Segments int    // files that were written
	Bytes    uint64 // of frames that were fetched
	Last     bool   // the end of the log was damaged or missing
}

// maxMended bounds the frames that are in memory at once: those from the first damage of a segment on.
const maxMended = 256 << 20

// errNotMended: this damage needs more than frames.
var errNotMended = errors.New("the log cannot be mended with frames of another node")

// MendLog gives the log of a data directory the frames that a start needs. After an error the log is as it was, or less of it is
// damaged. Nobody may have the directory open (vfs.ErrLocked).
func MendLog(fsys vfs.FS, dir string, by LogMend) (done MendedLog, err error) {
	lock, err := lockDir(fsys, dir)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	m := logMender{fsys: fsys, dir: dir, by: by}
	from, err := m.prepare()
	if err != nil {
		return done, err
	}
	if err := m.first(from); err != nil {
		return m.done, err
	}
	for {
		walked, err := logfile.Walk(fsys, dir, from, m.known, logfile.Visitor{})
		if err == nil && walked.End >= by.Reach || ignoreDamage(err) != nil {
			return m.done, err
		}
		if walked.End < m.filled { // the new segment does not count
			return m.done, errors.Join(err, errNotMended)
		}
		if ferr := m.fill(&walked); ferr != nil {
			return m.done, errors.Join(err, ferr)
		}
	}
}

// logMender is a MendLog under way.
type logMender struct {
	fsys  vfs.FS
	dir   string
	by    LogMend
	past  format.Lineage
	known uint64 // the log was durable up to there
	done  MendedLog

	filled uint64 // end of the segment that was written last
	clean  bool   // the segment that is being written is the last one, and its file has a clean end
	data   []byte // its frames
	crc    uint32 // checksum of the last of them
}

// prepare reads what the directory says of its log, and returns the offset from which on a start may need it.
func (m *logMender) prepare() (from uint64, err error) {
	if h, err := ReadHealing(m.fsys, m.dir); err != nil || h != nil {
		return 0, errors.Join(err, errNotMended)
	}
	if m.past, err = logfile.ReadLineage(m.fsys, m.dir); err != nil {
		return 0, err
	}
	if len(m.past.Terms) == 0 || m.past.Begun() != "" {
		return 0, errNotMended
	}
	claim, err := logfile.ReadClaim(m.fsys, m.dir)
	if err != nil {
		return 0, err
	}
	m.known = claim.Offset
	good, _, _, err := snapfile.ListManifests(m.fsys, m.dir)
	if err != nil {
		return 0, err
	}
	for _, s := range good[:min(len(good), persist.KeepManifests)] { // newest first
		m.known, from = max(m.known, s.Offset), s.Replay
	}
	if _, err := vfs.RemoveTemps(m.fsys, format.LogDir(m.dir)); err != nil {
		return 0, err
	}
	return from, nil
}

// first makes the segment that holds an offset, if there is none.
func (m *logMender) first(from uint64) error {
	segs, err := logfile.ListSegments(m.fsys, m.dir)
	if err != nil || len(segs) > 0 && segs[0].Start <= from {
		return err
	}
	seg := logfile.SegmentInfo{Start: from, End: max(from, m.known, m.by.Reach)}
	var next *logfile.Segment
	if len(segs) > 0 {
		next, seg.End = &segs[0], segs[0].Start
	}
	switch {
	case from == seg.End: // the log ends there
	case m.by.Holding == nil:
		return fmt.Errorf("%w: no segment begins at %d or before", errNotMended, from)
	default:
		if seg.Start, err = m.by.Holding(m.termOf(seg.End), from, seg.End); err != nil {
			return err
		}
		if seg.Start > from {
			return &format.CorruptError{Dir: m.dir, File: "frames for the log", LogOffset: from, Want: "a frame that holds this offset", Got: fmt.Sprintf("one from %d on", seg.Start)}
		}
	}
	seg.Path = filepath.Join(format.LogDir(m.dir), format.SegmentName(seg.Start))
	return m.write(seg, seg.Start, 0, next)
}

// fill mends one segment, from the place on where a walk has ended.
func (m *logMender) fill(walked *logfile.Walked) error {
	at := walked.End
	segs, err := logfile.ListSegments(m.fsys, m.dir)
	if err != nil {
		return err
	}
	i := logfile.Below(segs, at+1) - 1
	if i < 0 {
		return fmt.Errorf("%w: no segment begins at %d or before", errNotMended, at)
	}
	seg := logfile.SegmentInfo{Path: segs[i].Path, Start: segs[i].Start}
	last := i+1 == len(segs)
	behind := framesBehind(m.fsys, segs[i:i+1], at)
	end := max(behind, m.known, m.by.Reach)
	if !last {
		end = segs[i+1].Start
	}
	h, whole := m.header(&segs[i])
	empty := at == seg.Start && behind == 0 && !whole                                // a segment without frames has lost its header
	if m.clean = last && end == max(behind, at) && (behind > at || empty); m.clean { // else whole frames do not show the end
		m.clean, err = logfile.EndsClean(m.fsys, seg, end)
		if ignoreDamage(err) != nil {
			return err
		}
	}
	if end = max(end, at); end == at && (!last || m.done.Segments > 0 && m.filled == at) {
		return errNotMended // it was tried
	}
	seg.End = end
	chain := walked.Chain
	if whole && at == seg.Start {
		if chain != 0 && h.Chain != chain { // whole, and of another log
			return fmt.Errorf("%w: the segment at %d does not follow the one before", errNotMended, at)
		}
		chain = h.Chain
	}
	var next *logfile.Segment
	if !last {
		next = &segs[i+1]
	}
	return m.write(seg, at, chain, next)
}

// write makes the segment that begins at an offset and goes to the end of seg, of the frames of seg's file and of fetched ones. The segment
// next begins there; nil: the log ends there.
func (m *logMender) write(seg logfile.SegmentInfo, at uint64, chain uint32, next *logfile.Segment) error {
	end := seg.End
	if end-at > maxMended {
		return fmt.Errorf("%w: damaged are offsets %d to %d", errNotMended, at, end)
	}
	if err := m.collect(seg, at, end); err != nil {
		return err
	}
	if next != nil {
		if h, ok := m.header(next); ok && h.Chain != m.crc { // end is above at, so there are frames
			return &format.CorruptError{Dir: m.dir, File: next.Path, LogOffset: end, Want: fmt.Sprintf("frames up to one with checksum %08x", h.Chain), Got: fmt.Sprintf("%08x", m.crc)}
		}
	}
	if next == nil && !m.clean && m.by.Ends != nil {
		if err := m.by.Ends(); err != nil {
			return err
		}
	}
	maker := logfile.Maker{FS: m.fsys, Dir: m.dir, Least: logfile.MinSegment}
	s, err := maker.Rewrite(format.SegmentHeader{History: HistoryAt(&m.past, at), Start: at, Durable: end, Chain: chain}, [][]byte{m.data}, nil)
	if err != nil {
		return err
	}
	m.filled, m.data = end, m.data[:0]
	m.done.Segments++
	m.done.Last = m.done.Last || next == nil && !m.clean
	return s.File.Close()
}

// collect gathers the frames between two offsets: those that are whole in a segment's file, and fetched ones.
func (m *logMender) collect(seg logfile.SegmentInfo, at, end uint64) (err error) {
	m.data = m.data[:0]
	for at < end {
		start, frames, found, err := logfile.FramesBehind(m.fsys, seg, at, end-1)
		if !vfs.IsNotExist(err) && ignoreDamage(err) != nil {
			return err
		}
		if !found {
			start, frames = end, nil
		}
		for at < start {
			raw, err := m.by.Fetch(m.termOf(start), at, start)
			if err != nil {
				return err
			}
			if at, err = m.take(raw, at, start); err != nil {
				return err
			}
			m.done.Bytes += uint64(len(raw))
		}
		for _, raw := range frames {
			if at, err = m.take(raw, at, end); err != nil {
				return err
			}
		}
	}
	return nil
}

// take checks frames that begin at an offset and end at another one at most, and appends them.
func (m *logMender) take(raw []byte, at, end uint64) (uint64, error) {
	if len(raw) == 0 {
		return at, io.ErrUnexpectedEOF
	}
	m.data = append(m.data, raw...)
	var f format.Frame
	for len(raw) > 0 {
		fault := format.DecodeFrame(raw, at, &f)
		if fault == nil && f.End() > end {
			fault = &format.Fault{Want: fmt.Sprintf("a frame up to %d", end), Got: fmt.Sprintf("one up to %d", f.End())}
		}
		if fault != nil {
			return at, &format.CorruptError{Dir: m.dir, File: "frames for the log", LogOffset: at, Want: fault.Want, Got: fault.Got}
		}
		if err := m.past.Admits(f.Start, f.Epoch); err != nil {
			return at, err
		}
		at, raw, m.crc = f.End(), raw[len(f.Raw):], f.CRC
	}
	return at, nil
}

// header reads the header of a segment; ok is false if it is damaged.
func (m *logMender) header(seg *logfile.Segment) (h format.SegmentHeader, ok bool) {
	h, fault, err := logfile.SegmentHeaderOf(m.fsys, seg)
	return h, fault == nil && err == nil
}

// termOf is the newest term that this log has of the bytes below an offset: a log that has come to the offset in that term has the
// same bytes below it.
func (m *logMender) termOf(end uint64) format.ReplID {
	cut := m.past.Cut(end)
	if len(cut.Terms) == 0 { // the older ones are forgotten
		return m.past.Terms[0].ReplID
	}
	return cut.Current().ReplID
}

// HistoryAt is the history of a segment that is made again and starts at a log offset. It counts as a replica's: the claims of its frames are not
// asked, as they may be about another disk. In the term that a primary began itself they are about its own, and all of the segment is durable; a
// replica's segment there would make HISTORY.copy look older than the log (logfile.OutdatedLineage).
func HistoryAt(l *format.Lineage, at uint64) format.History {
	cut := l.Cut(at + 1)
	h := cut.Current()
	h.Replica = l.Replica || h.ReplID != l.Current().ReplID
	return h
}

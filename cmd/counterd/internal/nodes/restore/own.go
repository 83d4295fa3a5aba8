package restore

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// own is the part of a damaged directory that can be read: whose store it was, and its log.
type own struct {
	dir  string
	set  uint64          // in which the log is set aside; 0: it is in its place
	past *format.Lineage // nil: HISTORY cannot be read
	ids  []format.ReplID // of terms, from other files than HISTORY
}

// ErrReplica is a directory that is, or may be, a replica's: the data of its primary are newer than a backup. HISTORY says so, and the
// caller knows the files PRIMARY and HANDOVER. Headers of the log do not count: a replica that was promoted has those of its primary.
var ErrReplica = errors.New("this node was a replica, or was becoming one: its primary has its data")

func readOwn(dir string, noted format.ReplID) (*own, error) {
	o := &own{dir: dir}
	if h, err := past.ReadHealing(vfs.OS(), dir); err != nil {
		return nil, err
	} else if h != nil {
		if o.set = h.First; o.set == 0 {
			return nil, errors.New("it is not known in which files that were set aside the log is")
		}
	}
	if noted != (format.ReplID{}) {
		o.ids = append(o.ids, noted)
	}
	for _, name := range []string{format.HistoryName, format.HistoryName + vfs.CopySuffix} {
		text, err := vfs.ReadFile(vfs.OS(), o.path(name), format.MaxLineageText)
		if err != nil {
			continue
		}
		l, err := format.DecodeLineage(name, text)
		if err != nil || len(l.Terms) == 0 || name != format.HistoryName && logfile.OutdatedLineage(vfs.OS(), o.segments(), &l) != nil {
			continue
		}
		if l.Replica || l.Begun() != "" {
			return nil, ErrReplica
		}
		o.past = &l
		break
	}
	if text, err := vfs.ReadFile(vfs.OS(), o.path(format.ClaimName), format.ClaimFileLen); err == nil {
		for _, c := range format.WholeClaims(text) {
			o.ids = append(o.ids, c.ReplID)
		}
	}
	for _, s := range o.segments() {
		if h, fault, err := logfile.SegmentHeaderOf(vfs.OS(), &s); fault == nil && err == nil { // else it is damaged
			o.ids = append(o.ids, h.History.ReplID)
		}
	}
	return o, nil
}

func (o *own) path(name string) string { return past.DamagedPath(o.dir, name, o.set) }

// segments lists the files of the log that there are.
func (o *own) segments() []logfile.Segment {
	segs, _ := logfile.SegmentsIn(vfs.OS(), o.path(format.LogDirName)) // without a folder there are none
	return segs
}

// written is when the log was last written, as its files say; zero: nobody knows.
func (o *own) written() (at time.Time) {
	for _, s := range o.segments() {
		if info, err := os.Stat(s.Path); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

// begins tells whether a backup, whose log has a past and ends at an offset, is of this store, and is the beginning of its
// log. Without HISTORY it is not known where they part: continues has to tell.
func (o *own) begins(l *format.Lineage, end uint64) bool {
	if o.past != nil {
		return l.Begins(end, o.past, 1<<63)
	}
	return slices.ContainsFunc(l.Terms, func(t format.Term) bool { return slices.Contains(o.ids, t.ReplID) })
}

// frame calls f for the frames of the log behind an offset, as far as they are whole.
func (o *own) frames(from uint64, f func(raw []byte) error) (known uint64, err error) {
	return past.DamagedLog(vfs.OS(), o.dir, o.set, from, f)
}

// continues tells whether the log has the frame that ends at an offset as another log has it: then the frames behind it
// continue the other log.
func (o *own) continues(there []logfile.Segment, end uint64) bool {
	theirs, ok := frameBefore(there, end)
	mine, ok2 := frameBefore(o.segments(), end)
	return ok && ok2 && slices.Equal(theirs, mine)
}

// frameBefore returns the frame that ends at an offset.
func frameBefore(segs []logfile.Segment, end uint64) (raw []byte, ok bool) {
	n := logfile.Below(segs, end)
	if n == 0 {
		return nil, false
	}
	file, err := logfile.OpenSegmentFile(vfs.OS(), &segs[n-1])
	if err != nil {
		return nil, false
	}
	defer file.Close()
	var scanner logfile.Scanner
	var f format.Frame
	for scanner.Reset(file, segs[n-1], segs[n-1].Start, end); ; {
		if fault, err := scanner.Next(&f); fault != nil || err != nil {
			return nil, false
		}
		if f.End() == end {
			return slices.Clone(f.Raw), true
		}
	}
}

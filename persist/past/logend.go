package past

import (
	"fmt"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// LogEnd is the end of a log, as a start of its directory would find it.
type LogEnd struct {
	Offset uint64
	Term   format.ReplID // the newest term of the log
	// Replica tells whether HISTORY says that the log is a replica's.
	Replica bool
	// Torn tells whether bytes behind the end are no frames. A start would cut them.
	Torn bool
	// Closed tells whether the log was closed there in this term, as DURABLE says: it never had more.
	Closed bool
}

// ReadLogEnd reads the end of a log that is not open: its last segment, HISTORY and DURABLE. It changes nothing. An error means that the end of the log
// is damaged, or that there is no log.
func ReadLogEnd(fsys vfs.FS, dir string) (end LogEnd, err error) {
	lineage, err := logfile.ReadLineage(fsys, dir)
	if err != nil {
		return end, err
	}
	if len(lineage.Terms) == 0 || lineage.Begun() != "" {
		return end, fmt.Errorf("%s: no log of a known term", dir)
	}
	claim, err := logfile.ReadClaim(fsys, dir)
	if err != nil {
		return end, err
	}
	segs, err := logfile.ListSegments(fsys, dir)
	if err != nil {
		return end, err
	}
	from := uint64(0)
	if n := len(segs); n > 0 {
		from = segs[n-1].Start
	}
	walked, err := logfile.Walk(fsys, dir, from, claim.Offset, logfile.Visitor{})
	if err != nil {
		return end, err
	}
	term := lineage.Current().ReplID
	closed := claim.Closed && claim.ReplID == term && claim.Offset == walked.End
	return LogEnd{Offset: walked.End, Term: term, Replica: lineage.Replica, Torn: walked.Torn != nil, Closed: closed}, nil
}

// ReadWholeEnd is ReadLogEnd for a log whose last segment may be damaged: the end is that of the last whole frame in front of the damage.
func ReadWholeEnd(fsys vfs.FS, dir string) (end LogEnd, err error) {
	end, err = ReadLogEnd(fsys, dir)
	if err == nil || ignoreDamage(err) != nil {
		return end, err
	}
	lineage, lerr := logfile.ReadLineage(fsys, dir)
	if lerr != nil || len(lineage.Terms) == 0 || lineage.Begun() != "" {
		return LogEnd{}, err
	}
	segs, err := logfile.ListSegments(fsys, dir)
	if err != nil || len(segs) == 0 {
		return LogEnd{Term: lineage.Current().ReplID, Replica: lineage.Replica, Torn: true}, err
	}
	_, to, _, err := readDamaged(fsys, dir, 0, segs[len(segs)-1].Start, func([]byte) error { return nil })
	return LogEnd{Offset: to, Term: lineage.Current().ReplID, Replica: lineage.Replica, Torn: true}, err
}

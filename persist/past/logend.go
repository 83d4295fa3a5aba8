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
	// Torn tells whether bytes behind the end are no frames. A start would cut them.
	Torn bool
	// Durable tells whether the log was once durable up to there and had nothing more, as DURABLE says: so ends a log that was closed,
	// or had no change for some seconds.
	Durable bool
}

// ReadLogEnd reads the end of the log of a primary that is not running: its last segment, HISTORY and DURABLE. It changes nothing. An error
// means that the log is a replica's, is damaged, or that there is none.
func ReadLogEnd(fsys vfs.FS, dir string) (end LogEnd, err error) {
	lineage, err := logfile.ReadLineage(fsys, dir)
	if err != nil {
		return end, err
	}
	if len(lineage.Terms) == 0 || lineage.Replica || lineage.Begun() != "" {
		return end, fmt.Errorf("%s: no log of a primary", dir)
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
	return LogEnd{Offset: walked.End, Term: lineage.Current().ReplID, Torn: walked.Torn != nil, Durable: claim.Offset == walked.End}, nil
}

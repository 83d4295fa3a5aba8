package feed

import (
	"math"

	"github.com/counterd/counterd/persist/format"
)

// positionAt is the position at a log offset where a frame begins or the log ends, of a log with that past.
func positionAt(l *format.Lineage, offset uint64) Position {
	p := Position{Frame: offset}
	p.name(l, offset)
	return p
}

// name says of which term the byte before an offset is. Bytes of terms that the past has forgotten are named by its oldest
// one. An offset of 0, where no byte is before, is named by that too.
func (p *Position) name(l *format.Lineage, offset uint64) {
	p.Term, p.Epoch, p.Before, p.Since = TermID{}, 0, TermID{}, 0
	if len(l.Terms) == 0 {
		return
	}
	i := len(l.Terms) - 1
	for i > 0 && l.Terms[i].Start >= offset {
		i--
	}
	p.Term, p.Epoch = termID(l.Terms[i].ReplID), l.Terms[i].Epoch
	if i > 0 {
		p.Before, p.Since = termID(l.Terms[i-1].ReplID), l.Terms[i].Start
	}
}

// find returns the number of a term; -1: the past does not have it.
func find(l *format.Lineage, id TermID) int {
	for i := range l.Terms {
		if termID(l.Terms[i].ReplID) == id {
			return i
		}
	}
	return -1
}

// check tells whether a position is one of a log with a past. ahead: the log does not reach up to it yet; it may be a replica
// that is behind. The error is a *HistoryError.
//
// A replica may not have heard yet of the term. So a position counts as ahead where
// its epoch is above this node's, or where all of this log is the beginning of the other: only a primary's word ends a history.
//
// At offset 0 nothing was seen, so all logs agree. The term there is another after each start that comes before the first change. But a log that needs
// a snapshot lacks changes, or has those of posts that were given up. A position of the time before that would go on as if it had all.
func (p *Position) check(l *format.Lineage, end uint64, moves bool) (ahead bool, err error) {
	if p.Offset() == 0 && l.NeedsSnapshot && find(l, p.Term) < 0 {
		return false, &HistoryError{}
	}
	if p.Offset() == 0 {
		return false, nil
	}
	if i := find(l, p.Term); i >= 0 {
		limit := uint64(math.MaxUint64)
		if i+1 < len(l.Terms) {
			limit = l.Terms[i+1].Start
		}
		if p.Offset() > limit && !(l.Replica && limit >= end) {
			return false, historyError(l, limit, moves)
		}
		return p.Offset() > end, nil
	}
	if l.Replica && p.Epoch > l.Current().Epoch {
		return true, nil
	}
	k := find(l, p.Before)
	if k < 0 || p.Before == (TermID{}) {
		return false, &HistoryError{}
	}
	common := min(p.Since, l.End(k, end))
	if common >= end && (l.Replica || k == len(l.Terms)-1) {
		return true, nil
	}
	return false, historyError(l, common, moves)
}

// historyError names a common place. Where groups of hash slots move, it does not say which were on their way there: in a cluster
// a history ends otherwise than by all changes of it being kept only if an operator gives changes up.
func historyError(l *format.Lineage, common uint64, moves bool) error {
	if moves {
		return &HistoryError{}
	}
	return &HistoryError{Common: positionAt(l, common), Known: true}
}

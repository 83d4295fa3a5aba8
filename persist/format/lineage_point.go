package format

// Holds tells whether the log, which ends at logEnd, holds what a primary of an epoch had in its log below an offset. The
// offset must be one that the primary's term reached. Terms that were dropped because there were too many are believed: all
// that they held is in the log.
func (l *Lineage) Holds(epoch uint32, offset, logEnd uint64) bool {
	for i, t := range l.Terms {
		switch {
		case t.Epoch == epoch:
			return offset <= l.End(i, logEnd)
		case t.Epoch > epoch: // the log went on without that term, or has forgotten it
			return i == 0 && len(l.Terms) == maxTerms && offset <= t.Start
		}
	}
	return false
}

package format

import (
	"errors"
	"fmt"
)

// ErrTerm: a frame is of a term that the history of its log does not have. Nothing was changed. Matches every *TermError.
var ErrTerm = errors.New("the history does not have the term of this frame")

// TermError says which frame is of a term that the history of its log does not have at that offset.
type TermError struct {
	Offset uint64 // in the log, of the frame
	Epoch  uint32 // of the frame
	Want   Term   // what the history has there; the zero value: nothing
}

// Error gives one line with the offset, the epoch of the frame, and that of the history.
func (e *TermError) Error() string {
	return fmt.Sprintf("log offset %d: a frame of epoch %d, the history has epoch %d there, since offset %d", e.Offset, e.Epoch, e.Want.Epoch, e.Want.Start)
}

// Is makes errors.Is(err, ErrTerm) true.
func (e *TermError) Is(target error) bool { return target == ErrTerm }

// Admits returns nil if a frame of an epoch may begin at a log offset: the lineage has a term of that epoch there. Else
// the error is a *TermError. A node that took such a frame would give its bytes the name of another term, and any two
// nodes that compare their histories would find that they differ where they do not, or the other way round.
//
// A frame may be of an earlier epoch in two places: in the first term, as older terms are forgotten and a repair names a
// whole log anew; and where a term begins, as a restore to a moment keeps part of the frame there.
func (l *Lineage) Admits(start uint64, epoch uint32) error {
	n := len(l.Terms)
	for n > 0 && l.Terms[n-1].Start > start {
		n--
	}
	switch {
	case len(l.Terms) == 0:
		return &TermError{Offset: start, Epoch: epoch}
	case n == 0 && epoch < l.Terms[0].Epoch:
		return nil
	case n == 0:
		return &TermError{start, epoch, l.Terms[0]}
	}
	t := l.Terms[n-1]
	if epoch == t.Epoch || epoch < t.Epoch && (n == 1 || start == t.Start) {
		return nil
	}
	return &TermError{start, epoch, t}
}

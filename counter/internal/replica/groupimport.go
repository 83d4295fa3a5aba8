package replica

import (
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// GroupImport takes groups of hash slots over from another store: it applies the records of a GroupExport, in order.
// NOT safe for concurrent use.
type GroupImport struct {
	in     Groups
	move   string
	groups slot.Set
	taken  *takeover
	begun  uint64 // offset behind the record that begins it
}

// Import begins to take groups over by a move: what is here of them is removed, and nobody sees them until Accept. It may
// be begun anew at any time, which forgets what came before, what producers did in the groups included. Own must not name
// the groups. The error is ErrTimeBehind, or as of changes.
func (g Groups) Import(move string, set slot.Set) (*GroupImport, error) {
	if err := g.MayImport(); err != nil {
		return nil, err
	}
	if err := g.deleteGroups(set); err != nil {
		return nil, err
	}
	if failed := set.Both(g.imported()); failed != (slot.Set{}) {
		if _, err := g.logMove(format.KindDrop, move, failed); err != nil {
			return nil, err
		}
	}
	end, err := g.logMove(format.KindImport, move, set)
	if err != nil {
		return nil, err
	}
	i := &GroupImport{in: g, move: move, groups: set, begun: end}
	i.taken = newTakeover(g, set, i)
	return i, nil
}

// MayImport returns ErrTimeBehind while counts of windows must not come: they are newer than the time of the log, and would go with the next tick.
func (g Groups) MayImport() error {
	if g.s.TimeBehind() {
		return ErrTimeBehind
	}
	return nil
}

// Begun is the log offset behind the record that begins the import. A log up to there has all of an import that brings nothing.
func (i *GroupImport) Begun() uint64 { return i.begun }

// Posts is how many posts came in rows.
func (i *GroupImport) Posts() uint64 { return i.taken.posts }

// Apply takes records of the source's GroupExport over. end is the log offset behind them, and done how many bytes of them
// were taken over: with an error those before the record that it speaks of, whose others may be given again. The error
// matches ErrBehind, ErrMaxMemory, ErrNotReady, ErrReplica, ErrDeposed, ErrClosed or ErrNotImporting, is a *ProducersFullError, or
// matches format.ErrCorrupt where they are no records of these groups. After any other memory may lack what the log has:
// the groups are to be dropped.
func (i *GroupImport) Apply(records []byte) (end uint64, done int, err error) {
	for done < len(records) && err == nil {
		var n int
		switch format.Kind(records[done]) {
		case format.KindFlush:
			n, end, err = i.flush()
		case format.KindDropRange:
			n, end, err = i.taken.dropRange(records[done:])
		default:
			n, end, err = i.taken.some(records[done:])
		}
		done += n
	}
	return end, done, err
}

// flush removes the posts that came so far: the source removed all posts.
func (i *GroupImport) flush() (n int, end uint64, err error) {
	if err = i.in.deleteGroups(i.groups); err == nil {
		end, err = i.in.logMove(format.KindImport, i.move, i.groups)
	}
	if err != nil {
		return 0, 0, err
	}
	return 1, end, nil
}

// ready tells that an Accept or a Drop has ended the import. REQUIRES Data.Gate held.
func (i *GroupImport) ready() error {
	of := i.in.s.Moving.Importing[i.move]
	for w := range of {
		if i.groups[w]&^of[w] != 0 {
			return ErrNotImporting
		}
	}
	return nil
}

// takes is nil: check knows the kinds of records that an export has.
func (i *GroupImport) takes(*format.Record) error { return nil }

package replica

import (
	"fmt"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// A restored backup writes its posts as any client does, and then its memory of numbered changes by Remember: a repeat of a
// change that the backup has is answered, and does not count again.

// Producers returns the memory of producers' changes in groups, as records for Remember in pieces of about max bytes. A piece
// has all of a producer, so it may be larger.
func (g Groups) Producers(set slot.Set, max int) (pieces [][]byte) {
	l := &g.s.Producers
	l.Mu.Lock()
	defer l.Mu.Unlock()
	begin, last := 0, 0
	var marks []int
	all := l.Table.AppendGroups(nil, &set, 0, func(n int) {
		if last > begin && n-begin > max {
			marks, begin = append(marks, last), last
		}
		last = n
	})
	begin = 0
	for _, end := range append(marks, len(all)) {
		if end > begin {
			pieces = append(pieces, all[begin:end:end])
		}
		begin = end
	}
	return pieces
}

// Remember adds the records that Producers of another store has returned about groups that are this store's. Numbers that are known here
// stay as they are, so it may be repeated. end is the log offset behind it. The error is as of GroupImport.Apply, or
// ErrNotHere: a memory of groups that are not served here would answer for posts that the store does not have.
func (g Groups) Remember(set slot.Set, records []byte) (end uint64, err error) {
	t, done := newTakeover(g, set, memory{g, set}), 0
	for done < len(records) && err == nil {
		var n int
		n, end, err = t.some(records[done:])
		done += n
	}
	return end, err
}

// memory are the rules of Remember.
type memory struct {
	in  Groups
	set slot.Set
}

// ready tells why nothing can be remembered of the groups. REQUIRES Data.Gate held.
func (m memory) ready() error {
	if hidden := m.in.s.Moving.Hidden(); m.set.Both(hidden) != (slot.Set{}) {
		return ErrNotHere
	}
	for w, foreign := range m.in.s.Own.Foreign {
		if m.set[w]&foreign != 0 {
			return ErrNotHere
		}
	}
	return nil
}

// takes lets records of producers alone pass. A once whose result is the next record comes with a post.
func (m memory) takes(rec *format.Record) error {
	switch rec.Kind {
	case format.KindDefine, format.KindFloor:
		return nil
	case format.KindOnce:
		if rec.Result != format.ResultNext {
			return nil
		}
	}
	return fmt.Errorf("counter: %s in a memory of producers: %w", rec.Kind, format.ErrCorrupt)
}

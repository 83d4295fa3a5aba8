package counter

import (
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/topbuild"
	"github.com/counterd/counterd/counter/internal/toplist"
)

// TopEntry is a post of a top list, and its value.
type TopEntry = toplist.Entry

// TopList is the list of the posts with the largest values that the store keeps for a column with top=.
type TopList struct{ kept topbuild.Kept }

// TopLists are the lists that there are now. A list stays the same until its column, or the length of the list, changes.
func (s *Store) TopLists() []TopList {
	kept := s.tops.Lists()
	lists := make([]TopList, len(kept))
	for i := range kept {
		lists[i] = TopList{kept[i]}
	}
	return lists
}

// Is tells whether l and other are the same list, not two lists of one column.
func (l TopList) Is(other TopList) bool { return l.kept.List == other.kept.List }

// Names are those of the counter and the column.
func (l TopList) Names() (counter, column string) {
	if of := l.kept.Derived; of != nil {
		return l.kept.Owner.Name, of.Name
	}
	def := l.kept.Counter
	if i := def.Index(l.kept.List.Column); i >= 0 {
		column = def.Columns[i].Name
	}
	return def.Name, column
}

// Version is cheap: as long as it stays, so do the posts of the list, and their values.
func (s *Store) Version(l TopList) uint64 {
	v := l.kept.List.Version()
	if of := l.kept.Derived; of != nil && of.Decays() {
		v += uint64(s.data.Time.Seconds()) // neither of them falls, so the sum stays only if both do
	}
	return v
}

// TopOf returns the posts of a list, the best first: as many as top= says, or all there are. Of a derived column, posts with the value 0 are left out. It returns when they may be told, as an answer of
// Top. ok is false while the list is built. The error is that of Batch.Begin or Batch.Commit.
func (s *Store) TopOf(l TopList) (top []TopEntry, ok bool, err error) {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return nil, false, err
	}
	top, seen, ok := l.kept.List.Top(l.kept.List.Want)
	core.NoteSeen(b, seen)
	if of := l.kept.Derived; of != nil && of.Decays() {
		now := s.data.Time.Seconds()
		for i := range top {
			if top[i].Value = of.Sum([]uint64{top[i].Value}, now); top[i].Value == 0 {
				top = top[:i]
				break
			}
		}
	}
	b.End()
	return top, ok, b.Commit()
}

package counter

import "github.com/counterd/counterd/counter/internal/tier"

// DamagedRanges are the ranges of the cold blocks whose file is missing or damaged, as far as a read or the scrubber has
// found. ReplaceRange ends the damage.
//
// While there is no damage, it takes two atomic loads: the blocks are walked over if a file was found damaged since the last
// walk that found none.
func DamagedRanges(store *Store) (found []PostRange) {
	s := &store.data
	known := s.Cache.Damages() + 1 // before the walk
	if store.undamaged.Load() == known {
		return nil
	}
	s.Gate.RLock()
	defer s.Gate.RUnlock()
	if s.Closed {
		return nil
	}
	for ks := range s.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			if b.Cold != nil && b.Cold.File.Damaged() && !b.Open() {
				found = append(found, PostRange{Counter: ks.ID, Group: ks.Group, Lo: b.Lo, Hi: b.Hi})
			}
		}
	}
	if len(found) == 0 {
		store.undamaged.Store(known)
	}
	return found
}

// ReplaceRange gives a cold block with a damaged file another file, with the posts of another node. r is the block's range,
// and rows are all posts that the other node has there, in order of mid, each as it was somewhere between the log offsets
// since and at, of a log that agrees with this one up to at. On top of them comes what this store knows of the range: all
// that was changed since the damaged file was written is in the block's overlay, or in its partial rows. So a column that
// changed has the value of this store, and one that did not is the same in both.
//
// The error is ErrElsewhere if this log does not reach at yet, or if the schema changed behind since; ErrNoBlock if there is no
// such block any more. Nothing was changed then. The old file stays until no snapshot names it.
func ReplaceRange(s *Store, r PostRange, since, at uint64, rows []PostRow) error {
	s.data.Gate.RLock()
	ks, err := rangeKeyspace(&s.data, r)
	s.data.Gate.RUnlock()
	if err != nil {
		return err
	}
	return s.tiers.DemoteAs(ks, r.Lo, tier.RewriteFrom{Posts: &tier.OtherPosts{Lo: r.Lo, Hi: r.Hi, Since: since, At: at, Rows: rows}})
}

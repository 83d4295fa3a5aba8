package counter

import (
	"errors"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/durable"
	"github.com/counterd/counterd/counter/internal/tier"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
)

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

// ErrNotAside: no cold file that was set aside has the posts of a range.
var ErrNotAside = errors.New("counter: no cold file that was set aside has these posts")

// RegainRange gives a cold block with a damaged file another file, with the same posts: a whole copy of the damaged file is among the files
// that a healing has set aside (past.GiveUp). Without such a copy, the error is ErrNotAside. Two nodes have the same file if one node has copied the other node. r is the block's range.
func RegainRange(s *Store, r PostRange) (posts int, err error) {
	d := &s.data
	d.Gate.RLock()
	ks, err := rangeKeyspace(d, r)
	d.Gate.RUnlock()
	if err != nil {
		return 0, err
	}
	b := ks.Lock(r.Lo)
	var entry format.BlockFile
	if b.Cold != nil {
		entry = b.Cold.Entry
	}
	b.Mu.Unlock()
	paths, err := past.ColdAside(d.Config.FS, s.Path(), int64(entry.Bytes))
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		if durable.ColdVerifier(d.Config.FS)(path, &format.CounterFiles{ID: r.Counter}, &entry) != nil {
			continue
		}
		file, err := coldstore.Open(d.Config.FS, path, nil)
		if err != nil {
			return 0, err
		}
		err = s.tiers.DemoteAs(ks, r.Lo, tier.RewriteFrom{Again: file})
		return int(entry.Items), errors.Join(err, file.Close())
	}
	return 0, ErrNotAside
}

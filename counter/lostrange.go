package counter

import (
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist"
)

// A block's image that cannot be used, and of which no snapshot has another, as both have one file for a block that did
// not change, takes the posts of the block's range with it, and no others. The block becomes a cold one whose file is
// missing (persist.LostName), in the next snapshot as well: what the log says of the range since the image, and what is
// set from now on, is kept as partial rows; all else answers ErrCold. That of an overlay takes the cold file's rows
// with it, as nobody knows which of them are of the past.
//
// Until the next snapshot nothing is final: a start that can read the image has it all. The start is refused
//
//   - where the log begins at 0: a repair then brings everything back from it
//   - where the last block is concerned: all new posts are in its range, and nobody knows up to where there were any. A
//     node that takes none is of no use, and one that is down has a replica take its place
//   - for what an operator can set right (lostFile)
type leniency uint8

// What recovery goes on without, if it must.
const (
	nothingLost leniency = iota
	coldLost             // cold files
	imagesLost           // images too
)

// mayLose tells whether the range of an image goes on without it. err is why it cannot be used.
func (s *Store) mayLose(f *persist.BlockFile, err error) bool {
	return s.lenient == imagesLost && lostFile(err) && (f.Hi != hot.EndMid || s.opts.giveUp)
}

// lostRange makes the block of a range whose image cannot be used: f's, or that of the overlay above f.
func (s *Store) lostRange(f, overlay *persist.BlockFile, err error) *block {
	entry, names, bad := *f, []string{f.Name}, f
	if overlay != nil {
		names, bad = append(names, overlay.Name), overlay
	}
	entry.Tier, entry.Name = persist.TierCold, persist.LostName(names...)
	s.opts.Logger.Error("an image cannot be used, and no snapshot has another: the posts of its range cannot be read until they are set", "file", bad.Path(s.dir.Path()),
		"lo", f.Lo, "hi", f.Hi, "items", f.Items, "error", err, "repair", persist.RepairCommand(s.dir.Path()))
	s.tiers.broken.Add(1)
	s.tiers.keep(entry.Name)
	file := coldstore.Broken(bad.Path(s.dir.Path()), coldstore.Meta{Lo: f.Lo, Hi: f.Hi}, f.Items, err)
	return &block{lo: f.Lo, hi: f.Hi, id: f.Block, from: f.Offset, cold: &coldRange{file: file, entry: entry}}
}

// fewestLost returns manifests in the order in which they are to be tried without what cannot be read of them. There
// are none where a repair loses nothing.
func (s *Store) fewestLost(manifests []*persist.Manifest) ([]*persist.Manifest, error) {
	if segs, err := persist.Segments(s.opts.FS, s.dir.Path()); err != nil || len(segs) == 0 || segs[0].Start == 0 {
		return nil, err
	}
	faults := make(map[*persist.Manifest][]*persist.ColdFault, len(manifests))
	for _, m := range manifests {
		var err error
		if faults[m], err = m.Faults(s.opts.FS, s.dir.Path(), nil); err != nil {
			return nil, err
		}
	}
	sorted := slices.Clone(manifests)
	slices.SortStableFunc(sorted, func(a, b *persist.Manifest) int { return persist.FewestLost(faults[a], faults[b]) })
	return sorted, nil
}

package persist

import (
	"cmp"
	"errors"
	"strings"
	"syscall"

	"github.com/counterd/counterd/persist/vfs"
)

// A range of mids whose image cannot be used, and of which no snapshot has another, goes on as a cold block whose file
// is missing, in manifests too. The name of that file, which never was, says what was lost with it, so that the files
// stay where they are for as long as a manifest names the range:
//
//	lost+71-90210.hot.cold                     the image of a hot block
//	lost+71-90210.cold+71-95000.hot.cold       the image of an overlay, and the cold file below, which alone is
//	                                           of the past
//	lost+71-90210.hot+71-95000.hot.cold        the image of what was known of a lost range: the first file is of
//	                                           the past now
const lostPrefix = "lost+"

// LostName returns the base name of the cold file in the place of files that cannot be used.
func LostName(names ...string) string { return lostPrefix + strings.Join(names, "+") + coldSuffix }

// Remains returns the paths of the files that b, the cold block of a lost range, stands for; none of another block.
// They may be gone.
func (b *BlockFile) Remains(dir string) (paths []string) {
	names, lost := strings.CutPrefix(b.Name, lostPrefix)
	if !lost || b.Tier != TierCold {
		return nil
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(names, coldSuffix), "+") {
		for _, t := range [...]Tier{TierHot, TierCold} {
			if isBlockName(t, name) {
				paths = append(paths, (&BlockFile{Tier: t, Name: name}).Path(dir))
			}
		}
	}
	return paths
}

// Unreadable reports whether err says that a file's content is damaged, missing, or not to be had from the disk.
func Unreadable(err error) bool {
	return errors.Is(err, ErrCorrupt) || isNotExist(err) || errors.Is(err, syscall.EIO)
}

// Faults reads all files of a manifest and returns what is wrong with them: of images as well, which take their range
// with them; that of an overlay those of the cold file below too, which alone is of the past. Another error says that
// they could not all be read.
func (m *Manifest) Faults(fsys vfs.FS, dir string, cold ColdCheck) (faults []*BlockFault, err error) {
	below := map[uint64]uint64{} // items of cold files, by block
	err = m.Files(func(c *CounterFiles, b *BlockFile) error {
		if b.Tier == TierCold {
			below[b.Block] = b.Items
		}
		err := CheckBlock(fsys, dir, c, b, cold)
		var fault *BlockFault
		switch {
		case err == nil:
		case errors.As(err, &fault):
			faults = append(faults, fault)
		case Unreadable(err):
			fault = UnusableBlock(dir, c, b, err)
			if b.Tier == TierOverlay {
				fault.Block.Items += below[b.Block]
			}
			faults = append(faults, fault)
		default:
			return err
		}
		return nil
	})
	return faults, err
}

// FewestLost compares what is wrong with two snapshots: negative if a loses fewer items.
func FewestLost(a, b []*BlockFault) int {
	items := func(faults []*BlockFault) (n uint64) {
		for _, f := range faults {
			if f.Unusable {
				n += f.Block.Items
			}
		}
		return n
	}
	return cmp.Compare(items(a), items(b))
}

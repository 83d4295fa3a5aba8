package snapfile

import (
	"cmp"
	"errors"
	"syscall"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Unreadable reports whether err says that a file's content is damaged, missing, or not to be had from the disk.
func Unreadable(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || vfs.IsNotExist(err) || errors.Is(err, syscall.EIO)
}

// Faults reads all files of a manifest and returns the damaged or missing ones. Without its image a range is lost. Without the
// image of an overlay the range of the cold file below is lost too, as the cold file alone has old values. err says that not
// all files could be read.
func Faults(m *format.Manifest, fsys vfs.FS, dir string, cold ColdCheck) (faults []*BlockFault, err error) {
	below := map[uint64]uint64{} // items of cold files, by block
	err = m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		if b.Tier == format.TierCold {
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
			if b.Tier == format.TierOverlay {
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

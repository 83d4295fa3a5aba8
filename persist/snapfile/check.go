package snapfile

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// ColdCheck verifies a cold file, whose content this package does not know, against its manifest entry. Damage gives a
// *BlockFault.
type ColdCheck func(path string, c *format.CounterFiles, b *format.BlockFile) error

// CheckBlock verifies a block's file against its manifest entry and its own checksums. cold is asked for cold files;
// nil: of them only the size is verified.
func CheckBlock(fsys vfs.FS, dir string, counter *format.CounterFiles, b *format.BlockFile, cold ColdCheck) error {
	path := b.Path(dir)
	mismatch := func(what string, want, got uint64) error {
		if want == got {
			return nil
		}
		return &format.CorruptError{File: path, Want: fmt.Sprintf("%s %d as in the manifest", what, want), Got: fmt.Sprintf("%d", got)}
	}
	if b.Tier == format.TierCold {
		info, err := fsys.Stat(path)
		switch {
		case vfs.IsNotExist(err):
			return UnusableBlock(dir, counter, b, err)
		case err != nil:
			return err
		case uint64(info.Size()) != b.Bytes:
			return UnusableBlock(dir, counter, b, mismatch("size", b.Bytes, uint64(info.Size())))
		case cold == nil:
			return nil
		}
		return cold(path, counter, b)
	}
	img, err := OpenImage(fsys, path)
	if err != nil {
		return err
	}
	err = errors.Join(
		mismatch("counter", uint64(counter.ID), uint64(img.Counter)),
		mismatch("block", b.Block, img.Block),
		mismatch("first mid", b.Lo, img.Lo),
		mismatch("last mid", b.Hi, img.Hi),
		mismatch("items", b.Items, img.Items),
		mismatch("size", b.Bytes, img.Bytes),
		mismatch("crc32c", uint64(b.CRC), uint64(img.CRC)),
	)
	if err == nil {
		err = img.Verify()
	}
	return errors.Join(err, img.Close())
}

package datadir

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// copyBlocks copies the files of a manifest and verifies the copies. Damaged cold files are copied as they are: a
// server answers errors for their mids, and serves all others.
func (r *restore) copyBlocks(m *persist.Manifest) error {
	copied := map[string]bool{}
	var done, total uint64
	_ = m.Files(func(_ *persist.CounterFiles, b *persist.BlockFile) error { // fn returns nil
		total += b.Bytes
		return nil
	})
	return m.Files(func(c *persist.CounterFiles, b *persist.BlockFile) error {
		if name := string(b.Tier) + b.Name; copied[name] {
			return nil
		} else {
			copied[name] = true
		}
		if err := r.copyBlock(b); err != nil {
			if errors.Is(err, fs.ErrNotExist) && b.Tier == persist.TierCold {
				r.sayf("left out: %v", persist.UnusableBlock(r.dir, c, b, err))
				return nil
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = &persist.CorruptError{File: b.Path(r.dir), Want: "a file as " + persist.ManifestName(m.Generation) + " names it", Got: "none", Err: err}
			}
			return err
		}
		if err := persist.CheckBlock(r.to, r.out, c, b, r.opts.Cold); err != nil {
			var fault *persist.BlockFault
			if !errors.As(err, &fault) {
				return fmt.Errorf("copy of %s: %w", b.Path(r.dir), err)
			}
			r.sayf("copied as it is: %v", err)
		}
		r.result.Files++
		r.result.Bytes += b.Bytes
		if done += b.Bytes; r.opts.Progress != nil {
			r.opts.Progress(done, total)
		}
		return nil
	})
}

func (r *restore) copyBlock(b *persist.BlockFile) (err error) {
	from, err := r.fsys.Open(b.Path(r.dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := r.to.Create(b.Path(r.out))
	if err != nil {
		return err
	}
	return errors.Join(vfs.CopyContent(to, from), to.Close())
}

package datadir

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// copyBlocks copies the files of a manifest and verifies the copies. Damaged cold files are copied as they are: a
// server answers errors for their mids, and serves all others.
func (r *restore) copyBlocks(m *format.Manifest) error {
	copied := map[string]bool{}
	var done, total uint64
	_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error { // fn returns nil
		total += b.Bytes
		return nil
	})
	return m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		if name := string(b.Tier) + b.Name; copied[name] {
			return nil
		} else {
			copied[name] = true
		}
		if err := r.copyBlock(b); err != nil {
			if errors.Is(err, fs.ErrNotExist) && b.Tier == format.TierCold && (r.opts.Lost == nil || r.opts.Lost(b.Path(r.dir))) {
				r.sayf("left out: %v", snapfile.UnusableBlock(r.dir, c, b, err))
				return nil
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = &format.CorruptError{File: b.Path(r.dir), Want: "a file as " + format.ManifestName(m.Generation) + " names it", Got: "none", Err: err}
			}
			return err
		}
		if err := snapfile.CheckBlock(r.to, r.out, c, b, r.opts.Cold); err != nil {
			var fault *snapfile.BlockFault
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

func (r *restore) copyBlock(b *format.BlockFile) (err error) {
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

package persist

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/counterd/counterd/persist/vfs"
)

// copyBlocks copies the files of a manifest and verifies the copies. Damaged cold files are copied as they are: a server answers errors for their mids, and
// serves all others.
func (r *restore) copyBlocks(m *Manifest) error {
	copied := map[string]bool{}
	var done, total uint64
	_ = m.Blocks(func(_ *CounterFiles, b *BlockFile) error { // fn returns nil
		total += b.Bytes
		return nil
	})
	return m.Blocks(func(c *CounterFiles, b *BlockFile) error {
		if name := string(b.Tier) + b.Name; copied[name] {
			return nil
		} else {
			copied[name] = true
		}
		if err := r.copyBlock(b); err != nil {
			if errors.Is(err, fs.ErrNotExist) && b.Tier == TierCold {
				r.sayf("left out: %v", UnusableCold(r.dir, c, b, err))
				return nil
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = &CorruptError{File: b.Path(r.dir), Want: "a file as " + ManifestName(m.Generation) + " names it", Got: "none", Err: err}
			}
			return err
		}
		if err := CheckBlock(r.to, r.out, c, b, r.opts.Cold); err != nil {
			var fault *ColdFault
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

func (r *restore) copyBlock(b *BlockFile) (err error) {
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

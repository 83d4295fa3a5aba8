package datadir

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
)

// checkDiverged verifies the files with what a node held and its primary does not. They are the only copy: damage is
// loss.
func (c *checker) checkDiverged() error {
	tails, archives, err := past.ListDiverged(c.fsys, c.dir)
	if err != nil {
		return err
	}
	for _, d := range append(tails, archives...) {
		c.report.Diverged++
		info, err := c.fsys.Stat(d.Path)
		if err != nil {
			return err
		}
		c.report.DivergedBytes += uint64(info.Size())
		err = d.Verify(c.fsys)
		switch {
		case errors.Is(err, format.ErrCorrupt), errors.Is(err, format.ErrUnsupportedFormat):
			c.add(d.Path, true, err)
		case err != nil:
			return err
		default:
			c.add(d.Path, false, fmt.Errorf("%w, %d bytes", ErrDiverged, info.Size()))
		}
	}
	return nil
}

// mendDiverged cuts tails at the first damage and sets aside what cannot be read at all.
func (r *repair) mendDiverged() error {
	tails, archives, err := past.ListDiverged(r.fsys, r.dir)
	if err != nil {
		return err
	}
	for _, d := range tails {
		walked, err := past.WalkDiverged(r.fsys, d, logfile.Visitor{})
		var bad *format.CorruptError
		if !errors.As(err, &bad) {
			if err != nil {
				return err
			}
			continue
		}
		r.sayf("%v", bad)
		if walked.Frames == 0 {
			err = r.setAside(d.Path)
		} else if err = r.copyAside(d.Path); err == nil {
			err = d.End(r.fsys, walked.End)
			if err == nil {
				r.sayf("%s ends at log offset %d now, with %d frames", d.Path, walked.End, walked.Frames)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, d := range archives {
		err := d.Verify(r.fsys)
		if !errors.Is(err, format.ErrCorrupt) {
			if err != nil {
				return err
			}
			continue
		}
		r.sayf("%v", err)
		if err := r.setAside(d.Path); err != nil {
			return err
		}
	}
	return nil
}

package datadir

import (
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
)

// anyUnusable reports whether one of the faults is of a file that cannot be opened.
func anyUnusable(faults []*snapfile.BlockFault) bool {
	return slices.ContainsFunc(faults, func(f *snapfile.BlockFault) bool { return f.Unusable })
}

// ofNewest tells whether a fault is of the image of the newest posts, of the last block.
func ofNewest(f *snapfile.BlockFault) bool {
	return f.Block.Tier != format.TierCold && f.Block.Hi == 1<<63
}

// reportCold says what is damaged of the cold files of the manifest that everything starts from. All else is repaired by
// then.
func (r *repair) reportCold() error {
	var errs []error
	for _, f := range r.faults {
		switch {
		case ofNewest(f):
			errs = append(errs, fmt.Errorf("%w. These are the newest: a server does not start without them", f))
		case f.Block.Tier == format.TierProducers:
			errs = append(errs, fmt.Errorf("%w. A server does not start without them", f))
		case f.Unusable:
			errs = append(errs, f)
		default:
			r.sayf("left as it is, the server answers errors for these mids: %v", f)
		}
	}
	return errors.Join(errs...)
}

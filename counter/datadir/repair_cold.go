package datadir

import (
	"errors"
	"slices"

	"github.com/counterd/counterd/persist"
)

// anyUnusable reports whether one of the faults is of a file that cannot be opened.
func anyUnusable(faults []*persist.ColdFault) bool {
	return slices.ContainsFunc(faults, func(f *persist.ColdFault) bool { return f.Unusable })
}

// tellCold says what is damaged of the cold files of the manifest that everything starts from. All else is repaired by
// then.
func (r *repair) tellCold() error {
	var errs []error
	for _, f := range r.faults {
		if f.Unusable {
			errs = append(errs, f)
		} else {
			r.sayf("left as it is, the server answers errors for these mids: %v", f)
		}
	}
	return errors.Join(errs...)
}

package counter

import (
	"math/rand/v2"
	"slices"

	"github.com/counterd/counterd/counter/internal/core"
)

// RandomItem returns the mid of an item of the block that is at from, each as likely as the others; false: there is
// none. Of items that cannot be read it knows those alone that were changed since; where it knows no others,
// the error is a *LostError. Of 65,000 items it takes 1.3 ms, where a Scan, which sorts them, takes 6. REQUIRES the
// batch to be open.
func (r Reader) RandomItem(from BlockInfo) (mid uint64, ok bool, err error) {
	def := from.Counter
	ks := r.s.Spaces[def.ID][max(0, from.Group)]
	block := ks.Lock(from.Lo)
	core.NoteSeen(r.b, block.Logged)
	mids, lost := block.AppendMids(make([]uint64, 0, block.Items()))
	block.Mu.Unlock()
	if own := &r.s.Own; own.Some {
		mids = slices.DeleteFunc(mids, own.Hides)
	}
	switch {
	case len(mids) > 0:
		return mids[rand.IntN(len(mids))], true, nil
	case len(lost) > 0:
		err := &LostError{Resume: lost[0].Lo | toldCursor}
		for _, r := range lost {
			err.Lost = append(err.Lost, LostRange{def, r})
		}
		return 0, false, err
	}
	return 0, false, nil
}

package counter

import (
	"github.com/counterd/counterd/counter/internal/core"
)

// The changes of an Update.
type (
	// Change is the change that an Update makes to each item: OpSet, OpAdd and OpReset to a column, OpDelete to the item.
	Change = core.Change
	// Returning says what rows an Update returns.
	Returning = core.Returning
	// TooManyError: an update that shall be one change would change more items than Most. Nothing was changed.
	TooManyError = core.TooManyError
)

// The rows that an Update returns.
const (
	ReturnNothing = core.ReturnNothing
	ReturnOld     = core.ReturnOld // the items as they were
	ReturnNew     = core.ReturnNew // the items as they are
)

// MaxGathered is the most items that Gather takes.
const MaxGathered = core.MaxGathered

// Update changes the items of a query. The conditions are checked, the changes of an item made and logged, in one
// record, while its block is locked: each item is changed as a whole or not at all, and only while it meets the query.
// Items are changed one after the other. Not safe for concurrent use.
type Update struct{ u *core.Update }

// NewUpdate prepares one. Query.Limit counts the items changed, Offset means nothing. The error is a *QueryError, or
// ErrOutOfRange for an OpSet of a value that its column cannot hold.
func NewUpdate(q Query, changes []Change, ret Returning) (*Update, error) {
	u, err := core.NewUpdate(q, changes, ret)
	return &Update{u}, err
}

// Step is Find.Step, and changes the items that it finds. After an error items that were changed before stay so: see Changed.
// Other errors are ErrNotReady, ErrMaxMemory and ErrNoMemory. REQUIRES b to be open; and b.Commit, or Defer, before it
// is told.
func (u *Update) Step(b *Batch) (done bool, err error) { return u.u.Step(b) }

// Gather is Step for an update that shall be one change, whole or not made: it finds the items that Apply would change, which
// are those that Limit counts, and changes nothing yet. The error is a *TooManyError where there are more than one change
// can have.
func (u *Update) Gather(b *Batch) (done bool, err error) { return u.u.Gather(b) }

// Apply changes the items that Gather found and that still meet the query: all of it, or nothing on an error that is known before the
// first change, which is any but ErrNoMemory. Items that do not fit (see Unfit) stay as they are. REQUIRES
// BeginExclusive: then it is one change to readers, replicas and after a crash.
func (u *Update) Apply(b *Batch) error { return u.u.Apply(b) }

// GiveWay is that of Find. Apply does not call it.
func (u *Update) GiveWay(way func()) { u.u.Search.GiveWay = way }

// Rows are those of the items that the last step changed, if they shall be returned.
func (u *Update) Rows() *Rows { return u.u.Rows() }

// Columns are those of Rows, indexes in Query.Counter.Columns, until the next step. Where Query.Columns is nil they are all, but
// for those that were dropped meanwhile.
func (u *Update) Columns() []int16 { return u.u.Columns() }

// Mids are those of the items that the last step changed.
func (u *Update) Mids() []uint64 { return u.u.Mids() }

// Changed is how many items were changed so far.
func (u *Update) Changed() int { return u.u.Changed() }

// Unfit is how many items meet the query and stay as they are, as a value would leave its column.
func (u *Update) Unfit() int { return u.u.Unfit() }

// Update is NewUpdate and all its steps. fn, if not nil, gets the rows that shall be returned. changed counts the items
// that were changed, also after an error.
func (s *Store) Update(q Query, changes []Change, ret Returning, fn func(mid uint64, values []uint64)) (changed int, err error) {
	u, err := NewUpdate(q, changes, ret)
	if err != nil {
		return 0, err
	}
	err = s.steps(u.Step, func() bool {
		for i := range u.Rows().Len() {
			if fn != nil {
				fn(u.Rows().At(i))
			}
		}
		return true
	})
	return u.Changed(), err
}

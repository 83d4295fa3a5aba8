package find

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/query"
	"github.com/counterd/counterd/counter"
)

// runUpdate is COUNTER.UPDATE.
func runUpdate(c Conn, args [][]byte) {
	out := &c.Call().Out
	q, err := query.ParseUpdate(c.Schema(), args)
	if err != nil {
		c.Call().StoreError(err)
		return
	}
	u, err := counter.NewUpdate(q.Query, q.Changes, q.Returning)
	if errors.Is(err, counter.ErrOutOfRange) {
		out.Error(items.ErrNotInteger)
		return
	}
	if err != nil {
		c.Call().StoreError(err)
		return
	}
	var found rows
	err = c.Steps(true, func(b *counter.Batch) (bool, error) {
		done, err := u.Step(b)
		found.add(u.Rows())
		c.Changed(q.Counter, u.Mids())
		return done, err
	})
	switch {
	case err != nil && u.Changed() > 0:
		out.Error(fmt.Sprintf("UNCERTAIN %d items were changed, then: %s", u.Changed(), items.ErrorText(err)))
	case err != nil:
		c.Call().StoreError(err)
	case q.Returning == counter.ReturnNothing:
		out.Int(int64(u.Changed()))
	default:
		found.reply(out)
	}
}

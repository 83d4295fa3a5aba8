package find

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/internal/query"
	"github.com/counterd/counterd/counter"
)

// runUpdate is COUNTER.UPDATE.
func runUpdate(c Conn, args [][]byte) {
	out := &c.Call().Out
	args, num, hash, text := c.Number(args)
	if text != "" {
		out.Error(text)
		return
	}
	if num.Producer != nil {
		updateOnce(c, args, &numbered{once: counter.Once{Producer: num.Producer, Epoch: num.Epoch, Seq: num.Seq}, hash: hash, shared: c.Clustered()})
		return
	}
	u, err := newUpdate(c, args)
	if err != nil {
		c.Call().StoreError(err)
		return
	}
	if u.q.Returning != counter.ReturnNothing && u.q.Limit == 0 {
		updateWhole(c, &u)
		return
	}
	var found rows
	err = c.Steps(true, func(b *counter.Batch) (bool, error) { return u.step(c, b, &found) })
	u.reply(out, &found, err, c.GiveWay)
}

// updateWhole is an UPDATE that returns all its rows: how many there are is known before the first is changed, so that
// none is changed where one reply cannot have them.
func updateWhole(c Conn, u *update) {
	out := &c.Call().Out
	if err := c.Steps(true, u.u.Gather); err != nil {
		c.Call().StoreError(tooMany(err, "RETURNING"))
		return
	}
	err := c.Alone(func(b *counter.Batch) error {
		if strayed(c, b) {
			return items.Refusal(items.ErrOwning)
		}
		err := u.u.Apply(b)
		c.Changed(u.q.Counter, u.u.Mids())
		return err
	})
	c.GiveWay()    // others waited for all of the change
	var found rows // copied when nobody waits for that any more
	found.add(u.u.Rows(), u.u.Columns())
	u.reply(out, &found, err, c.GiveWay)
}

// update is one on its way.
type update struct {
	q query.Update
	u *counter.Update
}

// newUpdate reads and prepares one.
func newUpdate(c Conn, args [][]byte) (u update, err error) {
	if u.q, err = query.ParseUpdate(c.Schema(), args[1:]); err != nil {
		return u, err
	}
	if u.u, err = counter.NewUpdate(u.q.Query, u.q.Changes, u.q.Returning); errors.Is(err, counter.ErrOutOfRange) {
		err = items.Refusal(items.ErrNotInteger)
	} else if err == nil {
		u.u.GiveWay(c.GiveWay)
	}
	return u, err
}

// step takes one.
func (u *update) step(c Conn, b *counter.Batch, found *rows) (done bool, err error) {
	if u.u.Changed() == 0 && strayed(c, b) {
		return false, items.Refusal(items.ErrOwning)
	}
	done, err = u.u.Step(b)
	u.made(c, found)
	return done, err
}

// apply makes one change of the gathered items.
func (u *update) apply(c Conn, b *counter.Batch, found *rows) error {
	err := u.u.Apply(b)
	u.made(c, found)
	return err
}

// made keeps the rows of the items just changed, and marks their watchers.
func (u *update) made(c Conn, found *rows) {
	found.add(u.u.Rows(), u.u.Columns())
	c.Changed(u.q.Counter, u.u.Mids())
}

// reply answers. err is why it could not go on; pause is that of rows.reply.
func (u *update) reply(out *resp.Replies, found *rows, err error, pause func()) {
	switch {
	case err != nil && u.u.Changed() > 0:
		out.Error(fmt.Sprintf("UNCERTAIN %d posts were changed, then: %s", u.u.Changed(), items.ErrorText(err)))
	case err != nil:
		out.Error(items.ErrorText(err))
	case u.q.Returning == counter.ReturnNothing:
		out.Int(int64(u.u.Changed()))
	default:
		found.reply(out, pause)
	}
}

package find

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// updateOnce is an UPDATE with a number, made once however often it is sent. So it is one change, as a transaction is:
//
//	alone    made before, or refused for its number? Then that is the answer
//	steps    the items that meet the conditions: at most counter.MaxGathered, as everybody waits for what comes now
//	alone    the same question again; change those that still meet them, or none; keep the answer
//
// The answer is kept with the changes in one frame of the log.
func updateOnce(c Conn, args [][]byte, once *counter.Once) {
	out := &c.Call().Out
	made := false
	err := c.Alone(func(b *counter.Batch) error {
		made = !b.TryOnce(once)
		return nil
	})
	if made || err != nil {
		answerOnce(c, once, err)
		return
	}
	u, err := newUpdate(c, args)
	if err == nil {
		err = c.Steps(true, u.u.Gather)
	}
	if err != nil {
		c.Call().StoreError(tooMany(err, "IDMP"))
		return
	}
	once.Room = idmp.MaxBlob(1)
	if u.q.Returning != counter.ReturnNothing {
		once.Room = counter.MaxResult
	}
	var neutral resp.Replies
	var result counter.Result
	neutral.SetProtocol(resp.Neutral)
	err = c.Alone(func(b *counter.Batch) error {
		if made = !b.TryOnce(once); made {
			return nil
		}
		var found rows
		err := u.apply(c, b, &found)
		if err != nil && u.u.Changed() == 0 {
			return err
		}
		u.reply(&neutral, &found, err, nil) // an error too: a repeat must not change the rest
		result, _ = idmp.Keep(neutral.From(0), nil)
		b.KeepOnce(once, result)
		return nil
	})
	switch {
	case made || err != nil:
		answerOnce(c, once, err)
	case result.Kind == counter.ResultGone: // this once it is known
		out.Raw(neutral.From(0))
	default:
		c.Call().AnswerResult(result)
	}
}

// tooMany is err, with advice if more items meet the conditions than one change can have. with is why it is one
// change.
func tooMany(err error, with string) error {
	if many := (*counter.TooManyError)(nil); errors.As(err, &many) {
		return items.Refusal(fmt.Sprintf("ERR more than %d posts match the conditions: want LIMIT 1..%d with %s", many.Most, many.Most, with))
	}
	return err
}

// answerOnce answers a change that was made before, or refused for its number. err is why it could not be looked at,
// or told.
func answerOnce(c Conn, once *counter.Once, err error) {
	switch {
	case err != nil:
		c.Call().StoreError(err)
	case once.Err != nil:
		c.Call().StoreError(once.Err)
	default:
		c.Call().AnswerResult(once.Result)
	}
}

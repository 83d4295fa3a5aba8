package find

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// updateOnce is an UPDATE with a number, made once however often it is sent. So it is one change, as a transaction is:
//
//	alone    made before, or refused for its number? Then that is the answer
//	steps    the items that meet the conditions: at most counter.MaxGathered, as everybody waits for what comes now
//	alone    the same question again; change those that still meet them, or none; keep the answer
//
// The answer is kept with the changes in one frame of the log.
func updateOnce(c Conn, args [][]byte, n *numbered) {
	out, once := &c.Call().Out, &n.once
	made := false
	err := c.Alone(func(b *counter.Batch) error {
		if strayed(c, b) {
			return items.Refusal(items.ErrOwning)
		}
		made = !n.try(b)
		return nil
	})
	if made || err != nil {
		n.answer(c, err)
		return
	}
	u, err := newUpdate(c, args)
	if err == nil {
		err = c.Steps(true, func(b *counter.Batch) (bool, error) {
			if n.moved(b) {
				return false, items.Refusal(items.ErrOwning)
			}
			return u.u.Gather(b)
		})
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
		if n.moved(b) {
			return items.Refusal(items.ErrOwning)
		}
		if made = !n.try(b); made {
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
		n.answer(c, err)
	case result.Kind == counter.ResultGone: // this once it is known
		out.Raw(neutral.From(0))
	default:
		c.Call().AnswerResult(result)
	}
}

// UpdatedName is the command by which the nodes of a cluster ask each other before a numbered update of several shards. No shard may make its part
// where another one cannot say that it made its own for the groups that it has now: groups that moved from one to the other would be updated twice.
const UpdatedName = "counter.updated"

// Answers of UpdatedName, besides the errors of a repeat.
const (
	saysFresh = "FRESH"
	saysMade  = "MADE"
)

// runUpdated is COUNTER.UPDATED: the arguments of a numbered COUNTER.UPDATE, of which it tells whether it was made here for the groups that the shard
// has. It changes nothing.
func runUpdated(c Conn, args [][]byte) {
	out := &c.Call().Out
	var num idmp.Number
	tail := idmp.TailLen(args)
	if tail == 0 {
		out.Error("ERR COUNTER.UPDATED without a number: want IDMP producer seq")
		return
	}
	rest, text := num.Split(args, tail)
	if text != "" {
		out.Error(text)
		return
	}
	n := &numbered{once: counter.Once{Producer: num.Producer, Epoch: num.Epoch, Seq: num.Seq}, hash: idmp.Begin("counter.update").Add(rest[1:]...), shared: c.Clustered()}
	fresh := false
	err := c.Steps(false, func(b *counter.Batch) (bool, error) {
		if strayed(c, b) {
			return false, items.Refusal(items.ErrOwning)
		}
		fresh = n.first(b, func(o *counter.Once) bool { return counter.LookOnce(b, o) })
		return true, nil
	})
	switch {
	case err == nil && fresh:
		out.Status(saysFresh)
	case err == nil && n.once.Err == nil && !(n.shared && n.once.Old):
		out.Status(saysMade)
	default:
		n.answer(c, err)
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

// numbered is the number of an update.
//
// In a cluster each shard updates the posts of its own groups, and a repeat is sent to all shards again. Where groups have moved since, a shard may have
// made its part without the posts that it has now, while the shard that had them has not made its own. So the groups are hashed with the
// command: the parts that a repeat finds made are of the groups that the shards have now, and together of each group once.
type numbered struct {
	once   counter.Once
	hash   idmp.Hash // of the update, without its number
	own    slot.Set  // the groups at the last try: all steps look at posts of the same ones
	shared bool      // the node is one of a cluster, whose shards may have had other groups
}

// strayed tells whether the shard has other groups than an update is for, before it has changed anything. Posts of groups that came meanwhile may have been changed by the shard that
// they come from.
func strayed(c Conn, b *counter.Batch) bool {
	of := c.Call().For
	return of != nil && counter.OwnedGroups(b) != *of
}

// moved tells whether the groups are others than at the last try. Such an update is refused with items.ErrOwning: it would be remembered as made for posts that it
// did not look at.
func (n *numbered) moved(b *counter.Batch) bool { return counter.OwnedGroups(b) != n.own }

// errMoved refuses the repeat of an update where the node cannot say that the attempt before was made for the same groups. It is in doubt: another attempt would be
// refused as well.
const errMoved = "IDMPEXPIRED the number was used for posts of other groups of hash slots, which have moved since, or for another command: the change may have been made in a part"

// errOld refuses the repeat of an update that a node of a cluster has made, where its hash is not kept any more, and with it the groups that the node had. It is in doubt, as
// errMoved is.
const errOld = "IDMPEXPIRED the number was used long ago, and it is not known any more for posts of which groups of hash slots: the change may have been made in a part"

// try is Batch.TryOnce.
func (n *numbered) try(b *counter.Batch) bool { return n.first(b, b.TryOnce) }

// first tells whether a look at the number finds it fresh. A node of an older version, or of no cluster yet, has made the update with a plain hash.
func (n *numbered) first(b *counter.Batch, look func(*counter.Once) bool) bool {
	plain := n.take(b)
	if look(&n.once) {
		return true
	}
	if n.shared && errors.Is(n.once.Err, counter.ErrMismatch) {
		n.once.Hash, n.once.Err = plain, nil
		return look(&n.once)
	}
	return false
}

// take takes down the groups of now, and the hash with them. It returns that hash without the mark of an update.
func (n *numbered) take(b *counter.Batch) (plain uint32) {
	h := n.hash
	n.own = counter.OwnedGroups(b)
	if own := n.own; own != slot.AllGroups() {
		h = h.With([]byte(own.String()))
	}
	plain = h.Sum()
	if n.once.Hash = plain; n.shared {
		n.once.Hash = counter.UpdateHash(plain)
	}
	return plain
}

// answer answers a change that was made before, or refused for its number. err is why it could not be looked at, or
// told.
func (n *numbered) answer(c Conn, err error) {
	switch {
	case err != nil:
		c.Call().StoreError(err)
	case n.shared && errors.Is(n.once.Err, counter.ErrMismatch):
		c.Call().StoreError(items.Refusal(errMoved))
	case n.shared && n.once.Old && n.once.Err == nil:
		c.Call().StoreError(items.Refusal(errOld))
	case n.once.Err != nil:
		c.Call().StoreError(n.once.Err)
	default:
		c.Call().AnswerResult(n.once.Result)
	}
}

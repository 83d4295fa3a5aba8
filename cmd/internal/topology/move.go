package topology

import (
	"fmt"
	"time"

	"github.com/counterd/counterd/internal/slot"
)

// A move is begun by a tool, and made by the destination's primary, which fetches from the source's:
//
//	StartMove     copying      the source owns; the destination fetches, and hides what it has
//	CommitMove    committed    the destination owns, from this transaction on and by it alone
//	MoveDropped                the source has dropped what it had
//	MoveAccepted               the destination's log says that they are its own; with both, the move is removed
//	AbortMove     aborted      the source owns; the destination drops what it has, and removes the move (EndAborted)
//
// Before the commit the source holds the groups: it serves them to nobody, having told the destination where its log ends
// and which revision the move has. Only with this revision, and while neither shard has changed, can the destination
// commit. So the source may serve them again once it knows that the move has another revision and that the groups are
// still its own: it sees to that by CancelHold where the destination does not go on, and whatever it does not know, it
// does not serve.

// StartMove begins to take groups from the shard that owns them to another. id is random.
func StartMove(m *Map, id string, groups slot.Set, from, to ShardID, now time.Time) (Change, error) {
	c := Change{What: fmt.Sprintf("move groups %s from shard %d to %d", groups, from, to)}
	source, destination := m.Shard(from), m.Shard(to)
	v := Move{ID: id, Groups: groups, From: from, To: to, State: MoveCopying, Began: now.UTC().Truncate(time.Second)}
	switch {
	case source == nil || destination == nil:
		return Change{}, refuse(c.What, "there is no such shard")
	case len(id) > 64:
		return Change{}, refuse(c.What, "got an id of %d bytes, want at most 64", len(id))
	case m.Move(id) != nil:
		return Change{}, refuse(c.What, "there is a move of this id")
	}
	if err := v.check(id); err != nil {
		return Change{}, refuse(c.What, "%v", err)
	}
	if others := groups.Minus(source.Groups); !others.Empty() {
		return Change{}, refuse(c.What, "shard %d does not own groups %s", from, others)
	}
	for _, other := range m.Moves {
		if both := groups.Both(other.Groups); !both.Empty() {
			return Change{}, refuse(c.What, "groups %s are on their way from shard %d to %d: want that done", both, other.From, other.To)
		}
	}
	// Both are written: of two moves of one group, and of a move to a shard and its removal, only one can be made.
	c.setShard(*source)
	c.setShard(*destination)
	c.setMove(v)
	return c, nil
}

// CommitMove gives the groups to the destination. Only its primary of the epoch proposes it, while the source's primary
// of its epoch holds the groups, with the move's revision as hold says. REQUIRES: all nodes in sync of the destination have
// its log up to came, and with it all that the groups hold; came is of the destination's epoch. held is the end of the source's log then.
func CommitMove(m *Map, id string, hold int64, fromEpoch, held uint64, came LogPoint) (Change, error) {
	c, v, err := moving(m, id, "commit")
	if err != nil {
		return Change{}, err
	}
	from, to := m.Shard(v.From), m.Shard(v.To)
	switch {
	case v.Revision != hold:
		return Change{}, refuse(c.What, "its revision is %d, and was %d when it was held", v.Revision, hold)
	case from == nil || to == nil:
		return Change{}, refuse(c.What, "there is no shard %d or %d", v.From, v.To)
	case from.Epoch != fromEpoch || to.Epoch != came.Epoch:
		return Change{}, refuse(c.What, "the epochs are %d and %d, want %d and %d", from.Epoch, to.Epoch, fromEpoch, came.Epoch)
	}
	if others := v.Groups.Minus(from.Groups); !others.Empty() {
		return Change{}, refuse(c.What, "shard %d does not own groups %s", v.From, others)
	}
	source, destination, next := *from, *to, *v
	source.Groups = from.Groups.Minus(v.Groups)
	destination.Groups, destination.Came = to.Groups.Union(v.Groups), came
	next.State, next.Held = MoveCommitted, held
	c.setShard(source)
	c.setShard(destination)
	c.setMove(next)
	return c, nil
}

// CancelHold writes the move as it is, with another revision: an earlier hold cannot be committed any more. Only the
// source's primary proposes it.
func CancelHold(m *Map, id string) (Change, error) {
	c, v, err := moving(m, id, "cancel the hold")
	if err != nil {
		return Change{}, err
	}
	c.setMove(*v)
	return c, nil
}

// AbortMove ends a move that is not committed; why says so.
func AbortMove(m *Map, id, why string) (Change, error) {
	c, v, err := moving(m, id, "abort")
	if err != nil {
		return Change{}, err
	}
	next := *v
	next.State, next.Error = MoveAborted, why
	c.setMove(next)
	return c, nil
}

// EndAborted removes a move that was aborted. The destination's primary proposes it, once it has dropped what it had.
func EndAborted(m *Map, id string) (Change, error) {
	c, v, err := move(m, id, "end", MoveAborted)
	if err != nil {
		return Change{}, err
	}
	c.Remove(MoveKey(id), v.Revision)
	return c, nil
}

// MoveDropped says that the source has dropped the groups, durably. Its primary proposes it.
func MoveDropped(m *Map, id string) (Change, error) {
	return done(m, id, "dropped", func(v *Move) { v.Dropped = true })
}

// MoveAccepted says that the destination has taken the groups as its own, durably. Its primary proposes it.
func MoveAccepted(m *Map, id string) (Change, error) {
	return done(m, id, "accepted", func(v *Move) { v.Accepted = true })
}

// done says that a side of a committed move has done its part. Behind both the move is removed.
func done(m *Map, id, what string, say func(*Move)) (Change, error) {
	c, v, err := move(m, id, what, MoveCommitted)
	if err != nil {
		return Change{}, err
	}
	next := *v
	say(&next)
	if next.Dropped && next.Accepted {
		c.Remove(MoveKey(id), v.Revision)
	} else {
		c.setMove(next)
	}
	return c, nil
}

func moving(m *Map, id, what string) (Change, *Move, error) { return move(m, id, what, MoveCopying) }

func move(m *Map, id, what string, state MoveState) (Change, *Move, error) {
	c := Change{What: fmt.Sprintf("move %s: %s", id, what)}
	v := m.Move(id)
	switch {
	case v == nil:
		return Change{}, nil, refuse(c.What, "there is no such move")
	case v.State != state:
		return Change{}, nil, refuse(c.What, "it is %s, want %s", v.State, state)
	}
	return c, v, nil
}

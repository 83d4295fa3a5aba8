package producers

import (
	"math/bits"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// A numbered update changes posts of all groups, and in a cluster each shard makes it for the groups that it owns: its part. Its entry has the group of
// post 0, and its hash is of the groups, too. Where a group moves, the other shard has to know that its posts were changed: it may not have made its own
// part yet, and would change them again. So the entry goes along with every group, and says only that the number was used elsewhere:
//
//	own        group of post 0      hash with ownMark     result
//	elsewhere  a group that moves   elsewhere             none
//
// A request with the number finds another hash there, and is a Mismatch, which is in doubt. While the group is still on its way, an entry of elsewhere does not count
// (Try.Elsewhere): the shard that it comes from makes the part of its posts. An own entry goes with its group as it is, and counts at once. Both stay where a move is
// aborted, as they may speak of other groups, too: the update is in doubt then.
//
// An entry of elsewhere names one group, though it may speak of others that came before or behind it. While that group comes a second time, having left the shard in between,
// the entry does not count for the others either: not covered, as the group, the others and a repeat would have to meet within 128 numbers of the producer.
const (
	// The lowest bits of the hash of an own entry. A change of a post in the group of post 0 has them by chance, one in 16. Its number goes along as well, and no other change has
	// that number; where its group comes later, the entry takes the place of the one from elsewhere.
	markBits = 4
	ownMark  = 0b1011
	// elsewhere is the hash of the others. Another hash is the same by chance, one in 2 million.
	elsewhere = 0x15a5a4
)

// UpdateHash is the hash that the request of an update has whose parts several shards make.
func UpdateHash(hash uint32) uint32 { return hash&^(1<<markBits-1) | ownMark }

// ownUpdate tells whether an entry is of an update's part that was made here.
func ownUpdate(group uint8, hash uint32) bool {
	return hash&(1<<markBits-1) == ownMark && group == slot.Group(0) // the cheaper question first: exports ask for each entry
}

// MovedOnce returns the hash, group and result that an entry has behind a move of groups. ok is false where it has nothing to do with them.
func MovedOnce(groups *slot.Set, group uint8, hash uint32, r format.Result) (toGroup uint8, toHash uint32, result format.Result, ok bool) {
	switch {
	case groups.Has(group):
		return group, hash, r, true
	case !groups.Empty() && (ownUpdate(group, hash) || hash == elsewhere):
		return first(groups), elsewhere, format.Result{Kind: format.ResultGone}, true
	}
	return 0, 0, r, false
}

// first is the lowest of groups. REQUIRES: there is one.
func first(groups *slot.Set) uint8 {
	i := 0
	for groups[i] == 0 {
		i++
	}
	return uint8(64*i + bits.TrailingZeros64(groups[i]))
}

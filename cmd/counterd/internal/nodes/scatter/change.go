package scatter

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/find"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/internal/query"
	"github.com/counterd/counterd/internal/slot"
)

// Changes of all posts: COUNTER.UPDATE on any port, FLUSHALL and COUNTER.DROPRANGE on a forward port. Each shard is told which groups it is asked for (COUNTER.LINK OWNING), and makes
// no change where it owns others; behind the change it says whether it owned them all the time (COUNTER.LINK STILL).
//
// A change to which its client gave a number is sent to each shard with that number, and sent again when a connection is lost.
// Each shard makes its part once. If the client repeats the change after an error, the shards that made their parts answer
// again, and the others make theirs, if the shards have the same groups as before: a shard that made its part for other groups refuses the number, and the change
// is in doubt for good. A shard that refuses its part for a moment, as in a failover, is asked again. A repeat whose answer one of the shards does not keep is answered as such a repeat is by one shard: the change was made. A change without a number
// is sent to a shard again only where the shard has refused it, and has changed nothing. The node gives it no number, because a change by condition that has one changes 10,000 posts at most.

const (
	// ErrStill: the groups of the shard changed while it made a change.
	ErrStill = "UNCERTAIN groups of the shard moved meanwhile: their posts may have been changed twice, or not at all"
	// ErrUpdateLimit refuses a bound on how many posts of several shards are changed.
	ErrUpdateLimit = "CROSSSLOT COUNTER.UPDATE with LIMIT cannot change posts of several shards: omit LIMIT, or find their ids with COUNTER.FIND and change each post"
)

// updateAll is COUNTER.UPDATE.
func (f *Scatter) updateAll(cmd *command.Access, args [][]byte) {
	var num idmp.Number
	rest, text := f.conn.Number(&num, cmd, args)
	if text != "" {
		f.call.Out.Error(text)
		return
	}
	q, err := query.ParseUpdate(f.conn.Schema(), rest[1:])
	switch {
	case err != nil:
		f.call.StoreError(err)
		return
	case q.Limit > 0 && len(f.shards.View().All) > 1:
		f.call.Out.Error(ErrUpdateLimit)
		return
	}
	kind := gather.Once
	if num.Producer != nil {
		kind = gather.Numbered
		rest = append(slices.Clip(rest), []byte("IDMP"), num.Producer, strconv.AppendUint(nil, num.Seq, 10))
		if num.Epoch > 0 {
			rest = append(rest, []byte("EPOCH"), strconv.AppendUint(nil, num.Epoch, 10))
		}
	}
	numbers := *f.conn.Numbers()
	f.conn.Numbers().Producer = nil // the number was taken above
	replies, text := f.changeAll(cmd, rest, kind)
	*f.conn.Numbers() = numbers
	if text == "" {
		mergeUpdate(f, replies)
	} else {
		f.call.Out.Error(text)
	}
}

// mergeUpdate adds up how many posts were changed, or has all rows in order of mid.
func mergeUpdate(f *Scatter, replies [][]byte) {
	var list []foundRow
	for _, r := range replies {
		if r[0] == ':' {
			mergeTotal(f, nil, replies)
			return
		}
		list = rowsOf(list, r)
	}
	slices.SortFunc(list, func(a, b foundRow) int { return cmp.Compare(a.mid, b.mid) })
	answerRows(&f.call.Out, list)
}

// changeAll makes every shard change its own posts. text is the error. Where an earlier try has made a part, the error says so: others say that nothing was changed.
func (f *Scatter) changeAll(cmd *command.Access, args [][]byte, kind gather.Kind) (replies [][]byte, text string) {
	part, made := false, parts{}
	retryAll(f.shards, f.shards.Settings().ChangeWithin(), func(v *gather.View) (again bool) {
		if !made.follow(v) && kind == gather.Once && part {
			return false
		}
		replies, again, text = f.changeOnce(v, cmd, args, kind, &made)
		part = part || strings.HasPrefix(text, "UNCERTAIN ")
		return again
	})
	if part && text != "" && !strings.HasPrefix(text, "UNCERTAIN ") && !strings.HasPrefix(text, "IDMPEXPIRED ") { // these say it themselves
		text = madeInPart + text
	}
	return replies, text
}

// parts are the replies of the shards that have made their parts of a change, while all shards have the groups that they had then. The others are asked again for
// theirs where they refused for a moment, as in a planned failover.
type parts struct {
	of      *gather.View
	replies map[*gather.Shard][]byte
}

// follow tells whether the shards of a view have the same groups as before. Else nothing is known of their parts.
func (p *parts) follow(v *gather.View) (same bool) {
	if same = p.of != nil && slices.EqualFunc(p.of.All, v.All, func(a, b *gather.Shard) bool { return a == b && p.of.Groups(a) == v.Groups(b) }); !same {
		p.of, p.replies = v, make(map[*gather.Shard][]byte)
	}
	return same
}

// madeInPart begins the error of a change that some shards have made.
const madeInPart = "UNCERTAIN the change was made in a part: "

// changeOnce is one try of changeAll. again tells whether another try may succeed and changes nothing a second time.
func (f *Scatter) changeOnce(v *gather.View, cmd *command.Access, args [][]byte, kind gather.Kind, done *parts) (replies [][]byte, again bool, text string) {
	if !v.Whole() {
		return nil, true, errNotWhole
	}
	if kind == gather.Numbered && len(v.All) > 1 {
		if again, text := mayMake(f, v, args); text != "" {
			return nil, again, text
		}
	}
	var round gather.Round
	round.Begin()
	replies = make([][]byte, len(v.All))
	asks := make([]*gather.Ask, len(v.All))
	for i, s := range v.All {
		if replies[i] = done.replies[s]; replies[i] == nil && s != v.Local {
			asks[i] = round.Ask(s)
			asks[i].AddBetween(kind, linkCommand("OWNING", v.Groups(s)), args, linkCommand("STILL", v.Groups(s)))
		}
	}
	round.SendSlow(f.conn.ID(), allWithin) // a change waits for the queries before it
	if i := slices.Index(v.All, v.Local); i >= 0 && replies[i] == nil {
		replies[i] = f.runHere(v, cmd, args, ErrStill)
	}
	round.Wait()
	made, again := 0, true
	var refused, part, unsure string // the error of the first shard, and the same with its name
	var expired string               // a shard cannot say whether it made its part: another attempt is answered the same
	var gone string                  // a shard made its part, and does not keep the answer
	for i, s := range v.All {
		doubt, why := false, error(nil)
		if asks[i] != nil {
			replies[i], doubt, why = asks[i].Reply(0)
		}
		reply := replies[i]
		if why == nil && (reply[0] != '-' || answerGone(reply)) {
			if made++; reply[0] == '-' {
				gone = string(bytes.TrimRight(reply[1:], "\r\n"))
			}
			done.replies[s] = bytes.Clone(reply)
			continue
		}
		said := "CLUSTERDOWN "
		named := s.String()
		if why != nil {
			named += " did not answer: " + why.Error()
			said += named
		} else {
			said = string(bytes.TrimRight(reply[1:], "\r\n"))
			named += ": " + said
			said = refusedBy(s, said)
			doubt = doubt || uncertain(reply)
		}
		again = again && (why == nil && retriable(reply) || doubt && kind == gather.Numbered)
		if why == nil && expired == "" && forgotten(reply) {
			expired = said
		}
		if doubt && unsure == "" {
			unsure = named
		} else if !doubt && refused == "" {
			refused, part = said, named
		}
	}
	switch {
	case made == len(v.All) && gone != "":
		return nil, false, gone
	case made == len(v.All):
		return replies, false, ""
	case expired != "":
		return nil, false, expired
	case unsure != "":
		return nil, again, "UNCERTAIN the change may have been made in a part: " + unsure
	case made == 0:
		return nil, again, refused
	}
	return nil, again && refused != items.ErrOwning, madeInPart + part
}

// mayMake asks all shards whether they have made their parts of a numbered update for the groups that they have now. text is the error if one has made it for
// others, or does not answer: a shard that has not made its part would make it for posts that came from that one, too. Between this and the update no group moves: each shard
// owns the groups that it owned.
func mayMake(f *Scatter, v *gather.View, args [][]byte) (again bool, text string) {
	args = slices.Clone(args)
	args[0] = []byte(find.UpdatedName)
	replies, text := askEach(f, v, f.conn.Command(find.UpdatedName), args)
	if text != "" {
		return true, text // nothing was changed: as long as a change waits, the shard may get another primary
	}
	for i, reply := range replies {
		if len(reply) > 0 && reply[0] == '-' && !answerGone(reply) && !bytes.HasPrefix(reply, []byte("-ERR unknown command")) { // of an older version
			return retriable(reply), refusedBy(v.All[i], string(bytes.TrimRight(reply[1:], "\r\n")))
		}
	}
	return false, ""
}

// linkCommand is COUNTER.LINK about the groups that a shard is asked for.
func linkCommand(word string, groups slot.Set) [][]byte {
	return [][]byte{[]byte("COUNTER.LINK"), []byte(word), []byte(groups.String())}
}

package scatter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/internal/query"
)

// Commands on all posts, which every shard is asked for its own: by condition on any port, Redis's on a forward port.
// Each shard says before and after that it owned just those groups all the time that it is asked for, so a post is in the
// answer of one shard, though groups move meanwhile; else all are asked again.

// allWithin is how long an answer for all posts may take.
const allWithin = time.Minute

// merger makes one answer of those of all shards, which are neutral and no errors.
type merger func(f *Scatter, args [][]byte, replies [][]byte) (text string)

// mergers are the commands that every shard is asked.
var mergers = map[string]struct {
	merge  merger
	anyway bool // on the port of a cluster's clients too, which walk over its nodes for the others
	change bool // see change.go
}{
	"counter.find": {mergeFind, true, false}, "counter.top": {mergeTop, true, false}, "counter.count": {mergeTotal, true, false},
	"counter.sum": {mergeTotal, true, false}, "counter.min": {mergeLeast, true, false}, "counter.max": {mergeMost, true, false},
	"counter.digest": {mergeDigest, false, false}, "dbsize": {mergeTotal, false, false}, "scan": {mergeScan, false, false}, "keys": {mergeKeys, false, false},
	"randomkey": {nil, false, false}, "idmp|last": {mergeSeq, false, false},
	"counter.update": {nil, true, true}, "flushall": {nil, false, true}, "flushdb": {nil, false, true}, "counter.droprange": {mergeTotal, false, true},
}

// AsksAll tells whether a command that is not planned asks all shards.
func (f *Scatter) AsksAll(cmd *command.Access) bool {
	m, ok := mergers[cmd.Name]
	return ok && (m.anyway || f.forward) && f.shards.View().Map != nil
}

// AskAll asks all shards for a command, and appends the reply.
func (f *Scatter) AskAll(cmd *command.Access, args [][]byte) {
	m := mergers[cmd.Name]
	replies, text := [][]byte(nil), ""
	switch {
	case cmd.Is("counter.update"):
		f.updateAll(cmd, args)
		return
	case m.change:
		switch replies, text = f.changeAll(cmd, args, gather.Once); {
		case text != "":
			f.call.Out.Error(text)
		case m.merge != nil:
			m.merge(f, args, replies)
		default:
			f.call.Out.Status("OK")
		}
		return
	case m.merge == nil:
		f.randomKey(cmd, args)
		return
	}
	if q, err := query.ParseFind(f.conn.Schema(), args[1:]); cmd.Is("counter.find") && err == nil && q.Offset > 0 {
		text = errOffset
	} else {
		replies, _, text = f.askAll(cmd, args)
	}
	if text == "" {
		size := f.call.Out.Len()
		if text = m.merge(f, args, replies); text != "" {
			f.call.Out.Cut(size)
		}
	}
	if text != "" {
		f.call.Out.Error(text)
	}
}

// askAll returns the replies of all shards, and the shards that they are from. text is the error.
func (f *Scatter) askAll(cmd *command.Access, args [][]byte) (replies [][]byte, from []*gather.Shard, text string) {
	retryAll(f.shards, f.shards.Settings().ReadWithin(), func(v *gather.View) (again bool) {
		from = v.All
		replies, again, text = f.askOnce(v, cmd, args)
		return again
	})
	return replies, from, text
}

// retryAll repeats a try until the try says that another one cannot succeed, or until the time is over. It repeats the try at once
// when the map of the cluster changes, and else after a pause.
func retryAll(shards *gather.Shards, within time.Duration, try func(v *gather.View) (again bool)) {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		changed := shards.Changed() // before the view, or it would wait for changes between the two
		if !try(shards.View()) || time.Since(began) > within {
			return
		}
		select {
		case <-changed:
		case <-time.After(pause):
		}
	}
}

// askOnce is one try of askAll. again tells whether another try may succeed.
func (f *Scatter) askOnce(v *gather.View, cmd *command.Access, args [][]byte) (replies [][]byte, again bool, text string) {
	if !v.Whole() {
		return nil, true, errNotWhole
	}
	if replies, text = askEach(f, v, cmd, args); text != "" {
		return nil, false, text
	}
	for i, reply := range replies {
		if len(reply) > 0 && reply[0] == '-' {
			return nil, retriable(reply), refusedBy(v.All[i], string(bytes.TrimRight(reply[1:], "\r\n")))
		}
	}
	return replies, false, ""
}

// askEach asks each shard once, for the posts that it has in a view. text is the error if one does not answer.
func askEach(f *Scatter, v *gather.View, cmd *command.Access, args [][]byte) (replies [][]byte, text string) {
	var round gather.Round
	round.Begin()
	replies = make([][]byte, len(v.All))
	asks := make([]*gather.Ask, len(v.All))
	local := -1
	for i, s := range v.All {
		if s == v.Local {
			local = i
			continue
		}
		asks[i] = round.Ask(s)
		owning := linkCommand("OWNING", v.Groups(s))
		asks[i].AddBetween(gather.Read, owning, args, owning)
	}
	round.SendSlow(f.conn.ID(), allWithin)
	if local >= 0 {
		replies[local] = f.runHere(v, cmd, args, items.ErrOwning)
	}
	round.Wait()
	for i, a := range asks {
		if a != nil {
			reply, _, why := a.Reply(0)
			if why != nil {
				return nil, fmt.Sprintf("CLUSTERDOWN %v did not answer: %v", v.All[i], why)
			}
			replies[i] = reply
		}
	}
	return replies, ""
}

const errNotWhole = "CLUSTERDOWN some hash slots have no owner"

// runHere executes a command on this node's posts. If the shard owns other groups before or behind the command, the answer is an
// error: moved is the error for behind.
func (f *Scatter) runHere(v *gather.View, cmd *command.Access, args [][]byte, moved string) []byte {
	owned := func() bool { return f.conn.Owned() == v.Groups(v.Local) }
	if !owned() || !f.conn.Lets(cmd.Flags) {
		return []byte("-" + items.ErrOwning + "\r\n")
	}
	if text := f.conn.Refusal(cmd, args); text != "" { // its part may be another one since it was let in
		return resp.AppendError(nil, text)
	}
	out := f.call.Out
	f.call.Out = resp.Replies{}
	f.call.Out.SetProtocol(resp.Neutral)
	groups := v.Groups(v.Local)
	f.call.For = &groups
	f.conn.Execute(cmd, args)
	f.call.For = nil
	reply := bytes.Clone(f.call.Out.From(0))
	f.call.Out = out
	if err := f.conn.Commit(); err != nil {
		return resp.AppendError(nil, items.ErrorText(err))
	}
	if !owned() {
		return []byte("-" + moved + "\r\n")
	}
	return reply
}

// randomKey draws a shard, each as likely as its number of posts says, and then a key of that shard.
func (f *Scatter) randomKey(cmd *command.Access, args [][]byte) {
	sizes, from, text := f.askAll(f.conn.Command("dbsize"), [][]byte{[]byte("DBSIZE")})
	total := int64(0)
	for _, r := range sizes {
		total += number(r).Int64()
	}
	switch {
	case text != "":
		f.call.Out.Error(text)
		return
	case total == 0:
		f.call.Out.Null()
		return
	}
	left := rand.Int64N(total)
	for i, r := range sizes {
		if left -= number(r).Int64(); left >= 0 {
			continue
		}
		v := f.shards.View()
		if from[i] == v.Local {
			gather.AppendAs(&f.call.Out, f.runHere(v, cmd, args, items.ErrOwning))
			return
		}
		var round gather.Round
		round.Begin()
		a := round.Ask(from[i])
		a.Add(gather.Read, args...)
		round.SendSlow(f.conn.ID(), f.shards.Settings().ReadWithin())
		round.Wait()
		reply, _, why := a.Reply(0)
		if why != nil {
			f.call.Out.Error(fmt.Sprintf("CLUSTERDOWN %v did not answer: %v", from[i], why))
			return
		}
		gather.AppendAs(&f.call.Out, reply)
		return
	}
}

package scatter

import (
	"bytes"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/schema"
)

// How a turn's commands for other shards are finished: see Scatter.

// Pending tells whether the turn has commands that are not this node's alone.
func (f *Scatter) Pending() bool { return len(f.cmds) > 0 }

// Send gives the turn's requests for other shards to their links, which write them when Finish is called for the first session of the loop's
// round. REQUIRES that the batch was run.
func (f *Scatter) Send() {
	if concerned(f) {
		f.round.Send(f.conn.Lane())
	}
}

// concerned tells whether the turn's commands need more than their local replies. Otherwise it forgets them.
func concerned(f *Scatter) bool {
	if len(f.cmds) == 0 {
		return false
	}
	if !f.remote && !(f.again && anyRetriable(f)) && !anyRefused(f) {
		f.reset()
		return false
	}
	return true
}

// Finish waits for the other shards, and puts their replies into the places of the marks. A connection in its loop, which must not wait,
// has its replies held there, and Finish is called again when the other shards have answered. If it cannot, or some part has to be asked for
// again, it leaves the loop. REQUIRES that the batch was run.
func (f *Scatter) Finish() {
	if !concerned(f) {
		return
	}
	f.round.Send(f.conn.Lane())
	if f.began.IsZero() {
		f.began = time.Now()
	}
	if f.conn.InLoop() {
		if !f.conn.MayHold() {
			f.conn.LeaveLoop()
			return
		}
		f.round.Flush()
		if !f.conn.Settle() {
			return
		}
	}
	if f.conn.InLoop() {
		if f.round.Hold(f.conn) {
			f.conn.Hold()
			return
		}
		if f.collectReplies() {
			f.conn.LeaveLoop()
			return
		}
	} else {
		await(f)
	}
	releaseNumbers(f)
	f.commitHere()
	f.assembleReplies()
	f.reset()
}

// await waits until each part has its reply, and asks again for each part that was refused for the moment or the node.
func await(f *Scatter) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		f.round.Wait()
		changed := f.shards.Changed()
		if !f.collectReplies() {
			return
		}
		select {
		case <-changed:
		case <-time.After(pause):
		}
		f.retryParts(f.shards.View())
	}
}

// anyRefused tells whether some command is answered by its refusal.
func anyRefused(f *Scatter) bool {
	for i := range f.cmds {
		if f.cmds[i].refusal != "" {
			return true
		}
	}
	return false
}

// anyRetriable tells whether some local reply says that this node was the wrong place.
func anyRetriable(f *Scatter) bool {
	for i := range f.cmds {
		switch k := &f.cmds[i]; {
		case k.from == k.to:
		case k.series != nil && anyError(f, k), k.series == nil && retriable(f.call.Out.From(k.from)):
			return true
		}
	}
	return false
}

// collectReplies collects the replies that have come, and tells whether some part has to be asked for again.
func (f *Scatter) collectReplies() (again bool) {
	if troubled(f) {
		takeApart(f)
	}
	if again = collectParts(f); again && takeApart(f) { // retryParts knows no series
		collectParts(f)
	}
	if again {
		keepLocal(f)
	}
	return again
}

// keepLocal copies the replies of local parts that have come, as others are awaited. They are a part of the connection's replies, which are in memory that all
// connections of a loop share: when the connection leaves the loop, its replies move elsewhere, and other connections write there.
func keepLocal(f *Scatter) {
	for i := range f.parts {
		if p := &f.parts[i]; p.local && p.reply != nil && !p.kept {
			p.reply, p.kept = bytes.Clone(p.reply), true
		}
	}
}

// collectParts is collectReplies for all parts but those of series: troubled looks at these.
func collectParts(f *Scatter) (again bool) {
	var now time.Time // both are set for the first part that is looked at: a turn of series has none
	var set gather.Settings
	for i := range f.parts {
		p := &f.parts[i]
		k := &f.cmds[p.cmd]
		if p.reply != nil || p.series {
			continue
		}
		if now.IsZero() {
			now, set = time.Now(), f.shards.Settings()
		}
		var reply []byte
		doubt, why := false, error(nil)
		switch {
		case p.local:
			reply = f.call.Out.From(k.from)[:k.to-k.from]
		case p.ask != nil:
			reply, doubt, why = p.ask.Reply(p.i)
		}
		within := set.ReadWithin()
		if p.kind != gather.Read {
			within = set.ChangeWithin()
		}
		over := now.Sub(f.began) >= within
		switch {
		case why != nil: // no reply came in time
			p.doubt = p.doubt || doubt
			p.reply = p.unanswered(why)
		case reply == nil && over: // the part has no owner
			p.reply = p.unanswered(nil)
		case reply == nil:
			again = true
		case p.kind == gather.Change && uncertain(reply) && !p.local:
			p.doubt, p.doubtful = true, reply
			p.holdNumber()
			if over {
				p.reply = reply
			} else {
				p.ask, again = nil, true
			}
		case retriable(reply) || (doubt || p.doubt) && passing(reply):
			if doubt {
				p.doubt = true
				if p.kind == gather.Change {
					p.holdNumber()
				}
			}
			switch {
			case !over:
				p.ask, p.local, p.posts, again = nil, false, 0, true
			case p.doubt:
				p.reply = inDoubt(string(reply[1 : len(reply)-2]))
			case p.shard != nil:
				p.reply = resp.AppendError(nil, refusedBy(p.shard, string(reply[1:len(reply)-2])))
			default:
				p.reply = reply
			}
		default:
			p.doubt = p.doubt || doubt
			if p.reply = p.refusal(reply); p.posts > 0 && reply[0] != '-' {
				p.rows = p.ask.Rows(p.i, p.posts)
			}
		}
	}
	return again
}

// holdNumber keeps the number under which a change was sent, so that a repeat is made once.
func (p *part) holdNumber() {
	if p.held == nil {
		p.held, p.heldI = p.ask, p.i
		p.ask.Hold(p.i)
	}
}

// releaseNumbers ends holdNumber for all parts.
func releaseNumbers(f *Scatter) {
	for i := range f.parts {
		if p := &f.parts[i]; p.held != nil {
			p.held.Release(p.heldI)
		}
	}
}

// retryParts asks again for the parts that have no reply. It asks the shards that own them now.
func (f *Scatter) retryParts(v *gather.View) {
	f.round.Begin()
	for i := 0; i < len(f.parts); i++ { // it grows
		p := &f.parts[i]
		k := &f.cmds[p.cmd]
		if p.reply != nil || p.ask != nil {
			continue
		}
		if k.owners != nil {
			f.retryKeys(v, i)
			continue
		}
		owner, apart := v.Owner(f.postOf(k)), false
		if k.multi == nil && k.cmd.Is("counter.mset") {
			if of, several, ok := f.rowsOwner(v, k.args); ok { // some of its posts may have moved
				owner, apart = of, several
			}
		}
		switch {
		case apart && p.doubt:
			p.reply = inDoubt(ErrRowsApart)
		case apart:
			p.reply = resp.AppendError(nil, ErrRowsApart)
		case owner == nil:
			p.shard = nil
		case owner == v.Local:
			f.executeHere(p)
		default:
			f.askShard(p, owner)
		}
	}
	f.round.Send(f.conn.Lane())
}

// postOf is the post that a command of one shard is about.
func (f *Scatter) postOf(k *order) uint64 {
	if k.multi != nil {
		return k.mid
	}
	if k.cmd.Is("counter.mset") {
		return keyMid(f.conn.Schema(), k, k.args[2])
	}
	for i := k.cmd.First; k.cmd.First > 0 && i < len(k.args); i += k.cmd.Step {
		if mid, ok := items.Mid(f.conn.Schema(), k.args[i]); ok {
			return mid
		}
	}
	return 0
}

// retryKeys asks again for the keys of a part. By now they may be of several shards.
func (f *Scatter) retryKeys(v *gather.View, i int) {
	p := f.parts[i]
	k := &f.cmds[p.cmd]
	keys, head, tail := k.keys()
	old := uint16(i - k.first)
	parts := make(map[*gather.Shard]int) // by shard: number in parts
	for at, owner := range k.owners {
		if owner != old {
			continue
		}
		s := v.Owner(keyMid(f.conn.Schema(), k, keys[at]))
		n, ok := parts[s]
		if !ok {
			n = i
			if len(parts) > 0 {
				n = f.insertPart(k, p)
				p = f.parts[i]
			}
			parts[s] = n
			f.parts[n].args = append([][]byte(nil), head...)
		}
		k.owners[at] = uint16(n - k.first)
		f.parts[n].args = append(f.parts[n].args, keys[at])
	}
	for s, n := range parts {
		p := &f.parts[n]
		p.args = append(p.args, tail...)
		p.ask, p.local, p.shard = nil, false, s
		switch {
		case s == nil:
		case s == v.Local:
			f.executeHere(p)
		default:
			f.askShard(p, s)
		}
	}
}

// insertPart adds a part to a command, behind its other parts. The parts of later commands move.
func (f *Scatter) insertPart(k *order, like part) int {
	at := k.first + k.n
	f.parts = append(f.parts, part{})
	copy(f.parts[at+1:], f.parts[at:])
	f.parts[at] = part{cmd: like.cmd, kind: like.kind}
	k.n++
	for i := like.cmd + 1; i < len(f.cmds); i++ {
		f.cmds[i].first++
	}
	return at
}

// keys returns the keys of a scattered command, and the arguments before and behind them.
func (k *order) keys() (keys, head, tail [][]byte) {
	from := 1
	if k.cmd.First == 0 { // COUNTER.MGET
		from = 2
	}
	return k.args[from : from+len(k.owners)], k.args[:from], k.args[from+len(k.owners):]
}

// keyMid is the post of a key; any post for an argument that is no key.
func keyMid(sch *schema.Schema, k *order, key []byte) uint64 {
	if k.cmd.First == 0 {
		mid, _ := schema.ParseMid(key)
		return mid
	}
	mid, _ := items.Mid(sch, key)
	return mid
}

// executeHere executes a part that this node has become the owner of. Earlier changes of this node are committed first: their
// replies are in Out, and an error of the part's own commit must not be lost for them.
func (f *Scatter) executeHere(p *part) {
	f.commitHere()
	k := &f.cmds[p.cmd]
	if p.ask = nil; k.multi == nil && !f.conn.Serves(k.cmd) || k.multi != nil && !f.conn.Lets(command.Write) {
		return
	}
	size := f.call.Out.Len()
	proto := f.call.Out.Protocol()
	f.call.Out.SetProtocol(resp.Neutral)
	numbers := *f.conn.Numbers()
	num := k.num
	if p.held != nil {
		num.Producer, num.Seq = p.held.Number(p.heldI)
		num.Epoch = 0
	}
	if k.multi != nil {
		k.multi.Exec(num)
	} else {
		*f.conn.Numbers() = idmp.At(num)
		f.conn.Plan(k.cmd, p.args)
		f.conn.Run()
	}
	*f.conn.Numbers() = numbers
	f.call.Out.SetProtocol(proto)
	reply := append([]byte(nil), f.call.Out.From(size)...)
	f.call.Out.Cut(size)
	if err := f.conn.Commit(); err != nil {
		reply = resp.AppendError(nil, items.ErrorText(err))
	}
	p.ask, p.local = nil, false
	if !retriable(reply) {
		p.reply = p.refusal(reply)
	}
}

// commitHere commits what this node changed. If that fails, errors take the places of the local replies that waited for the
// commit. The replies of other shards stay.
func (f *Scatter) commitHere() {
	base, pending := f.conn.Uncommitted()
	if !pending {
		return
	}
	err := f.conn.Commit()
	if err == nil {
		return
	}
	if takeApart(f) {
		collectParts(f)
	}
	old := append([]byte(nil), f.call.Out.From(base)...)
	at := 0
	f.call.Out.Cut(base)
	refuse := func(upto int, one bool) {
		for at < upto-base {
			push := old[at] == resp.KindPush
			if at += resp.Size(old[at:]); push {
				continue
			}
			size := f.call.Out.Len()
			f.call.StoreError(err)
			f.conn.ErrorReply(f.call.Out.From(size))
			if one {
				at = upto - base
			}
		}
	}
	for i := range f.cmds {
		k := &f.cmds[i]
		if k.to < base || k.from < base {
			continue
		}
		local := k.to > k.from
		refuse(k.from, false)
		upto := k.to
		k.from = f.call.Out.Len()
		if local {
			refuse(upto, true)
		}
		k.to = f.call.Out.Len()
		for n := k.first; n < k.first+k.n; n++ {
			if p := &f.parts[n]; p.local && p.reply != nil {
				p.reply = f.call.Out.From(k.from)[:k.to-k.from]
			}
		}
	}
	refuse(base+len(old), false)
}

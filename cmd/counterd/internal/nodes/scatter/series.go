package scatter

import (
	"bytes"
	"slices"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
)

// A series is neighbouring commands of a forward port that have the same name and one key each, as those of a pipeline mostly are. It is one
// order with one part for each shard, so a command costs a few instructions instead of an order, a part and two marks.
//
//	INCR a  INCR b  INCR c  INCR d        the keys; their owners are parts 0 1 0 1
//	part 0  this node's: a c              a series of replies in Out, between the marks of the order
//	part 1  another shard's: b d          neighbouring commands of an Ask, each with a number of its own
//
// The commands have the effects and the replies that they have one by one, and the same bytes go to other shards. If a reply is an error or missing, or if
// another command has to be asked again, all series of the turn are taken apart: each command becomes an order of its own, with its part of the same Ask, and goes on as others do.

// share is the commands of a series that one shard executes.
type share struct {
	shard *gather.Shard
	local bool
	part  int         // counted from the first of the order; -1: there is none yet
	ask   *gather.Ask // of the newest part; nil: there is none yet
}

// PlanEach plans commands that have one key each, like the last planned one, up to the first one that Plan has to look at. It
// returns how many it has planned. REQUIRES: the connection numbers no changes, its user may do everything, and nobody is told of its commands.
func (f *Scatter) PlanEach(cmd *command.Access, keys [][]byte) (planned int) {
	v := f.shards.View()
	if v.Map == nil {
		return 0
	}
	first := len(f.owners)
	owners, shares := f.newOwners(len(keys)), f.shares[:0]
	reader := f.conn.Schema().Reader()
	for ; planned < len(keys); planned++ {
		k, ok := reader.ParseKey(keys[planned])
		if !ok || k.Col < 0 {
			break
		}
		s, at := v.Owner(k.Mid), 0
		for at < len(shares) && shares[at].shard != s {
			at++
		}
		if at == len(shares) {
			if s == nil || s == v.Local && !f.conn.Serves(cmd) {
				break
			}
			shares = append(shares, share{shard: s, local: s == v.Local, part: -1})
		}
		owners[planned] = uint16(at)
	}
	f.shares, f.owners = shares, f.owners[:first+planned]
	if planned > 0 {
		k := f.addCommand(cmd, nil, mergeSeries)
		k.series, k.owners = keys[:planned], owners[:planned:planned]
		planSeries(f, k)
		f.runFull()
	}
	return planned
}

// planSeries makes the parts of a series, the last command. The owners of its keys are numbers of shares, and become numbers of parts.
func planSeries(f *Scatter, k *order) {
	p := part{cmd: len(f.cmds) - 1, kind: kindOf(k), series: true}
	long := -1 // the argument that head is for
	local := len(f.args)
	for i, key := range k.series {
		of := &f.shares[k.owners[i]]
		fresh := of.part < 0
		if of.local {
			f.args = append(f.args, key)
		} else {
			if fresh = of.ask == nil || of.ask.Full(); fresh {
				of.ask = f.round.Ask(of.shard)
			}
			if len(key) != long { // those of a pipeline mostly have one length
				long = len(key)
				f.head = gather.AppendHead(f.head[:0], k.cmd.Name, long)
			}
			n := of.ask.AddLike(p.kind, f.head, key)
			if fresh {
				p.i = n
			}
		}
		if fresh {
			of.part = k.n
			p.shard, p.local, p.ask = of.shard, of.local, of.ask
			f.parts = append(f.parts, p)
			k.n++
			f.remote = f.remote || !of.local
		}
		k.owners[i] = uint16(of.part)
	}
	if len(f.args) > local {
		f.again = true
		f.conn.PlanEach(k.cmd, f.args[local:])
		f.marks = append(f.marks, ^p.cmd)
		f.call.Owe(f.mark)
	}
	clear(f.shares)
}

// mergeSeries answers the commands of a series, in their order. REQUIRES that all replies are there, and none is an error.
func mergeSeries(f *Scatter, k *order) {
	here := f.call.Out.From(k.from)[:k.to-k.from]
	reads := k.cmd.Reads()
	for _, owner := range k.owners {
		p := &f.parts[k.first+int(owner)]
		switch {
		case !p.local:
			reply := p.ask.Answer(p.i)
			if p.i++; reads {
				gather.AppendAs(&f.out, reply)
			} else { // an integer
				f.out.Raw(reply)
			}
		default:
			n := sizeOf(here)
			f.out.Raw(here[:n])
			here = here[n:]
		}
	}
}

// sizeOf is the length of the reply that b begins with.
func sizeOf(b []byte) int {
	if b[0] == ':' {
		return bytes.IndexByte(b, '\n') + 1
	}
	return gather.Size(b)
}

// troubled tells whether a reply of a series is an error, or is missing.
func troubled(f *Scatter) bool {
	for i := range f.parts {
		switch p := &f.parts[i]; {
		case !p.series:
		case !p.local:
			if !p.ask.Fine() {
				return true
			}
		case anyError(f, &f.cmds[p.cmd]):
			return true
		}
	}
	return false
}

// anyError tells whether one of the local replies of a series may be an error.
func anyError(f *Scatter, k *order) bool {
	here := f.call.Out.From(k.from)[:k.to-k.from]
	return len(here) > 0 && (here[0] == '-' || bytes.Contains(here, newLineError))
}

var newLineError = []byte("\n-")

// takeApart makes each command of a series an order of its own, whose part has no reply before collectParts. It returns false if there is no
// series. REQUIRES that the batch was run, and that the round is over.
func takeApart(f *Scatter) bool {
	if !slices.ContainsFunc(f.cmds, func(k order) bool { return k.series != nil }) {
		return false
	}
	cmds, parts := f.cmds, f.parts
	f.cmds, f.parts = nil, nil
	for i := range cmds {
		k := cmds[i]
		if k.series == nil {
			first := len(f.parts)
			for _, p := range parts[k.first : k.first+k.n] {
				p.cmd = len(f.cmds)
				f.parts = append(f.parts, p)
			}
			k.first = first
			f.cmds = append(f.cmds, k)
			continue
		}
		at, name := k.from, []byte(k.cmd.Name)
		for j, key := range k.series {
			p := &parts[k.first+int(k.owners[j])]
			one := order{cmd: k.cmd, args: [][]byte{name, key}, merge: mergeOne, first: len(f.parts), n: 1, from: at, to: at}
			q := part{cmd: len(f.cmds), args: one.args, shard: p.shard, kind: p.kind, ask: p.ask, i: p.i, local: p.local}
			if p.local {
				at += sizeOf(f.call.Out.From(at))
				one.to = at
			} else {
				p.i++
			}
			f.cmds, f.parts = append(f.cmds, one), append(f.parts, q)
		}
	}
	return true
}

package scatter

import (
	"slices"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/schema"
)

// pages is memory for the page that is being planned.
type pages struct {
	mids   []uint64
	groups []uint8 // by mid: its group of hash slots
	shares []pageShare
	own    []uint64 // this node's posts, and their groups
	ownIn  []uint8
}

// pageShare is the posts of a page that one shard has.
type pageShare struct {
	shard *gather.Shard // nil: they have no owner
	n     int
	page  gather.Page // if asks is set
	asks  bool
	local bool
}

// planPage plans COUNTER.MGET.
func (f *Scatter) planPage(v *gather.View, cmd *command.Access, args [][]byte) bool {
	if v.Alone() && !f.forward { // to find the owners is a tenth of a page
		return false
	}
	if f.conn.Schema().CounterNamed(args[1]) == nil {
		return false
	}
	ids, tail := args[2:], [][]byte(nil)
	mids, groups := slices.Grow(f.pages.mids[:0], len(ids))[:len(ids)], slices.Grow(f.pages.groups[:0], len(ids))[:len(ids)]
	if n := schema.ParsePosts(ids, mids, groups); n < len(ids) {
		if n == 0 || !resp.EqualFold(ids[n], "COLUMNS") || len(ids)-n-1 > schema.MaxColumns { // the error is that of a node alone
			return false
		}
		ids, tail, mids, groups = ids[:n], ids[n:], mids[:n], groups[:n]
	}
	f.pages.mids, f.pages.groups = mids, groups
	some := false
	for _, group := range groups {
		if v.OfGroup(group) != v.Local {
			some = true
			break
		}
	}
	if !some && !f.forward {
		return tail == nil && planHere(f, cmd, args[1])
	}
	k := f.addCommand(cmd, args, mergeArray)
	k.owners = f.newOwners(len(ids))
	if tail == nil && len(ids) <= items.MaxPacked && !f.conn.Observed() {
		packPage(f, v, k)
		f.runFull()
	} else {
		for i, group := range groups {
			k.owners[i] = uint16(group)
		}
		f.scatter(v, k, args[:2], ids, tail)
	}
	return true
}

// planHere plans a page of this node's posts alone, whose ids planPage has read: they are not read again. It returns false if the page is to go the way of
// all commands.
func planHere(f *Scatter, cmd *command.Access, counter []byte) bool {
	if len(f.pages.mids) > items.MaxPacked {
		f.pages = pages{}
		return false
	}
	if f.conn.Observed() || !f.conn.Serves(cmd) {
		return false
	}
	f.conn.PlanRows(cmd, counter, f.pages.mids, f.pages.groups, false)
	return true
}

// packPage makes the parts of the last command, a page, whose ids and rows travel packed between nodes: this node reads an id once, and copies the rows of
// others. It sets the owners of the command.
func packPage(f *Scatter, v *gather.View, k *order) {
	shares := f.pages.shares[:0]
	for i, group := range f.pages.groups {
		s, part := v.OfGroup(group), 0
		for part < len(shares) && shares[part].shard != s {
			part++
		}
		if part == len(shares) {
			shares = append(shares, pageShare{shard: s})
		}
		shares[part].n++
		k.owners[i] = uint16(part)
	}
	f.pages.shares = shares
	if len(shares) == 1 && shares[0].shard == v.Local { // its reply may stay as it is
		f.addPart(v, v.Local, k.args)
		return
	}
	counter := k.args[1]
	for at := range shares {
		of := &shares[at]
		p := part{cmd: len(f.cmds) - 1, shard: of.shard, kind: gather.Read}
		switch {
		case of.shard == nil || of.shard == v.Local && !f.conn.Serves(k.cmd):
			f.remote = true
		case of.shard == v.Local:
			of.local, p.local = true, true
			f.again = f.again || f.forward
		default:
			f.remote = true
			p.ask = f.round.Ask(of.shard)
			of.page, of.asks = p.ask.BeginPage(counter, of.n), true
		}
		f.parts = append(f.parts, p)
		k.n++
	}
	own, ownIn := f.pages.own[:0], f.pages.ownIn[:0]
	for i, part := range k.owners {
		switch of := &shares[part]; {
		case of.asks:
			of.page.ID(f.pages.mids[i])
		case of.local:
			own, ownIn = append(own, f.pages.mids[i]), append(ownIn, f.pages.groups[i])
		}
	}
	f.pages.own, f.pages.ownIn = own, ownIn
	for part := range shares {
		switch of := &shares[part]; {
		case of.asks:
			p := &f.parts[k.first+part]
			p.i, p.posts = of.page.End(), of.n
		case of.local:
			f.conn.PlanRows(k.cmd, counter, own, ownIn, true)
			f.marks = append(f.marks, ^(len(f.cmds) - 1))
			f.call.Owe(f.mark)
		}
	}
}

package scatter

import (
	"slices"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// pages is memory for the page that is being planned.
type pages struct {
	mids   []uint64
	groups []uint8 // by mid: its group of hash slots
	shares []pageShare
	parted []uint64 // mids, those of each share together, and their groups
	inPart []uint8
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
	var parts, counts [slot.Groups + 1]uint16 // by View.Place: the number of the share, from 1 on; by this number: its posts
	owners, in := k.owners, f.pages.groups[:len(k.owners)]
	for i, group := range in {
		part := parts[v.Place(group)]
		if part == 0 {
			shares = append(shares, pageShare{shard: v.OfGroup(group)})
			part = uint16(len(shares))
			parts[v.Place(group)] = part
		}
		counts[part]++
		owners[i] = part - 1
	}
	for i := range shares {
		shares[i].n = int(counts[i+1])
	}
	f.pages.shares = shares
	if len(shares) == 1 && shares[0].shard == v.Local { // its reply may stay as it is
		f.addPart(v, v.Local, here(f, v, v.Local, k.cmd), k.args)
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
	mids, groups := partPage(f, owners, shares)
	for part := range shares {
		of := &shares[part]
		switch {
		case of.asks:
			of.page.IDs(mids[:of.n])
			p := &f.parts[k.first+part]
			p.i, p.posts = of.page.End(), of.n
		case of.local:
			f.conn.PlanRows(k.cmd, counter, mids[:of.n], groups[:of.n], true)
			f.marks = append(f.marks, ^(len(f.cmds) - 1))
			f.call.Owe(f.mark)
		}
		mids, groups = mids[of.n:], groups[of.n:]
	}
}

// partPage returns the posts of the page, those of each share together, and their groups. It takes no branch for each post, as a processor cannot foretell of
// which shard that is.
func partPage(f *Scatter, owners []uint16, shares []pageShare) (mids []uint64, groups []uint8) {
	n := len(owners)
	mids, groups = slices.Grow(f.pages.parted[:0], n)[:n], slices.Grow(f.pages.inPart[:0], n)[:n]
	f.pages.parted, f.pages.inPart = mids, groups
	var ends [slot.Groups + 1]uint16 // by part: where its next post goes
	end := uint16(0)
	for i := range shares {
		ends[i] = end
		end += uint16(shares[i].n)
	}
	all, in := f.pages.mids[:n], f.pages.groups[:n]
	for i, part := range owners {
		at := ends[part]
		ends[part] = at + 1
		mids[at], groups[at] = all[i], in[i]
	}
	return mids, groups
}

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
	shares []pageShare
	ids    []byte // packed, of this node's posts in all pages of the turn
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
	mids, tail := args[2:], [][]byte(nil)
	owners := f.newOwners(len(mids))
	some := false
	f.pages.mids = f.pages.mids[:0]
	for i, a := range mids {
		mid, ok := schema.ParseMid(a)
		if !ok {
			if i == 0 || !resp.EqualFold(a, "COLUMNS") || len(mids)-i-1 > schema.MaxColumns { // the error is that of a node alone
				return false
			}
			mids, tail, owners = mids[:i], mids[i:], owners[:i]
			break
		}
		f.pages.mids = append(f.pages.mids, mid)
		group := slot.Group(mid)
		owners[i] = uint16(group)
		some = some || v.OfGroup(group) != v.Local
	}
	if !some && !f.forward {
		return tail == nil && planHere(f, cmd, args)
	}
	k := f.addCommand(cmd, args, mergeArray)
	k.owners = owners
	if tail == nil && len(mids) <= items.MaxPacked && !f.conn.Observed() {
		packPage(f, v, k)
		f.runFull()
	} else {
		f.scatter(v, k, args[:2], mids, tail)
	}
	return true
}

// planHere plans a page of this node's posts alone, whose ids planPage has read: they are not read again. It returns false if the page is to go the way of
// all commands.
func planHere(f *Scatter, cmd *command.Access, args [][]byte) bool {
	if len(f.pages.mids) > items.MaxPacked || f.conn.Observed() || !f.conn.Serves(cmd) {
		return false
	}
	from, begin := len(f.args), len(f.pages.ids)
	for _, mid := range f.pages.mids {
		f.pages.ids = resp.AppendPackedID(f.pages.ids, mid)
	}
	f.args = append(f.args, args[0], args[1], wordPacked, f.pages.ids[begin:])
	f.conn.PlanPacked(cmd, f.args[from:], items.PackedIDs)
	clear(f.args[from:])
	f.args, f.pages.ids = f.args[:from], f.pages.ids[:begin]
	return true
}

// packPage makes the parts of the last command, a page, whose ids and rows travel packed between nodes: this node reads an id once, and copies the rows of
// others. The owners of the command are as scatter has them.
func packPage(f *Scatter, v *gather.View, k *order) {
	shares := f.pages.shares[:0]
	for i, g := range k.owners {
		s, part := v.OfGroup(uint8(g)), 0
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
	counter, ids := k.args[1], f.pages.ids
	begin := len(ids)
	for at := range shares {
		of := &shares[at]
		p := part{cmd: len(f.cmds) - 1, shard: of.shard, kind: gather.Read}
		switch {
		case of.shard == nil || of.shard == v.Local && !f.conn.Serves(k.cmd):
			f.remote = true
		case of.shard == v.Local:
			of.local, p.local = true, true
			f.again = f.again || f.forward
			ids = slices.Grow(ids, of.n*resp.PackedID)
		default:
			f.remote = true
			p.ask = f.round.Ask(of.shard)
			of.page, of.asks = p.ask.BeginPage(counter, of.n), true
		}
		f.parts = append(f.parts, p)
		k.n++
	}
	for i, part := range k.owners {
		switch of := &shares[part]; {
		case of.asks:
			of.page.ID(f.pages.mids[i])
		case of.local:
			ids = resp.AppendPackedID(ids, f.pages.mids[i])
		}
	}
	f.pages.ids = ids
	for part := range shares {
		switch of := &shares[part]; {
		case of.asks:
			f.parts[k.first+part].i = of.page.End()
		case of.local:
			from := len(f.args)
			f.args = append(f.args, k.args[0], counter, wordPacked, ids[begin:len(ids):len(ids)])
			f.conn.PlanPacked(k.cmd, f.args[from:len(f.args):len(f.args)], items.PackedRows)
			f.marks = append(f.marks, ^(len(f.cmds) - 1))
			f.call.Owe(f.mark)
		}
	}
}

var wordPacked = []byte(resp.Packed)

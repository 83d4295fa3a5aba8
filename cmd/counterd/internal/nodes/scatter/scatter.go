package scatter

import (
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/internal/slot"
)

// Scatter executes a connection's commands on posts of other shards: a timeline page (COUNTER.MGET, MGET, EXISTS) that is
// read wherever it is, and on a forward port every command on items.
//
// Such a command is planned like all others: what of it is this node's goes into the batch, what is other shards' into a
// round of package gather, and a mark is owed for its place among the replies. When the turn ends with commands for other
// shards the session leaves its loop, waits for them, and puts their replies where the marks are:
//
//	INCR a   INCR b   COUNTER.MGET ...          a is this node's, b another's, the page both
//	 batch    round    batch and round
//	 ":7"   |        | "*1 .."        Out, with the places of marks
//	 ":7"   ":3"     "*3 .. .. .."    what is sent
//
// On a forward port what this node refuses as not its own, or not now (MOVED, CLUSTERDOWN ...), is asked again where it
// belongs, as is what others refuse so.
type Scatter struct {
	conn    Conn
	call    *items.Call // of the connection
	shards  *gather.Shards
	forward bool // the connection came by a forward port
	round   gather.Round
	cmds    []order
	parts   []part
	marked  int                            // marks that were answered
	marks   []int                          // numbers of commands in the order of their marks; ^n: the end of the local part
	mark    func(*items.Call, *items.Owed) // notes the place of the next mark
	remote  bool                           // some part is another shard's
	again   bool                           // another shard may have to be asked for some local part
	args    [][]byte                       // memory for arguments of parts
	owners  []uint16                       // memory for the owners of keys
	pages   pages                          // memory for the page that is being planned
	shares  []share                        // memory for the series that is being planned
	head    []byte                         // the same: how its commands begin
	out     resp.Replies                   // replies being put together
	lists   [][]byte                       // the unread rest of parts' arrays
	began   time.Time                      // when the wait for other shards began
}

// order is a command in whose execution other shards may have a part.
type order struct {
	cmd      *command.Access
	args     [][]byte
	num      idmp.Number // the number that the client gave the command; without one Producer is nil. args have no number
	merge    func(f *Scatter, k *order)
	first, n int      // its parts
	from, to int      // its local replies, in Out
	owners   []uint16 // by key: its part, counted from first
	series   [][]byte // the keys of a series, one of each command; nil: the order is one command
	refusal  string   // if not empty, the command is answered by this error

	multi Transaction // of EXEC; nil for all other commands
	mid   uint64      // a post of multi: all its posts are of one slot
}

// part is the part of a command for one shard.
type part struct {
	cmd   int // number of the command
	args  [][]byte
	shard *gather.Shard // nil: the part has no owner
	kind  gather.Kind
	ask   *gather.Ask
	i     int
	reply []byte // in the neutral version of the protocol, or, of a local part, in the client's; nil: no reply has come yet
	local bool
	kept  bool // reply is a copy: see keepLocal
	// The part of a page that is joined with others in command i: how many posts it has, and their rows once reply is there.
	posts int
	rows  []byte
	// The part of a series is neighbouring commands of the ask, the first of which has number i.
	series bool

	// A change whose outcome is asked for elsewhere keeps its first number.
	held     *gather.Ask
	heldI    int
	doubt    bool   // the change may have been made
	doubtful []byte // the error that said so; nil: the connection to the shard was lost
}

// New makes the Scatter of a connection to a node of a cluster. The connection's replies are in call.
func New(conn Conn, call *items.Call, shards *gather.Shards, forward bool) *Scatter {
	f := &Scatter{conn: conn, call: call, shards: shards, forward: forward}
	f.mark = f.placeMark
	f.round.Begin()
	return f
}

// placeMark notes where in the replies the next mark is.
func (f *Scatter) placeMark(c *items.Call, _ *items.Owed) {
	n := f.marks[f.marked]
	f.marked++
	if n < 0 {
		f.cmds[^n].to = c.Out.Len()
		return
	}
	f.cmds[n].from, f.cmds[n].to = c.Out.Len(), c.Out.Len()
}

// addCommand adds a command. Its mark becomes the next reply that is owed.
func (f *Scatter) addCommand(cmd *command.Access, args [][]byte, merge func(*Scatter, *order)) *order {
	f.cmds = append(f.cmds, order{cmd: cmd, args: args, merge: merge, first: len(f.parts)})
	f.marks = append(f.marks, len(f.cmds)-1)
	f.call.Owe(f.mark)
	return &f.cmds[len(f.cmds)-1]
}

// here tells whether a part for a shard is planned at this node. It may be otherwise a moment later, so it is asked once for a part.
func here(f *Scatter, v *gather.View, shard *gather.Shard, cmd *command.Access) bool {
	return shard != nil && shard == v.Local && f.conn.Serves(cmd)
}

// addPart adds a part to the last command, which is planned at this node if local is set (here). A part of this node's shard that is not waits for it.
func (f *Scatter) addPart(v *gather.View, shard *gather.Shard, local bool, args [][]byte) {
	k := &f.cmds[len(f.cmds)-1]
	p := part{cmd: len(f.cmds) - 1, args: args, shard: shard, kind: kindOf(k)}
	k.n++
	if local {
		p.local = true
		f.again = f.again || f.forward
		f.conn.Plan(k.cmd, args)
		f.marks = append(f.marks, ^(len(f.cmds) - 1))
		f.call.Owe(f.mark)
	} else {
		f.remote = true
		if shard != nil && shard != v.Local {
			f.askShard(&p, shard)
		}
	}
	f.parts = append(f.parts, p)
}

// kindOf says what is done with a command when its reply is lost: whether the command is sent again, and under which number.
func kindOf(k *order) gather.Kind {
	switch {
	case k.cmd.Reads():
		return gather.Read
	case k.num.Producer != nil || k.cmd.Flags&command.Idmp != 0 && idmp.TailLen(k.args) > 0:
		return gather.Numbered
	case k.cmd.Numbered():
		return gather.Change
	}
	return gather.Once
}

// askShard asks a shard for a part.
func (f *Scatter) askShard(p *part, shard *gather.Shard) {
	p.shard, p.reply = shard, nil
	num := &f.cmds[p.cmd].num
	p.ask = f.round.Ask(shard)
	tx := f.cmds[p.cmd].multi
	switch {
	case tx != nil && p.held != nil:
		producer, seq := p.held.Number(p.heldI)
		p.i = p.ask.AddAll(p.kind, producer, seq, 0, tx.Commands())
	case tx != nil:
		p.i = p.ask.AddAll(p.kind, num.Producer, num.Seq, num.Epoch, tx.Commands())
	case p.held != nil: // with the number it had
		producer, seq := p.held.Number(p.heldI)
		p.i = p.ask.AddNumbered(producer, seq, 0, p.args...)
	case num.Producer != nil:
		p.i = p.ask.AddNumbered(num.Producer, num.Seq, num.Epoch, p.args...)
	default:
		p.i = p.ask.Add(p.kind, p.args...)
	}
}

// Forwards tells whether the connection came by a forward port. A nil Scatter did not.
func (f *Scatter) Forwards() bool { return f != nil && f.forward }

// PassesOn tells whether all commands on posts go to other nodes: the connection came by a forward port, and the node leads no shard. So they need not wait for the node's data.
func PassesOn(f *Scatter) bool { return f.forward && f.shards.View().Local == nil }

// Concerns tells whether Plan can plan a command: on a forward port every one, else those on any number of posts. It is
// asked before the rights of the user, which cost more, as most commands of an ordinary port name one post.
func (f *Scatter) Concerns(cmd *command.Access) bool {
	return f.forward || cmd.Last < 0 || cmd.Is("counter.mget")
}

// Plan plans a command on posts of several shards, and on a forward port every command on posts. It returns false for all
// others, and for commands that are refused as usual. REQUIRES Concerns(cmd), and that the user of the connection may
// execute the command.
func (f *Scatter) Plan(cmd *command.Access, args [][]byte) bool {
	v := f.shards.View()
	if v.Map == nil {
		return false
	}
	done, cmds, owners := false, len(f.cmds), len(f.owners)
	switch {
	case cmd.Is("counter.mget"):
		done = f.planPage(v, cmd, args)
	case cmd.Is("counter.mset"):
		done = f.forward && f.planRows(v, cmd, args)
	case cmd.First == 0:
	case cmd.Last < 0 && cmd.Reads():
		done = f.planKeys(v, cmd, args)
	case f.forward:
		done = f.planSingle(v, cmd, args)
	}
	if len(f.cmds) == cmds { // reset forgets those of commands alone
		f.owners = f.owners[:owners]
	}
	return done || f.forward && v.Local == nil && f.planAnywhere(v, cmd, args)
}

// planSingle plans a command that one shard has to execute.
func (f *Scatter) planSingle(v *gather.View, cmd *command.Access, args [][]byte) bool {
	_, last := cmd.Keys(args)
	var owner *gather.Shard
	at := -1
	for i := cmd.First; i <= last; i += cmd.Step {
		mid, ok := items.Mid(f.conn.Schema(), args[i])
		switch s := slot.Of(mid); {
		case !ok:
		case at < 0:
			owner, at = v.Owner(mid), int(s)
		case at != int(s):
			_, _ = f.conn.Number(new(idmp.Number), cmd, args)
			f.addCommand(cmd, args, mergeNone).refusal = route.ErrCrossSlot
			return true
		}
	}
	if at < 0 { // it is no key, which every primary knows
		return false
	}
	f.planAtOwner(v, cmd, args, owner)
	return true
}

// planRows plans COUNTER.MSET, whose posts one shard has to have: the node must not split the command into several changes.
func (f *Scatter) planRows(v *gather.View, cmd *command.Access, args [][]byte) bool {
	owner, apart, ok := f.rowsOwner(v, args)
	switch {
	case !ok:
		return false
	case apart:
		_, _ = f.conn.Number(new(idmp.Number), cmd, args)
		f.addCommand(cmd, args, mergeNone).refusal = ErrRowsApart
	default:
		f.planAtOwner(v, cmd, args, owner)
	}
	return true
}

// rowsOwner finds the shard of the posts of a COUNTER.MSET; apart: they are of several. owner is nil where one has no owner at
// the moment. ok is false for a command without posts, or that is to be refused.
func (f *Scatter) rowsOwner(v *gather.View, args [][]byte) (owner *gather.Shard, apart, ok bool) {
	var last *gather.Shard
	posts, nobody := 0, false
	ok = items.EachRow(f.conn.Schema(), args[:len(args)-idmp.TailLen(args)], func(mid uint64) {
		posts++
		s := v.Owner(mid)
		if s == nil {
			nobody = true
			return
		}
		apart = apart || last != nil && s != last
		last = s
	})
	if nobody {
		return nil, apart, ok && posts > 0
	}
	return last, apart, ok && posts > 0
}

// ErrRowsApart refuses a COUNTER.MSET whose posts no one shard has.
const ErrRowsApart = "CROSSSLOT COUNTER.MSET sets posts of several shards: send those of each hash slot in a command of their own"

// planAtOwner plans a command that a shard has to execute.
func (f *Scatter) planAtOwner(v *gather.View, cmd *command.Access, args [][]byte, owner *gather.Shard) {
	k := f.addCommand(cmd, args, mergeOne)
	local := here(f, v, owner, cmd)
	if before := *f.conn.Numbers(); before.Producer != nil {
		_, refusal := f.conn.Number(&k.num, cmd, args)
		if local { // Plan takes the number, or refuses it
			*f.conn.Numbers() = before
		} else if refusal != "" {
			k.refusal, k.merge = refusal, mergeNone
			return
		}
		if cmd.Flags&command.Idmp != 0 && idmp.TailLen(args) > 0 { // its own is sent with it
			k.num.Producer = nil
		}
	}
	f.addPart(v, owner, local, args)
	f.runFull()
}

// planAnywhere sends a command that names no post to some shard. This node leads no shard, and a primary knows what is wrong with
// the command.
func (f *Scatter) planAnywhere(v *gather.View, cmd *command.Access, args [][]byte) bool {
	owner := v.OfGroup(0)
	if owner == nil || f.conn.Numbers().Producer != nil {
		return false
	}
	f.addCommand(cmd, args, mergeOne)
	f.addPart(v, owner, here(f, v, owner, cmd), args)
	f.runFull()
	return true
}

// planKeys plans MGET, EXISTS and TOUCH.
func (f *Scatter) planKeys(v *gather.View, cmd *command.Access, args [][]byte) bool {
	first, one, some := -1, true, false
	owners := f.newOwners(len(args) - 1)
	for i, key := range args[1:] {
		if !f.forward && !route.Plain(key) && route.Refusal(f.conn.Schema(), key) != "" {
			return false
		}
		mid, ok := items.Mid(f.conn.Schema(), key)
		if !ok {
			owners[i] = nobody
			continue
		}
		s := slot.Of(mid)
		owners[i] = uint16(s / slot.PerGroup)
		if first < 0 {
			first = int(s)
		} else if first != int(s) {
			one = false
		}
		some = some || v.Owner(mid) != v.Local
	}
	if !f.forward && (one || !some || f.conn.Tracks()) { // a cluster's client is told where to go, or that it cannot
		return false
	}
	if first < 0 {
		return false
	}
	merge := mergeSum
	if cmd.Is("mget") {
		merge = mergeArray
	}
	k := f.addCommand(cmd, args, merge)
	k.owners = owners
	f.scatter(v, k, args[:1], args[1:], nil)
	return true
}

const nobody = ^uint16(0)

// scatter makes the parts of the last command. The command's owners hold the group of each key; scatter replaces the group by the
// number of the key's part. Arguments that are no keys go with the first part.
func (f *Scatter) scatter(v *gather.View, k *order, head, keys, tail [][]byte) {
	var shards [maxParts]*gather.Shard
	n := 0
	for i, g := range k.owners {
		part := uint16(0)
		if g != nobody {
			s := v.OfGroup(uint8(g))
			for int(part) < n && shards[part] != s {
				part++
			}
			if int(part) == n {
				shards[n] = s
				n++
			}
		}
		k.owners[i] = part
	}
	number := len(f.cmds) - 1
	for part := range n {
		from := len(f.args)
		f.args = append(f.args, head...)
		for i, key := range keys {
			if k.owners[i] == uint16(part) {
				f.args = append(f.args, key)
			}
		}
		f.args = append(f.args, tail...)
		f.addPart(v, shards[part], here(f, v, shards[part], k.cmd), f.args[from:len(f.args):len(f.args)])
		k = &f.cmds[number]
	}
	f.runFull()
}

// maxParts is the most shards that a cluster can have: each has at least one group.
const maxParts = slot.Groups

// runFull runs the batch if it is full, as plan does, and sends what was asked if that is much.
func (f *Scatter) runFull() {
	if f.round.Bytes() > maxRound {
		f.round.Send(f.conn.Lane())
	}
	if len(f.call.Owed) >= maxOwed {
		f.conn.Run()
	}
}

// maxRound is the most bytes of requests that are collected before they are sent.
const maxRound = 32 << 10

// newOwners returns memory for the owners of n keys.
func (f *Scatter) newOwners(n int) []uint16 {
	from := len(f.owners)
	f.owners = slices.Grow(f.owners, n)[:from+n]
	return f.owners[from:len(f.owners):len(f.owners)]
}

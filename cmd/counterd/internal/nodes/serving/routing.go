package serving

import (
	"cmp"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// Which commands a node of a cluster takes, and where the others go. There are two ways to ask: Serves is quick and asked of
// every planned command, and where it does not say yes, Route looks at everything.

// Asker is the part of a connection that the answers to its commands depend on.
type Asker struct {
	Internal     bool // another node's link, or a client of the forward port: its keys are not looked at as a cluster's client hashes them
	ReplicaReads bool // READONLY: replicas answer it
	Link         bool // another node's link, which asks primaries alone
	Secure       bool // it came by TLS, and is told of ports for that
}

// errNoPrimary refuses a link's reads. The node that asks knows an old map, and a replica may lack what the new primary has acknowledged.
const errNoPrimary = "TRYAGAIN The node is not the primary of its shard any more"

// Serves tells whether the node takes a planned command, as far as a few comparisons can tell. REQUIRES the batch open: while
// that is, the store's slots stand still, and no Standing that refuses changes is complete (Member.SetStanding). args may be nil:
// then whether the posts are here is left to the store.
func (st *Standing) Serves(k Asker, cmd *command.Access, args [][]byte) bool {
	replica := !st.open && k.ReplicaReads && st.Reads == "" && !st.Primary && cmd.Reads()
	if !st.open && !replica {
		return false
	}
	if k.Internal || cmd.First == 0 || args == nil {
		return true
	}
	if cmd.Last == cmd.First && !replica && !st.held { // the store says whether the slot is here
		return route.Plain(args[cmd.First])
	}
	_, last := cmd.Keys(args)
	changes, first := cmd.Flags&command.Write != 0, -1
	for i := cmd.First; i <= last; i += cmd.Step {
		if !route.Plain(args[i]) {
			return false
		}
		if st.all && !changes {
			continue
		}
		of := int(slot.OfKey(args[i]))
		if changes && first >= 0 && of != first || !st.Owned.Has(slot.GroupOf(uint16(of))) {
			return false
		}
		first = of
	}
	return true
}

// ServesEach tells whether the node takes each planned command with one key, if its key is Plain. REQUIRES as Serves.
func (st *Standing) ServesEach(k Asker) bool { return st.open && (k.Internal || !st.held) }

// holdForSwitch is for how long commands wait for the end of a planned failover behind which the node has its new role. Links do not: the other node asks the new primary.
const holdForSwitch = 500 * time.Millisecond

// Route says why a command, or a transaction, is not taken here: it goes elsewhere, or nowhere; empty: it is taken. wait is
// set where that may change in a moment.
func (st *Standing) Route(k Asker, r *Routing) (text string, wait bool) {
	if text, wait = st.route(k, r); text == cluster.ErrSwitch && !k.Link {
		wait = time.Since(st.began) < holdForSwitch
	}
	return text, wait
}

func (st *Standing) route(k Asker, r *Routing) (text string, wait bool) {
	switch {
	case r.text != "":
		return r.text, false
	case r.hasSlot && !k.Internal:
		if text, wait = st.owned(k, r); text != "" {
			return text, wait
		}
	}
	switch {
	case r.writes && !r.hasSlot && st.Shard != nil && !st.Primary && (k.Link || !k.Internal): // client libraries close a connection at READONLY
		return items.ErrReadOnly, false
	case r.writes && st.Writes != "":
		return st.Writes, false
	case r.updates && !st.all && !k.Internal:
		return errUpdateAll, false
	case r.reads && k.Link && st.Shard != nil && !st.Primary:
		return errNoPrimary, false
	case r.writes || !r.reads:
		return "", false
	}
	return st.Readable(time.Now()), false
}

// Routing is the question of a command, or of a transaction, to the cluster.
type Routing struct {
	slot          uint16 // of its keys, where hasSlot is set
	hasSlot       bool
	reads, writes bool
	updates       bool   // it has a COUNTER.UPDATE in a transaction
	channel       bool   // the slot is that of shard channels, and no post's
	leads         bool   // only a primary can have it: it is no read, and no subscription
	text          string // why nobody takes it
}

// Add looks at a command. names is the schema that its keys are read by; nil: they are not looked at. whole says that all its
// keys have to be in one slot, be it a read.
func (r *Routing) Add(k Asker, names *schema.Schema, cmd *command.Access, args [][]byte, whole bool) {
	if whole && AltersSchema(cmd) {
		r.text = errAlterHeld
	}
	changes := cmd.Flags&command.Write != 0 && !AltersSchema(cmd)
	r.writes = r.writes || changes
	r.reads = r.reads || readsData(cmd)
	if cmd.Group == "pubsub" {
		if !cmd.Is("ssubscribe") && !cmd.Is("spublish") {
			return
		}
		r.channel = true
		r.leads = r.leads || cmd.Is("spublish")
		if channels, _ := cmd.Channels(args); !k.Internal {
			for _, name := range channels {
				r.inSlot(name)
			}
		}
		return
	}
	r.leads = r.leads || changes
	r.updates = r.updates || whole && cmd.Is("counter.update") // else all shards are asked (package scatter)
	if !cmd.HasKeys() || k.Internal {
		return
	}
	_, last := cmd.Keys(args)
	for i := cmd.First; i <= last && r.text == ""; i += cmd.Step {
		if names != nil && !route.Plain(args[i]) {
			r.text = route.Refusal(names, args[i])
		}
		if r.text == "" {
			r.inSlot(args[i])
		}
	}
}

// inSlot notes the slot of a key, or of a channel.
func (r *Routing) inSlot(key []byte) {
	of := slot.OfKey(key)
	if r.hasSlot && of != r.slot {
		r.text = route.ErrCrossSlot
		return
	}
	r.slot, r.hasSlot = of, true
}

// Slot is that of the posts; false: there is none.
func (r *Routing) Slot() (of uint16, posts bool) { return r.slot, r.hasSlot && !r.channel }

// Reads tells whether posts are read, and Writes whether they are changed.
func (r *Routing) Reads() bool  { return r.reads }
func (r *Routing) Writes() bool { return r.writes }

// Elsewhere says where a transaction goes whose slot is not served here; empty: it is.
func (st *Standing) Elsewhere(k Asker, r *Routing) string {
	if r.text == "" && r.hasSlot && !k.Internal {
		text, _ := st.owned(k, r)
		return text
	}
	return r.text
}

const errUpdateAll = "CROSSSLOT COUNTER.UPDATE in a transaction would change posts of several nodes: send it outside of the transaction"

const errAlterHeld = "ERR the schema of a cluster cannot be changed in a transaction"

// AltersSchema tells whether a command changes the schema, which is the cluster's and not a node's.
func AltersSchema(cmd *command.Access) bool {
	return cmd.Is("add") || cmd.Is("alter") || cmd.Is("drop")
}

// readsData tells whether a command tells of posts, so that a node which may have been replaced must not answer it.
func readsData(cmd *command.Access) bool {
	if cmd.Flags&(command.ReadOnly|command.Admin) != command.ReadOnly {
		return false
	}
	switch cmd.Name {
	case "dbsize", "schema", "counter.hot", "idmp|last", "function|list":
		return false
	}
	return true
}

// owned tells where a command goes whose slot is not served here.
func (st *Standing) owned(k Asker, r *Routing) (text string, wait bool) {
	group := slot.GroupOf(r.slot)
	mine := st.Mine(group)
	switch {
	case mine && !st.Primary && st.Leader == st.Self: // nothing moves: the map names this node, which does not lead
		return cmp.Or(st.Reads, route.ErrDown), false
	case mine && !st.Primary && !(!r.leads && (k.ReplicaReads || r.channel)):
		return st.View(k.Secure).Moved(r.slot), false
	case st.Standing.Map == nil: // it has just been started, and is about to read it
		return route.ErrDown, true
	case st.Owned.Has(group):
		return "", false
	case mine && !st.Primary: // a replica whose log does not have them: its primary's may
		return st.View(k.Secure).Moved(r.slot), false
	case mine && st.Lacking.Has(group):
		return route.ErrLacking, false
	case mine:
		return route.ErrTryAgain, true
	}
	return st.View(k.Secure).Moved(r.slot), st.Coming.Has(group)
}

// groupOfChannel is the group of a shard channel's slot.
func groupOfChannel(name string) uint8 { return slot.GroupOf(slot.OfKey([]byte(name))) }

package route

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// View is the cluster as one connection is told of it.
type View struct {
	Map  *topology.Map // never nil; the zero Map is a cluster that nobody has made yet
	Self topology.NodeID
	TLS  bool // the connection came by TLS: it is told the ports for that
}

// Redirections, in the words that clients look for.
const (
	// ErrDown is the answer of a node that has not heard of its cluster.
	ErrDown = "CLUSTERDOWN The cluster is down: this node has no part in it yet"
	// ErrUnserved is the answer for a slot that nobody has.
	ErrUnserved = "CLUSTERDOWN Hash slot not served"
	// ErrNoCluster is the answer of a node that is of no cluster.
	ErrNoCluster = "ERR This instance has cluster support disabled"
	// ErrCrossSlot is the answer to a command that changes posts of several slots.
	ErrCrossSlot = "CROSSSLOT Keys in request don't hash to the same slot"
	// ErrLacking is the answer for a slot whose posts are lost, or not here although no move brings them.
	ErrLacking = "CLUSTERDOWN The posts of the hash slot are not on the node that is to have them: counterctl cluster check says why"
	// ErrTryAgain is the answer for a slot that is on its way from or to this node at this moment.
	ErrTryAgain = "TRYAGAIN The hash slot is being moved"
)

// Moved is the answer for a slot that another node has.
func (v View) Moved(of uint16) string {
	owner := v.Map.Owner(slot.GroupOf(of))
	if owner == nil {
		return ErrUnserved
	}
	n := v.Map.Nodes[owner.Primary]
	switch {
	case n == nil:
		return ErrUnserved
	case n.ID == v.Self:
		return ErrTryAgain // the map says so, and the store does not yet, or not any more
	}
	return v.MovedTo(of, n)
}

// MovedTo sends a client to a node.
func (v View) MovedTo(of uint16, n *topology.Node) string {
	host, port := v.Endpoint(n)
	return "MOVED " + strconv.Itoa(int(of)) + " " + host + ":" + strconv.Itoa(port)
}

// Endpoint is where the connection finds a node: by the port of its own kind where the node has one.
func (v View) Endpoint(n *topology.Node) (host string, port int) { return n.Endpoint(v.TLS) }

// member is a node with what the map says of it.
type member struct {
	*topology.Node
	shard   *topology.Shard // nil: a free node
	primary bool
	live    *topology.Live // nil: it is away
}

// members are all nodes by id, and by shard: the primary first, then by id.
func (v View) members() (all []member, byShard map[topology.ShardID][]member) {
	byShard = make(map[topology.ShardID][]member, len(v.Map.Shards))
	shards := make(map[topology.ShardID]*topology.Shard, len(v.Map.Shards))
	for _, s := range v.Map.Shards {
		shards[s.ID] = s
	}
	for id, n := range v.Map.Nodes {
		m := member{Node: n, shard: shards[n.Shard], live: v.Map.Live[id]}
		m.primary = m.shard != nil && m.shard.Primary == id
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.ID, b.ID) })
	for _, m := range all {
		if m.shard == nil {
			continue
		}
		list := byShard[m.shard.ID]
		if m.primary {
			list = slices.Insert(list, 0, m)
		} else {
			list = append(list, m)
		}
		byShard[m.shard.ID] = list
	}
	return all, byShard
}

// slotRange is neighbouring slots, both ends included.
type slotRange struct{ first, last int }

// slotsOf lists a shard's slots, rising.
func slotsOf(s *topology.Shard) (list []slotRange) {
	for _, r := range s.Groups.Ranges() {
		list = append(list, slotRange{int(r.First) * slot.PerGroup, (int(r.Last)+1)*slot.PerGroup - 1})
	}
	return list
}

// ShardName is a shard's id as clients are told it: 40 hex digits.
func ShardName(id topology.ShardID) string {
	text := strconv.FormatInt(int64(id), 16)
	return "0000000000000000000000000000000000000000"[:40-len(text)] + text
}

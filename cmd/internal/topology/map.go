package topology

import (
	"cmp"
	"net"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/counterd/counterd/internal/slot"
)

// NodeID is 40 lower-case hex digits, as in Redis Cluster.
type NodeID string

// ShardID counts from 1.
type ShardID int

// Cluster has the values that hold for the whole cluster. Key: <prefix>/cluster.
type Cluster struct {
	Format    int       `json:"format"` // of all of these values: a higher one than this program's is refused
	ID        string    `json:"id"`     // random: a cluster of the same name that was made anew is another one
	Created   time.Time `json:"created"`
	Replicas  int       `json:"replicas"`  // wanted of each shard
	MinInSync int       `json:"minInSync"` // nodes that must have a change before it is acknowledged, the primary counted
	LastShard ShardID   `json:"lastShard"` // highest id of a shard that was ever given: none is given again
	Revision  int64     `json:"-"`         // of the key, for Txn; 0: nobody has created the cluster yet
}

// Schema is the schema that each shard's data must have, so that counters and columns have the same ids everywhere. A
// statement makes a new text of the last one, in one place, and a node that missed some texts takes the last. Key:
// <prefix>/schema; there is none before the first.
type Schema struct {
	Text     string `json:"text"` // package schema's durable form
	Revision int64  `json:"-"`
}

// Node is a node as it registered itself. Key: <prefix>/node/<id>; it stays when the node is away.
type Node struct {
	ID      NodeID  `json:"id"`
	Host    string  `json:"host"` // as clients reach it
	Port    int     `json:"port"`
	TLSPort int     `json:"tlsPort,omitempty"` // one of the two is not 0
	HTTP    string  `json:"http,omitempty"`    // host:port of metrics and page
	Zone    string  `json:"zone,omitempty"`    // rack or zone: replicas of a shard are spread over them
	Version string  `json:"version"`
	Shard   ShardID `json:"shard,omitempty"` // 0: a free node
	// Retired: it is to go, so no shard that is short of nodes takes it by itself.
	Retired bool `json:"retired,omitempty"`
	// Start is the newest life of the node's directory. A directory that does not have it is an older copy.
	Start    Start `json:"start,omitzero"`
	Revision int64 `json:"-"` // of the key, for Txn
}

// Endpoint is where a node is found by a connection that speaks TLS, or one that does not, where the node has such a port: else of
// the one that it has.
func (n *Node) Endpoint(tls bool) (host string, port int) {
	if tls && n.TLSPort != 0 || n.Port == 0 {
		return n.Host, n.TLSPort
	}
	return n.Host, n.Port
}

// Addr is Endpoint as host:port.
func (n *Node) Addr(tls bool) string {
	host, port := n.Endpoint(tls)
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Live says that a node's process runs. Key: <prefix>/live/<id>, under a lease; written again when it changes, and each
// few seconds for its metrics.
type Live struct {
	Process string `json:"process"` // random, of the process: it changes with each start
	Address string `json:"address"` // host:port by which nodes reach it
	Epoch   uint64 `json:"epoch"`   // of the term that its log ends in
	// Written and Durable are log offsets that it has; Behind is set where it may lack what it acknowledged, as the
	// machine went down under it (appendfsync everysec) or its log was cut: until it has caught up it is no candidate
	// unless all others were asked.
	Written uint64 `json:"written"`
	Durable uint64 `json:"durable"`
	Behind  bool   `json:"behind,omitempty"`
	Posts   uint64 `json:"posts"`
	Bytes   uint64 `json:"bytes"` // of data, memory and files
	Ops     uint64 `json:"ops"`   // commands a second, of late
	// A node's report about its shard. Rests: it is the primary by etcd and does not lead, as its process is another one
	// than led or as it reaches no replica: another may take over at once. Wants: it is a candidate for this epoch, and
	// Written is as of now. Asks: it asks the primary of this epoch to hand over to it. Leaves: it is shutting down.
	Rests  bool   `json:"rests,omitempty"`
	Wants  uint64 `json:"wants,omitempty"`
	Asks   uint64 `json:"asks,omitempty"`
	Leaves bool   `json:"leaves,omitempty"`
	// Outdated: its directory is an older copy, and may lack what the node acknowledged. It is no candidate, it
	// acknowledges nothing, and its primary takes it out of those in sync. Then it begins anew.
	Outdated bool `json:"outdated,omitempty"`
	// Lacks are groups that the map gives the shard that it leads, whose posts its log says are not here, and that no move
	// brings. It serves them to nobody.
	Lacks slot.Set `json:"lacks,omitzero"`
	// Schema is the revision of the cluster's schema that its data has.
	Schema int64 `json:"schema,omitempty"`
	// Troubles are faults that the node finds in itself, at most MaxTroubles.
	Troubles []Trouble `json:"troubles,omitempty"`
	Revision int64     `json:"-"` // of the key
}

// Same tells whether two values say the same. Their revisions do not matter.
func (l Live) Same(o Live) bool {
	l.Revision, o.Revision = 0, 0
	return slices.Equal(l.Troubles, o.Troubles) && reflect.DeepEqual(l.quiet(), o.quiet())
}

func (l Live) quiet() Live {
	l.Troubles = nil
	return l
}

// Shard is the nodes that hold one log. Key: <prefix>/shard/<n>.
type Shard struct {
	ID      ShardID  `json:"id"`
	Epoch   uint64   `json:"epoch"`
	Primary NodeID   `json:"primary"` // empty with epoch 0: none has led yet; a node in sync proposes itself
	InSync  []NodeID `json:"inSync"`  // never empty; the primary is one of them
	// Unclean is the newest epoch whose primary may lack changes confirmed before, which are given up then: a person began
	// it by ForceUnclean, or all in sync were behind. 0: none.
	Unclean uint64 `json:"unclean,omitempty"`
	// Groups that the shard owns. That a move was committed is told by them alone.
	Groups slot.Set `json:"groups"`
	ReplID string   `json:"replid,omitempty"` // of the log since the epoch began; empty until its primary leads
	// Came is the log offset at which the shard had all data of moves, as of the last committed move. A primary whose log
	// does not hold it has lost posts that the shard owns. The zero value: no move was committed by a version that says so.
	Came     LogPoint `json:"came,omitzero"`
	Revision int64    `json:"-"` // of the key, for Txn
}

// LogPoint is a place in the log of a shard: an offset that a primary's log had come to in an epoch.
type LogPoint struct {
	Epoch  uint64 `json:"epoch"`
	Offset uint64 `json:"offset"`
}

// Move is groups on their way. Key: <prefix>/move/<id>; it is removed when both sides have done their part.
type Move struct {
	ID     string    `json:"id"` // random
	Groups slot.Set  `json:"groups"`
	From   ShardID   `json:"from"`
	To     ShardID   `json:"to"`
	State  MoveState `json:"state"`
	Began  time.Time `json:"began"`
	Error  string    `json:"error,omitempty"` // of an aborted one
	// Of a committed one: the source has dropped the groups, the destination has taken them as its own, each durably.
	Dropped  bool   `json:"dropped,omitempty"`
	Held     uint64 `json:"held,omitempty"` // of a committed one: the source's log has nothing of the groups from this offset on
	Accepted bool   `json:"accepted,omitempty"`
	Revision int64  `json:"-"` // of the key, for Txn
}

// MoveState is how far a move is.
type MoveState string

const (
	MoveCopying   MoveState = "copying"   // the destination fetches; the source owns
	MoveCommitted MoveState = "committed" // the destination owns; the source has to drop
	MoveAborted   MoveState = "aborted"   // the source owns; the destination has to drop
)

// Map is all that is known of a cluster at one revision of etcd. It is immutable: readers share it and all that it points
// to.
type Map struct {
	Revision int64   // of etcd, at least that of each value
	Cluster  Cluster // Revision 0: it is not created yet, but nodes may wait for it
	Schema   Schema
	Nodes    map[NodeID]*Node
	Live     map[NodeID]*Live // those under a lease
	Shards   []*Shard         // by id, without gaps in order but maybe in ids
	Moves    []*Move          // by id

	owner [slot.Groups]*Shard // by group; nil: nobody's
}

// Created tells whether there is a cluster, not only nodes that wait for one.
func (m *Map) Created() bool { return m.Cluster.Revision != 0 }

// Owner is the shard that owns a group; nil if none does.
func (m *Map) Owner(group uint8) *Shard { return m.owner[group] }

// Shard is that with the id, or nil.
func (m *Map) Shard(id ShardID) *Shard {
	if i, ok := slices.BinarySearchFunc(m.Shards, id, func(s *Shard, id ShardID) int { return cmp.Compare(s.ID, id) }); ok {
		return m.Shards[i]
	}
	return nil
}

// Move is that with the id, or nil.
func (m *Map) Move(id string) *Move {
	if i, ok := slices.BinarySearchFunc(m.Moves, id, func(v *Move, id string) int { return cmp.Compare(v.ID, id) }); ok {
		return m.Moves[i]
	}
	return nil
}

// Members are the nodes of a shard, by id; those of shard 0 are the free ones. It looks at every node.
func (m *Map) Members(id ShardID) []*Node {
	var list []*Node
	for _, n := range m.Nodes {
		if n.Shard == id {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Unowned are the groups that no shard owns: none in a cluster that is whole.
func (m *Map) Unowned() slot.Set {
	var s slot.Set
	for g, owner := range m.owner {
		if owner == nil {
			s.Add(uint8(g))
		}
	}
	return s
}

// Has tells whether a node is in the in-sync set.
func (s *Shard) Has(id NodeID) bool { return slices.Contains(s.InSync, id) }

package console

import (
	"fmt"
	"time"
)

// Cluster is a node's part in its cluster, and what it knows of the whole.
type Cluster struct {
	Shard   int           `json:"shard"` // its number; 0: a free node
	Epoch   uint64        `json:"epoch"`
	Primary bool          `json:"primary"`
	Reads   string        `json:"reads,omitempty"`  // why they are refused; empty: they are served
	Writes  string        `json:"writes,omitempty"` // the same, of a primary
	Etcd    string        `json:"etcd,omitempty"`   // why it is not heard of; empty: it is
	Lease   time.Duration `json:"lease"`            // until it runs out; below 0: it did

	Shards   int `json:"shards"`
	Nodes    int `json:"nodes"`
	Away     int `json:"away"` // nodes without a lease
	Free     int `json:"free"` // nodes of no shard
	Unowned  int `json:"unowned"`
	Headless int `json:"headless"` // shards whose primary is away
	Thin     int `json:"thin"`     // shards with nodes that are not in sync
	Moves    int `json:"moves"`

	// Troubles are what the node reports as wrong with itself, as counterctl cluster check shows it too.
	Troubles []Trouble `json:"troubles,omitempty"`
}

// Trouble is one thing that a node of a cluster reports as wrong with itself. If the page has a problem of the same ID, it
// is not shown a second time.
type Trouble struct {
	ID    string `json:"id"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
}

// Shard is one of the cluster, and a row of the page.
type Shard struct {
	ID    int          `json:"id"` // 0: the free nodes
	Epoch uint64       `json:"epoch"`
	Slots int          `json:"slots"`
	Posts uint64       `json:"posts"` // of its primary, as it last said, as the next two
	Bytes uint64       `json:"bytes"`
	Ops   uint64       `json:"ops"`
	Nodes []ShardNode  `json:"nodes"` // the primary first
	Moves []ShardMoves `json:"moves,omitempty"`
}

// ShardNode is a node of a shard.
type ShardNode struct {
	Addr string `json:"addr"`
	Page string `json:"page,omitempty"` // host:port of its own page; empty: it has none
	Zone string `json:"zone,omitempty"`
	// State is primary, in sync, behind (it follows and is not in sync), away, or free.
	State   string `json:"state"`
	Self    bool   `json:"self,omitempty"`
	Version string `json:"version"`
}

// ShardMoves are groups on their way from or to a shard.
type ShardMoves struct {
	Groups int    `json:"groups"`
	Other  int    `json:"other"` // the other shard
	Out    bool   `json:"out"`   // from this one
	State  string `json:"state"`
}

// cluster: what is wrong with the node's part, and with the whole.
func (j *judge) cluster(v *Vitals, say sayer) {
	c := v.Cluster
	if c == nil {
		return
	}
	if c.Etcd != "" {
		say(Bad, "etcd", "etcd does not answer", "Roles stay as they are. Changes go on while all nodes in sync acknowledge; nothing can fail over. "+c.Etcd)
	}
	switch {
	case c.Shard == 0:
		say(Note, "free", "A free node: it has no part in the cluster yet", "counterctl cluster create, or add, gives it one.")
	case c.Primary && c.Writes != "":
		say(Bad, "writes", "Changes are refused", c.Writes)
	case c.Reads != "":
		say(Bad, "reads", "Reads are refused", c.Reads)
	}
	if c.Headless > 0 {
		say(Bad, "headless", plural(c.Headless, "shard has", "shards have")+" no primary that lives", "Its posts can be neither read nor changed until one of its nodes in sync is back.")
	}
	if c.Unowned > 0 {
		say(Bad, "unowned", fmt.Sprintf("%d hash slots are owned by no shard", c.Unowned), "counterctl cluster check says which.")
	}
	if c.Thin > 0 {
		say(Warn, "thin", plural(c.Thin, "shard has", "shards have")+" nodes that are not in sync", "They come into sync by themselves when they have caught up.")
	}
	if c.Away > 0 {
		say(Warn, "away", plural(c.Away, "node is", "nodes are")+" away", "counterctl cluster status names them; counterctl cluster remove forgets one for good.")
	}
	if c.Moves > 0 {
		say(Note, "moves", plural(c.Moves, "move", "moves")+" of hash slots under way", "")
	}
}

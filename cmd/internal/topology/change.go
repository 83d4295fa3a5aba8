package topology

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Change is a transaction: where every key has the revision that Compare says, all of Put and Delete happen at once, else
// nothing does. Every key that is written is compared too, so that no change is made from an outdated map. The keys of
// leases alone are written otherwise, by the lease that holds them.
type Change struct {
	What    string // for people: "shard 3: 07c37d.. leads epoch 7"
	Compare []Compare
	Put     []KV // Revision is not used
	Delete  []string
}

// Compare wants a key to be at a revision; 0: not to exist.
type Compare struct {
	Key      string
	Revision int64
}

// RefusedError says why a change is not made: nothing was changed, and etcd was not asked.
type RefusedError struct {
	What string
	Why  string
}

func (e *RefusedError) Error() string { return e.What + ": " + e.Why }

func refuse(what, format string, args ...any) error {
	return &RefusedError{What: what, Why: fmt.Sprintf(format, args...)}
}

// ErrConflict says that a change was not made, as something that it compares has changed.
var ErrConflict = errors.New("another client changed it at the same time")

// Same compares a key without writing it.
func (c *Change) Same(key string, revision int64) {
	c.Compare = append(c.Compare, Compare{Key: key, Revision: revision})
}

// Set writes a key that has the revision. The value is one of this package's, so it can be encoded.
func (c *Change) Set(key string, revision int64, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	c.Same(key, revision)
	c.Put = append(c.Put, KV{Key: key, Value: text})
}

// Remove removes a key that has the revision.
func (c *Change) Remove(key string, revision int64) {
	c.Same(key, revision)
	c.Delete = append(c.Delete, key)
}

func (c *Change) setShard(s Shard)     { c.Set(ShardKey(s.ID), s.Revision, s) }
func (c *Change) setNode(n Node)       { c.Set(NodeKey(n.ID), n.Revision, n) }
func (c *Change) setMove(v Move)       { c.Set(MoveKey(v.ID), v.Revision, v) }
func (c *Change) setCluster(m Cluster) { c.Set(ClusterKey, m.Revision, m) }

// Apply returns the map after the change, made at the next revision. It returns ErrConflict if the change was not made
// from this map.
func (m *Map) Apply(c Change) (*Map, error) {
	for _, want := range c.Compare {
		if got := m.revision(want.Key); got != want.Revision {
			return nil, fmt.Errorf("%s: key %s: got revision %d, want %d: %w", c.What, want.Key, got, want.Revision, ErrConflict)
		}
	}
	var kvs []KV
	for _, kv := range c.Put {
		kvs = append(kvs, KV{kv.Key, kv.Value, m.Revision + 1})
	}
	for _, key := range c.Delete {
		kvs = append(kvs, KV{Key: key, Revision: m.Revision + 1})
	}
	return m.With(m.Revision+1, kvs)
}

// revision is that of a key; 0: there is none, or it is not one of a map.
func (m *Map) revision(key string) int64 {
	switch key {
	case ClusterKey:
		return m.Cluster.Revision
	case SchemaKey:
		return m.Schema.Revision
	}
	for _, s := range m.Shards {
		if ShardKey(s.ID) == key {
			return s.Revision
		}
	}
	for _, v := range m.Moves {
		if MoveKey(v.ID) == key {
			return v.Revision
		}
	}
	for id, n := range m.Nodes {
		if NodeKey(id) == key {
			return n.Revision
		}
	}
	for id, l := range m.Live {
		if LiveKey(id) == key {
			return l.Revision
		}
	}
	return 0
}

// Touch writes a shard as it is. An earlier change of the shard from this map, whose outcome is unknown, either has
// happened, and then this one conflicts, or can no longer happen after this one.
func Touch(m *Map, id ShardID) (Change, error) {
	c := Change{What: fmt.Sprintf("shard %d: touch", id)}
	s := m.Shard(id)
	if s == nil {
		return Change{}, refuse(c.What, "there is no such shard")
	}
	c.setShard(*s)
	return c, nil
}

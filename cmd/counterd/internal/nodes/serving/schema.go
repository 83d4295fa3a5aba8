package serving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// clusterSchema gives the data of this node's shard the schema of the cluster, and the cluster another one. The cluster's
// is one text in etcd, which a statement changes by a transaction; each primary puts the newest in force. So counters and
// columns have the same ids everywhere.
type clusterSchema struct {
	m        *Member
	registry registry.Registry

	mu       sync.Mutex // guards the rest
	has      int64      // revision of the text that the data has; 0: not known
	epoch    uint64     // of the shard, that has is of: another primary's log may lack what this node's had
	adopting bool
}

// errForeignData: the directory has a schema of its own, which the cluster's is none of.
var errForeignData = errors.New("the directory holds counters that were not made by this cluster: start the node with an empty directory, and bring them in by counterctl export and import")

// revision is that of the cluster's schema which the data has.
func (c *clusterSchema) revision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.has
}

// adoptNewer puts the schema of a newer map in force, if this node is to say what its shard's data is. It does not wait.
func (c *clusterSchema) adoptNewer(st *cluster.Standing) {
	if st.Map == nil {
		return
	}
	next := st.Map.Schema
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.Shard != nil && st.Shard.Epoch != c.epoch {
		c.epoch, c.has = st.Shard.Epoch, 0
	}
	if c.adopting {
		return
	}
	if next.Revision == 0 {
		if st.Primary && st.Writes == "" && !c.m.host.Store().Schema().IsEmpty() {
			c.adopting = true
			go c.bring(st.Map)
		}
		return
	}
	if c.has == next.Revision {
		return
	}
	if !st.Primary || st.Writes != "" {
		if string(c.m.host.Store().Schema().AppendText(nil)) == next.Text { // as the primary's log brings it
			c.has = next.Revision
		}
		return
	}
	c.adopting = true
	go c.adopt(next, c.epoch)
}

// bring gives the cluster, which has no schema yet, that of the data which this node came with: a directory of a server of
// its own. Of several the first one's counts, and the others refuse it unless theirs is the same.
func (c *clusterSchema) bring(m *topology.Map) {
	ctx, cancel := context.WithTimeout(context.Background(), alterWithin)
	defer cancel()
	change, err := topology.SetSchema(m, string(c.m.host.Store().Schema().AppendText(nil)), "as the data has it that was here before")
	if err == nil {
		err = c.registry.Commit(ctx, change)
	}
	c.mu.Lock()
	c.adopting = false
	c.mu.Unlock()
	if err != nil && !errors.Is(err, registry.ErrConflict) { // which is tried with a newer map
		c.m.log.Warn("the schema of this node differs from the schema of the cluster", "error", err)
	}
}

// adopt puts a schema in force. A change that fails because of the disk or the loss of the role is tried again with the
// next standing.
func (c *clusterSchema) adopt(next topology.Schema, epoch uint64) {
	err := c.putInForce(next)
	c.mu.Lock()
	c.adopting = false
	if err == nil && c.epoch == epoch {
		c.has = next.Revision
	}
	c.mu.Unlock()
	if err != nil {
		c.m.log.Error("cannot apply the schema of the cluster", "revision", next.Revision, "error", err)
		return
	}
	c.m.log.Info("applied the schema of the cluster", "revision", next.Revision)
	c.m.joined.host.notify()
}

func (c *clusterSchema) putInForce(next topology.Schema) error {
	if derives(next.Text) { // the log is going to have ticks: the first one comes with the schema, as additions without a time count nothing
		if err := c.m.host.Store().Replication().AdmitCursors(); err != nil && !errors.Is(err, counter.ErrInMemory) {
			return err
		}
	}
	b := c.m.host.Store().NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	if now := b.Schema(); len(now.Counters()) > 0 && !descends(now, next.Text) {
		b.End()
		return errForeignData
	}
	err := b.Whole().Adopt([]byte(next.Text))
	if err == nil {
		c.m.host.TouchAll() // an EXEC that finds the new schema finds its mark too
	}
	b.End()
	if err != nil {
		return err
	}
	return b.Commit()
}

// derives tells whether the schema of a text has derived columns.
func derives(text string) bool {
	s, err := schema.ParseDurable([]byte(text))
	return err == nil && slices.ContainsFunc(s.Counters(), func(def *schema.Counter) bool { return len(def.Derived) > 0 })
}

// descends tells whether a text may come from a schema by statements: counters of the same id have the same name, and
// none is lower than those that were given by then.
func descends(from *schema.Schema, text string) bool {
	to, err := schema.ParseDurable([]byte(text))
	if err != nil {
		return false
	}
	names := make(map[uint32]string)
	for _, def := range from.Counters() {
		names[def.ID] = def.Name
	}
	for _, def := range to.Counters() {
		if name, ok := names[def.ID]; ok && name != def.Name {
			return false
		}
		delete(names, def.ID)
	}
	if len(names) == 0 {
		return true
	}
	next := to.NextCounter()
	for id := range names { // dropped since, or never there
		if uint64(id) >= next {
			return false
		}
	}
	return true
}

// alterWithin is how long a statement waits for the primaries.
const alterWithin = 10 * time.Second

// alter changes the cluster's schema by a statement, and returns when all primaries that live have it.
func (c *clusterSchema) alter(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, alterWithin)
	defer cancel()
	revision, err := c.decide(ctx, statement)
	if err != nil {
		return err
	}
	for {
		st, news := c.m.NowAndNews()
		late := lacking(st.Map, revision)
		if late == "" {
			return nil
		}
		select {
		case <-news:
		case <-time.After(100 * time.Millisecond): // keys of nodes change without a new standing
			if m, err := c.registry.Load(ctx); err == nil && lacking(m, revision) == "" {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("the schema is changed, but %s has not taken it over yet: it will", late)
		}
	}
}

// lacking names a shard whose primary does not have a revision of the schema.
func lacking(m *topology.Map, revision int64) string {
	if m.Schema.Revision < revision {
		return "this node"
	}
	for _, shard := range m.Shards {
		if live := m.Live[shard.Primary]; shard.Primary != "" && (live == nil || live.Schema < revision) {
			return fmt.Sprintf("shard %d", shard.ID)
		}
	}
	return ""
}

// decide has the statement in the cluster's schema, and returns the revision that has it. Of a
// transaction that etcd did not answer the schema tells whether it was made.
func (c *clusterSchema) decide(ctx context.Context, statement string) (int64, error) {
	tried := "" // by a transaction that etcd did not answer
	for {
		m, err := c.registry.Load(ctx)
		if err != nil {
			return 0, fmt.Errorf("etcd: %w", err)
		}
		if tried != "" && m.Schema.Text == tried {
			return m.Schema.Revision, nil
		}
		now := schema.Empty()
		if m.Schema.Text != "" {
			if now, err = schema.ParseDurable([]byte(m.Schema.Text)); err != nil {
				return 0, err
			}
		}
		next, err := schema.ParseScript(strings.NewReader(statement), now)
		if err != nil {
			return 0, err
		}
		if next == now {
			return m.Schema.Revision, nil
		}
		text := string(next.AppendText(nil))
		change, err := topology.SetSchema(m, text, statement)
		if err != nil {
			return 0, err
		}
		switch err = c.registry.Commit(ctx, change); {
		case err == nil: // to make it again would refuse a DROP, as there is nothing left to drop
			made, err := c.registry.Load(ctx)
			if err != nil {
				return 0, fmt.Errorf("the schema was changed, and etcd does not say which revision has it: %w", err)
			}
			return made.Schema.Revision, nil
		case errors.Is(err, registry.ErrConflict):
		case errors.Is(err, registry.ErrUnknown):
			tried = text
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return 0, fmt.Errorf("etcd did not say whether the schema was changed: %w", err)
			}
		default:
			return 0, fmt.Errorf("etcd: %w", err)
		}
	}
}

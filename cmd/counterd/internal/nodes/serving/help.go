package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// A node with a damaged directory sets its files aside only when another node has all that was acknowledged: the primary of
// its shard, as etcd names it now, is another node, and that one says itself that it leads. A primary leads with its data
// open, and with all that the nodes in sync acknowledged. So of nodes that are damaged all at once nobody sets anything
// aside, and neither does the only node in sync: the rest of their files may be all there is.
//
//	the only one in sync is this node     the start fails, as that of a single node does
//	the primary leads, and is another     the files are set aside
//	else                                  wait: another node in sync takes over when this one's lease has run out
//
// A node that has never had a part in the cluster, or is free, and whose directory holds nothing, needs nobody: it is opened as a new one. The files of
// a free node with data are set aside if the cluster has released it: other nodes have its shard. Data of no cluster, as of a server that is
// to be the first node of one, data of another cluster, and data that is newer than etcd may be the only copy: the node waits for a person.
//
// The others may wait for this node in their turn: nodes that lost power choose the one with the most among all that are in sync. So a
// node with a damaged log asks all members of the shard for frames meanwhile (others, repl.Healer).

const (
	helpEvery = 500 * time.Millisecond // between looks at the shard
	helpTell  = 10 * time.Second       // between lines of the log
	helpAsk   = 2 * time.Second        // for etcd, and for the primary
)

// errOnlyInSync: nobody else has this node's data.
var errOnlyInSync = errors.New("this node is the only one of its shard in sync, so no other node has all of its data; its files stay as they are")

// errUnknown: etcd does not know the node, which may have data.
var errUnknown = errors.New("etcd does not know this node. If etcd has lost its data, restore it from a backup. If nothing in this directory is needed, stop the node, move the directory away, and start the node again: it is a new one then")

// onlyCopyError: a free node's directory may hold the only copy of its data.
type onlyCopyError struct{ why error }

func (e *onlyCopyError) Error() string {
	return e.why.Error() + ". No other node is known to have its data. If etcd has lost data, restore it from a newer backup. Otherwise stop the node, and repair the directory with counterctl repair, or move it away if nothing in it is needed"
}

func (e *onlyCopyError) Unwrap() error { return e.why }

// findHelp returns when another node of the shard has all that this one has: the primary, or the zero value for a node of no
// shard. It looks until ctx ends.
func (m *Member) findHelp(ctx context.Context) (primary repl.Address, err error) {
	if m.registry == nil { // SetStanding alone decides
		return primary, nil
	}
	dir := m.config.Get().Dir
	id, err := cluster.NodeOf(m.fs(), dir)
	if err != nil {
		return primary, fmt.Errorf("the node does not know which one of the cluster it is: %w", err)
	}
	if cluster.NeverJoined(m.fs(), dir) && m.holdsNothing() {
		return primary, repl.ErrHoldsNothing
	}
	var told time.Time
	for {
		primary, err := m.helper(ctx, id)
		if err == nil || errors.Is(err, errOnlyInSync) || errors.Is(err, repl.ErrHoldsNothing) {
			return primary, err
		}
		if time.Since(told) >= helpTell {
			told = time.Now()
			what := "the data directory is damaged, and nothing is set aside until another node leads the shard; waiting"
			if only := new(onlyCopyError); errors.As(err, &only) {
				what = "the data directory is damaged, and its files stay as they are; waiting"
			}
			m.log.Error(what, "dir", dir, "error", err)
		}
		select {
		case <-ctx.Done():
			return repl.Address{}, errors.Join(err, ctx.Err())
		case <-time.After(helpEvery):
		}
	}
}

// holdsNothing tells whether the damaged directory is known to hold nothing.
func (m *Member) holdsNothing() bool {
	nothing, err := past.HoldsNothing(m.fs(), m.config.Get().Dir)
	return nothing && err == nil
}

// helper looks once.
func (m *Member) helper(ctx context.Context, id topology.NodeID) (primary repl.Address, err error) {
	ask, cancel := context.WithTimeout(ctx, helpAsk)
	defer cancel()
	now, err := m.registry.Load(ask)
	if err != nil {
		return primary, err
	}
	node := now.Nodes[id]
	switch {
	case node == nil: // etcd may have been lost
		return primary, errUnknown
	case node.Shard == 0 && m.holdsNothing():
		return primary, repl.ErrHoldsNothing
	case node.Shard == 0:
		if err := cluster.Released(m.fs(), m.config.Get().Dir, now); err != nil {
			return primary, &onlyCopyError{err}
		}
		return primary, nil
	}
	s := now.Shard(node.Shard)
	switch {
	case s == nil:
		return primary, fmt.Errorf("etcd has no shard %d", node.Shard)
	case len(s.InSync) == 1 && s.InSync[0] == id:
		return primary, errOnlyInSync
	case s.Primary == "" || s.Primary == id || now.Nodes[s.Primary] == nil:
		return primary, fmt.Errorf("no other node of shard %d leads; in sync are %s", s.ID, s.InSync)
	}
	if primary, err = repl.ParseAddress(now.Nodes[s.Primary].Addr(m.config.Get().TLS.Replication)); err != nil {
		return primary, err
	}
	role, err := repl.AskRole(ctx, primary, m.node.Settings(), helpAsk)
	if err == nil && !role.Primary {
		err = errors.New("it says that it is a replica")
	}
	if err != nil {
		return primary, fmt.Errorf("node %s, the primary of shard %d, does not lead yet: %w", s.Primary, s.ID, err)
	}
	return primary, nil
}

// others returns the other nodes of the node's shard, in sync or not. There are none while etcd does not answer.
func (m *Member) others(ctx context.Context) (list []repl.Address) {
	if m.registry == nil {
		return nil
	}
	id, err := cluster.NodeOf(m.fs(), m.config.Get().Dir)
	if err != nil {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, helpAsk)
	defer cancel()
	now, err := m.registry.Load(ask)
	if err != nil || now.Nodes[id] == nil || now.Nodes[id].Shard == 0 {
		return nil
	}
	for _, n := range now.Nodes {
		if n.Shard != now.Nodes[id].Shard || n.ID == id {
			continue
		}
		if a, err := repl.ParseAddress(n.Addr(m.config.Get().TLS.Replication)); err == nil {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b repl.Address) int { return cmp.Compare(a.String(), b.String()) })
	return list
}

// inSync returns nil if etcd says now that this node, whose directory is not open, is in sync, and that the directory is no older copy.
func (m *Member) inSync(ctx context.Context) error {
	if m.registry == nil {
		return errors.New("the node is of no cluster")
	}
	now, err := m.registry.Load(ctx)
	if err != nil {
		return err
	}
	id, err := cluster.Newest(m.fs(), m.config.Get().Dir, now)
	if err != nil {
		return err
	}
	if s := now.Shard(now.Nodes[id].Shard); s == nil || !s.Has(id) {
		return errors.New("the node is not in sync")
	}
	return nil
}

// NoteGone has the node count as behind if the file BOOT or the log is gone from its directory, which was that of a node before. Call it before the
// directory is opened.
func (m *Member) NoteGone() {
	dir := m.config.Get().Dir
	if m.registry == nil || !cluster.Started(m.fs(), dir) {
		return
	}
	if noted, err := counter.NoteGone(m.fs(), dir); noted || err != nil {
		m.log.Error("the file BOOT or the log is gone, so nobody knows what the machine lost; this node may lack acknowledged changes until it has caught up with a primary", "dir", dir, "error", err)
	}
}

// fs has the data directory.
func (m *Member) fs() vfs.FS { return m.node.Replication().Healer().Files() }

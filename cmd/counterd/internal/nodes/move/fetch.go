package move

import (
	"context"
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// source is the primary that a copy fetches from: a process that leads an epoch of the source's shard. What it does not
// answer may be lost with its machine, and a connection does not tell that for long: so the copy ends when the map shows
// another primary, or that the process is gone.
type source struct {
	shard   topology.ShardID
	node    topology.NodeID
	epoch   uint64
	process string
	address string
	leave   context.CancelFunc // ends what waits for it
}

// errSourceGone ends a copy from a source that is not the primary any more.
var errSourceGone = errors.New("the source's primary is gone, or another node has taken its place")

// fetchFrom has a copy's task fetch from the source's primary. The context that it returns ends when the source is gone.
func (m *Mover) fetchFrom(ctx context.Context, now *topology.Map, v *topology.Move) (context.Context, *source, error) {
	shard := now.Shard(v.From)
	if shard == nil || shard.Primary == "" || now.Live[shard.Primary] == nil {
		return nil, nil, fmt.Errorf("shard %d has no primary that lives", v.From)
	}
	live := now.Live[shard.Primary]
	ctx, cancel := context.WithCancelCause(ctx)
	s := &source{shard: v.From, node: shard.Primary, epoch: shard.Epoch, process: live.Process, address: live.Address,
		leave: func() { cancel(errSourceGone) }}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tasks[v.ID]; t != nil {
		t.source = s
	}
	if st := m.now.Load(); st != nil && st.Map.Revision >= now.Revision && s.gone(st.Map) {
		s.leave()
	}
	return ctx, s, nil
}

// gone tells whether a map shows that the source leads no more. A map that is older than the source does not.
func (s *source) gone(now *topology.Map) bool {
	if s == nil {
		return false
	}
	shard, live := now.Shard(s.shard), now.Live[s.node]
	switch {
	case shard == nil || shard.Epoch > s.epoch:
		return true
	case shard.Epoch < s.epoch:
		return false
	}
	return live == nil || live.Process != s.process
}

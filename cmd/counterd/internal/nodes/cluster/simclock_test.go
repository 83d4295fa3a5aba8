package cluster

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// skewed is a registry on a machine whose clock is wrong.
type skewed struct {
	registry.Registry
	p *proc
}

type skewedLease struct {
	registry.Lease
	p *proc
}

func (s skewed) Register(ctx context.Context, id topology.NodeID, ttl time.Duration, live topology.Live) (registry.Lease, error) {
	l, err := s.Registry.Register(ctx, id, ttl, live)
	if err != nil {
		return nil, err
	}
	return skewedLease{l, s.p}, nil
}

// Commit counts: an agent that asks etcd again and again at the same moment would
// do so for ever.
func (s skewed) Commit(ctx context.Context, c topology.Change) error {
	s.p.w.mu.Lock()
	if now := time.Now(); now != s.p.commitAt {
		s.p.commitAt, s.p.commits = now, 0
	}
	if s.p.commits++; s.p.commits > 20 {
		s.p.w.fail("%s commits again and again: %s", s.p.m.id[:4], c.What)
		s.p.w.mu.Unlock()
		time.Sleep(time.Second)
		s.p.w.mu.Lock()
	}
	s.p.w.mu.Unlock()
	err := s.Registry.Commit(ctx, c)
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	s.p.w.verify(c.What)
	return err
}

func (l skewedLease) Deadline() time.Time {
	l.p.w.mu.Lock()
	defer l.p.w.mu.Unlock()
	return l.Lease.Deadline().Add(l.p.m.skew)
}

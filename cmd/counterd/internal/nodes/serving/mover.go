package serving

import (
	"context"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/move"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// moveHost is the server as its mover sees it.
type moveHost struct{ h *agentHost }

func (m moveHost) Store() *counter.Store { return m.h.m.host.Store() }

func (m moveHost) Withhold(groups slot.Set) {
	m.h.serving.Lock()
	defer m.h.serving.Unlock()
	m.h.held = groups
	m.h.serve()
}

func (m moveHost) Expect(groups slot.Set) {
	m.h.serving.Lock()
	defer m.h.serving.Unlock()
	if m.h.coming != groups {
		m.h.coming = groups
		m.h.serve()
	}
}

func (m moveHost) Refresh() {
	m.h.serving.Lock()
	defer m.h.serving.Unlock()
	m.h.serve()
}

// newMover returns the one of a node that joins a cluster.
func (m *Member) newMover(j *joined) *move.Mover {
	return move.New(move.Config{Registry: j.registry, Host: moveHost{j.host}, Log: m.log,
		Dial: func(ctx context.Context, address string) (move.Remote, error) {
			conn, err := m.node.Dial(ctx, address, move.LinkOptions())
			if err != nil {
				return nil, err
			}
			return move.NewLink(conn), nil
		}})
}

// serve tells clients' side and the store what st gives, but for groups that are held for a move and those that the log
// says are not here yet. Of groups that the node is to serve no more clients are told before the store refuses them, of
// new ones when it has them: a command that finds one side without the other waits for a moment. REQUIRES serving.
func (h *agentHost) serve() {
	st := h.st
	if st == nil {
		return
	}
	groups := h.m.host.Store().Groups()
	lacking := move.Lacking(st, h.m.host.Store())
	h.lacks.Store(&lacking)
	away := h.held.Union(groups.Hidden()).Union(lacking)
	if (away.Both(st.Owned) != slot.Set{} || h.coming != slot.Set{}) {
		less := *st
		less.Owned, less.Coming, less.Lacking = st.Owned.Minus(away), h.coming, lacking
		st = &less
	}
	owned := groups.Owned()
	if more := st.Owned.Union(owned); more != owned {
		groups.Own(more)
	}
	h.m.SetStanding(st)
	if st.Owned != owned {
		groups.Own(st.Owned)
	}
}

// Serve says what clients get from now on.
func (h *agentHost) Serve(st *cluster.Standing) {
	h.serving.Lock()
	h.st = st
	if h.coming = h.coming.Minus(st.Owned); !st.Primary {
		h.coming = slot.Set{}
	}
	h.serve()
	h.serving.Unlock()
	h.schema.adoptNewer(st)
	h.m.joined.mover.Look(st)
}

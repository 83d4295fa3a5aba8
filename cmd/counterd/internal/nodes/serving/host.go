package serving

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// agentHost is the node as its agent sees it: package repl has roles and acknowledgements, Member has the slots that
// clients are served.
type agentHost struct {
	m      *Member
	notice chan struct{}
	schema clusterSchema
	why    string // of the last Rest; the agent's goroutine alone
	failed bool   // the last Rest; the same

	marks map[topology.NodeID]*mark // the agent's goroutine alone
	epoch uint64                    // that they are of

	serving sync.Mutex        // guards the three, and is held while clients and the store are told of them
	st      *cluster.Standing // the agent's last
	held    slot.Set          // for moves
	coming  slot.Set          // by a move

	lacks atomic.Pointer[slot.Set] // groups of which the log lacks the posts, as of the last serve; nil: none

	mu    sync.Mutex // guards usage
	usage dataUsage
}

// mark is an offset that the log had come to at a moment, which a replica is to acknowledge. Each replica has one mark at
// a time, set when the mark before was acknowledged. So the knowledge of the replica is as old as the agent's step, 100
// ms.
type mark struct {
	offset   uint64
	at       time.Time
	caughtUp time.Time // of the last acknowledged mark
}

// dataUsage is the memory and disk space of all posts, counted now and then: 60 to 100 ns a block.
type dataUsage struct {
	posts, bytes uint64
	at           time.Time
	counting     bool
}

const usageEvery = 10 * time.Second

func newAgentHost(m *Member) *agentHost {
	h := &agentHost{m: m, notice: make(chan struct{}, 1), marks: map[topology.NodeID]*mark{}}
	h.schema.m = m
	return h
}

var _ cluster.Host = (*agentHost)(nil)

// notify has the agent look. It does not wait.
func (h *agentHost) notify() {
	select {
	case h.notice <- struct{}{}:
	default:
	}
}

func (h *agentHost) Notice() <-chan struct{} { return h.notice }

func (h *agentHost) repl() *repl.Node { return h.m.node.Replication() }

// Lead begins without anybody required and with nothing confirmed: the agent says who is, behind it.
func (h *agentHost) Lead(epoch uint64) error { return h.repl().LeadAt(epoch) }

func (h *agentHost) BeginEmpty() error { return h.repl().Healer().BeginEmpty() }

func (h *agentHost) Shard(id topology.ShardID, unclean uint64) {
	h.repl().Shard(uint64(id), unclean)
}

func (h *agentHost) Follow(id topology.NodeID, address string, epoch uint64) error {
	primary, err := repl.ParseAddress(address)
	if err != nil {
		return fmt.Errorf("the address of node %s: %w", id, err)
	}
	return h.repl().FollowAt(primary, string(id), epoch)
}

func (h *agentHost) Rest(why string) {
	err := h.repl().Rest()
	switch failed := err != nil; {
	case failed == h.failed && why == h.why: // it was said
	case failed:
		h.m.log.Error("cannot record that the node gave up its role", "reason", why, "error", err)
	default:
		h.m.log.Info("the node has no role in the cluster", "reason", why)
	}
	h.why, h.failed = why, err != nil
}

// errNobodyGives: no node gave the end of the log.
var errNobodyGives = errors.New("no other node in sync gives the end of the log")

func (h *agentHost) TakeLastFrames(ctx context.Context, from map[topology.NodeID]string) (shorter []topology.NodeID, err error) {
	errs := []error{errNobodyGives}
	for _, id := range slices.Sorted(maps.Keys(from)) {
		a, err := repl.ParseAddress(from[id])
		behind := false
		if err == nil {
			behind, err = repl.TakeLastFrames(ctx, h.repl(), a)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("node %s: %w", id, err))
		case behind:
			shorter = append(shorter, id)
		default:
			return nil, nil
		}
	}
	return shorter, errors.Join(errs...)
}

func (h *agentHost) Require(ids []topology.NodeID) {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	h.repl().Require(names)
}

func (h *agentHost) Alone(alone, both bool) { h.repl().Peers().Alone(alone, both) }

func (h *agentHost) Careful(on bool) { h.repl().Peers().Careful(on) }

func (h *agentHost) Hurry(offset uint64) {
	if offset > 0 {
		h.m.host.Store().Replication().Hurry(offset-1, true)
	}
}

func (h *agentHost) Doubt(err error) { h.repl().Doubt(err) }

func (h *agentHost) HoldWrites(most time.Duration) (release func(), err error) {
	return h.m.node.HoldWrites(most), nil
}

func (h *agentHost) Replica(id topology.NodeID) cluster.ReplicaState {
	log := h.m.host.Store().Replication()
	if epoch := log.Epoch(); epoch != h.epoch {
		clear(h.marks)
		h.epoch = epoch
	}
	peers := h.repl().Peers()
	end := log.Written() // before the acknowledgement: a replica with more was not slow
	written, durable, heard, linked := peers.Acked(string(id))
	st := cluster.ReplicaState{Connected: linked && time.Since(heard) < linkSilent, Process: peers.ProcessOf(string(id)), Heard: heard, Has: written}
	if log.AcksDurable() {
		st.Has = durable
	}
	m, now := h.marks[id], time.Now()
	if m == nil {
		m = &mark{offset: end, at: now}
		h.marks[id] = m
	}
	if st.Has >= m.offset {
		if linked {
			m.caughtUp = m.at
		}
		m.offset, m.at = end, now
	}
	if st.Has >= end {
		if linked {
			m.caughtUp = now
		}
	} else {
		st.Waiting = m.at
	}
	st.CaughtUp = m.caughtUp
	return st
}

// linkSilent is for how long a link says nothing until its other end counts as not reached: a connection whose packets are
// dropped stays open for minutes. A replica acknowledges each 100 ms, a primary says something each second.
const linkSilent = 2 * time.Second

func (h *agentHost) Link() cluster.LinkState {
	info, _ := h.repl().Link()
	return cluster.LinkState{Connected: info.State == repl.LinkConnected && info.LastIO >= 0 && info.LastIO < linkSilent, Refused: info.Refused, Lacks: info.Lacks, Newer: h.repl().Epoch()}
}

func (h *agentHost) Log() cluster.LogState {
	store := h.m.host.Store()
	log := store.Replication()
	lineage := log.Lineage()
	st := cluster.LogState{Epoch: log.Epoch(), Position: log.Position(), Written: log.Written(), Durable: log.Durable(), Confirmed: log.Confirmed(), Waiting: log.Awaited(),
		ReplID: lineage.Current().ReplID.String(), Behind: log.Behind(), Healing: h.repl().Healing() != nil, Ops: uint64(h.m.host.CommandRate()), Err: store.Ready(), Hangs: store.DiskHangs()}
	if lacks := h.lacks.Load(); lacks != nil {
		st.Lacks = *lacks
	}
	st.Posts, st.Bytes = h.used()
	return st
}

// used is the memory and disk space of posts, as of a while ago.
func (h *agentHost) used() (posts, bytes uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := &h.usage; !u.counting && time.Since(u.at) > usageEvery {
		u.counting = true
		go h.count()
	}
	return h.usage.posts, h.usage.bytes
}

func (h *agentHost) count() {
	posts, bytes := uint64(0), uint64(0)
	for _, u := range h.m.host.Store().Admin().Usage() {
		if u.Column == "" {
			posts += uint64(u.HotItems + u.ColdItems)
		}
		bytes += uint64(u.HotBytes + u.ColdBytes + u.OverlayBytes)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.usage = dataUsage{posts: posts, bytes: bytes, at: time.Now()}
}

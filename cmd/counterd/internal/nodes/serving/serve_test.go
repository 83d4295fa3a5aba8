// Scenario: the groups and changes that a node takes while its role, or the owner of groups, changes

package serving

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// bareMember is a member whose server is a store in memory.
func bareMember(t *testing.T) (*Member, *counter.Store) {
	t.Helper()
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	m := &Member{host: bareHost{storeHost{store: store}}, log: slog.New(slog.DiscardHandler), news: make(chan struct{})}
	m.now.Store(NewStanding(&cluster.Standing{}))
	return m, store
}

// bareHost is a server without connections.
type bareHost struct{ storeHost }

func (bareHost) Follow(*topology.Map, topology.NodeID) {}
func (bareHost) EndShardChannels(func(string) bool)    {}

// TestStandingWaits: SetStanding with a standing that refuses changes, or reads, returns when commands that were admitted before
// have ended.
func TestStandingWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		before cluster.Standing
		refuse cluster.Standing
	}{
		{"changes", cluster.Standing{}, cluster.Standing{Writes: "CLUSTERDOWN no"}},
		{"reads", cluster.Standing{Writes: "CLUSTERDOWN no"}, cluster.Standing{Writes: "CLUSTERDOWN no", Reads: "CLUSTERDOWN no"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, store := bareMember(t)
			m.SetStanding(&c.before)
			b := store.NewBatch()
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			var ended atomic.Bool
			set := make(chan bool, 1)
			go func() {
				m.SetStanding(&c.refuse)
				set <- ended.Load()
			}()
			for m.Now().Standing != &c.refuse {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
			ended.Store(true)
			b.End()
			if !<-set {
				t.Error("it returned while a command was being executed that was admitted before")
			}
		})
	}
}

// TestServedGroups: clients and the store are served neither groups that are held for a move, nor groups that a committed move has not
// brought; and again those whose hold has ended.
func TestServedGroups(t *testing.T) {
	m, store := bareMember(t)
	h := newAgentHost(m)
	shard := &topology.Shard{ID: 2, Epoch: 1, Groups: slot.Set{1<<4 | 1<<5 | 1<<6}, Came: topology.LogPoint{Epoch: 1, Offset: 1 << 40}}
	h.st = &cluster.Standing{Primary: true, Owned: shard.Groups, Shard: shard, Map: &topology.Map{Shards: []*topology.Shard{shard},
		Moves: []*topology.Move{{ID: "committed", Groups: slot.Set{1 << 5}, From: 1, To: 2, State: topology.MoveCommitted}}}}
	served := func(when string, want slot.Set) {
		t.Helper()
		if got := m.Now().Owned; got != want {
			t.Errorf("%s: clients are served %s, want %s", when, got, want)
		}
		if got := store.Groups().Owned(); got != want {
			t.Errorf("%s: the store serves %s, want %s", when, got, want)
		}
	}
	move := moveHost{h}
	move.Refresh()
	served("nothing is held", slot.Set{1<<4 | 1<<6})
	if got := m.Now().Lacking; got != (slot.Set{1 << 5}) {
		t.Errorf("group 5 did not come: lacking is %s", got)
	}
	move.Withhold(slot.Set{1 << 4})
	served("group 4 is held", slot.Set{1 << 6})
	move.Withhold(slot.Set{})
	served("the hold has ended", slot.Set{1<<4 | 1<<6})
}

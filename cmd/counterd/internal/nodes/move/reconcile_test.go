package move

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// TestOrphans begins with a log that says that group 5 is on its way by a move that etcd does not know, or has gone, as an
// unclean failover or a restored directory leaves it; or by one that is committed. Group 5 is this shard's by etcd, group 4 is the other's.
func TestOrphans(t *testing.T) {
	for _, c := range []struct {
		name    string
		records func(t *testing.T, g counter.Groups) uint64 // returns what etcd says that the log holds; 0: nothing
		lacks   slot.Set                                    // and nobody is served
		pending bool                                        // etcd has the move, as committed
	}{
		{"whole", func(t *testing.T, g counter.Groups) uint64 { return imported(t, g, 1<<5) }, slot.Set{}, false},
		{"another shard's", func(t *testing.T, g counter.Groups) uint64 { return imported(t, g, 1<<4) }, slot.Set{}, false},
		{"both", func(t *testing.T, g counter.Groups) uint64 { return imported(t, g, 1<<4|1<<5) }, slot.Set{}, false},
		{"a part", func(t *testing.T, g counter.Groups) uint64 { return imported(t, g, 1<<5) + 1000 }, slot.Set{1 << 5}, false},
		{"not known", func(t *testing.T, g counter.Groups) uint64 { imported(t, g, 1<<5); return 0 }, slot.Set{1 << 5}, false},
		{"committed", func(t *testing.T, g counter.Groups) uint64 { return imported(t, g, 1<<5) }, slot.Set{}, true},
		{"committed, and a part", func(t *testing.T, g counter.Groups) uint64 { return imported(t, g, 1<<5) + 1000 }, slot.Set{1 << 5}, true},
		{"committed, and nothing came", func(t *testing.T, g counter.Groups) uint64 { return 1 << 40 }, slot.Set{1 << 5}, true},
		{"gone", func(t *testing.T, g counter.Groups) uint64 {
			end, err := g.Drop("an old move", slot.Set{1 << 5})
			if err != nil {
				t.Fatal(err)
			}
			return end
		}, slot.Set{1 << 5}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newLossCluster(t, [2]time.Duration{time.Millisecond, time.Millisecond})
				n := k.shards[1].node
				offset := c.records(t, n.store.Groups())
				k.change(func(m *topology.Map) (change topology.Change, err error) {
					s := *m.Shard(2)
					if offset > 0 {
						s.Came = topology.LogPoint{Epoch: s.Epoch, Offset: offset}
					}
					change.Set(topology.ShardKey(2), s.Revision, s)
					if c.pending {
						change.Set(topology.MoveKey("an old move"), 0, topology.Move{ID: "an old move", Groups: slot.Set{1 << 5}, From: 1, To: 2,
							State: topology.MoveCommitted})
					}
					return change, nil
				})
				time.Sleep(20 * time.Second)
				importing, gone := n.store.Groups().States()
				n.mu.Lock()
				lacks := Lacking(n.st, n.store)
				n.mu.Unlock()
				owned := n.store.Groups().Owned()
				if lacks != c.lacks || owned.Has(5) == lacks.Has(5) {
					t.Errorf("lacks %s, serves %s: want that it lacks %s", lacks, owned, c.lacks)
				}
				if c.lacks.Empty() && (len(importing) > 0 || gone.Has(5)) {
					t.Errorf("importing %v, gone %s: want nothing of group 5", importing, gone)
				}
				k.close()
			})
		})
	}
}

// imported has groups on their way, by a move that is over, and returns where the log ends.
func imported(t *testing.T, g counter.Groups, groups uint64) uint64 {
	t.Helper()
	i, err := g.Import("an old move", slot.Set{groups})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Apply(nil); err != nil {
		t.Fatal(err)
	}
	end, err := g.Accept("another one", slot.Set{1 << 7}) // it is here: only the offset is wanted
	if err != nil {
		t.Fatal(err)
	}
	return end
}

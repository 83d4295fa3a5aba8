package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// TestGiverFollowsMove moves groups while a part of an archive is on its way to their shard. The part is given again, to the shard that owns them
// then, and each group is given once.
func TestGiverFollowsMove(t *testing.T) {
	f := newFakes(t, 2)
	f.ctl(0, nil, "create", "--yes", "--shards", "2", "--replicas", "0", f.words[0], f.words[1])
	reg := f.etcd.Open(nil)
	defer reg.Close()
	g := giver{&restoring{session: &session{Registry: reg, flags: &flagsOf{name: "t"}}}}
	m, err := reg.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var some slot.Set
	for group := range 5 {
		some.Add(uint8(group))
	}
	from := m.Owner(0).ID
	if some.Minus(m.Shard(from).Groups) != (slot.Set{}) {
		t.Fatalf("shard %d has groups %s, want the first ones", from, m.Shard(from).Groups)
	}
	calls := 0
	var given slot.Set
	err = g.each(t.Context(), slot.AllGroups(), func(to topology.ShardID, groups slot.Set) error {
		if calls++; calls > 9 {
			t.Fatal("the same part is given again and again")
		}
		if to == from && groups.Both(some) != (slot.Set{}) {
			f.commit(reg, func(m *topology.Map) (topology.Change, error) {
				return topology.StartMove(m, "move", some, from, 3-from, time.Now())
			})
			for {
				if m, err := reg.Load(t.Context()); err != nil || m.Owner(0).ID != from {
					break
				}
				time.Sleep(time.Millisecond)
			}
			_, err := g.give(t.Context(), to, groups, "REMEMBER", groups.String(), "records")
			if !errors.Is(err, errMoved) {
				t.Errorf("a shard without the groups: got %v, want %v", err, errMoved)
			}
			return err
		}
		if twice := given.Both(groups); twice != (slot.Set{}) {
			t.Errorf("groups %s are given twice", twice)
		}
		if to == from && groups.Both(some) != (slot.Set{}) {
			t.Errorf("shard %d gets groups %s, which it has lost", to, groups)
		}
		given = given.Union(groups)
		return nil
	})
	if err != nil || given != slot.AllGroups() {
		t.Errorf("got groups %s, %v, want all", given, err)
	}
	refused := errors.New("refused")
	if err := g.each(t.Context(), some, func(topology.ShardID, slot.Set) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
}

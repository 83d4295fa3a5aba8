package topology

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/slot"
)

// TestStart: starts only rise, and other changes of a node leave its start alone. An older copy is not the first node of a shard, which it would never lead.
func TestStart(t *testing.T) {
	m, err := NewMap(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(c Change, err error) {
		t.Helper()
		if err == nil {
			m, err = m.Apply(c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	id := NodeID(strings.Repeat("a", 40))
	want := Start{3, "x"}
	if _, err := BeginStart(m, id, want); !errors.As(err, new(*RefusedError)) {
		t.Errorf("an unknown node: got %v", err)
	}
	apply(RegisterNode(m, Node{ID: id, Host: "h", Port: 1, Version: "1"}))
	apply(BeginStart(m, id, want))
	for _, bad := range []Start{{}, {3, "y"}, {2, "x"}, {4, ""}, {0, "z"}, {4, strings.Repeat("x", 65)}} {
		if _, err := BeginStart(m, id, bad); !errors.As(err, new(*RefusedError)) {
			t.Errorf("%v: got %v, want it refused", bad, err)
		}
	}
	apply(RegisterNode(m, Node{ID: id, Host: "h2", Port: 2, Version: "2", Start: Start{9, "z"}}))
	if got := m.Nodes[id]; got.Start != want || got.Host != "h2" {
		t.Errorf("got %+v, want start %v", got, want)
	}
	apply(CreateCluster(m, "an id", time.Unix(0, 0), 0, 1))
	live := Change{}
	live.Set(LiveKey(id), 0, Live{Process: "p", Outdated: true})
	apply(live, nil)
	if _, err := AddShard(m, []NodeID{id}, slot.Set{}); !errors.As(err, new(*RefusedError)) {
		t.Errorf("an older copy is the first node of a shard: got %v", err)
	}
	apply(RetireNode(m, id, 1))
	if got := m.Nodes[id].Start; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := m.With(9, []KV{{Key: NodeKey(id), Value: []byte(`{"id":"` + string(id) + `","host":"h","port":1,"start":{"count":1}}`)}}); err == nil {
		t.Error("a start without a token is read")
	}
}

package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// TestCheckLacking: posts that a primary lacks are an error while that stands.
func TestCheckLacking(t *testing.T) {
	var groups slot.Set
	groups.Add(5)
	live := &topology.Live{}
	m := &topology.Map{Cluster: topology.Cluster{LastShard: 1, MinInSync: 1}, Nodes: map[topology.NodeID]*topology.Node{"a": {ID: "a", Host: "h", Port: 1, Shard: 1}},
		Live: map[topology.NodeID]*topology.Live{"a": live}, Shards: []*topology.Shard{{ID: 1, Primary: "a", InSync: []topology.NodeID{"a"}}}}
	for _, want := range []int{0, 1} {
		got := 0
		for _, p := range problemsOf(m, time.Now()) {
			if p.Severity == bad && p.Shard == 1 && p.Node == "a" && strings.Contains(p.Text, "the posts of groups 5 (hash slots 320-383) are not on its primary h:1") {
				got++
			}
		}
		if got != want {
			t.Errorf("got %d errors, want %d, in %+v", got, want, problemsOf(m, time.Now()))
		}
		live.Lacks = groups
	}
}

// TestMoveBack: groups that have just come wait for the end of the move that brought them, and others do not.
func TestMoveBack(t *testing.T) {
	var back, other slot.Set
	back.Add(7)
	other.Add(9)
	m := &topology.Map{Shards: []*topology.Shard{{ID: 1, Groups: other}, {ID: 2, Groups: back}}}
	for _, state := range []topology.MoveState{topology.MoveCommitted, topology.MoveAborted} {
		w := newMoving([]topology.Transfer{{Groups: back, From: 2, To: 1}, {Groups: other, From: 1, To: 2}}, 1)
		ends := *m
		ends.Moves = []*topology.Move{{ID: "m", Groups: back, From: 1, To: 2, State: state}}
		if p := w.next(&ends); p == nil || p.Groups != other {
			t.Fatalf("%s: got %+v, want group 9, as group 7 is in a move that ends", state, p)
		}
		if p := w.next(&ends); p != nil {
			t.Fatalf("%s: got %+v, want none", state, p)
		}
		if p := w.next(m); p == nil || p.Groups != back {
			t.Fatalf("%s: got %+v when the move has ended, want group 7", state, p)
		}
	}
}

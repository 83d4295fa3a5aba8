package topology

import (
	"reflect"
	"testing"

	"github.com/counterd/counterd/internal/slot"
)

// TestCensus counts a map of two shards and three nodes as more and more of them live and are in sync.
func TestCensus(t *testing.T) {
	m := movable(t)
	all := slot.AllGroups()
	same := func(what string, want Census) {
		t.Helper()
		if got := m.Census(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	same("nobody lives", Census{Away: 3, Headless: 2, Down: all})
	m.Live = map[NodeID]*Live{nodeID(0): {}, nodeID(2): {}}
	same("the second's primary is away", Census{Away: 1, Headless: 1})
	m.Shards[0].InSync = m.Shards[0].InSync[:1]
	m.Nodes[nodeID(3)] = &Node{ID: nodeID(3)}
	same("one is not in sync, one is free", Census{Away: 2, Free: 1, Headless: 1, Thin: 1})
	m.owner[7] = nil
	same("a group is nobody's", Census{Away: 2, Free: 1, Headless: 1, Thin: 1, Unowned: slot.Set{1 << 7}})
}

// TestAddr has nodes with a plain port, one for TLS and both.
func TestAddr(t *testing.T) {
	for _, c := range []struct {
		node       Node
		plain, tls string
	}{
		{Node{Host: "h", Port: 1}, "h:1", "h:1"},
		{Node{Host: "h", TLSPort: 2}, "h:2", "h:2"},
		{Node{Host: "::1", Port: 1, TLSPort: 2}, "[::1]:1", "[::1]:2"},
	} {
		if plain, tls := c.node.Addr(false), c.node.Addr(true); plain != c.plain || tls != c.tls {
			t.Errorf("%+v: got %s and %s, want %s and %s", c.node, plain, tls, c.plain, c.tls)
		}
	}
}

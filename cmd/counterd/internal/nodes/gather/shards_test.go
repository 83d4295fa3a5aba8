package gather

import (
	"log/slog"
	"testing"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// TestAlone: only the primary of a shard that owns all groups may take every post for its own.
func TestAlone(t *testing.T) {
	s := New(func() Settings { return Settings{} }, slog.New(slog.DiscardHandler))
	defer s.Close()
	groups := func(from, to int) (set slot.Set) {
		for g := from; g < to; g++ {
			set.Add(uint8(g))
		}
		return set
	}
	shard := func(id topology.ShardID, primary topology.NodeID, of slot.Set) *topology.Shard {
		return &topology.Shard{ID: id, Primary: primary, Groups: of}
	}
	all := groups(0, slot.Groups)
	if s.View().Alone() {
		t.Error("nothing is known: it is alone")
	}
	for _, test := range []struct {
		what   string
		shards []*topology.Shard
		want   bool
	}{
		{"owns all", []*topology.Shard{shard(1, "here", all)}, true},
		{"beside a shard that owns nothing", []*topology.Shard{shard(1, "here", all), shard(2, "there", slot.Set{})}, true},
		{"a replica", []*topology.Shard{shard(1, "there", all)}, false},
		{"one group is elsewhere", []*topology.Shard{shard(1, "here", groups(1, slot.Groups)), shard(2, "there", groups(0, 1))}, false},
		{"nobody owns one", []*topology.Shard{shard(1, "here", groups(1, slot.Groups))}, false},
		{"owns nothing yet", []*topology.Shard{shard(1, "there", all), shard(2, "here", slot.Set{})}, false},
	} {
		s.Follow(&topology.Map{Shards: test.shards}, "here")
		if got := s.View().Alone(); got != test.want {
			t.Errorf("%s: got %v, want %v", test.what, got, test.want)
		}
	}
}

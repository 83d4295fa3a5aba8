package client

import (
	"maps"
	"testing"

	"github.com/counterd/counterd/counter"
)

// TestClusterPosition: positions of the feed of a cluster are read as they were written, and offsets as servers mean them.
func TestClusterPosition(t *testing.T) {
	if begin := (counter.FeedPosition{}).String(); begin != feedBegin {
		t.Errorf("a log begins at %s, the client says %s", begin, feedBegin)
	}
	f := &clusterFeed{shards: map[uint64]*shardFeed{}}
	want := map[uint64]string{}
	for _, id := range []uint64{7, 1, 12} {
		p := counter.FeedPosition{Frame: id * 1000, Into: uint32(id), Epoch: 3}
		if offset, ok := feedOffset(p.String()); !ok || offset != p.Offset() {
			t.Errorf("%s is at offset %d, %v, want %d", p, offset, ok, p.Offset())
		}
		f.shards[id], want[id] = &shardFeed{at: p.String()}, p.String()
	}
	if got, err := parseClusterPosition(f.position()); err != nil || !maps.Equal(got, want) {
		t.Errorf("%s: got %v, %v", f.position(), got, err)
	}
	for _, text := range []string{FeedNow, FeedOldest, "", "1-a"} {
		if _, ok := feedOffset(text); ok {
			t.Errorf("%q has an offset", text)
		}
	}
}

// TestClusterGain: changes behind a gain wait until the shard that had the groups is at its end.
func TestClusterGain(t *testing.T) {
	at := func(offset uint64) string { p := counter.FeedPosition{Frame: offset}; return p.String() }
	f := &clusterFeed{shards: map[uint64]*shardFeed{}}
	one, two := &shardFeed{id: 1, at: at(90), end: at(90), asked: true}, &shardFeed{id: 2, at: at(0), end: at(300), more: make(chan struct{}, 1)}
	f.shards[1], f.shards[2] = one, two
	two.waiting = []FeedChange{
		{Position: at(100), Parts: []FeedPart{{Kind: "set"}}},
		{Position: at(200), Parts: []FeedPart{{Kind: "gain", From: 1, Offset: 95}}},
		{Position: at(300), Parts: []FeedPart{{Kind: "set"}}},
	}
	var given []string
	give := func(want int) {
		t.Helper()
		left, err := f.give(func(c FeedChange, _ error) bool { given = append(given, c.Position); return true })
		if left || err != nil || len(given) != want {
			t.Fatalf("%d changes were given, %v, want %d", len(given), err, want)
		}
	}
	give(1)
	one.at = at(95)
	give(3)
	if two.at != at(300) || !two.asked || given[2] != "c1,1="+at(95)+",2="+at(300) {
		t.Errorf("the second shard is at %s, and the last position is %s", two.at, given[2])
	}
}

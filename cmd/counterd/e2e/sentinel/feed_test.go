// Scenario: consumers of the feed of changes, with each kind of sink, follow a primary that Sentinel replaces.
package sentinel

import (
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/consumers"
	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestFeedSentinel replaces primaries, planned and behind kill -9, and kills nodes that come back at once, while consumers and their sinks are
// killed: each consumer gets each change of a post once and in order, and has in the end the posts of the primary. The feed gives changes that the replica has
// acknowledged.
//
//	go test ./cmd/counterd/e2e/sentinel -run FeedSentinel -feed-rounds 100 -v -timeout 2h
func TestFeedSentinel(t *testing.T) {
	path, ok := harness.Tool(t, "redis-sentinel")
	if !ok {
		return
	}
	t.Parallel() // it waits most of the time
	rng, _ := harness.Random(t)
	p := newRepeatPair(t)
	p.watch(path)
	addrs := []string{p.nodes[0].Addr, p.nodes[1].Addr}
	s := consumers.NewSet(t, rng, &consumers.Nodes{Addrs: addrs, Writes: addrs, Sentinels: p.sentinels, Counter: "weibo", Safe: 1})
	planned, unplanned, kills := 0, 0, 0
	for round := range *consumers.RoundsFlag {
		s.Hurt(2)
		switch rng.IntN(3) {
		case 0:
			p.primary().Kill()
			p.nodes[p.leader] = harness.StartAt(t, p.ports[p.leader], p.dirs[p.leader])
			kills++
		case 1:
			p.replica().Kill()
			p.comesBack(false)
			kills++
		}
		s.Hurt(1)
		p.linked()
		f := failovers[2+round%2]
		if f.run(p, round); f.planned {
			planned++
		} else {
			unplanned++
		}
		s.More()
	}
	s.Same()
	t.Logf("%d failovers: %d planned, %d behind kill -9; %d further nodes killed", planned+unplanned, planned, unplanned, kills)
}

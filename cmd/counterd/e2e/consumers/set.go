package consumers

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// Set is one consumer of each kind that follows the same nodes, beside a load.
type Set struct {
	Each    []*Consumer
	Writers *Writers
	Kills   int // of sinks

	t   testing.TB
	rng *rand.Rand
}

// RoundsFlag is how often tests of a Set replace a node.
var RoundsFlag = flag.Int("feed-rounds", 2, "failovers or moves in TestFeedSentinel and TestFeedCluster")

// patience is how long a consumer may take for a change, while nodes, sinks and the consumer itself come back.
const patience = 2 * time.Minute

// NewSet starts a load and its consumers. Sinks whose program is missing are left out.
func NewSet(t testing.TB, rng *rand.Rand, nodes *Nodes) *Set {
	t.Helper()
	s := &Set{t: t, rng: rng, Writers: NewWriters(t, rng, nodes)}
	var args []string
	if nodes.Safe > 0 {
		args = []string{"--safe", fmt.Sprint(nodes.Safe)}
	}
	addrs := strings.Join(nodes.Addrs, ",")
	add := func(name string, sink *Sink, more ...string) {
		s.Each = append(s.Each, NewTool(t, name, addrs, sink, append(more, args...)...))
	}
	add("kafka", NewKafka(t, rng))
	add("https", NewTakingWeb(t, rng))
	add("http with positions", NewWeb(t, rng))
	var cursor []string
	if nodes.Cursor != "" {
		cursor = []string{"--cursor", nodes.Cursor}
	}
	add("file", NewFile(t), cursor...)
	if stream, ok := NewStream(t); ok {
		add("redis", stream)
	}
	s.Each = append(s.Each, NewFollower(t, nodes))
	for _, c := range s.Each {
		c.Start()
	}
	return s
}

// Hurt kills a number of times a consumer, its sink or nothing, and looks at the changes.
func (s *Set) Hurt(times int) {
	s.t.Helper()
	for range times {
		time.Sleep(harness.RandomPause(s.rng, 10*time.Millisecond, 300*time.Millisecond))
		c := s.Each[s.rng.IntN(len(s.Each))]
		if c.Sink.Break != nil && s.rng.IntN(3) == 0 {
			c.Sink.Break()
			s.Kills++
		} else {
			c.Restart()
		}
	}
	s.Look()
}

// Look fails the test where a consumer has a change that must not come there.
func (s *Set) Look() {
	s.t.Helper()
	for _, c := range s.Each {
		if err := c.Look(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// More waits until each consumer has got further changes.
func (s *Set) More() {
	s.t.Helper()
	for _, c := range s.Each {
		from := c.Lines
		harness.Eventually(s.t, patience, c.Name+" gets changes", func() bool {
			if err := c.Look(); err != nil {
				s.t.Fatal(err)
			}
			return c.Lines > from
		})
	}
}

// Same ends the load, and waits until each consumer has the posts of the nodes.
func (s *Set) Same() {
	s.t.Helper()
	s.Writers.Stop()
	want := s.Writers.Posts()
	killed := 0
	for _, c := range s.Each {
		for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			if err := c.Look(); err != nil {
				s.t.Fatal(err)
			}
			if maps.Equal(c.Posts, want) {
				break
			}
			if time.Now().After(deadline) {
				s.t.Fatalf("%s has not what the nodes have:\n got %v\nwant %v", c.Name, c.Posts, want)
			}
		}
		killed += c.Kills
		s.t.Logf("%s: %d lines, %d changes again, %d kills", c.Name, c.Lines, c.Again, c.Kills)
		c.Stop()
	}
	s.t.Logf("%d changes were answered, %d consumers and %d sinks killed", s.Writers.Made.Load(), killed, s.Kills)
}

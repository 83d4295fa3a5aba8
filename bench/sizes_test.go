// Scenario: sizes, servers with different numbers of posts, and the progress of loading them.

package bench

import (
	"context"
	"testing"

	"github.com/counterd/counterd/internal/testkit/benchtest"
)

// TestVsPosts measures a small server beside a large one, and verifies both.
func TestVsPosts(t *testing.T) {
	a, b := benchtest.Start(t, true), benchtest.Start(t, true)
	config := small(t, Target{Addr: a.Addr}, Target{Addr: b.Addr})
	config.VsPosts, config.Workloads = 200, []string{"load", "incr", "timeline", "firehose"}
	result, err := Run(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{config.Posts, config.VsPosts} {
		s := result.Servers[i]
		if s.Memory.Posts != want || s.Verified.Wrong != 0 || s.Verified.Posts < want || result.Phases[0].Results[i].Posts != int64(want) {
			t.Errorf("server %d: memory of %d posts, %+v, %d loaded, want %d", i, s.Memory.Posts, s.Verified, result.Phases[0].Results[i].Posts, want)
		}
	}
	if result.Settings.Posts != config.Posts || result.Settings.VsPosts != config.VsPosts {
		t.Errorf("settings %+v", result.Settings)
	}
	for _, wrong := range []func(c *Config){func(c *Config) { c.VsPosts = -1 }, func(c *Config) { c.Targets = c.Targets[:1] }} {
		bad := config
		wrong(&bad)
		if err := bad.Validate(); err == nil {
			t.Errorf("%d posts of the second of %d servers: no error", bad.VsPosts, len(bad.Targets))
		}
	}
}

// TestLoading checks that a long load says how far it is, and says nothing once it has ended.
func TestLoading(t *testing.T) {
	told := make(chan int, 100)
	r := &run{Config: Config{Loading: func(posts, of int) {
		if of != 3000 {
			t.Errorf("%d of %d posts, want 3000 in all", posts, of)
		}
		told <- posts
	}}}
	data := testData(t, 3000)
	load := testWorkload(t, "load", data).(*loadWorkload)
	stop := r.tellLoading(&side{workload: load, data: data})
	stream := load.Stream(0, 1)
	var op Op
	for range 20 {
		stream.Next(&op)
	}
	if got := <-told; got != 2*loadTake {
		t.Errorf("told of %d posts, want %d: those taken", got, 2*loadTake)
	}
	stop()
	r.tellLoading(&side{workload: testWorkload(t, "incr", data)})() // is no load
	r.Loading = nil
	r.tellLoading(&side{workload: load})()
}

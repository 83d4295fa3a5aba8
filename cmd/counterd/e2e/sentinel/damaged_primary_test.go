package sentinel

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestSentinelDamagedPrimary damages the directory of a primary that was killed. Once it starts when Sentinel has named another
// primary, and once at once. It starts without a person, is whole soon, and no change is lost that WAIT 1 acknowledged.
func TestSentinelDamagedPrimary(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-sentinel"); !ok {
		return
	}
	t.Parallel() // it waits most of the time
	g := harness.NewGroup(t, "counterd", harness.CounterdPath, 0, false, *harness.DownAfterFlag)
	harness.Eventually(t, time.Minute, "the group is at rest", func() bool { return g.Settled() == g.Nodes[0] })
	leader, count := g.Nodes[0], 0
	for _, named := range []bool{true, false} {
		c := leader.Dial(t)
		for range 300 {
			count++
			if got := c.Do("INCR", "77.n").Raw; got != ":"+strconv.Itoa(count)+"\r\n" {
				t.Fatalf("INCR: %q, want %d", got, count)
			}
		}
		if got := c.Do("WAIT", "1", "60000").Raw; got == ":0\r\n" {
			t.Fatal("no replica has the changes")
		}
		c.Close()
		damaged := leader
		damaged.Kill()
		for _, name := range []string{"HISTORY", "HISTORY.copy"} {
			if err := os.WriteFile(filepath.Join(damaged.Dir, name), nil, 0o640); err != nil {
				t.Fatal(err)
			}
		}
		if named {
			harness.Eventually(t, time.Minute, "Sentinel names another primary", func() bool { leader = g.Named(); return leader != nil && leader != damaged })
		}
		began := time.Now()
		damaged.Start()
		harness.Eventually(t, 2*time.Minute, "the damaged node is whole", func() bool {
			return harness.ReplicationField(damaged.Server, "counterd_healing") == "0" && harness.ReplicationField(damaged.Server, "counterd_healed") == "1"
		})
		t.Logf("whole after %v", time.Since(began).Round(time.Millisecond))
		harness.Eventually(t, 2*time.Minute, "the group is at rest", func() bool { leader = g.Settled(); return leader != nil })
		c = leader.Dial(t)
		if got, want := c.Do("GET", "77.n").Raw, strconv.Itoa(count); got != "$"+strconv.Itoa(len(want))+"\r\n"+want+"\r\n" {
			t.Errorf("the counter is %q, want %s", got, want)
		}
		c.Close()
		for _, m := range g.Nodes {
			harness.Eventually(t, time.Minute, "all nodes have the same", func() bool {
				return harness.Ask(m.Direct, "COUNTER.DIGEST") == harness.Ask(leader.Direct, "COUNTER.DIGEST")
			})
		}
	}
}

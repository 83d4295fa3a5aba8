package sentinel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestSentinelIoredis lets ioredis's Sentinel client go through failovers, after kill -9 and planned: it goes on at the
// new primary, where all is that WAIT 1 acknowledged, and a subscriber hears what is published there. node has to find
// ioredis: NODE_PATH=.../node_modules.
func TestSentinelIoredis(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-sentinel"); !ok {
		return
	}
	node, err := exec.LookPath("node")
	if err != nil {
		harness.LeftOut(t, "ioredis: node is not installed (apt-get install nodejs)")
		return
	}
	if out, err := exec.Command(node, "-e", "require.resolve('ioredis')").CombinedOutput(); err != nil {
		why, _, _ := strings.Cut(string(out[strings.Index(string(out), "Error:")+1:]), "\n")
		harness.LeftOut(t, fmt.Sprintf("node does not find ioredis (npm install ioredis, and NODE_PATH=.../node_modules): %s", why))
		return
	}
	t.Parallel() // it waits most of the time
	g := harness.NewGroup(t, "counterd", harness.CounterdPath, 0, false, *harness.DownAfterFlag)
	harness.Eventually(t, time.Minute, "the group is at rest", func() bool { return g.Settled() == g.Nodes[0] })

	out := new(harness.LogBuffer)
	said := new(harness.LogBuffer)
	script := exec.Command(node, filepath.Join("testdata", "ioredis_sentinel.js"), strings.Join(g.Sentinels, ","))
	script.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	script.Stdout, script.Stderr = out, said
	script.Env = os.Environ()
	stdin, err := script.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- script.Wait() }()
	t.Cleanup(func() {
		_ = script.Process.Kill()
		if t.Failed() {
			t.Logf("ioredis: %s\n%s", said, out.From(max(0, out.Size()-4000)))
		}
	})
	safe := func(from int) int { return strings.Count("\n"+out.From(from), "\nsafe ") }
	harness.Eventually(t, time.Minute, "ioredis writes", func() bool { return safe(0) >= 100 })
	g.Nodes[0].Kill()
	killed := out.Size()
	began := time.Now()
	harness.Eventually(t, 2*time.Minute, "ioredis goes on", func() bool { return safe(killed) >= 100 })
	t.Logf("ioredis wrote 100 times again %v after the kill", time.Since(began).Round(time.Millisecond))
	g.Nodes[0].Start()
	var leader *harness.Member
	harness.Eventually(t, 2*time.Minute, "the old primary follows", func() bool { leader = g.Settled(); return leader != nil && leader != g.Nodes[0] })
	heard := func() { // what a client does that publishes: Sentinel names it the primary
		t.Helper()
		from := out.Size()
		harness.Eventually(t, time.Minute, "the subscriber hears the primary", func() bool {
			if m := g.Named(); m != nil {
				harness.Ask(m.Direct, "PUBLISH", "news", fmt.Sprintf("of-%d", m.Number))
				return strings.Contains(out.From(from), fmt.Sprintf("heard of-%d\n", m.Number))
			}
			return false
		})
	}
	heard()
	for range 2 { // there and back
		planned := out.Size()
		if got := harness.Ask(g.Sentinels[0], "SENTINEL", "FAILOVER", "mymaster"); got != "+OK\r\n" {
			t.Fatalf("SENTINEL FAILOVER: %q", got)
		}
		began, old := time.Now(), leader
		harness.Eventually(t, time.Minute, "Sentinel names another", func() bool { m := g.Named(); return m != nil && m != old })
		named := out.Size()
		harness.Eventually(t, time.Minute, "ioredis goes on", func() bool { return safe(named) >= 100 })
		refused := strings.Count("\n"+out.From(planned), "\nrefused ")
		t.Logf("ioredis wrote 100 times again %v after SENTINEL FAILOVER, refused %d times", time.Since(began).Round(time.Millisecond), refused)
		harness.Eventually(t, 2*time.Minute, "the group is at rest", func() bool { leader = g.Settled(); return leader != nil && leader != old })
		heard()
	}
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-exited:
		if err != nil {
			t.Errorf("the script: %v\n%s", err, said)
		}
	case <-time.After(harness.IoTimeout):
		t.Fatal("the script does not end")
	}

	counts := make(map[string]int)
	c := leader.Dial(t)
	for line := range strings.Lines(out.From(0)) {
		word, mid, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "heard" {
			continue
		}
		mid, _, _ = strings.Cut(mid, " ")
		counts[word]++
		switch v := c.Do("GET", mid+".n"); {
		case v.Raw != "$1\r\n1\r\n" && v.Raw != "$-1\r\n":
			t.Errorf("post %s: %q, want 1 or nothing", mid, v.Raw)
		case v.Null && word == "safe":
			t.Errorf("post %s: WAIT 1 acknowledged it and it is gone", mid)
		case !v.Null && word == "refused":
			t.Errorf("%s: and it is there", strings.TrimSpace(line))
		}
	}
	t.Logf("increments: %v", counts)
}

package durability

import (
	"fmt"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestDurableKill kills the server under eight writers again and again, with every sync policy in turn and with
// snapshots in between. Everything acknowledged must be there after each restart.
func TestDurableKill(t *testing.T) {
	t.Parallel()
	r, _ := harness.Random(t)
	dir := t.TempDir()
	w := harness.NewWriters(8, 50, 8)
	s := harness.StartIn(t, dir)
	harness.SeedSchema(t, s.Dial(t))
	s.Kill()
	rounds := harness.Scaled(20)
	var acked int64
	var restart, slowest time.Duration
	for round := range rounds {
		policy := []string{"always", "everysec", "always", "everysec", "no"}[round%5]
		began := time.Now()
		s := harness.StartIn(t, dir, "--appendfsync", policy, "--auto-aof-rewrite-min-size", "1mb")
		took := time.Since(began)
		restart += took
		slowest = max(slowest, took)
		acked += w.Verify(t, s)
		wait := w.Begin(t, s, r)
		time.Sleep(harness.RandomPause(r, 20*time.Millisecond, 200*time.Millisecond))
		if round%2 == 0 {
			c := s.Dial(t)
			if v := c.Do("BGSAVE"); v.Kind != '+' && v.Text != "ERR Background save already in progress" {
				t.Errorf("BGSAVE answered %q", v.Raw)
			}
			time.Sleep(harness.RandomPause(r, 0, 50*time.Millisecond))
		}
		s.Kill()
		wait()
		s.CheckLog()
	}
	s = harness.StartIn(t, dir)
	acked += w.Verify(t, s)
	s.Stop()
	harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	t.Logf("%d kills, %d writes acknowledged, 0 lost; restart %v on average, %v at most", rounds, acked,
		(restart / time.Duration(rounds)).Round(time.Millisecond), slowest.Round(time.Millisecond))
}

// killCalls are the system calls by which data reaches the disk.
var killCalls = []string{"pwrite64", "fdatasync", "io_submit", "renameat,renameat2,rename", "unlinkat,unlink", "ftruncate", "fallocate", "fsync"}

// TestDurableKillCalls kills the server at the n-th system call of each kind that changes files, under load and while
// snapshots are made.
func TestDurableKillCalls(t *testing.T) {
	t.Parallel()
	r, _ := harness.Random(t)
	dir := t.TempDir()
	w := harness.NewWriters(4, 20, 4)
	s := harness.StartIn(t, dir)
	harness.SeedSchema(t, s.Dial(t))
	s.Kill()
	killed := 0
	cases := max(len(killCalls), harness.Scaled(2*len(killCalls)))
	for i := range cases {
		calls := killCalls[i%len(killCalls)]
		policy := []string{"always", "everysec"}[i/len(killCalls)%2]
		s := harness.StartIn(t, dir, "--appendfsync", policy)
		w.Verify(t, s)
		when := 1 + r.IntN(1+i/len(killCalls)*2) // counted for each thread
		if calls == "pwrite64" {
			when += r.IntN(40)
		}
		if _, ok := s.Inject(calls, fmt.Sprintf("signal=KILL:when=%d", when)); !ok {
			return
		}
		wait := w.Begin(t, s, r)
		if c, err := harness.DialTimeout("tcp", s.Addr, harness.IoTimeout); err == nil {
			for end := time.Now().Add(10 * time.Second); s.Alive() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if _, err := c.TryDo("SAVE"); err != nil {
					break
				}
			}
			c.Close()
		}
		select {
		case <-s.Exited:
			killed++
		case <-time.After(500 * time.Millisecond):
		}
		s.Kill()
		wait()
		s.CheckLog()
	}
	s = harness.StartIn(t, dir)
	w.Verify(t, s)
	t.Logf("killed at a system call in %d of %d rounds", killed, cases)
	if killed < cases/2 {
		t.Errorf("only %d of %d injections killed the server", killed, cases)
	}
}

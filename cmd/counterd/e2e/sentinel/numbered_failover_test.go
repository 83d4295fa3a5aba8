package sentinel

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/seed"
)

var failoversFlag = flag.Int("failovers", 2, "failovers of each kind in TestNumberedFailovers")

// repeatPair is a primary and its replica, whose roles change.
type repeatPair struct {
	t      *testing.T
	schema string
	nodes  [2]*harness.Server
	ports  [2]int
	dirs   [2]string
	leader int

	sentinels []string // addresses; none: nobody watches
}

func newRepeatPair(t *testing.T) *repeatPair {
	p := &repeatPair{t: t, schema: filepath.Join(t.TempDir(), "schema")}
	if err := os.WriteFile(p.schema, []byte("add counter weibo\nadd column weibo n hint=16 max=63 suffix=n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range p.nodes {
		p.ports[i], p.dirs[i] = freeport.Take(t), t.TempDir()
	}
	p.nodes[0] = harness.StartAt(t, p.ports[0], p.dirs[0], "--schema", p.schema)
	p.nodes[1] = harness.StartAt(t, p.ports[1], p.dirs[1], "--replicaof", fmt.Sprintf("127.0.0.1 %d", p.ports[0]))
	p.linked()
	return p
}

func (p *repeatPair) replica() *harness.Server { return p.nodes[1-p.leader] }

func (p *repeatPair) primary() *harness.Server { return p.nodes[p.leader] }

// linked waits until one node leads and the other follows it, as all Sentinels know, and calls the one the primary.
func (p *repeatPair) linked() {
	p.t.Helper()
	harness.Eventually(p.t, harness.RepeatWithin, "one leads and the other follows", func() bool {
		for i := range p.nodes {
			if harness.ReplicationField(p.nodes[i], "role") == "master" && harness.ReplicationField(p.nodes[1-i], "master_port") == strconv.Itoa(p.ports[i]) &&
				harness.ReplicationField(p.nodes[1-i], "master_link_status") == "up" {
				p.leader = i
				return p.agreed()
			}
		}
		return false
	})
}

// promoted waits until the replica leads, and calls it the primary from then on.
func (p *repeatPair) promoted() {
	p.t.Helper()
	harness.Eventually(p.t, harness.RepeatWithin, "the replica leads", func() bool { return harness.ReplicationField(p.replica(), "role") == "master" })
	p.leader = 1 - p.leader
}

// comesBack starts the old primary again, which was killed, as a replica: Sentinel would take 10 s to make it one.
// anew: in an empty directory, so that it takes a full copy.
func (p *repeatPair) comesBack(anew bool) {
	p.t.Helper()
	i := 1 - p.leader
	if anew {
		p.dirs[i] = p.t.TempDir()
	}
	p.nodes[i] = harness.StartAt(p.t, p.ports[i], p.dirs[i], "--replicaof", fmt.Sprintf("127.0.0.1 %d", p.ports[p.leader]))
	p.linked()
}

// failovers are the ways to change the roles. Each returns when the old primary follows the new one.
var failovers = []struct {
	name     string
	sentinel bool
	planned  bool // nothing that was changed is lost
	run      func(p *repeatPair, round int)
}{
	{"FAILOVER", false, true, func(p *repeatPair, _ int) {
		to := []string{"FAILOVER", "TO", "127.0.0.1", strconv.Itoa(p.replica().Port)}
		harness.Eventually(p.t, harness.RepeatWithin, "a failover may begin", func() bool { return harness.Ask(p.primary().Addr, to...) == "+OK\r\n" })
		p.promoted()
		p.linked()
	}},
	{"kill -9 and REPLICAOF NO ONE", false, false, func(p *repeatPair, round int) {
		p.kill()
		harness.Eventually(p.t, harness.RepeatWithin, "the replica is told to lead", func() bool { return harness.Ask(p.replica().Addr, "REPLICAOF", "NO", "ONE") == "+OK\r\n" })
		p.promoted()
		if round%4 == 1 { // a copy has what is remembered of producers from a snapshot
			_ = harness.Ask(p.primary().Addr, "SAVE")
		}
		p.comesBack(round%2 == 1)
	}},
	{"SENTINEL FAILOVER", true, true, func(p *repeatPair, _ int) {
		harness.Eventually(p.t, harness.RepeatWithin, "Sentinel begins a failover", func() bool {
			return harness.Ask(p.sentinels[0], "SENTINEL", "FAILOVER", "mymaster") == "+OK\r\n"
		})
		p.promoted()
		p.linked()
	}},
	{"kill -9 and Sentinel", true, false, func(p *repeatPair, _ int) {
		p.kill()
		p.promoted()
		p.comesBack(false)
	}},
}

// TestNumberedFailovers changes roles between a change and its repeat, again and again, beside a load whose connections
// are cut by that at any moment. A change that was made, whose reply was lost, and that is sent again to the new primary
// is answered as the first time, or made there if the old one took it with it; so is one of many failovers ago, which the
// new primary may know by a full copy alone; and in the end each post holds what was added, exactly. Every command has a
// number, and counts when WAIT 1 says that a replica has it.
//
//	go test ./cmd/counterd/e2e/sentinel -run NumberedFailovers -failovers 100 -v -timeout 1h
func TestNumberedFailovers(t *testing.T) {
	for i, f := range failovers {
		t.Run(f.name, func(t *testing.T) {
			path := ""
			if f.sentinel {
				var ok bool
				if path, ok = harness.Tool(t, "redis-sentinel"); !ok {
					return
				}
			}
			t.Parallel() // it waits most of the time
			seed := seed.Of(t)
			t.Logf("-seed %d", seed)
			p := newRepeatPair(t)
			if f.sentinel {
				p.watch(path)
			}
			writers := make([]*harness.RepeatWriter, 5)
			addrs := []string{p.nodes[0].Addr, p.nodes[1].Addr}
			for k := range writers {
				writers[k] = &harness.RepeatWriter{Producer: fmt.Sprintf("writer-%d", k), Nodes: addrs, First: 1000 * (k + 1), Keeps: f.planned, Rng: rand.New(rand.NewPCG(seed, uint64(10*i+k)))}
			}
			stop := make(chan struct{})
			var load sync.WaitGroup
			for _, w := range writers[1:] {
				load.Go(func() {
					if err := w.Run(stop); err != nil {
						t.Error(err)
					}
				})
			}
			victim, took, answered, past := writers[0], []time.Duration(nil), 0, []harness.RepeatOp(nil)
			for round := range *failoversFlag {
				replicated := f.planned || round%2 == 0
				op := victim.Incr(victim.Number())
				p.lose(victim, op, replicated)
				began := time.Now()
				f.run(p, round)
				took = append(took, time.Since(began))
				there, last := p.has(victim), harness.Ask(p.primary().Addr, "IDMP", "LAST", victim.Producer)
				known := last == fmt.Sprintf(":%d\r\n", victim.Seq)
				if there != known || replicated && !there {
					t.Errorf("round %d: replicated %t; the new primary has the change: %t, and its number %d: %t, as it answers %q", round, replicated, there, victim.Seq, known, last)
				}
				if known {
					answered++
				}
				if err := victim.Do(op); err != nil {
					t.Error(err)
				}
				past = append(past, op)
				old := past[max(0, len(past)-1-int(victim.Rng.Int64N(100)))] // some failovers and copies ago, and not too many for the window
				if err := victim.Do(old); err != nil {
					t.Errorf("again: %v", err)
				}
				if t.Failed() {
					break
				}
			}
			close(stop)
			load.Wait()
			victim.HangUp()
			p.exact(writers)
			made, repeats, unknown, worst := 0, 0, 0, time.Duration(0)
			for _, w := range writers {
				made, repeats, unknown, worst = made+w.Made, repeats+w.Repeats, unknown+w.Unknown, max(worst, w.Worst)
			}
			t.Logf("%d failovers, %v each; %d commands, all exact; %d repeats, %d attempts without an answer, the longest command %v; of the repeats over a failover %d were answered from memory and %d made",
				len(took), average(took), made, repeats, unknown, worst.Round(time.Millisecond), answered, len(took)-answered)
		})
	}
}

func average(all []time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range all {
		sum += d
	}
	return (sum / time.Duration(max(1, len(all)))).Round(time.Millisecond)
}

// lose sends a command to the primary and hangs up without its reply, when it was made there. replicated: on the
// replica too; else that one hears nothing until kill.
func (p *repeatPair) lose(w *harness.RepeatWriter, op harness.RepeatOp, replicated bool) {
	p.t.Helper()
	if !replicated {
		p.replica().Freeze(p.t)
		_ = harness.Ask(p.primary().Addr, "CLIENT", "KILL", "TYPE", "replica")
	}
	c := harness.DialAddr(p.t, "tcp", p.primary().Addr)
	defer c.Close()
	c.Write(string(op.Request))
	harness.Eventually(p.t, harness.RepeatWithin, "the change is made", func() bool { return p.holds(p.primary(), w) })
	if replicated {
		harness.Eventually(p.t, harness.RepeatWithin, "the replica has it", func() bool { return p.holds(p.replica(), w) })
	}
}

// has tells whether the primary holds all that a writer has added.
func (p *repeatPair) has(w *harness.RepeatWriter) bool { return p.holds(p.primary(), w) }

func (p *repeatPair) holds(s *harness.Server, w *harness.RepeatWriter) bool {
	for i, sum := range w.Sums {
		if sum != 0 && harness.Ask(s.Addr, "GET", w.Key(i)) != harness.BulkOf(strconv.FormatInt(sum, 10)) {
			return false
		}
	}
	return true
}

// kill ends the primary, and lets a replica run again that lose has stopped.
func (p *repeatPair) kill() {
	p.t.Helper()
	p.primary().Kill()
	p.signal(syscall.SIGCONT)
}

func (p *repeatPair) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.replica().Cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// exact compares what the posts hold, on both nodes, with what was added.
func (p *repeatPair) exact(writers []*harness.RepeatWriter) {
	p.t.Helper()
	want, shared := map[string]int64{}, int64(0)
	for _, w := range writers {
		for i, sum := range w.Sums {
			want[w.Key(i)] = sum
		}
		shared += w.Shared
	}
	want[harness.SharedPost] = shared
	for _, s := range p.nodes {
		for key, sum := range want {
			text := strconv.FormatInt(sum, 10)
			if sum == 0 {
				continue
			}
			harness.Eventually(p.t, harness.RepeatWithin, fmt.Sprintf("%s holds %s on port %d, it has %q", key, text, s.Port, harness.Ask(s.Addr, "GET", key)), func() bool {
				return harness.Ask(s.Addr, "GET", key) == harness.BulkOf(text)
			})
		}
	}
}

// watch starts three Sentinels, and waits until they know everybody. Where they are told to lose less time (2 s and
// less) they take a new primary for dead on a busy machine, and what they say then contradicts what a node that comes
// back was told.
func (p *repeatPair) watch(path string) {
	p.t.Helper()
	addrs, logs := harness.StartSentinels(p.t, path, p.ports[0])
	for _, log := range logs {
		harness.Eventually(p.t, harness.RepeatWithin, "each Sentinel knows the replica and both fellows", func() bool {
			return strings.Count(log.String(), "+slave ") >= 1 && strings.Count(log.String(), "+sentinel ") >= 2
		})
	}
	p.sentinels = addrs
	p.linked()
}

// agreed tells whether all Sentinels name the primary, and see nobody down.
func (p *repeatPair) agreed() bool {
	port := strconv.Itoa(p.ports[p.leader])
	for _, addr := range p.sentinels {
		master, replicas := harness.Ask(addr, "SENTINEL", "MASTER", "mymaster"), harness.Ask(addr, "SENTINEL", "REPLICAS", "mymaster")
		if !strings.Contains(master, "\r\nport\r\n"+harness.BulkOf(port)) || !strings.Contains(master, "\r\nflags\r\n"+harness.BulkOf("master")) ||
			!strings.Contains(replicas, "\r\nflags\r\n"+harness.BulkOf("slave")) || !strings.Contains(replicas, "\r\nmaster-link-status\r\n"+harness.BulkOf("ok")) {
			return false
		}
	}
	return true
}

// Scenario: whole clusters simulated under random faults.

package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

// run is one simulation.
func run(t *testing.T, seed uint64, broken rules, rolls, trace bool) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed, shape{}, broken, rolls, trace)
		defer func() {
			close(w.over)
			for _, m := range w.machines {
				w.kill(m)
			}
			w.flushes.Wait()
		}()
		if !w.settled(30 * time.Second) {
			return
		}
		var clients, faults sync.WaitGroup
		for i := range 3 + w.rng.IntN(4) {
			clients.Go(func() { w.client(i, seed) })
		}
		w.mu.Lock()
		if w.rng.IntN(2) == 0 {
			w.etcdFaults = registrytest.Faults{Delay: time.Duration(w.rng.IntN(40)) * time.Millisecond, RequestLost: .02, AnswerLost: .05, Late: .02, LateBy: 3 * time.Second, WatchLost: .02}
			for _, m := range w.machines {
				m.proc.etcd.SetFaults(w.etcdFaults)
			}
		}
		n := 4 + w.rng.IntN(12)
		calm := 300 + w.rng.IntN(4000)
		w.mu.Unlock()
		for range n {
			w.fault(&faults)
			w.mu.Lock()
			d := time.Duration(w.rng.IntN(calm)) * time.Millisecond
			w.mu.Unlock()
			time.Sleep(d)
		}
		faults.Wait()
		w.heal()
		w.mu.Lock()
		before := w.answered
		w.mu.Unlock()
		if w.settled(60 * time.Second) {
			end := time.Now().Add(30 * time.Second)
			for done := false; !done; time.Sleep(100 * time.Millisecond) {
				w.mu.Lock()
				if done = w.answered > before+20; !done && time.Now().After(end) {
					w.fail("nothing is acknowledged behind the last fault")
					done = true
				}
				w.mu.Unlock()
			}
		}
		close(w.stop)
		clients.Wait()
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.failures) == 0 {
			w.check()
		}
	})
	return w
}

// check verifies the final state. mu is held.
func (w *world) check() {
	m, err := w.etcd.Map()
	if err != nil {
		w.fail("the map: %v", err)
		return
	}
	if faults := m.Faults(); len(faults) > 0 {
		w.fail("the map: %v", faults)
	}
	for _, s := range m.Shards {
		p := w.machine(s.Primary)
		for _, n := range m.Members(s.ID) {
			if o := w.machine(n.ID); !slices.Equal(o.log, p.log) {
				w.fail("shard %d: %s has %d changes, its primary %s %d, or others", s.ID, n.ID[:4], len(o.log), p.id[:4], len(p.log))
			}
		}
		seen := map[int64]bool{}
		for _, r := range p.log {
			if seen[r.id] || !w.attempts[r.id] {
				w.fail("shard %d: change %d is there twice, or was refused", s.ID, r.id)
			}
			seen[r.id] = true
		}
		for id, shard := range w.promised {
			if shardID(shard) == s.ID && !seen[id] {
				w.fail("shard %d: change %d was acknowledged and is lost", s.ID, id)
			}
		}
	}
	if w.lossy {
		return
	}
	for key, history := range w.history {
		if r := w.linearizable(history); r == porcupine.Illegal {
			w.fail("key %d: %d operations are not linearizable", key, len(history))
			for _, op := range history {
				w.say("key %d: %s", key, op)
			}
		}
	}
}

// TestSimulation runs whole clusters through random faults. SEEDS says how many, SEED replays one and tells all of it. The
// seed decides the cluster, the load and the faults; in which order goroutines run that are due at the same moment, it
// does not, so a failure may need some runs of its seed to come again.
func TestSimulation(t *testing.T) { simulate(t, 50, false) }

// TestRollBack does the same with machines that are rolled back to older images of their disks, in place of machines that
// lose power: an older copy must not lead, must not count as in sync, and comes back by itself.
func TestRollBack(t *testing.T) {
	racetest.Skip(t, "TestSimulation runs the same machines")
	simulate(t, 30, true)
}

func simulate(t *testing.T, n int, rolls bool) {
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		w := run(t, seed, allRules, rolls, true)
		t.Log("\n" + w.trace.String())
		if len(w.failures) > 0 {
			t.Fatalf("%q", w.failures)
		}
		return
	}
	if testing.Short() {
		n = 12 // with the race detector
	}
	if text := os.Getenv("SEEDS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	first := rand.Uint64() >> 20
	var mu sync.Mutex
	answered, faults, histories := 0, map[string]int{}, 0
	t.Run("seeds", func(t *testing.T) {
		for part := range 2 {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for i := part; i < n && !t.Failed(); i += 2 {
					w := run(t, first+uint64(i), allRules, rolls, false)
					for _, f := range w.failures {
						t.Errorf("SEED=%d: %s", w.seed, f)
					}
					mu.Lock()
					answered += w.answered
					if !w.lossy {
						histories++
					}
					for name, n := range w.faults {
						faults[name] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d runs from seed %d: %d commands answered, %d with histories checked, faults %v", n, first, answered, histories, faults)
}

// Scenario: power failures within transactions.

package counter

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/counterd/counterd/persist/vfs"
)

// TestCrashTransaction lets the power fail after every operation of the file system while transactions give many items
// one value, in many Runs each, and others commit what there is of the log between them: what is recovered is never a
// part of a transaction.
func TestCrashTransaction(t *testing.T) {
	points, crashed := 0, true
	for at := 0; crashed; at++ {
		synctest.Test(t, func(t *testing.T) {
			var n int
			n, crashed = crashTransaction(t, at)
			points += n
		})
	}
	t.Logf("%d crash points", points)
}

// crashTransaction is one run, with a power failure at operation at of the file system, if there are so many. It runs
// in a bubble of synctest, so that it can tell when all others have written what they may.
func crashTransaction(t *testing.T, at int) (points int, crashed bool) {
	const items, runs = 600, 6
	sim := vfs.NewSim()
	sim.TornCrashAt(at, []int{0, 50, 100}[at%3])
	acknowledged := uint64(0)
	s, err := Open("data", Options{FS: sim, Manual: true, HashSeed: 1})
	if err == nil {
		err = s.AlterScript("add counter n\nadd column n v hint=8 max=63 suffix=")
	}
	for value := uint64(1); err == nil && value <= 5; value++ {
		b := s.NewBatch()
		if err = b.BeginExclusive(); err != nil {
			break
		}
		def := b.Schema().Counter("n")
		var others sync.WaitGroup
		for run := range runs {
			for i := run; i < items; i += runs {
				b.Add(Op{Kind: OpSet, Counter: def, Mid: uint64(i) << 40, Arg: value})
			}
			b.Run()
			b.Reset()
			others.Go(func() { _ = s.data.Log.Commit(s.data.Log.Position()) }) // its error is the crash
			synctest.Wait()                                                    // they wait for the end of the transaction, or have written a part of it
		}
		b.End()
		others.Wait()
		if err = b.Commit(); err == nil {
			acknowledged = value
		}
	}
	crashed = sim.Crashed()
	if err != nil && !crashed {
		t.Fatal(err)
	}
	for i, left := range []*vfs.Sim{sim.Kill(), sim.Crash(uint64(at), 0), sim.Crash(uint64(at), 30), sim.Crash(uint64(at), 70), sim.Crash(uint64(at), 100)} {
		r, err := Open("data", Options{FS: left, Manual: true, HashSeed: 1})
		if err != nil {
			t.Fatalf("crash at %d: %v", at, err)
		}
		values := make(map[string]int)
		if r.Schema().Counter("n") != nil {
			for mid := range items {
				v, _, err := r.Get(fmt.Sprintf("n:%d", mid<<40))
				if err != nil {
					t.Fatal(err)
				}
				values[fmt.Sprint(v)]++
			}
		}
		if len(values) > 1 {
			t.Errorf("crash at %d, case %d: a part of a transaction: values and how many items have them: %v", at, i, values)
		}
		if i == 0 && acknowledged > 0 && values[fmt.Sprint(acknowledged)]+values[fmt.Sprint(acknowledged+1)] != items {
			t.Errorf("kill at %d: got %v, acknowledged %d", at, values, acknowledged)
		}
		must(t, r.Close())
		points++
	}
	if s != nil {
		_ = s.Close() // after a crash it cannot
	}
	return points, crashed
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

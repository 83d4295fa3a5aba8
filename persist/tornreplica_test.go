// Scenario: a replica starts with a torn tail

package persist

import (
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestReplicaLosesItsFirstSecond takes the power away before a new replica's log was synced for the first time. What
// its frames say was durable was so on the primary's disk: a segment without a header is none that was durable here, in
// a new directory and behind the log of a primary.
func TestReplicaLosesItsFirstSecond(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	for _, led := range []bool{false, true} {
		primary, _, err := OpenLog(LogOptions{FS: vfs.NewSim(), Dir: "p", Create: true, Manual: true}, 0, discard)
		if err != nil {
			t.Fatal(err)
		}
		sim := vfs.NewSim()
		dir, err := OpenDir(sim, "d") // durably
		if err != nil {
			t.Fatal(err)
		}
		opts := LogOptions{FS: sim, Dir: "d", Create: true, Manual: true}
		l, _, err := OpenLog(opts, 0, discard)
		if err != nil {
			t.Fatal(err)
		}
		if led { // what it had the primary has too
			for _, log := range []*Log{primary, l} {
				log.AppendSet(1, 1, 1, 1)
				if err := log.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		past := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: format.NewReplID(), Epoch: 1}}}
		if err := logfile.WriteLineage(sim, "d", &past); err != nil {
			t.Fatal(err)
		}
		if err := l.SetHistory(past.Current()); err != nil {
			t.Fatal(err)
		}
		from := l.Position()
		r, err := primary.NewReader(from)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			primary.AppendSet(1, 1, uint64(i), 1)
			if err := primary.Sync(); err != nil { // so the next frame says that this one is durable
				t.Fatal(err)
			}
			f, err := r.TryNext()
			if err != nil || f == nil {
				t.Fatal(f, err)
			}
			if _, err := l.AppendFrame(f.Raw); err != nil {
				t.Fatal(err)
			}
			if err := l.CommitHere(l.Position()); err != nil {
				t.Fatal(err)
			}
		}
		for seed := range uint64(100) {
			again := opts
			again.FS = sim.Crash(seed, 50)
			next, rec, err := OpenLog(again, 0, discard)
			if err != nil {
				t.Fatalf("led %v, seed %d: %v", led, seed, err)
			}
			if rec.End < from {
				t.Fatalf("led %v, seed %d: the log ends at %d, %d was durable", led, seed, rec.End, from)
			}
			if err := next.Close(); err != nil {
				t.Fatal(err)
			}
		}
		_ = r.Close()
		_ = l.Close()
		_ = dir.Close()
		_ = primary.Close()
	}
}

// Scenario: the last frame of a log is damaged

package counter

import (
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// damagedTail is a disk with an elected store that was killed after it had acknowledged two changes. One bit of the last
// frame is wrong then.
func damagedTail(t *testing.T, policy SyncPolicy) *vfs.Sim {
	t.Helper()
	sim := vfs.NewSim()
	s := openElected(t, sim, func(o *Options) { o.AppendFsync = policy })
	if _, err := s.Replication().LeadAt(1); err != nil {
		t.Fatal(err)
	}
	s.Replication().Confirm(Everywhere)
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Incr("1.n", 5); err != nil {
			t.Fatal(err)
		}
	}
	sim = killed(t, s, sim)
	logs, err := sim.List(format.LogDir("data"))
	if err != nil {
		t.Fatal(err)
	}
	path := ""
	for _, name := range logs {
		if filepath.Ext(name) == format.SegmentSuffix {
			path = filepath.Join(format.LogDir("data"), name)
		}
	}
	text, err := vfs.ReadFile(sim, path, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	end := len(text)
	for text[end-1] == 0 {
		end--
	}
	text[end-2] ^= 4
	if err := vfs.WriteFileAtomic(sim, path, text); err != nil {
		t.Fatal(err)
	}
	return sim
}

// TestTornWithoutPowerFailure: one bit of the last acknowledged frame is damaged, which a start takes for a torn tail and cuts.
// A kill leaves no such tail. So the node lacks an acknowledged change, and leads only if an election knows that it is behind. The
// start may be killed at any moment.
func TestTornWithoutPowerFailure(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, policy := range []SyncPolicy{SyncEverySec, SyncAlways} {
		for at := 0; ; at++ {
			sim := damagedTail(t, policy)
			sim.CrashAt(sim.Ops() + at)
			s, err := Open("data", Options{FS: sim, Manual: true, BlockItems: 16, SnapshotGrowth: -1, HashSeed: 1, Elected: true, BootID: "1"})
			done, next := !sim.Crashed(), sim.Kill()
			if err == nil {
				_ = s.Close() // its disk may be gone
			}
			s = openElected(t, next, nil)
			if v, _, err := s.Get("1.n"); v != 5 || err != nil || !s.Replication().Behind() {
				t.Fatalf("%v, killed at operation %d: %d, %v, behind %v; want 5, and behind", policy, at, v, err, s.Replication().Behind())
			}
			close1(t, s)
			if done {
				break
			}
		}
		// A power failure leaves torn tails of changes that were not acknowledged.
		s := openElected(t, damagedTail(t, policy), func(o *Options) { o.BootID, o.AppendFsync = "2", policy })
		if got := s.Replication().Behind(); got != (policy != SyncAlways) {
			t.Errorf("%v, behind a power failure: behind %v", policy, got)
		}
		close1(t, s)
	}
}

// Scenario: a store at work with everything that a log can hold is backed up, and each backup is restored to moments that it reaches.

package backup

import (
	"github.com/counterd/counterd/cmd/internal/backup/bucket"

	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/testkit/busystore"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/vfs"
)

// TestBusySource backs a store up between changes of every kind: posts, numbered changes of more producers than there may be, updates
// by condition, columns and counters that come and go, FLUSHALL, beside snapshots, tiers, the compression of the log, kill -9 and loss
// of power. What is restored from a backup, to its end or to an earlier moment, has the posts, the schema and the producers of that
// moment.
func TestBusySource(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	all := map[string]int{}
	for range 3 {
		n := seed.Next(t)
		place, out := t.TempDir(), t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(n, 0))
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			sim := vfs.NewSim()
			opts := counter.Options{FS: sim, BlockItems: 16, SnapshotGrowth: -1, AppendFsync: counter.SyncAlways, HashSeed: 1,
				CompressLog: true, RetainBytes: []uint64{1, 1 << 30}[rng.IntN(2)], Producers: busystore.Limits}
			s, err := counter.Open("data", opts)
			must(err)
			must(s.AlterScript(busystore.Schema))
			to, err := bucket.Open(place)
			must(err)
			w := busystore.NewWork(rng)
			states := map[uint64]string{}
			for step := range 200 {
				switch k := rng.IntN(100); {
				case k < 6:
					must(s.Snapshot())
				case k < 16:
					change := s.Admin().Demote
					if rng.IntN(3) == 0 {
						change = s.Admin().Promote
					}
					if err := change("w", rng.Uint64N(busystore.Mids)); !errors.Is(err, counter.ErrNoBlock) {
						must(err)
					}
				case k < 19:
					must(s.Replication().Sync())
					if rng.IntN(2) == 0 {
						sim = sim.Kill()
					} else {
						sim = sim.Crash(rng.Uint64(), rng.IntN(101))
					}
					must(s.Close()) // on the disk that nobody looks at any more
					opts.FS = sim
					s, err = counter.Open("data", opts)
					must(err)
					w.Counts["restart"]++
				case k < 23 || step == 199:
					must(s.Replication().Sync())
					x, err := NewMaker(to, Options{Source: "here", Full: rng.IntN(4) == 0, Cold: counter.ColdVerifier}).Make(context.Background(), datadir.NewView(sim, "data"), "data")
					must(err)
					w.Counts["backup"]++
					fetched := filepath.Join(out, x.Name)
					if err := Fetch(t.Context(), to, x, fetched, nil); !errors.Is(err, fs.ErrExist) {
						must(err)
					}
					for _, at := range []uint64{x.End, x.End - min(x.End, rng.Uint64N(2000))} {
						restored := vfs.NewSim()
						done, err := datadir.Restore(vfs.OS(), fetched, restored, "data", datadir.Target{Offset: at}, datadir.RestoreOptions{Cold: counter.ColdVerifier(vfs.OS())})
						var window *datadir.WindowError
						if errors.As(err, &window) && at != x.End {
							continue
						}
						must(err)
						o := opts
						o.FS, o.Manual = restored, true
						r, err := counter.Open("data", o)
						must(err)
						got, err := busystore.Digest(r)
						must(err)
						if want, ok := states[done.Offset]; ok {
							w.Counts["compared"]++
							if got != want {
								t.Fatalf("backup %s restored to %d has\n%s, the store had\n%s", x.Name, done.Offset, got, want)
							}
						}
						must(r.Close())
					}
					time.Sleep(time.Millisecond) // backups are named by their time
				default:
					must(w.Change(s))
				}
				at := s.Replication().Position()
				must(s.Replication().CommitHere(at))
				states[at], err = busystore.Digest(s)
				must(err)
			}
			w.Counts["packed"] += int(s.Admin().LogStats().Packed)
			must(s.Close())
			for what, n := range w.Counts {
				all[what] += n
			}
		})
		busystore.DropPools()
	}
	if all["compared"] < 10 {
		t.Errorf("only %v", all)
	}
	t.Log(all)
}

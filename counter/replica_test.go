// Scenario: a replica follows a primary.

package counter

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// eachFrame gives the frames of a log, from an offset on.
func eachFrame(t testing.TB, s *Store, from uint64, to func(raw []byte)) {
	t.Helper()
	r, err := s.data.Log.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		f, err := r.TryNext()
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			return
		}
		to(bytes.Clone(f.Raw))
	}
}

// ship applies all frames of a's log that b lacks, as a link does.
func ship(t *testing.T, a, b *Store) {
	t.Helper()
	if err := a.data.Log.Commit(a.data.Log.Position()); err != nil {
		t.Fatal(err)
	}
	eachFrame(t, a, b.data.Log.Position(), func(raw []byte) {
		end, err := b.repl.Replicate(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.data.Log.Commit(end); err != nil {
			t.Fatal(err)
		}
	})
}

func digestOf(t *testing.T, s *Store) string {
	t.Helper()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	text := ""
	for _, def := range b.Schema().Counters() {
		d, err := NewReader(b).Digest(def.Name, 0, 1<<63)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s %v;", def.Name, d)
	}
	return text
}

// TestReplicate runs random changes, of the schema too, on a store and ships its log to another, which makes snapshots,
// demotes ranges and loses power at its own times: at each look both hold the same.
func TestReplicate(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		disk := vfs.NewSim()
		opts := func(fs vfs.FS) Options {
			return Options{FS: fs, Manual: true, BlockItems: 32, SnapshotGrowth: -1, HashSeed: 1}
		}
		a, err := Open("a", opts(vfs.NewSim()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Open("b", opts(disk))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.repl.Follow(a.repl.Lineage()); err != nil {
			t.Fatal(err)
		}
		if err := a.AlterScript("add counter w\nadd column w n hint=8 max=63 suffix=n\nadd column w m hint=4 max=32 suffix=m"); err != nil {
			t.Fatal(err)
		}
		for round := range 30 {
			for range 60 {
				key := fmt.Sprintf("%d.%s", rng.IntN(300), []string{"n", "m"}[rng.IntN(2)])
				if _, err := a.Incr(key, rng.Int64N(1000)); err != nil {
					t.Fatal(err)
				}
			}
			switch rng.IntN(12) {
			case 0:
				_ = a.AlterScript(fmt.Sprintf("add column w c%d hint=8 max=32 suffix=c%d", round, round))
			case 1:
				batch := a.NewBatch()
				if err := batch.BeginExclusive(); err != nil {
					t.Fatal(err)
				}
				err := batch.Whole().Clear()
				batch.End()
				if err := errors.Join(err, batch.Commit()); err != nil {
					t.Fatal(err)
				}
			}
			if rng.IntN(3) > 0 {
				ship(t, a, b)
				if x, y := digestOf(t, a), digestOf(t, b); x != y {
					t.Fatalf("seed %d round %d: %s and %s", seed, round, x, y)
				}
			}
			if err := b.Set("1.n", 1); !errors.Is(err, ErrReplica) && !errors.Is(err, ErrNoKey) {
				t.Fatalf("a change of a replica: %v", err)
			}
			switch rng.IntN(6) {
			case 0:
				if err := b.Snapshot(); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := b.Admin().Demote("w", uint64(rng.IntN(100))); err != nil && !errors.Is(err, ErrNoBlock) {
					t.Fatal(err)
				}
			case 2: // power fails
				after := disk.Crash(seed*100+uint64(round), []int{0, 50, 100}[rng.IntN(3)])
				_ = b.Close()
				disk = after
				if b, err = Open("b", opts(disk)); err != nil {
					t.Fatalf("seed %d round %d: %v", seed, round, err)
				}
				if !b.Replica() {
					t.Fatal("a replica came back as primary")
				}
				if len(b.repl.Lineage().Terms) == 0 {
					if _, err := b.repl.Follow(a.repl.Lineage()); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		ship(t, a, b)
		if x, y := digestOf(t, a), digestOf(t, b); x != y {
			t.Fatalf("seed %d: %s and %s", seed, x, y)
		}
		// Promoted, it goes on from there under a new history, and the old primary follows.
		at, err := b.repl.Lead()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Set("5.n", 77); err != nil {
			t.Fatal(err)
		}
		past := b.repl.Lineage()
		mine := a.repl.Lineage()
		if common, ok := past.Common(b.data.Log.Written(), &mine, a.data.Log.Position()); !ok || common != at {
			t.Fatalf("agree up to %d %t, want %d", common, ok, at)
		}
		if _, err := a.repl.Follow(past); err != nil {
			t.Fatal(err)
		}
		ship(t, b, a)
		if x, y := digestOf(t, a), digestOf(t, b); x != y {
			t.Fatalf("seed %d after promotion: %s and %s", seed, x, y)
		}
		if _, err := b.repl.Replicate(make([]byte, format.FrameHeaderLen)); err == nil {
			t.Fatal("a primary took a frame")
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// Scenario: the cost of applying frames.

package counter

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// BenchmarkReplicate is a replica's work for an increment of one of 100,000 posts, in frames of one increment, as one
// client makes them, and of 100, as load does, and of 10 in a transaction.
func BenchmarkReplicate(b *testing.B) {
	for _, c := range []struct {
		per   int
		whole bool
	}{{1, false}, {100, false}, {10, false}, {10, true}} {
		per := c.per
		b.Run(fmt.Sprintf("frame=%d/whole=%v", per, c.whole), func(b *testing.B) {
			const items = 100_000
			rng := rand.New(rand.NewPCG(1, 2))
			open := func() *Store {
				s, err := Open("data", Options{FS: vfs.NewSim(), HashSeed: 1, Manual: true, SnapshotGrowth: -1})
				if err != nil {
					b.Fatal(err)
				}
				return s
			}
			primary, replica := open(), open()
			defer func() {
				if err := errors.Join(primary.Close(), replica.Close()); err != nil {
					b.Fatal(err)
				}
			}()
			if err := primary.AlterScript("add counter a\nadd column a v hint=16 max=32 suffix=v"); err != nil {
				b.Fatal(err)
			}
			if _, err := replica.repl.Follow(primary.repl.Lineage()); err != nil {
				b.Fatal(err)
			}
			batch := primary.NewBatch()
			next := func(n int) {
				for n > 0 {
					begin := batch.Begin
					if c.whole {
						begin = batch.BeginExclusive
					}
					if err := begin(); err != nil {
						b.Fatal(err)
					}
					batch.Reset()
					for range min(per, n) {
						batch.Add(Op{Kind: OpAdd, Counter: batch.Schema().Counter("a"), Mid: 5_000_000_000_000_000 + rng.Uint64N(items)*3000, Arg: 1})
					}
					batch.Run()
					batch.End()
					if err := batch.Commit(); err != nil {
						b.Fatal(err)
					}
					n -= per
				}
			}
			feed, err := primary.data.Log.NewReader(0)
			if err != nil {
				b.Fatal(err)
			}
			defer feed.Close()
			pass := func(n int) {
				var frames [][]byte
				next(n)
				for f, err := feed.TryNext(); f != nil || err != nil; f, err = feed.TryNext() {
					if err != nil {
						b.Fatal(err)
					}
					frames = append(frames, bytes.Clone(f.Raw))
				}
				if err := errors.Join(primary.data.Log.Sync(), replica.data.Log.Sync()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				for _, raw := range frames {
					if _, err := replica.repl.Replicate(raw); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
			}
			b.StopTimer()
			pass(items)
			b.ResetTimer()
			for left := b.N; left > 0; left -= items {
				pass(min(left, items))
			}
		})
	}
}

// Scenario: the processor time of a feed, for each change.

package counter

import (
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// BenchmarkFeed reads changes of one column each, 256 a frame, and writes their positions.
func BenchmarkFeed(b *testing.B) {
	s := openDir(b, "data", Options{FS: vfs.NewSim(), Manual: true, HashSeed: 1, RetainBytes: 1 << 40, SnapshotGrowth: -1}, "add counter a\nadd column a v hint=8 max=40 suffix=v")
	batch := s.NewBatch()
	const changes = 1 << 18
	for range changes / 256 {
		if err := batch.Begin(); err != nil {
			b.Fatal(err)
		}
		batch.Reset()
		def := batch.Schema().Counter("a")
		for i := range uint64(256) {
			batch.Add(Op{Kind: OpAdd, Counter: def, Mid: 19089006004 + i*7, Arg: 1})
		}
		batch.Run()
		batch.End()
		if err := batch.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.data.Log.Sync(); err != nil {
		b.Fatal(err)
	}
	begin, err := s.Feeds().Oldest()
	if err != nil {
		b.Fatal(err)
	}
	var texts FeedPositions
	var text []byte
	n := 0
	for b.Loop() {
		f, err := s.Feeds().Open(begin, FeedFilter{})
		if err != nil {
			b.Fatal(err)
		}
		for {
			c, err := f.Next(s.data.Log.Durable(), 1<<30)
			if err != nil {
				b.Fatal(err)
			}
			if c == nil {
				break
			}
			text = texts.Append(text[:0], &c.Position)
			n++
		}
		f.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/change")
	b.ReportAllocs()
}

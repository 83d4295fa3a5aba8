package persist

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// openBench opens a log on the real file system.
func openBench(b *testing.B, policy SyncPolicy) *Log {
	l, _, err := OpenLog(LogOptions{FS: vfs.OS(), Dir: b.TempDir(), Create: true, Policy: policy, MaxUnsynced: 1 << 29}, 0, discard)
	must(b, err)
	b.Cleanup(func() { must(b, l.Close()) })
	return l
}

const benchMid = 4_812_345_678_901_234

// BenchmarkAppend compares one record appended to the log (impl=log), with the commits that keep it bounded left out
// of the time, with the same bytes appended to a plain buffer.
func BenchmarkAppend(b *testing.B) {
	b.Run("impl=log", func(b *testing.B) {
		l := openBench(b, SyncNo)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			pos := l.AppendSet(1, 2, benchMid+uint64(i)*4000, 1000)
			if i++; i&0x3fff == 0 {
				b.StopTimer()
				must(b, l.Commit(pos))
				must(b, l.Sync())
				b.StartTimer()
			}
		}
	})
	b.Run("impl=buffer", func(b *testing.B) {
		buf := make([]byte, 0, chunkLen)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if len(buf) > chunkLen-format.MaxSetLen {
				buf = buf[:0]
			}
			buf = format.AppendSet(buf, 1, 2, benchMid+uint64(i)*4000, 1000)
			i++
		}
	})
}

// BenchmarkBatch is what a pipeline of 64 INCR costs the log: 64 appends and one commit. Time is per record.
func BenchmarkBatch(b *testing.B) {
	for _, policy := range []SyncPolicy{SyncNo, SyncEverySec, SyncAlways} {
		b.Run("sync="+policy.String(), func(b *testing.B) {
			l := openBench(b, policy)
			b.ReportAllocs()
			start := l.Position()
			i := 0
			for b.Loop() {
				pos := l.AppendSet(1, 2, benchMid+uint64(i)*4000, 1000)
				if i++; i%64 == 0 {
					must(b, l.Commit(pos))
				}
			}
			b.ReportMetric(float64(l.Position()-start)/float64(i), "B/record")
		})
	}
}

// BenchmarkReplay reads a log of 1 M records back.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	opts := LogOptions{FS: vfs.OS(), Dir: dir, Create: true}
	l, _, err := OpenLog(opts, 0, discard)
	must(b, err)
	const n = 1 << 20
	for i := range n {
		pos := l.AppendSet(1, 2, benchMid+uint64(i)*4000, 1000)
		if i%64 == 0 {
			must(b, l.Commit(pos))
		}
	}
	must(b, l.Close())
	b.SetBytes(n)
	for b.Loop() {
		l, rec, err := OpenLog(opts, 0, discard)
		must(b, err)
		if rec.Records != n {
			b.Fatal(rec)
		}
		must(b, l.Close())
	}
}

func TestAppendAllocs(t *testing.T) {
	l, _, err := OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	var columns [3]format.ColumnValue
	if n := testing.AllocsPerRun(100, func() {
		l.AppendSet(1, 2, 3, 4)
		l.AppendDelete(1, 2)
		if _, err := l.AppendItem(1, 2, columns[:]); err != nil {
			t.Fatal(err)
		}
		if err := l.Ready(); err != nil {
			t.Fatal(err)
		}
		if err := l.Commit(0); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("append allocates %v times, want 0", n)
	}
	var rec format.Record
	src := format.AppendSetItem(nil, 1, 2, columns[:])
	if n := testing.AllocsPerRun(100, func() {
		if _, err := format.DecodeRecord(src, &rec); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("decoding allocates %v times, want 0", n)
	}
	must(t, l.Close())
}

// BenchmarkPack packs a log of single changes and of pipelines of 64, and unpacks it: time is per MB of log.
func BenchmarkPack(b *testing.B) {
	for _, depth := range []int{1, 64} {
		var raw []byte
		var records []byte
		rng := rand.New(rand.NewPCG(1, 1))
		zipf := rand.NewZipf(rng, 1.2, 20, 30_000)
		for i := 0; len(raw) < format.ChunkLen; i++ {
			records = format.AppendSet(records, 1, 2, benchMid+zipf.Uint64()*4000, uint64(100+i/50))
			if i%depth == depth-1 {
				at := len(raw)
				raw = append(append(raw, make([]byte, format.FrameHeaderLen)...), records...)
				format.PutFrameHeader(raw[at:], false, uint64(at), 0, 1_700_000_000_000+int64(i/100), 1)
				records = records[:0]
			}
		}
		p, err := format.NewChunkPacker()
		must(b, err)
		block, err := p.AppendChunk(nil, raw, 0)
		must(b, err)
		perMB := func(b *testing.B) {
			b.ReportMetric(b.Elapsed().Seconds()*1e9/(float64(b.N)*float64(len(raw))/1e6), "ns/MB")
			b.ReportMetric(float64(len(raw))/float64(len(block)), "ratio")
		}
		b.Run(fmt.Sprintf("depth=%d/op=pack", depth), func(b *testing.B) {
			for b.Loop() {
				block, _ = p.AppendChunk(block[:0], raw, 0)
			}
			perMB(b)
		})
		b.Run(fmt.Sprintf("depth=%d/op=unpack", depth), func(b *testing.B) {
			var u format.ChunkUnpacker
			var out []byte
			for b.Loop() {
				out, _ = u.Unpack(out[:0], block)
			}
			perMB(b)
		})
	}
}

//go:build unix

// Scenario: the cost of numbered changes.

package counter

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what the process has had of the processors, which others may be using too.
func cpuTime(tb testing.TB) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkOnce is INCR of random posts of a store with a log, 1 and 64 in a batch, without and with a producer, and
// processor time and log bytes an INCR.
func BenchmarkOnce(b *testing.B) {
	s, err := Open(b.TempDir(), Options{AppendFsync: SyncNo, SnapshotGrowth: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.AlterScript(seedScript); err != nil {
		b.Fatal(err)
	}
	mids := fill(b, s, 100_000, 3)
	for _, depth := range []int{1, 64} {
		for _, number := range []bool{false, true} {
			b.Run(fmt.Sprintf("depth=%d/numbered=%v", depth, number), func(b *testing.B) {
				batch := s.NewBatch()
				producer, hint, at := []byte("a-producer-of-20-byt"), uint32(0), 0
				_, seq, _ := lastOf(b, s, producer)
				b.ReportAllocs()
				from, began := s.data.Log.Position(), cpuTime(b)
				for i := 0; i < b.N; i += depth {
					if err := batch.Begin(); err != nil {
						b.Fatal(err)
					}
					batch.Reset()
					def := batch.Schema().Counters()[0]
					for range depth {
						op := batch.Next()
						op.Kind, op.Counter, op.Column, op.Mid, op.Arg = OpAdd, def, 1, mids[at%len(mids)], 1
						at += 7919
						if number {
							o, _ := batch.Once(batch.Len() - 1)
							seq++
							o.Producer, o.Seq, o.Hash, o.Hint = producer, seq, uint32(at), hint
						}
					}
					batch.Run()
					if number {
						hint = batch.OnceAt(0).Hint
					}
					batch.End()
					if err := batch.Commit(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(s.data.Log.Position()-from)/float64(b.N), "logB/op")
			})
		}
	}
}

// lastOf is Producers.Last in a batch of its own.
func lastOf(t testing.TB, s *Store, producer []byte) (ok bool, seq uint64, err error) {
	t.Helper()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	seq, ok, err = b.Producers().Last(producer)
	return ok, seq, err
}

// Scenario: large changes keep all other batches waiting.

package counter

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/counterd/counterd/schema"
)

// BenchmarkLargeChange makes changes of 10,000 posts in one piece. It reports the median of the processor time of a change while others
// wait for it, in microseconds.
func BenchmarkLargeChange(b *testing.B) {
	const posts, changed = 300_000, 10_000
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	s.tiers.Stop()
	if err := s.AlterScript(seedScript); err != nil {
		b.Fatal(err)
	}
	mids := fillRows(b, s, posts, 1, (*stream).together)
	def := s.Schema().Counter("weibo")
	rng := rand.New(rand.NewPCG(1, 1))
	some := func(kind OpKind) (ops []Op) {
		for _, i := range rng.Perm(posts)[:changed] {
			ops = append(ops, Op{Kind: kind, Counter: def, Mid: mids[i], Arg: 1})
		}
		return ops
	}
	run := func(bt *Batch, begin func() error, ops []Op, set bool) int64 {
		bt.Reset()
		bt.Grow(len(ops))
		for _, op := range ops {
			bt.Add(op)
		}
		if set {
			bt.ChangeSet(0)
		}
		bt.Locate(s.Schema(), func() {})
		if err := begin(); err != nil {
			b.Fatal(err)
		}
		began := threadTime(b)
		bt.Run()
		bt.End()
		took := threadTime(b) - began
		if err := bt.Commit(); err != nil {
			b.Fatal(err)
		}
		return took
	}
	bt := s.NewBatch()
	for name, once := range map[string]func() int64{
		"exec": func() int64 { return run(bt, bt.BeginExclusive, some(OpAdd), false) },
		"mset": func() int64 { return run(bt, bt.Begin, some(OpSet), true) },
		"del": func() int64 {
			ops := some(OpDelete)
			took := run(bt, bt.Begin, ops, true)
			for i := range ops {
				ops[i].Kind = OpSet
			}
			run(bt, bt.Begin, ops, true)
			return took
		},
		"update": func() int64 {
			u, err := NewUpdate(Query{Counter: def, To: schema.MaxMid, Limit: changed}, []Change{{Kind: OpAdd, Column: 0, Arg: 1}}, ReturnNew)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.steps(u.Gather, func() bool { return true }); err != nil {
				b.Fatal(err)
			}
			if err := bt.BeginExclusive(); err != nil {
				b.Fatal(err)
			}
			began := threadTime(b)
			if err := u.Apply(bt); err != nil || u.Changed() != changed {
				b.Fatal(u.Changed(), err)
			}
			bt.End()
			took := threadTime(b) - began
			if err := bt.Commit(); err != nil {
				b.Fatal(err)
			}
			return took
		},
	} {
		b.Run("kind="+name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took []float64
			for range max(b.N, 15) {
				took = append(took, float64(once())/1000)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "median-us")
			b.ReportMetric(took[0], "least-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

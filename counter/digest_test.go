package counter

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// TestDigestParts: stores with the same items and other blocks and tiers have the same sums in all parts of all ranges;
// one that differs in one column of one item is told apart by that part alone, down to the item.
func TestDigestParts(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	t.Logf("-seed=%d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 5))
	const lo, end = uint64(0), uint64(1) << 63
	var stores [2]*Store
	mids := make([]uint64, 5000)
	for i, ids := 0, newStream(*seed); i < len(mids); i++ {
		mids[i] = ids.next()
	}
	mids[0], mids[1] = 0, end-1
	for i, items := range []int{64, 500} {
		s, err := Open(t.TempDir(), Options{BlockItems: items, Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores[i] = s
		if err := s.AlterScript(seedScript); err != nil {
			t.Fatal(err)
		}
		for j, mid := range mids {
			if _, err := s.Incr(fmt.Sprintf("%d.cntcm", mid), int64(j%70_000)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 20 {
		if err := stores[i%2].Admin().Demote("weibo", mids[2+rng.IntN(2000)]); err != nil {
			t.Fatal(err)
		}
	}
	digests := func(s *Store, lo, hi uint64, parts int) []Digest {
		t.Helper()
		d, err := s.Admin().Digests("weibo", lo, hi, parts)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	differing := func(lo, hi uint64, parts int) (which []int) {
		t.Helper()
		a, b := digests(stores[0], lo, hi, parts), digests(stores[1], lo, hi, parts)
		for i := range a {
			if a[i] != b[i] {
				which = append(which, i)
			}
		}
		return which
	}
	for range 30 {
		parts := 1 + rng.IntN(MaxDigestParts)
		x, y := mids[2+rng.IntN(len(mids)-2)], mids[2+rng.IntN(len(mids)-2)]
		x, y = min(x, y), max(x, y)
		if d := differing(x, y, parts); d != nil {
			t.Errorf("[%d,%d) in %d parts: the same items differ in %v", x, y, parts, d)
		}
		var sum Digest
		at := x
		for i, d := range digests(stores[0], x, y, parts) {
			from, to := DigestPart(x, y, parts, i)
			if from != at || to < from {
				t.Fatalf("[%d,%d) part %d of %d is [%d,%d), want it to begin at %d", x, y, i, parts, from, to, at)
			}
			at = to
			if one := digests(stores[1], from, to, 1)[0]; i < 5 && one != d {
				t.Errorf("[%d,%d): %v as a part and %v alone", from, to, d, one)
			}
			sum.Items += d.Items
			sum.Sum += d.Sum
		}
		if whole := digests(stores[1], x, y, 1)[0]; at != y || whole != sum {
			t.Errorf("[%d,%d): the parts end at %d and are %v, the whole is %v", x, y, at, sum, whole)
		}
	}
	if whole := digests(stores[0], lo, end, 1)[0]; whole.Items != uint64(len(mids)) {
		t.Errorf("%d items, want %d", whole.Items, len(mids))
	}

	planted := mids[rng.IntN(len(mids))]
	if _, err := stores[1].Incr(fmt.Sprintf("%d.cntan", planted), 1); err != nil {
		t.Fatal(err)
	}
	from, to, rounds := lo, end, 0
	for to-from > 1 {
		d := differing(from, to, 256)
		if len(d) != 1 {
			t.Fatalf("[%d,%d): parts %v differ, want one", from, to, d)
		}
		from, to = DigestPart(from, to, 256, d[0])
		rounds++
	}
	if from != planted || rounds > 8 {
		t.Errorf("found %d in %d rounds, want %d in 8 at most", from, rounds, planted)
	}
}

// TestDigestKnowsNoIDs: items that are equal have equal sums, whatever was dropped before and in which order the
// columns came; values that change places, within an item or between two, do not.
func TestDigestKnowsNoIDs(t *testing.T) {
	open := func(script string, commands ...string) Digest {
		s, err := Open("", Options{Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.AlterScript(script); err != nil {
			t.Fatal(err)
		}
		for _, key := range commands {
			if _, err := s.Incr(key, 5); err != nil {
				t.Fatal(err)
			}
		}
		d, err := s.Admin().Digests("c", 0, 1<<63, 1)
		if err != nil {
			t.Fatal(err)
		}
		return d[0]
	}
	const a, b = "add column c a hint=4 max=9\n", "add column c b hint=8 max=9\n"
	want := open("add counter c\n"+a+b, "7.a", "7.a", "8.b")
	for name, script := range map[string]string{
		"a column dropped":  "add counter c\nadd column c x hint=4\n" + a + "drop column c x\n" + b,
		"a counter dropped": "add counter x\nadd counter c\ndrop counter x\n" + a + b,
		"dropped and added": "add counter c\n" + a + b + "drop column c a\n" + a,
	} {
		if got := open(script, "7.a", "7.a", "8.b"); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for name, keys := range map[string][]string{
		"the other column": {"7.b", "7.b", "8.b"}, "the other item": {"8.a", "8.a", "7.b"}, "within items": {"7.b", "7.b", "8.a"}, "one less": {"7.a", "8.b"},
	} {
		if got := open("add counter c\n"+a+b, keys...); got == want {
			t.Errorf("%s: got the same sum %v", name, got)
		}
	}
}

// BenchmarkDigest reads all items, in memory and in cold files.
func BenchmarkDigest(b *testing.B) {
	for _, tier := range []string{TierHot, TierCold} {
		b.Run(tier, func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{Manual: true})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if err := s.AlterScript(seedScript); err != nil {
				b.Fatal(err)
			}
			batch, ids := s.NewBatch(), newStream(1)
			def := s.Schema().Counter("weibo")
			for range *benchItems / 1000 {
				if err := batch.Begin(); err != nil {
					b.Fatal(err)
				}
				for range 1000 {
					batch.Add(Op{Kind: OpAdd, Counter: def, Mid: ids.next(), Arg: 3})
				}
				batch.Run()
				batch.End()
				batch.Reset()
			}
			if tier == TierCold {
				for _, blk := range s.spaces[def.ID][0].Dir.Load().Blocks {
					if !blk.Open() {
						if err := s.Admin().Demote("weibo", blk.Lo); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			for b.Loop() {
				if _, err := s.Admin().Digests("weibo", 0, 1<<63, 256); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(*benchItems), "ns/item")
		})
	}
}

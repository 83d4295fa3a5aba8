package toplist

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// world is posts as they are, and a list that is told of their changes as its owner tells it: only of those that it Reaches.
type world struct {
	posts map[uint64]uint64
	list  *List
	notes Notes
}

func (w *world) set(mid, value uint64) {
	old := w.posts[mid]
	w.posts[mid] = value
	if w.list.Reaches(old) || w.list.Reaches(value) {
		w.notes.Add(w.list, mid, value)
	}
}

func (w *world) delete(mid uint64) {
	if _, here := w.posts[mid]; !here {
		return
	}
	delete(w.posts, mid)
	if w.list.Takes() {
		w.notes.Gone(w.list, mid)
	}
}

// best are the best k of all posts.
func (w *world) best(k int) []Entry {
	var all []Entry
	for mid, value := range w.posts {
		all = append(all, Entry{value, mid})
	}
	slices.SortFunc(all, best)
	return all[:min(k, len(all))]
}

// check compares what the list knows with all posts, and its invariants.
func (w *world) check(t *testing.T) {
	t.Helper()
	l := w.list
	for k := 1; k <= 3*l.Want+2; k++ {
		if got, _, ok := l.Top(k); ok && !slices.Equal(got, w.best(k)) {
			t.Fatalf("the top %d: got %v, want %v", k, got, w.best(k))
		}
	}
	for _, e := range l.entries[:min(2, len(l.entries))] {
		var want []uint64
		for mid, value := range w.posts {
			if value >= e.Value {
				want = append(want, mid)
			}
		}
		slices.Sort(want)
		reaches := func(value uint64) bool { return value >= e.Value }
		got, _, ok := l.Reaching(reaches, 3*l.Want)
		if slices.Sort(got); ok && !slices.Equal(got, want) {
			t.Fatalf("of %d and more: got %v, want %v", e.Value, got, want)
		}
		if known := l.sure == (Entry{}) || l.sure != beyond && e.Value > l.sure.Value; ok != known {
			t.Fatalf("of %d and more: known %t, and sure is %v", e.Value, ok, l.sure)
		}
		if _, _, fewer := l.Reaching(reaches, len(want)-1); fewer {
			t.Fatalf("of %d and more: %d posts found", e.Value, len(want)-1)
		}
	}
	if len(l.entries) > 3*l.Want || len(l.at) != len(l.entries) {
		t.Fatalf("%d entries, %d places", len(l.entries), len(l.at))
	}
	for i, e := range l.entries {
		if l.at[e.Mid] != int32(i) || e.Below(l.least) {
			t.Fatalf("entry %d: %v at %d, least %v", i, e, l.at[e.Mid], l.least)
		}
	}
	if l.sure.Below(l.least) {
		t.Fatalf("sure %v is below least %v", l.sure, l.least)
	}
}

// TestListModel: random changes of few posts with few values, beside builds that look at the posts one after the other, and which end well, badly or
// are overtaken by a reset.
func TestListModel(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := rand.New(rand.NewPCG(seed.Of(t), 1))
	known, short := 0, 0
	for range 150 {
		w := &world{posts: map[uint64]uint64{}, list: New(1, 0, 1+rng.IntN(5))}
		mids := 2 + rng.Uint64N(60)
		values := 1 + rng.Uint64N(40)
		change := func() {
			for range 1 + rng.IntN(3) {
				if mid := rng.Uint64N(mids); rng.IntN(5) == 0 {
					w.delete(mid)
				} else {
					w.set(mid, rng.Uint64N(values))
				}
			}
			w.notes.Tell(uint64(rng.IntN(1000)))
		}
		for range 60 {
			for range rng.IntN(20) {
				change()
				w.check(t)
			}
			if _, _, ok := w.list.Top(w.list.Want); ok {
				known++
			} else if short++; !w.list.Short() {
				t.Fatal("the list does not know its best, and is not short")
			}
			switch rng.IntN(8) {
			case 0:
				w.list.Reset()
			case 1:
				from := rng.Uint64N(mids)
				for mid := range w.posts {
					if mid >= from && mid < from+9 {
						delete(w.posts, mid)
					}
				}
				w.list.Remove(1, func(mid uint64) bool { return mid >= from && mid < from+9 })
			}
			if !w.list.Short() && rng.IntN(4) > 0 {
				continue
			}
			w.build(t, rng, change)
			w.check(t)
		}
	}
	if known < 1000 || short < 500 {
		t.Errorf("the list knew its best %d times, and did not %d times", known, short)
	}
}

// build looks at all posts as a builder does: each at its own time.
func (w *world) build(t *testing.T, rng *rand.Rand, change func()) {
	number := w.list.Build()
	w.check(t)
	k := 2 * w.list.Want
	if rng.IntN(3) == 0 {
		for range rng.IntN(30) {
			change()
		}
	}
	found := w.best(k) // a scan ranks each post by a value that it had
	for range rng.IntN(10) {
		change()
	}
	overtaken := rng.IntN(8) == 0
	for i, e := range found {
		if overtaken && i == len(found)/2 {
			w.list.Reset()
		}
		if value, here := w.posts[e.Mid]; here {
			w.list.Add(Entry{value, e.Mid}, 5)
		}
		if rng.IntN(2) == 0 {
			change()
			w.check(t)
		}
	}
	if rng.IntN(8) == 0 {
		w.list.Abandon(number)
		return
	}
	from := Entry{}
	if len(found) == k {
		from = found[k-1]
	}
	if done := w.list.Done(number, from, 5); done == (overtaken && len(found) > 0) {
		t.Fatalf("done: %v, and it was overtaken: %v", done, overtaken)
	}
}

// TestListSlack: a full list bears as many deletions as it has more than it needs, and is short with the next.
func TestListSlack(t *testing.T) {
	w := &world{posts: map[uint64]uint64{}, list: New(1, 0, 100)}
	number := w.list.Build()
	for mid := range uint64(1000) {
		w.set(mid, mid)
	}
	w.notes.Tell(7)
	if !w.list.Done(number, Entry{800, 800}, 6) || w.list.Short() {
		t.Fatal("short")
	}
	if w.list.Reaches(700) || !w.list.Reaches(900) {
		t.Error("the list does not know what it keeps")
	}
	for mid := uint64(999); mid > 899; mid-- {
		w.delete(mid)
		if w.notes.Tell(8) {
			t.Fatalf("short with %d", mid)
		}
	}
	if top, seen, ok := w.list.Top(100); !ok || seen != 8 || !slices.Equal(top, w.best(100)) {
		t.Errorf("got %v, %d, %v", top, seen, ok)
	}
	w.delete(899)
	if !w.notes.Tell(9) || !w.list.Short() {
		t.Error("not short")
	}
	if _, _, ok := w.list.Top(100); ok {
		t.Error("it knows 100")
	}
	if top, _, ok := w.list.Top(99); !ok || !slices.Equal(top, w.best(99)) {
		t.Errorf("got %v, %v", top, ok)
	}
}

// TestSelectBest: the best k of all, in any order, with many equal values.
func TestSelectBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 2))
	for range 3000 {
		all := make([]Entry, 1+rng.IntN(300))
		for i := range all {
			all[i] = Entry{rng.Uint64N(20), uint64(i)}
			if rng.IntN(2) == 0 {
				all[i].Mid = rng.Uint64N(400) << 9
			}
		}
		want := slices.Clone(all)
		slices.SortFunc(want, best)
		k := 1 + rng.IntN(len(all))
		if got := pick(all, k); !slices.Equal(got, want[:k]) {
			t.Fatalf("the best %d: got %v, want %v", k, got, want[:k])
		}
	}
}

// BenchmarkListMemory reports the bytes of a full list for each post that it is for.
func BenchmarkListMemory(b *testing.B) {
	const want = 10_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		l := New(1, 0, want)
		l.Build()
		var n Notes
		for mid := range uint64(10 * want) {
			n.Add(l, mid, mid)
			if mid%64 == 0 {
				n.Tell(0)
			}
		}
		b.ReportMetric(float64(heap()-before)/want, "B/post")
		runtime.KeepAlive(l)
	}
}

// Scenario: producers reach the limits of memory, of numbers and of retention.

package producers

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/counterd/counterd/persist/format"
)

// begin is Begin with a Try of its own.
func begin(t *Table, r *Request) (y Try) {
	t.Begin(r, &y)
	return y
}

// put has a request made, as far as the table takes it.
func put(t testing.TB, tab *Table, r *Request, result format.Result) Try {
	t.Helper()
	try := begin(tab, r)
	if try.Verdict == Fresh {
		tab.Insert(r, &try, result, 7, 0)
	}
	return try
}

func request(id string, seq uint64, now int64) *Request {
	return &Request{ID: []byte(id), Seq: seq, Hash: uint32(seq), Now: now}
}

// heap is the live memory in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemory: producers are charged at least the memory that they take, and the limits of a server keep them.
func TestMemory(t *testing.T) {
	const budget = 64 << 20
	limits := Limits{Producers: 10000, Bytes: budget, MinIdle: 600}
	blob := make([]byte, 150)
	for name, c := range map[string]struct {
		ids, seqs int
		result    format.Result
	}{
		"numbers":     {10000, Window + 9, format.Result{Kind: format.ResultInt, N: 1 << 40}},
		"few seqs":    {10000, 3, format.Result{Kind: format.ResultOK}},
		"blobs":       {10000, Window / 2, format.Result{Kind: format.ResultBlob, Blob: blob}},
		"large blobs": {20, Window, format.Result{Kind: format.ResultBlob, Blob: make([]byte, format.MaxResult)}},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			tab := New(limits)
			verdicts := map[Verdict]int{}
			for seq := range c.seqs {
				for id := range c.ids {
					r := request(fmt.Sprintf("producer-with-an-id-of-32-b-%05d", id), uint64(seq), 1000)
					r.Room = len(c.result.Blob)
					verdicts[put(t, tab, r, c.result).Verdict]++
				}
			}
			used := heap() - before
			t.Logf("%d producers, %v: %d MiB used, %d MiB charged, image %d MiB", tab.Len(), verdicts, used>>20, tab.Bytes()>>20, len(tab.AppendImage(nil))>>20)
			if used > tab.Bytes()+1<<20 || used > budget || tab.Bytes() > budget {
				t.Errorf("%d bytes used, %d charged, want at most %d", used, tab.Bytes(), budget)
			}
			if full := verdicts[Full] > 0; full != (c.result.Kind == format.ResultBlob) {
				t.Errorf("verdicts %v", verdicts)
			}
			must(t, tab.check())
		})
	}
}

// TestPlaces: a new producer replaces the producer that was idle for longest, after MinIdle and no sooner.
func TestPlaces(t *testing.T) {
	tab := New(Limits{Producers: 3, Bytes: 1 << 20, MinIdle: 600})
	for i, id := range []string{"a", "b", "c"} {
		if try := put(t, tab, request(id, 1, int64(i)), format.Result{Kind: format.ResultOK}); try.Number != uint32(i) || !try.Define {
			t.Fatalf("%s: %+v", id, try)
		}
	}
	put(t, tab, request("a", 2, 100), format.Result{Kind: format.ResultOK})
	if try := begin(tab, request("b", 1, 150)); try.Verdict != Repeat { // a repeat is a use
		t.Fatalf("%+v", try)
	}
	if try := begin(tab, request("d", 1, 601)); try.Verdict != Full || try.OfBytes {
		t.Fatalf("c was idle for 599 s: %+v", try)
	}
	if try := begin(tab, request("a", 3, 601)); try.Verdict != Fresh {
		t.Fatalf("a has a place: %+v", try)
	}
	try := put(t, tab, request("d", 1, 602), format.Result{Kind: format.ResultOK})
	if try.Verdict != Fresh || try.Number != 2 || len(try.Forget) != 0 {
		t.Fatalf("%+v", try)
	}
	if _, _, ok := tab.Last([]byte("c")); ok {
		t.Fatal("c is known still")
	}
	tab.SetLimits(Limits{Producers: 2, Bytes: 1 << 20, MinIdle: 600})
	if tab.Len() != 3 {
		t.Fatal("a lower limit took one away")
	}
	try = put(t, tab, request("e", 1, 2000), format.Result{Kind: format.ResultOK}) // 2 places too many
	if try.Verdict != Fresh || try.Number != 0 || len(try.Forget) != 1 || try.Forget[0] != 1 || tab.Len() != 2 {
		t.Fatalf("%+v, %d producers", try, tab.Len())
	}
	must(t, tab.check())
}

// TestClockSetBack: a producer that was used in the future is idle some time.
func TestClockSetBack(t *testing.T) {
	tab := New(Limits{Producers: 1, Bytes: 1 << 20, MinIdle: 600})
	put(t, tab, request("a", 1, 1<<40), format.Result{Kind: format.ResultOK})
	if try := begin(tab, request("b", 1, 1000)); try.Verdict != Full {
		t.Fatalf("%+v", try)
	}
	if try := begin(tab, request("b", 1, 1600)); try.Verdict != Fresh {
		t.Fatalf("%+v", try)
	}
}

// TestRun: a producer with 10,000 numbers in a row takes at most 0.2 bytes a number, and each of them is a repeat.
func TestRun(t *testing.T) {
	const ids, seqs = 50, 3*Numbers + 77
	tab := New(Limits{Producers: ids, Bytes: 1 << 30, MinIdle: 600})
	before := heap()
	for seq := range uint64(seqs) {
		for id := range ids {
			put(t, tab, request(fmt.Sprintf("producer-with-id-%04d", id), seq, 1000), format.Result{Kind: format.ResultInt, N: seq})
		}
	}
	used := heap() - before
	each, charged := float64(used)/ids/Numbers, float64(tab.Bytes())/ids/Numbers
	t.Logf("%.3f bytes a number, %.3f charged", each, charged)
	if each > 0.2 || charged > 0.2 {
		t.Errorf("%.3f bytes a number, %.3f charged, want at most 0.2", each, charged)
	}
	expired, gone, results := 0, 0, 0
	for seq := range uint64(seqs) {
		switch try := begin(tab, request("producer-with-id-0007", seq, 1000)); {
		case try.Verdict == Expired:
			expired++
		case try.Verdict != Repeat:
			t.Fatalf("%d: %+v", seq, try)
		case try.Result.Kind == format.ResultGone:
			gone++
		case try.Result.N == seq:
			results++
		}
	}
	if results != Window || gone+results < Numbers || gone+results > Numbers+blockSeqs || expired+gone+results != seqs {
		t.Errorf("%d results, %d without, %d expired", results, gone, expired)
	}
	must(t, tab.check())
	copyOf(t, tab)
}

// TestScattered: seqs that are far from each other take bounded memory, and the lowest expire.
func TestScattered(t *testing.T) {
	tab := New(Limits{Producers: 1, Bytes: 1 << 30, MinIdle: 600})
	for i := range uint64(2 * maxSpans) {
		put(t, tab, request("p", i*1000, 1000), format.Result{Kind: format.ResultOK})
	}
	p := tab.places[0]
	if p.made.count != maxSpans || p.made.lowest() != (2*maxSpans-Window-maxSpans)*1000 || p.cost() > 12<<10 {
		t.Errorf("%d seqs from %d on, %d bytes", p.made.count, p.made.lowest(), p.cost())
	}
	if try := begin(tab, request("p", 5000, 1000)); try.Verdict != Expired {
		t.Errorf("%+v", try)
	}
	if try := put(t, tab, request("p", p.made.lowest()+1, 1000), format.Result{Kind: format.ResultOK}); try.Verdict != Fresh {
		t.Errorf("a late seq: %+v", try)
	}
	must(t, tab.check())
	copyOf(t, tab)
}

// TestShed: a table without memory keeps its many idle producers: each loses its results, and none is forgotten
// before its time. A replica gets the same by the log.
func TestShed(t *testing.T) {
	const ids = 300
	tab := New(Limits{Producers: 10_000, Bytes: 300 << 10, MinIdle: 86400})
	verdicts := map[Verdict]int{}
	now := int64(1000)
	for id := range ids {
		for seq := range uint64(200) {
			now++
			verdicts[put(t, tab, request(fmt.Sprint("p", id), seq, now), format.Result{Kind: format.ResultInt, N: seq}).Verdict]++
		}
		if tab.Bytes() > 300<<10+4<<10 {
			t.Fatalf("%d bytes", tab.Bytes())
		}
	}
	must(t, tab.check())
	if verdicts[Fresh] != ids*200 || tab.Len() != ids || tab.Stats().Taken > 0 {
		t.Errorf("%v, %d producers", verdicts, tab.Len())
	}
	for id := range ids {
		if try := begin(tab, request(fmt.Sprint("p", id), 199, now)); try.Verdict != Repeat || try.Result.N != 199 {
			t.Errorf("the last number of %d: %+v", id, try)
		}
		if try := begin(tab, request(fmt.Sprint("p", id), 7, now)); try.Verdict != Expired && try.Verdict != Repeat {
			t.Errorf("an early number of %d: %+v", id, try)
		}
	}
	if try := begin(tab, request("p0", 7, now)); try.Verdict != Expired {
		t.Errorf("%+v", try)
	}
}

// TestShedIsNoUse: producers that lose their results are as idle in a table that gets the records as in the table of the primary. So their places are
// freed as soon behind a restart or a failover.
func TestShedIsNoUse(t *testing.T) {
	const ids = 40
	limits := Limits{Producers: 1000, Bytes: 64 << 10, MinIdle: 86400}
	tab, replica := New(limits), New(limits)
	shed := 0
	for id := range ids {
		for seq := range uint64(Window) {
			now := int64(1000*id) + int64(seq)
			r := request(fmt.Sprint("p", id), seq, now)
			try := put(t, tab, r, format.Result{Kind: format.ResultInt, N: seq})
			if try.Verdict != Fresh || len(try.Forget) > 0 {
				t.Fatalf("%+v", try)
			}
			for _, f := range try.Shed {
				shed++
				replica.Floor(f.Number, f.From)
			}
			if try.Define {
				must(t, replica.Define(try.Number, try.Epoch, try.Base, r.ID, now))
			}
			replica.Apply(try.Number, seq-try.Base, r.Hash, 7, format.Result{Kind: format.ResultInt, N: seq}, now)
		}
	}
	if got, want := replica.List(ids), tab.List(ids); shed < 3 || !slices.Equal(got, want) {
		t.Errorf("%d lost their results\n got %+v\nwant %+v", shed, got, want)
	}
	must(t, replica.check())
}

// TestBytes: producers that were idle for long make room for a known producer too; nothing else does.
func TestBytes(t *testing.T) {
	blob := format.Result{Kind: format.ResultBlob, Blob: make([]byte, 10000)}
	tab := New(Limits{Producers: 100, Bytes: 60000, MinIdle: 600})
	with := func(id string, seq uint64, now int64) *Request {
		r := request(id, seq, now)
		r.Room = len(blob.Blob)
		return r
	}
	for i, id := range []string{"a", "b", "c"} {
		if try := put(t, tab, with(id, 1, int64(i)), blob); try.Verdict != Fresh {
			t.Fatalf("%+v", try)
		}
	}
	bytes := tab.Bytes()
	for seq, now := uint64(2), int64(599); now < 601; now++ {
		try := begin(tab, with("c", seq, now))
		if now < 600 && (try.Verdict != Full || !try.OfBytes) || now == 600 && (try.Verdict != Fresh || len(try.Forget) != 0 || !slices.Equal(try.Shed, []Floor{{0, 2}})) {
			t.Fatalf("%d: %+v", now, try)
		}
	}
	if tab.Len() != 3 || tab.Bytes() != bytes {
		t.Fatal("Begin changed something")
	}
	put(t, tab, with("c", 2, 600), blob)
	if seq, _, ok := tab.Last([]byte("a")); !ok || seq != 1 || tab.Len() != 3 {
		t.Fatal("a is forgotten")
	}
	if try := begin(tab, with("a", 1, 650)); try.Verdict != Expired || try.Lowest != 2 {
		t.Fatalf("%+v", try)
	}
	larger := with("c", 3, 700)
	larger.Room = 14000
	if try := begin(tab, larger); try.Verdict != Fresh || !slices.Equal(try.Shed, []Floor{{1, 2}}) {
		t.Fatalf("%+v", try)
	}
	must(t, tab.check())
}

// TestBytesOfMany: producers that have nothing to lose are forgotten for a new one, after MinIdle and no sooner.
func TestBytesOfMany(t *testing.T) {
	tab := New(Limits{Producers: 1000, Bytes: 60000, MinIdle: 3600})
	ids := 0
	for ; put(t, tab, request(fmt.Sprint("p", ids), 1, 0), format.Result{Kind: format.ResultOK}).Verdict == Fresh; ids++ {
	}
	for _, now := range []int64{599, 600, 3599} {
		if try := begin(tab, request("new", 1, now)); try.Verdict != Full || !try.OfBytes {
			t.Fatalf("%d producers, at %d: %+v", ids, now, try)
		}
	}
	if try := put(t, tab, request("new", 1, 3600), format.Result{Kind: format.ResultOK}); try.Verdict != Fresh || try.Number != 0 || tab.Len() != ids {
		t.Fatalf("%d producers: %+v", ids, try)
	}
	tab.SetLimits(Limits{Producers: 1000, Bytes: 30000, MinIdle: 3600})
	if try := put(t, tab, request("new", 2, 3600), format.Result{Kind: format.ResultOK}); try.Verdict != Fresh || tab.Bytes() > 30000 {
		t.Fatalf("%d bytes: %+v", tab.Bytes(), try)
	}
	must(t, tab.check())
}

// TestBytesOfTheLongestIdle: a producer that needs room does not lose its own place for it.
func TestBytesOfTheLongestIdle(t *testing.T) {
	blob := format.Result{Kind: format.ResultBlob, Blob: make([]byte, 10000)}
	tab := New(Limits{Producers: 100, Bytes: 60000, MinIdle: 600})
	for i, id := range []string{"a", "b", "c"} {
		r := request(id, 1, int64(i))
		r.Room = len(blob.Blob)
		put(t, tab, r, blob)
	}
	r := request("a", 2, 5000)
	r.Room = 14000
	try := put(t, tab, r, blob)
	if try.Verdict != Fresh || len(try.Shed) == 0 || try.Shed[0].Number != 1 || len(try.Forget) > 0 || tab.Len() < 3 {
		t.Fatalf("%+v, %d producers", try, tab.Len())
	}
	if try := put(t, tab, request("a", 1, 5000), blob); try.Verdict != Repeat {
		t.Fatalf("%+v", try)
	}
	must(t, tab.check())
}

// TestBytesWithin: whatever a limit is lowered to, a change that is taken frees enough: results of idle producers first, then producers.
func TestBytesWithin(t *testing.T) {
	blob := format.Result{Kind: format.ResultBlob, Blob: make([]byte, 1000)}
	for limit := int64(60000); limit > 0; limit -= 500 {
		tab := New(Limits{Producers: 100, Bytes: 60000, MinIdle: 600})
		for i := range 30 {
			r := request(fmt.Sprint("p", i), 1, 0)
			r.Room = len(blob.Blob)
			put(t, tab, r, blob)
		}
		tab.SetLimits(Limits{Producers: 100, Bytes: limit, MinIdle: 600})
		if try := put(t, tab, request("new", 1, 5000), format.Result{Kind: format.ResultOK}); try.Verdict == Fresh && tab.Bytes() > limit {
			t.Errorf("%d bytes, want %d at most: %+v", tab.Bytes(), limit, try)
		}
		must(t, tab.check())
	}
}

// TestAllocations: a request of a known producer allocates nothing once its ring has its size.
func TestAllocations(t *testing.T) {
	tab := New(Limits{Producers: 10, Bytes: 1 << 20, MinIdle: 600})
	seq, now := uint64(0), int64(0)
	r := &Request{ID: []byte("6ba7b810-9dad-11d1-80b4-00c04fd4"), Hint: 5}
	next := func() {
		seq++
		now += 2
		r.Seq, r.Now = seq, now
		if try := put(t, tab, r, format.Result{Kind: format.ResultInt, N: seq}); try.Verdict != Fresh {
			t.Fatalf("%+v", try)
		}
		if try := begin(tab, r); try.Verdict != Repeat {
			t.Fatalf("%+v", try)
		}
	}
	for range Window {
		next()
	}
	if n := testing.AllocsPerRun(1000, next); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}

func BenchmarkInsert(b *testing.B) {
	for _, ids := range []int{1, 100, 10000} {
		for _, hinted := range []bool{false, true} {
			b.Run(fmt.Sprintf("producers=%d/hint=%v", ids, hinted), func(b *testing.B) {
				tab := New(Limits{Producers: 10000, Bytes: 64 << 20, MinIdle: 600})
				reqs := make([]*Request, ids)
				for i := range reqs {
					reqs[i] = request(fmt.Sprintf("6ba7b810-9dad-11d1-80b4-%08d", i), 0, 0)
					reqs[i].Hint = none
				}
				result := format.Result{Kind: format.ResultInt, N: 7}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					r := reqs[i%ids]
					r.Seq, r.Now = uint64(i/ids), int64(i>>20)
					try := begin(tab, r)
					if try.Verdict != Fresh {
						b.Fatal(try)
					}
					tab.Insert(r, &try, result, 7, 0)
					if hinted {
						r.Hint = try.Number
					}
					i++
				}
			})
		}
	}
}

// BenchmarkAppendImage is of a table as large as it can be: how long requests wait for a snapshot.
func BenchmarkAppendImage(b *testing.B) {
	tab := New(Limits{Producers: 10000, Bytes: 64 << 20, MinIdle: 600})
	for seq := range uint64(Window) {
		for id := range 10000 {
			put(b, tab, request(fmt.Sprintf("6ba7b810-9dad-11d1-80b4-%08d", id), 1<<40+seq, 0), format.Result{Kind: format.ResultInt, N: 1000 + seq})
		}
	}
	buf := make([]byte, 0, tab.ImageBytes())
	for b.Loop() {
		buf = tab.AppendImage(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}

// TestLinksHaveRoom: where producers of clients have filled the table, the links of a node that starts still get places and memory, up to a limit of their own.
func TestLinksHaveRoom(t *testing.T) {
	ok, blob := format.Result{Kind: format.ResultOK}, format.Result{Kind: format.ResultBlob, Blob: make([]byte, 4000)}
	t.Run("places", func(t *testing.T) {
		tab := New(Limits{Producers: 3, Bytes: 16 << 20, MinIdle: 600})
		for i := range 5 {
			if try := put(t, tab, request(fmt.Sprint("client", i), 1, 1), ok); try.Verdict == Full != (i >= 3) {
				t.Fatalf("producer %d of 3: %v", i, try.Verdict)
			}
		}
		for i := range linkPlaces + 2 {
			if try := put(t, tab, request(fmt.Sprint("link:a:", i), 1, 2), ok); try.Verdict == Full != (i >= linkPlaces) {
				t.Fatalf("link %d of %d: %v", i, linkPlaces, try.Verdict)
			}
		}
		if try := put(t, tab, request("client6", 1, 3), ok); try.Verdict != Full {
			t.Errorf("a producer beside the links: %v", try.Verdict)
		}
		if try := put(t, tab, request("client7", 1, 601), ok); try.Verdict != Fresh || tab.Len() != 3+linkPlaces {
			t.Errorf("a producer in the place of one that is idle: %+v, %d producers", try, tab.Len())
		}
		must(t, tab.check())
	})
	t.Run("memory", func(t *testing.T) {
		tab := New(Limits{Producers: 1000, Bytes: 1 << 20, MinIdle: 600})
		steady := uint64(1)
		count := func() Verdict { steady++; return put(t, tab, request("steady", steady, 1), ok).Verdict }
		for range 10 * Window { // it grows no more
			count()
		}
		filled := false
		for seq := uint64(1); !filled && seq < 1000; seq++ {
			for _, id := range []string{"a", "b", "c", "d"} {
				r := request(id, seq, 1)
				r.Room = len(blob.Blob)
				filled = put(t, tab, r, blob).Verdict == Full || filled
			}
		}
		if !filled {
			t.Fatal("the table is not full")
		}
		if v := count(); v != Fresh {
			t.Fatalf("a client that needs no memory: %v", v)
		}
		for link := range 60 {
			for seq := range uint64(3 * Window) {
				if try := put(t, tab, request(fmt.Sprint("link:a:", link), seq, 2), ok); try.Verdict != Fresh {
					t.Fatalf("change %d of link %d: %+v", seq, link, try)
				}
			}
		}
		if v := count(); v != Fresh || tab.Bytes() <= 1<<20 {
			t.Errorf("a client that needs no memory, beside links above the limit, of %d bytes in all: %v", tab.Bytes(), v)
		}
		must(t, tab.check())
	})
	limits := Limits{Producers: 10, Bytes: 16 << 20, MinIdle: 600, links: 3, linkBytes: 1 << 20}
	fill := func(tab *Table, kind string, from, to int, now int64) {
		for i := from; i < to; i++ {
			if try := put(t, tab, request(fmt.Sprint(kind, i), 1, now), ok); try.Verdict != Fresh {
				t.Fatalf("%s%d at %d: %v", kind, i, now, try.Verdict)
			}
		}
	}
	t.Run("idle links above the share", func(t *testing.T) {
		tab := New(limits)
		fill(tab, "link:", 0, 13, 1) // with the places of clients
		if try := put(t, tab, request("a", 1, 600), ok); try.Verdict != Full {
			t.Errorf("beside links that are not idle: %v", try.Verdict)
		}
		fill(tab, "client", 0, 10, 601)
		if try := put(t, tab, request("a", 1, 602), ok); try.Verdict != Full || tab.Len() != 13 {
			t.Errorf("client 11: %v, %d producers", try.Verdict, tab.Len())
		}
		must(t, tab.check())
	})
	t.Run("idle links within the share", func(t *testing.T) {
		tab := New(limits)
		fill(tab, "link:", 0, 3, 1)
		fill(tab, "client", 0, 10, 2)
		fill(tab, "new", 0, 1, 602)
		for i := range 3 {
			if try := begin(tab, request(fmt.Sprint("link:", i), 1, 602)); try.Verdict != Repeat {
				t.Errorf("link %d was forgotten for a client: %v", i, try.Verdict)
			}
		}
		must(t, tab.check())
	})
	t.Run("limit lowered", func(t *testing.T) {
		tab := New(limits)
		fill(tab, "client", 0, 10, 1)
		limits := limits
		limits.Producers = 2
		tab.SetLimits(limits)
		fill(tab, "link:", 0, 3, 2)
		if try := put(t, tab, request("link:3", 1, 2), ok); try.Verdict != Full {
			t.Errorf("a link above the share: %v", try.Verdict)
		}
		must(t, tab.check())
	})
}

// Scenario: producers reach the limits of memory, of numbers and of retention.

package producers

import (
	"fmt"
	"runtime"
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

// TestMemory: producers are charged at least the memory that they take, and the limits of a server keep them in 64 MiB.
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
		if now < 600 && (try.Verdict != Full || !try.OfBytes) || now == 600 && (try.Verdict != Fresh || len(try.Forget) != 1 || try.Forget[0] != 0) {
			t.Fatalf("%d: %+v", now, try)
		}
	}
	if tab.Len() != 3 || tab.Bytes() != bytes {
		t.Fatal("Begin changed something")
	}
	put(t, tab, with("c", 2, 600), blob)
	if _, _, ok := tab.Last([]byte("a")); ok || tab.Len() != 2 {
		t.Fatal("a is known still")
	}
	larger := with("c", 3, 700)
	larger.Room = 14000
	if try := begin(tab, larger); try.Verdict != Fresh || len(try.Forget) != 1 || try.Forget[0] != 1 {
		t.Fatalf("%+v", try)
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
	if try.Verdict != Fresh || len(try.Forget) == 0 || try.Forget[0] != 1 || tab.Len() < 2 {
		t.Fatalf("%+v, %d producers", try, tab.Len())
	}
	if try := put(t, tab, request("a", 1, 5000), blob); try.Verdict != Repeat {
		t.Fatalf("%+v", try)
	}
	must(t, tab.check())
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

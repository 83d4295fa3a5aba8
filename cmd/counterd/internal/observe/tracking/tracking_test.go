package tracking

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/schema"
)

// posts is a store with a counter of two columns.
func posts(t testing.TB) (*counter.Store, *schema.Counter) {
	t.Helper()
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=16 max=32 suffix=cntcm\nadd column weibo repost hint=16 max=32 suffix=cntrn\n"); err != nil {
		t.Fatal(err)
	}
	return store, store.Schema().Counters()[0]
}

// TestInboxIsBounded: a client that reads nothing has an inbox of 1 MiB at most, and gets null instead of more; later
// messages follow it.
func TestInboxIsBounded(t *testing.T) {
	_, def := posts(t)
	var table Table
	woken := 0
	c := NewClient(1, func() { woken++ })
	b := NewClient(2, func() {})
	if err := table.Enable(c, Mode{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := table.Enable(b, Mode{Broadcast: true}, nil, []string{"weibo:"}); err != nil {
		t.Fatal(err)
	}
	read := func(mid uint64) {
		table.Remember(c, schema.Key{Counter: def, Col: 0, Mid: mid}, fmt.Appendf(nil, "%d.cntcm", mid))
	}
	for mid := range uint64(40_000) {
		read(mid)
		table.TouchItems(def, []uint64{mid}, nil)
		if p := max(c.Pending(), b.Pending()); p > maxInbox {
			t.Fatalf("%d bytes wait", p)
		}
	}
	read(7)
	table.TouchItems(def, []uint64{7}, nil)
	told, _ := c.Take()
	if !told.All || told.Keys[len(told.Keys)-1] != "7.cntcm" || woken == 0 {
		t.Errorf("told all: %v, of %d keys, woken %d times", told.All, len(told.Keys), woken)
	}
	if told, _ := b.Take(); !told.All || len(told.Groups) != 1 || !slices.Contains(told.Groups[0], "weibo:{7}.cntrn") {
		t.Errorf("in BCAST mode told all: %v, and %d groups", told.All, len(told.Groups))
	}
	for range 1000 { // one key again and again is one
		table.TouchItems(def, []uint64{9}, nil)
	}
	if told, _ := b.Take(); told.All || len(told.Groups) != 1 || len(told.Groups[0]) != 6 {
		t.Errorf("a post that changes often is told as %v", told)
	}
	table.End(c)
	table.End(b)
	if f := table.Sizes(); f != (Sizes{}) {
		t.Errorf("%+v is left", f)
	}
}

// TestTableRaces: clients read, change, come and go at the same time, under a limit and without; in the end the table has
// their keys and no other, and none of the clients that are gone.
func TestTableRaces(t *testing.T) {
	_, def := posts(t)
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	var table Table
	table.SetLimit(300)
	var all sync.WaitGroup
	var told atomic.Int64
	for i := range 6 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			c := NewClient(int64(i), func() { told.Add(1) })
			mode := Mode{Broadcast: i%3 == 0, NoLoop: i%2 == 0}
			for range 2000 {
				mid := rng.Uint64N(200)
				switch rng.IntN(40) {
				case 0:
					table.TouchAll()
				case 1:
					table.End(c)
					c = NewClient(int64(i), func() { told.Add(1) })
				case 2:
					table.Disable(c)
				case 3:
					c.Take()
				case 4, 5, 6, 7, 8, 9:
					table.TouchItems(def, []uint64{mid, mid + 1}, c)
				case 10:
					table.SetLimit([]int{0, 100, 300}[rng.IntN(3)])
				default:
					if !c.State().On {
						if err := table.Enable(c, mode, nil, nil); err != nil {
							t.Error(err)
						}
					}
					if !mode.Broadcast {
						table.Remember(c, schema.Key{Counter: def, Col: int(mid % 2), Mid: mid}, fmt.Appendf(nil, "%d.x", mid))
					}
				}
			}
			table.End(c)
		})
	}
	all.Wait()
	f := table.Sizes()
	table.TouchAll() // no client is left: the keys that a clear in the middle left go too
	if f.Clients != 0 || f.Prefixes != 0 || told.Load() == 0 {
		t.Errorf("%+v is left", f)
	}
	n := 0
	for i := range table.shards {
		for _, list := range table.shards[i].items {
			n += len(list)
		}
	}
	if n != f.Keys {
		t.Errorf("%d keys are counted, there are %d", f.Keys, n)
	}
}

// TestKeySize: a key takes what the documentation says.
func TestKeySize(t *testing.T) {
	_, def := posts(t)
	var table Table
	c := NewClient(1, func() {})
	if err := table.Enable(c, Mode{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const keys = 50_000
	for mid := range uint64(keys) {
		table.Remember(c, schema.Key{Counter: def, Col: 0, Mid: 4_000_000_000_000_000 + mid*977}, fmt.Appendf(nil, "%d.cntcm", 4_000_000_000_000_000+mid*977))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if size := float64(after.HeapAlloc-before.HeapAlloc) / keys; size > 350 || size < 100 {
		t.Errorf("a key takes %.0f bytes", size)
	} else {
		t.Logf("a key takes %.0f bytes", size)
	}
	runtime.KeepAlive(&table)
}

// TestNames: what is told in BCAST mode are keys of the post, and all forms that there are.
func TestNames(t *testing.T) {
	store, def := posts(t)
	sch := store.Schema()
	var buf []byte
	var got []string
	names(&buf, def, 7, 1<<1, func(name []byte) {
		got = append(got, string(name))
		k, ok := sch.ParseKey(name)
		if !ok || k.Mid != 7 || k.Counter != def || k.Col != schema.WholeItem && k.Col != 1 {
			t.Errorf("%s is %+v, %v", name, k, ok)
		}
	})
	const want = "7 7.cntrn weibo:7 weibo:7.cntrn {7} {7}.cntrn {weibo:7} {weibo:7}.cntrn weibo:{7} weibo:{7}.cntrn"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	testseed "github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

var seed = testseed.Value

func newRand(t testing.TB) *rand.Rand {
	t.Logf("replay with -seed=%d", *seed)
	return rand.New(rand.NewPCG(*seed, 0))
}

func open(t testing.TB, opts Options, script string) *Store {
	t.Helper()
	return openDir(t, "", opts, script)
}

func openDir(t testing.TB, dir string, opts Options, script string) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.AlterScript(script); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConcurrent increments from many goroutines, with tiny blocks that split all the time, while columns come and go
// and scans run. Sums must be exact, scans must see everything that was there throughout.
func TestConcurrent(t *testing.T) {
	rng := newRand(t)
	s := open(t, Options{BlockItems: 100}, "add counter a\nadd column a v hint=2 max=40 suffix=v")
	const writers, rounds = 4, 4000
	steady := map[uint64]bool{}
	for range 500 {
		mid := rng.Uint64N(1 << 30)
		steady[mid] = true
		if err := s.Set(fmt.Sprintf("%d.v", mid), 0); err != nil {
			t.Fatal(err)
		}
	}
	keys := slices.Sorted(maps.Keys(steady))
	var done atomic.Bool
	var writing, others sync.WaitGroup
	for w := range writers {
		writing.Add(1)
		rng := rand.New(rand.NewPCG(*seed, uint64(w)+1))
		go func() {
			defer writing.Done()
			b := s.NewBatch()
			for range rounds {
				if err := b.Begin(); err != nil {
					t.Error(err)
					return
				}
				b.Reset()
				c := b.Schema().Counter("a")
				col, _ := c.Field([]byte("v"))
				b.Add(Op{Kind: OpAdd, Counter: c, Column: int16(col), Mid: keys[rng.IntN(len(keys))], Arg: 1})
				b.Add(Op{Kind: OpAdd, Counter: c, Column: int16(col), Mid: 1<<31 + rng.Uint64N(1<<30), Arg: 1})
				b.Run()
				if b.Op(0).Err != nil || b.Op(1).Err != nil {
					t.Errorf("got errors %v, %v", b.Op(0).Err, b.Op(1).Err)
				}
				b.End()
			}
		}()
	}
	others.Add(2)
	go func() {
		defer others.Done()
		for i := 0; !done.Load(); i++ {
			for _, line := range []string{"add column a x%[1]d hint=8 max=8 default=3 suffix=x%[1]d", "drop column a x%[1]d"} {
				if err := s.AlterScript(fmt.Sprintf(line, i%7)); err != nil {
					t.Errorf("%s: %v", line, err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		}
	}()
	go func() {
		defer others.Done()
		for !done.Load() {
			seen := map[uint64]int{}
			b := s.NewBatch()
			for cursor, first := uint64(0), true; first || cursor != 0; first = false {
				if err := b.Begin(); err != nil {
					t.Error(err)
					return
				}
				var items []ScanItem
				items, cursor, _ = NewReader(b).Scan(nil, cursor, 10)
				b.End()
				for _, it := range items {
					seen[it.Mid]++
				}
			}
			for mid := range steady {
				if seen[mid] != 1 {
					t.Errorf("a scan saw %d %d times, want once", mid, seen[mid])
					return
				}
			}
		}
	}()
	writing.Wait()
	done.Store(true)
	others.Wait()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	total := uint64(0)
	c := b.Schema().Counter("a")
	items, _, _ := NewReader(b).Scan(nil, 0, 1<<20)
	col, _ := c.Field([]byte("v"))
	for _, it := range items {
		b.Add(Op{Kind: OpGet, Counter: c, Column: int16(col), Mid: it.Mid})
	}
	b.Run()
	for i := range b.Len() {
		total += b.Op(i).Value
	}
	if total != 2*writers*rounds {
		t.Errorf("sum: got %d, want %d", total, 2*writers*rounds)
	}
}

// TestSchemaOnManyItems: old items answer the default at once and other columns keep their values, before the blocks
// are re-packed and after.
func TestSchemaOnManyItems(t *testing.T) {
	s := open(t, Options{BlockItems: 1000}, seedScript)
	mids := fill(t, s, 50_000, 5)
	if err := s.AlterScript("add column weibo views hint=20 max=40 default=77 suffix=cntvw"); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		st := newStream(5)
		for i, mid := range mids {
			st.next()
			row := st.row()
			if i%97 != 0 {
				continue
			}
			if v, found, err := s.Get(fmt.Sprintf("%d.cntvw", mid)); v != 77 || !found || err != nil {
				t.Fatalf("%s: new column: got %d, %v, %v, want 77", when, v, found, err)
			}
			if v, _, err := s.Get(fmt.Sprintf("%d.cntrn", mid)); v != row[1] || err != nil {
				t.Fatalf("%s: old column: got %d, %v, want %d", when, v, err, row[1])
			}
		}
	}
	check("at once")
	end := time.Now().Add(3 * time.Minute)
	for old := 1; old > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d blocks were not re-packed", old)
		}
		old = 0
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		NewReader(b).Blocks(func(i BlockInfo) bool {
			if !i.Current {
				old++
			}
			return true
		})
		b.End()
	}
	check("re-packed")
}

// TestMaxColumns: the largest counter works, also where it is cold.
func TestMaxColumns(t *testing.T) {
	s := openDir(t, "data", Options{BlockItems: 16, FS: vfs.NewSim(), Manual: true}, "add counter a")
	for i := range schema.MaxColumns {
		if err := s.AlterScript(fmt.Sprintf("add column a c%[1]d hint=%[2]d max=64 suffix=c%[1]d", i, 1+i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AlterScript("add column a x hint=8 max=8 suffix=x"); !errors.Is(err, schema.ErrLimit) {
		t.Errorf("one more column: got %v, want ErrLimit", err)
	}
	m := model{"a": {}}
	for mid := range uint64(100) {
		m["a"][mid] = map[string]uint64{}
		for i := range schema.MaxColumns {
			v := mid << (i % 56)
			m["a"][mid][fmt.Sprintf("c%d", i)] = v
			if err := s.Set(fmt.Sprintf("%d.c%d", mid, i), v); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkStore(t, s, m)
	if err := s.Admin().Demote("a", 3); err != nil {
		t.Fatal(err)
	}
	m["a"][3]["c63"] = 7
	if err := s.Set("3.c63", 7); err != nil {
		t.Fatal(err)
	}
	checkStore(t, s, m)
	if err := s.Admin().Promote("a", 3); err != nil {
		t.Fatal(err)
	}
	checkStore(t, s, m)
}

func TestAPI(t *testing.T) {
	s := open(t, Options{}, seedScript)
	if v, err := s.Incr("888888.cntrn", 1); v != 1 || err != nil {
		t.Errorf("Incr: got %d, %v", v, err)
	}
	if _, err := s.Incr("888888.cntrn", -2); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("Incr below 0: got %v, want ErrOutOfRange", err)
	}
	if err := s.Set("888888.cntan", 1<<32); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("Set above max: got %v, want ErrOutOfRange", err)
	}
	if _, err := s.Incr("888888.nosuch", 1); !errors.Is(err, ErrNoKey) {
		t.Errorf("Incr of an unknown column: got %v, want ErrNoKey", err)
	}
	if _, found, err := s.Get("1.cntrn"); found || err != nil {
		t.Errorf("Get of an absent item: got %v, %v", found, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Set("1.cntrn", 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Set after Close: got %v, want ErrClosed", err)
	}
	if _, err := Open("", Options{BlockItems: 5}); err == nil {
		t.Error("Open with BlockItems 5: got no error")
	}
}

// TestNoAllocation: Get, Incr and MGet allocate nothing.
func TestNoAllocation(t *testing.T) {
	s := open(t, Options{}, seedScript)
	mids := fill(t, s, 10_000, 5)
	b := s.NewBatch()
	i := 0
	run := func() {
		_ = b.Begin()
		b.Reset()
		c := b.Schema().Counters()[0]
		for range 20 {
			i = (i + 7) % len(mids)
			op := b.Next()
			op.Kind, op.Counter, op.Mid = OpRead, c, mids[i]
			op = b.Next()
			op.Kind, op.Counter, op.Mid, op.Arg = OpAdd, c, mids[i], 1
			op = b.Next()
			op.Kind, op.Counter, op.Mid = OpGet, c, mids[i]
		}
		b.Run()
		b.End()
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("got %v allocations a batch, want 0", n)
	}
}

func ExampleOpen() {
	s, err := Open("", Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	err = s.AlterScript(`add counter weibo
		add column weibo comment hint=16 max=32 suffix=cntcm
		add column weibo repost  hint=16 max=32 suffix=cntrn`)
	fmt.Println(err)
	fmt.Println(s.Incr("19089006004.cntcm", 1))
	fmt.Println(s.Get("19089006004.cntrn"))
	// Output:
	// <nil>
	// 1 <nil>
	// 0 true <nil>
}

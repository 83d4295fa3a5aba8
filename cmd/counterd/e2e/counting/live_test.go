package counting

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// checkItems reads column suffix of all n items and checks each.
func checkItems(t testing.TB, s *harness.Server, n int, suffix string, want func(i int) int64) {
	t.Helper()
	harness.BulkParallel(t, s, 4, n, func(dst []byte, i int) []byte {
		return harness.AppendCall(dst, "GET", "", harness.MidOf(i), suffix, -1)
	}, func(i int, reply []byte) error {
		var room [20]byte
		if w := strconv.AppendInt(room[:0], want(i), 10); reply[0] != '$' || string(reply[1:]) != string(w) {
			return fmt.Errorf("item %d, %d%s: got %q, want %s", i, harness.MidOf(i), suffix, reply, w)
		}
		return nil
	})
}

// load increments the repost column of random items, some of them new, until it is told to stop. It counts what
// was answered, per item.
func load(c *harness.Conn, seed uint64, n int, hits []atomic.Int32, stop <-chan struct{}) error {
	r := rand.New(rand.NewPCG(seed, 0))
	const batch = 200
	chosen := make([]int, batch)
	buf := make([]byte, 0, batch*64)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		buf = buf[:0]
		for i := range chosen {
			chosen[i] = r.IntN(n)
			buf = harness.AppendCall(buf, "INCR", "", harness.MidOf(chosen[i]), ".cntrn", -1)
		}
		// An id far beyond all others, and a late one between them.
		buf = harness.AppendCall(buf, "INCR", "", 1<<50+r.Uint64N(1<<40), ".cntrn", -1)
		buf = harness.AppendCall(buf, "INCR", "", 1<<39+r.Uint64N(1<<38), ".cntrn", -1)
		if err := c.TryWrite(buf); err != nil {
			return err
		}
		for i := range batch + 2 {
			v, err := c.TryReply()
			if err != nil {
				return err
			}
			if v.Kind != ':' {
				return fmt.Errorf("INCR during a schema change answered %q", v.Raw)
			}
			if i < batch {
				hits[chosen[i]].Add(1)
			}
		}
	}
}

// TestSchemaChangesUnderLoad adds and drops columns on a server that holds a million items, while clients increment.
func TestSchemaChangesUnderLoad(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	n := harness.Scaled(1_000_000)
	harness.LoadItems(t, s, n)

	r, seed := harness.Random(t)
	hits := make([]atomic.Int32, n)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for id := range errs {
		b := s.Dial(t)
		wg.Go(func() { errs[id] = load(b, uint64(seed)+uint64(id), n, hits, stop) })
	}

	sample := func(suffix string, want func(i int) string) {
		t.Helper()
		for range 200 {
			i := r.IntN(n)
			c.Want(want(i), "GET", strconv.FormatUint(harness.MidOf(i), 10)+suffix)
		}
	}
	index := func(i int) string { return harness.BulkOf(strconv.Itoa(i)) }
	for round := range 3 {
		// The default changes with every round: what an earlier column of the same name held must not come back.
		def := strconv.Itoa(7 + round)
		harness.RunScript(t, c, "add column weibo extra hint=4 max=20 suffix=cntex default="+def)
		sample(".cntex", func(int) string { return harness.BulkOf(def) })
		for range 200 {
			mid := strconv.FormatUint(harness.MidOf(r.IntN(n)), 10)
			if v, err := c.Do("INCRBY", mid+".cntex", "1000").Int(); err != nil || v < 1000 {
				t.Fatalf("INCRBY of a new column: %d, %v", v, err)
			}
		}
		sample(".cntcm", index)
		mid := strconv.FormatUint(harness.MidOf(n/2), 10)
		if v := c.Do("COUNTER.MGET", "weibo", mid); len(v.List) != 1 || len(v.List[0].List) != 4 {
			t.Errorf("COUNTER.MGET with a fourth column answered %q", v.Raw)
		}
		harness.RunScript(t, c, "drop column weibo extra")
		c.Want("$-1\r\n", "GET", mid+".cntex")
		if v := c.Do("COUNTER.MGET", "weibo", mid); len(v.List) != 1 || len(v.List[0].List) != 3 {
			t.Errorf("COUNTER.MGET without the fourth column answered %q", v.Raw)
		}
		sample(".cntcm", index)
	}
	// A column in the middle goes and comes back: it must be empty, its neighbours untouched.
	harness.RunScript(t, c, "drop column weibo attitude\nadd column weibo attitude hint=3 max=40 suffix=cntan default=5\n")
	sample(".cntan", func(int) string { return harness.BulkOf("5") })
	close(stop)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	var total int64
	for i := range hits {
		total += int64(hits[i].Load())
	}
	if total == 0 {
		t.Fatal("no increment was answered while the schema changed")
	}
	t.Logf("%d increments were answered meanwhile", total)
	checkItems(t, s, n, ".cntcm", func(i int) int64 { return int64(i) })
	checkItems(t, s, n, ".cntrn", func(i int) int64 { return int64(hits[i].Load()) })
	checkItems(t, s, n, ".cntan", func(int) int64 { return 5 })
}

// TestDropCounter drops a counter that holds items: its keys read as absent, the others stay.
func TestDropCounter(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	harness.RunScript(t, c, harness.SchemaScript+harness.PlainScript)
	n := harness.Scaled(20_000)
	harness.LoadItems(t, s, n)
	c.Want("+OK\r\n", "SET", "n:5", "6")
	c.Want(":3\r\n", "HSET", "h:5", "a", "1", "b", "2", "c", "3")
	harness.RunScript(t, c, "drop counter h")
	c.Want("*0\r\n", "HGETALL", "h:5")
	c.Want("$-1\r\n", "GET", "5.ha")
	c.Want(harness.BulkOf("6"), "GET", "n:5")
	c.Want(fmt.Sprintf(":%d\r\n", n+1), "DBSIZE")
	checkItems(t, s, n, ".cntcm", func(i int) int64 { return int64(i) })
	harness.RunScript(t, c, "add counter h\nadd column h a hint=8 max=63 suffix=ha")
	c.Want("*0\r\n", "HGETALL", "h:5")
}

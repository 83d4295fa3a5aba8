package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// midOf returns the i-th of many mids that grow with gaps of 4000 on average, as those of a real stream do.
func midOf(i int) uint64 {
	h := uint64(i) * 0x9E3779B97F4A7C15
	return 1<<40 + uint64(i)*4000 + h>>53 // up to 2047 more, so all differ
}

// loadItems makes n items whose comment column holds the index, on four connections.
func loadItems(t testing.TB, s *server, n int) {
	t.Helper()
	// Neighbours go to different connections, so that ids arrive nearly in order.
	bulkParallel(t, s, 4, n, func(dst []byte, i int) []byte {
		return appendCall(dst, "SET", "", midOf(spread(i, n)), ".cntcm", int64(spread(i, n)))
	}, wantReply("+OK"))
}

// spread maps the index that bulkParallel hands out, a quarter to each connection, to one that interleaves the
// quarters.
func spread(i, n int) int {
	for k := range 4 {
		if lo, hi := k*n/4, (k+1)*n/4; i < hi {
			if j := (i-lo)*4 + k; j < n {
				return j
			}
			return i
		}
	}
	return i
}

// checkItems reads column suffix of all n items and checks each.
func checkItems(t testing.TB, s *server, n int, suffix string, want func(i int) int64) {
	t.Helper()
	bulkParallel(t, s, 4, n, func(dst []byte, i int) []byte {
		return appendCall(dst, "GET", "", midOf(i), suffix, -1)
	}, func(i int, reply []byte) error {
		var room [20]byte
		if w := strconv.AppendInt(room[:0], want(i), 10); reply[0] != '$' || string(reply[1:]) != string(w) {
			return fmt.Errorf("item %d, %d%s: got %q, want %s", i, midOf(i), suffix, reply, w)
		}
		return nil
	})
}

// load increments the repost column of random items, some of them new, until it is told to stop. It counts what
// was answered, per item.
func load(c *conn, seed uint64, n int, hits []atomic.Int32, stop <-chan struct{}) error {
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
			buf = appendCall(buf, "INCR", "", midOf(chosen[i]), ".cntrn", -1)
		}
		// An id far beyond all others, and a late one between them.
		buf = appendCall(buf, "INCR", "", 1<<50+r.Uint64N(1<<40), ".cntrn", -1)
		buf = appendCall(buf, "INCR", "", 1<<39+r.Uint64N(1<<38), ".cntrn", -1)
		if err := c.tryWrite(buf); err != nil {
			return err
		}
		for i := range batch + 2 {
			v, err := c.tryReply()
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
	s := start(t)
	c := s.dial(t)
	seedSchema(t, c)
	n := scaled(1_000_000)
	loadItems(t, s, n)

	r, seed := random(t)
	hits := make([]atomic.Int32, n)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for id := range errs {
		b := s.dial(t)
		wg.Go(func() { errs[id] = load(b, uint64(seed)+uint64(id), n, hits, stop) })
	}

	sample := func(suffix string, want func(i int) string) {
		t.Helper()
		for range 200 {
			i := r.IntN(n)
			c.want(want(i), "GET", strconv.FormatUint(midOf(i), 10)+suffix)
		}
	}
	index := func(i int) string { return bulkOf(strconv.Itoa(i)) }
	for round := range 3 {
		// The default changes with every round: what an earlier column of the same name held must not come back.
		def := strconv.Itoa(7 + round)
		runScript(t, c, "add column weibo extra hint=4 max=20 suffix=cntex default="+def)
		sample(".cntex", func(int) string { return bulkOf(def) })
		for range 200 {
			mid := strconv.FormatUint(midOf(r.IntN(n)), 10)
			if v, err := c.do("INCRBY", mid+".cntex", "1000").Int(); err != nil || v < 1000 {
				t.Fatalf("INCRBY of a new column: %d, %v", v, err)
			}
		}
		sample(".cntcm", index)
		mid := strconv.FormatUint(midOf(n/2), 10)
		if v := c.do("COUNTER.MGET", "weibo", mid); len(v.List) != 1 || len(v.List[0].List) != 4 {
			t.Errorf("COUNTER.MGET with a fourth column answered %q", v.Raw)
		}
		runScript(t, c, "drop column weibo extra")
		c.want("$-1\r\n", "GET", mid+".cntex")
		if v := c.do("COUNTER.MGET", "weibo", mid); len(v.List) != 1 || len(v.List[0].List) != 3 {
			t.Errorf("COUNTER.MGET without the fourth column answered %q", v.Raw)
		}
		sample(".cntcm", index)
	}
	// A column in the middle goes and comes back: it must be empty, its neighbours untouched.
	runScript(t, c, "drop column weibo attitude\nadd column weibo attitude hint=3 max=40 suffix=cntan default=5\n")
	sample(".cntan", func(int) string { return bulkOf("5") })
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
	s := start(t)
	c := s.dial(t)
	runScript(t, c, schemaScript+plainScript)
	n := scaled(20_000)
	loadItems(t, s, n)
	c.want("+OK\r\n", "SET", "n:5", "6")
	c.want(":3\r\n", "HSET", "h:5", "a", "1", "b", "2", "c", "3")
	runScript(t, c, "drop counter h")
	c.want("*0\r\n", "HGETALL", "h:5")
	c.want("$-1\r\n", "GET", "5.ha")
	c.want(bulkOf("6"), "GET", "n:5")
	c.want(fmt.Sprintf(":%d\r\n", n+1), "DBSIZE")
	checkItems(t, s, n, ".cntcm", func(i int) int64 { return int64(i) })
	runScript(t, c, "add counter h\nadd column h a hint=8 max=63 suffix=ha")
	c.want("*0\r\n", "HGETALL", "h:5")
}

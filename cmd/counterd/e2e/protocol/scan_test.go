package protocol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestScanWhileChanging walks over all items while others are inserted and deleted between them. Every item that was
// there throughout must be returned, once, in the order of mids.
func TestScanWhileChanging(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	n := harness.Scaled(100_000)
	harness.LoadItems(t, s, n)
	_, seed := harness.Random(t)

	stop := make(chan struct{})
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for id := range errs {
		b := s.Dial(t)
		wg.Go(func() { errs[id] = churn(b, uint64(seed)+uint64(id), n, stop) })
	}
	lasting := make(map[uint64]int, n)
	for i := range n {
		lasting[harness.MidOf(i)] = 0
	}
	for round, count := range []string{"10", "100", "1000"} {
		if count == "10" && n > 50_000 {
			count = "50"
		}
		last, first := uint64(0), true
		for cursor := "0"; ; {
			v := c.Do("SCAN", cursor, "COUNT", count)
			if len(v.List) != 2 {
				t.Fatalf("SCAN answered %.200q", v.Raw)
			}
			for _, e := range v.List[1].List {
				mid, err := strconv.ParseUint(e.Text, 10, 64)
				if err != nil {
					t.Fatalf("SCAN returned key %q", e.Text)
				}
				if !first && mid <= last {
					t.Fatalf("SCAN returned %d after %d", mid, last)
				}
				last, first = mid, false
				if seen, ok := lasting[mid]; ok {
					if seen != round {
						t.Fatalf("SCAN number %d returned %d, seen %d times before", round, mid, seen)
					}
					lasting[mid] = round + 1
				}
			}
			if cursor = v.List[0].Text; cursor == "0" {
				break
			}
		}
		missing := 0
		for mid, seen := range lasting {
			if seen != round+1 {
				missing++
				lasting[mid] = round + 1
			}
		}
		if missing > 0 {
			t.Errorf("SCAN with COUNT %s left out %d of %d items that were there throughout", count, missing, n)
		}
	}
	close(stop)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// churn inserts runs of items between and beyond the lasting ones and deletes them again.
func churn(c *harness.Conn, seed uint64, n int, stop <-chan struct{}) error {
	r := rand.New(rand.NewPCG(seed, 1))
	const run = 500
	mids := make([]uint64, run)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		base := harness.MidOf(r.IntN(n + n/4))
		for i := range mids {
			// Never one of the lasting: those are all multiples of 4000 and a hash apart; skip what collides.
			mids[i] = base + 1 + uint64(r.IntN(40_000))
			if isLasting(mids[i], n) {
				mids[i] = 3<<40 + mids[i]
			}
		}
		for _, command := range []string{"INCR", "DEL"} {
			suffix := map[string]string{"INCR": ".cntrn", "DEL": ""}[command]
			err := harness.Bulk(c, run,
				func(dst []byte, i int) []byte { return harness.AppendCall(dst, command, "", mids[i], suffix, -1) },
				func(i int, reply []byte) error {
					if reply[0] != ':' {
						return fmt.Errorf("%s %d answered %q", command, mids[i], reply)
					}
					return nil
				})
			if err != nil {
				return err
			}
		}
	}
}

// isLasting says whether mid is one of the first n that midOf gives.
func isLasting(mid uint64, n int) bool {
	i := int(mid-1<<40) / 4000
	for _, j := range []int{i - 1, i, i + 1} {
		if j >= 0 && j < n && harness.MidOf(j) == mid {
			return true
		}
	}
	return false
}

// TestScanOptions checks MATCH, COUNT and TYPE on a server with several counters. With TYPE string, and with a pattern
// that has a dot, SCAN lists the keys of single numbers instead of those of items.
func TestScanOptions(t *testing.T) {
	s := harness.Start(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript+harness.PlainScript)
	items := harness.FillItems(t, s)
	numbers, hashes := harness.KeySet{}, harness.KeySet{}
	for k := range items {
		switch {
		case strings.HasPrefix(k, "n:"):
			numbers[k] = true
			continue
		case strings.HasPrefix(k, "h:"):
			mid := k[len("h:"):] // a suffix names its counter as well
			numbers[mid+".ha"], numbers[mid+".hb"], numbers[mid+".hc"] = true, true, true
		default:
			numbers[k+".cntcm"], numbers[k+".cntrn"], numbers[k+".cntan"] = true, true, true
		}
		hashes[k] = true
	}
	c := s.Dial(t)
	for _, scan := range []struct {
		options, pattern string
		of               harness.KeySet
	}{
		{"", "*", items}, {"COUNT 1", "*", items}, {"COUNT 5", "*", items}, {"COUNT 100000", "*", items},
		{"MATCH *", "*", items}, {"MATCH n:* COUNT 3", "n:*", items}, {"MATCH h:1?? COUNT 1000", "h:1??", items},
		{"match 1* count 20", "1*", items}, {"MATCH nothing", "nothing", items}, {"MATCH 10[0-4]", "10[0-4]", items},
		{"TYPE string", "*", numbers}, {"TYPE STRING COUNT 3", "*", numbers}, {"TYPE string MATCH *n", "*n", numbers},
		{"MATCH *.cntrn", "*.cntrn", numbers}, {"TYPE hash", "*", hashes}, {"TYPE list", "*", harness.KeySet{}},
	} {
		args := []string{"SCAN", "0"}
		args = append(args, strings.Fields(scan.options)...)
		got := harness.KeySet{}
		for calls := 0; ; calls++ {
			v := c.Do(args...)
			if len(v.List) != 2 || calls > 2*len(items)+10 {
				t.Fatalf("SCAN %s: call %d answered %.200q", scan.options, calls, v.Raw)
			}
			for _, e := range v.List[1].List {
				if got[e.Text] {
					t.Errorf("SCAN %s returned %s twice", scan.options, e.Text)
				}
				got[e.Text] = true
			}
			if args[1] = v.List[0].Text; args[1] == "0" {
				break
			}
		}
		if want := scan.of.Matching(scan.pattern); !slices.Equal(got.SortedKeys(), want) {
			t.Errorf("SCAN %s returned %d keys, want %d\n got %.100q\nwant %.100q", scan.options, len(got), len(want), got.SortedKeys(), want)
		}
	}
}

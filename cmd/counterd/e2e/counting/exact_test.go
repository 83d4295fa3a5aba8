package counting

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestExactIncrements has eight connections add to shared and to private keys, in pipelines of many lengths.
// On one key every reply must be new, and greater than the last one that the same connection saw;
// in the end the value must be the number of increments that were answered.
func TestExactIncrements(t *testing.T) {
	s := harness.Start(t)
	harness.SeedSchema(t, s.Dial(t))
	const conns, sharedKeys = 8, 5
	perConn := harness.Scaled(125_000)

	// seen[k] marks the replies that shared key k has given, from all connections.
	var mu sync.Mutex
	seen := make([][]bool, sharedKeys)
	total := make([]int, sharedKeys)
	for k := range seen {
		seen[k] = make([]bool, conns*perConn+1)
	}
	suffix := [...]string{".cntcm", ".cntrn", ".cntan"}

	r, _ := harness.Random(t)
	seeds := make([]uint64, conns)
	for i := range seeds {
		seeds[i] = r.Uint64()
	}
	var wg sync.WaitGroup
	errs := make([]error, conns)
	private := make([]int64, conns)
	for id := range conns {
		c := s.Dial(t)
		wg.Go(func() {
			// Two of three increments go to a shared key, chosen by a hash of the index so that
			// writer and reader agree on it without talking.
			key := func(i int) int {
				h := (uint64(i) + seeds[id]) * 0x9E3779B97F4A7C15
				return int(h>>40) % (sharedKeys * 3 / 2)
			}
			last := make([]int64, sharedKeys)
			errs[id] = harness.Bulk(c, perConn, func(dst []byte, i int) []byte {
				if k := key(i); k < sharedKeys {
					return harness.AppendCall(dst, "INCR", "", uint64(k)+19089006004, suffix[k%3], -1)
				}
				return harness.AppendCall(dst, "INCR", "", uint64(id), ".cntcm", -1)
			}, func(i int, reply []byte) error {
				n, err := strconv.ParseInt(string(reply[1:]), 10, 64)
				if reply[0] != ':' || err != nil {
					return fmt.Errorf("INCR answered %q", reply)
				}
				k := key(i)
				if k >= sharedKeys {
					private[id]++
					if n != private[id] {
						return fmt.Errorf("increment %d of a private key answered %d", private[id], n)
					}
					return nil
				}
				if n <= last[k] {
					return fmt.Errorf("shared key %d answered %d after %d on one connection", k, n, last[k])
				}
				last[k] = n
				mu.Lock()
				defer mu.Unlock()
				if n >= int64(len(seen[k])) || seen[k][n] {
					return fmt.Errorf("shared key %d answered %d twice or out of range", k, n)
				}
				seen[k][n] = true
				total[k]++
				return nil
			})
		})
	}
	wg.Wait()
	for id, err := range errs {
		if err != nil {
			t.Errorf("connection %d: %v", id, err)
		}
	}
	c := s.Dial(t)
	for k := range sharedKeys {
		c.Want(harness.BulkOf(strconv.Itoa(total[k])), "GET", strconv.Itoa(19089006004+k)+suffix[k%3])
	}
	for id := range conns {
		c.Want(harness.BulkOf(strconv.FormatInt(private[id], 10)), "GET", strconv.Itoa(id)+".cntcm")
	}
}

// TestExactTransfers moves units between two keys in transactions with WATCH, from several connections that
// collide: their sum never changes, at any moment that a transaction sees.
func TestExactTransfers(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	const conns, start = 4, 10_000
	c.Want("+OK\r\n", "SET", "1.cntcm", strconv.Itoa(start))
	c.Want("+OK\r\n", "SET", "2.cntcm", strconv.Itoa(start))
	rounds := harness.Scaled(500)
	var wg sync.WaitGroup
	errs := make([]error, conns)
	for id := range conns {
		c := s.Dial(t)
		wg.Go(func() { errs[id] = transfer(c, rounds, 2*start) })
	}
	wg.Wait()
	for id, err := range errs {
		if err != nil {
			t.Errorf("connection %d: %v", id, err)
		}
	}
	a, errA := c.Do("GET", "1.cntcm").Int()
	b, errB := c.Do("GET", "2.cntcm").Int()
	if errA != nil || errB != nil || a+b != 2*start {
		t.Errorf("the keys hold %d and %d (%v, %v), want a sum of %d", a, b, errA, errB, 2*start)
	}
}

// transfer moves one unit from key 1 to key 2 in each of some rounds, trying again when WATCH says that another got in
// between.
func transfer(c *harness.Conn, rounds int, sum int64) error {
	for done := 0; done < rounds; {
		if _, err := c.TryDo("WATCH", "1.cntcm", "2.cntcm"); err != nil {
			return err
		}
		v, err := c.TryDo("MGET", "1.cntcm", "2.cntcm")
		if err != nil {
			return err
		}
		if len(v.List) != 2 {
			return fmt.Errorf("MGET answered %q", v.Raw)
		}
		a, _ := v.List[0].Int()
		b, _ := v.List[1].Int()
		if a+b != sum {
			return fmt.Errorf("MGET saw %d and %d, want a sum of %d", a, b, sum)
		}
		req := resptest.Append(nil, "MULTI")
		req = resptest.Append(req, "SET", "1.cntcm", strconv.FormatInt(a-1, 10))
		req = resptest.Append(req, "SET", "2.cntcm", strconv.FormatInt(b+1, 10))
		req = resptest.Append(req, "EXEC")
		if err := c.TryWrite(req); err != nil {
			return err
		}
		for range 3 {
			if v, err = c.TryReply(); err != nil || v.Kind != '+' {
				return fmt.Errorf("MULTI or a queued SET answered %q, %v", v.Raw, err)
			}
		}
		if v, err = c.TryReply(); err != nil {
			return err
		}
		switch {
		case v.Raw == "*2\r\n+OK\r\n+OK\r\n":
			done++
		case !v.Null:
			return fmt.Errorf("EXEC answered %q", v.Raw)
		}
	}
	return nil
}

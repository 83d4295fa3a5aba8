// Scenario: the link of a replica is cut at random bytes, and either node restarts.

package server

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/counterd/counterd/internal/testkit/cutproxy"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestCuts runs random commands on a primary whose replica's link is cut at random bytes, with restarts of either side,
// against a map: nothing is lost, doubled or copied in full, and the logs are the same bytes.
func TestCuts(t *testing.T) {
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	proxy := cutproxy.New(t, a.port, uint64(seed), false)
	proxy.SetSpan(15) // the changes of a round
	b.start(proxy.Address())
	same(t, a, b)
	proxy.Smoothly(false)
	model := make(map[string]int64)
	for round := range rounds {
		w := a.dial()
		for range 300 {
			mid := rng.IntN(400)
			key := fmt.Sprintf("%d.cntcm", mid)
			switch op := rng.IntN(100); {
			case op < 80:
				model[key]++
				w.want("INCR "+key, ":"+strconv.FormatInt(model[key], 10))
			case op < 95:
				model[key] = rng.Int64N(1 << 30)
				w.want("SET "+key+" "+strconv.FormatInt(model[key], 10), "+OK")
			case op < 99:
				w.do("DEL " + strconv.Itoa(mid))
				delete(model, key)
			default:
				w.save()
			}
		}
		w.conn.Close()
		proxy.CutAll()
		switch rng.IntN(4) {
		case 0:
			b.stop()
			b.start(proxy.Address())
		case 1:
			a.stop()
			a.start("")
		case 2:
			_ = b.srv.Store().Snapshot()
		}
		if round%4 == 3 {
			proxy.Smoothly(true)
			same(t, a, b)
			proxy.Smoothly(false)
			r := b.dial()
			for key, v := range model {
				r.want("GET "+key, strconv.Quote(strconv.FormatInt(v, 10)))
			}
		}
		if n := a.info("sync_full"); n != "0" {
			t.Fatalf("%s full copies in round %d", n, round)
		}
	}
	t.Logf("%d cuts", proxy.Total())
}

// TestFullCopyResumes cuts a full copy at random bytes: it goes on file by file.
func TestFullCopyResumes(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	w := a.dial()
	sets := make([]string, 3000)
	for i := range sets {
		sets[i] = fmt.Sprintf("SET %d.cntcm %d", i, i*3)
	}
	w.pipeline(sets...)
	w.save()
	seed := int64(seed.Of(t))
	t.Logf("seed %d", seed)
	proxy := cutproxy.New(t, a.port, uint64(seed), false)
	proxy.SetSpan(15) // less than the snapshot
	proxy.Smoothly(false)
	b.start(proxy.Address())
	until(t, "cuts", func() bool { return proxy.Total() > 8 || b.info("master_link_status") == "up" })
	proxy.Smoothly(true)
	same(t, a, b)
	t.Logf("%d cuts, %s copies begun", proxy.Total(), a.info("sync_full"))
	if n, err := filepath.Glob(filepath.Join(b.dir, "rdb", "*.tmp")); err != nil || len(n) > 1 {
		t.Errorf("left behind: %v %v", n, err)
	}
}

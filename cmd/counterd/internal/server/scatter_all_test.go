// Scenario: a forward port answers for all posts of a cluster as one server does.

package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestForwardAll asks a cluster, by a forward port, and a server of its own about the same posts: the answers for all
// are the same, those in pieces (SCAN, FIND with a CURSOR) when all pieces are put together.
func TestForwardAll(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, proto := range []int{2, 3} {
		model := wireDial(t, wireServe(t, nil), proto)
		k := serveForward(t, 3, nil)
		c := k.forward(1, proto)
		same := func(command string) { t.Helper(); c.same(model, command) }
		same("RANDOMKEY")
		same("COUNTER.MIN weibo comment")
		for range 500 {
			same(fmt.Sprintf("SET %d.%s %d", r.IntN(2000), []string{"cntcm", "cntrn"}[r.IntN(2)], r.IntN(50)))
		}
		for _, command := range []string{"COUNTER.COUNT weibo", "COUNTER.SUM weibo comment", "COUNTER.MIN weibo comment WHERE comment > 3", "COUNTER.MAX weibo repost",
			"COUNTER.MIN weibo comment WHERE comment > 99", "COUNTER.FIND weibo", "COUNTER.FIND weibo DESC LIMIT 7", "COUNTER.FIND weibo WHERE comment > 20 COLUMNS repost",
			"COUNTER.FIND weibo MID IN 1 2 3 4 5 6 7 8 9 10", "COUNTER.FIND weibo WHERE comment = 99", "COUNTER.TOP weibo comment 20", "COUNTER.TOP weibo repost 3 WHERE comment < 10",
			"COUNTER.DIGEST", "COUNTER.DIGEST weibo 0 1000 PARTS 7", "KEYS *", "KEYS *.cntcm", "KEYS 1?", "COUNTER.FIND nosuch", "COUNTER.SUM weibo nosuch", "SCAN x"} {
			same(command)
		}
		pages := func(w *wireClient, command string, cursor string) (all []string) {
			for range 10_000 {
				v := w.do(strings.ReplaceAll(command, "%", cursor))
				if len(v.List) != 2 {
					t.Fatalf("%s: got %s", command, v)
				}
				for _, e := range v.List[1].List {
					all = append(all, e.String())
				}
				if cursor = v.List[0].Text; cursor == "0" {
					return all
				}
			}
			t.Fatalf("%s does not end", command)
			return nil
		}
		for _, command := range []string{"SCAN %", "SCAN % COUNT 7 MATCH *.cntrn", "SCAN % COUNT 1000", "SCAN % COUNT 100000", "COUNTER.FIND weibo LIMIT 5 CURSOR %", "COUNTER.FIND weibo WHERE comment > 10 DESC LIMIT 9 CURSOR %"} {
			got, want := pages(c, command, "0"), pages(model, command, "0")
			if strings.HasPrefix(command, "SCAN") { // a cluster lists group after group
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("RESP%d %s: got %d %v, want %d %v", proto, command, len(got), got, len(want), want)
			}
		}
		if v := c.do("RANDOMKEY"); v.Kind != '$' || c.do("EXISTS "+v.Text).String() != ":1" {
			t.Errorf("RANDOMKEY: got %s", v)
		}
		cluster := k.dial(0, proto)
		if got, want := cluster.do("COUNTER.SUM weibo comment"), model.do("COUNTER.SUM weibo comment"); got.Raw != want.Raw {
			t.Errorf("by the port of a cluster's clients: got %s, want %s", got, want)
		}
		// A store that is not kept by groups only estimates how many posts it has of some.
		sum, all := k.dial(0, proto).do("DBSIZE").N+k.dial(1, proto).do("DBSIZE").N+k.dial(2, proto).do("DBSIZE").N, c.do("DBSIZE").N
		if sum != all {
			t.Errorf("DBSIZE: got %d, want %d", all, sum)
		}
		if got, want := cluster.do("DBSIZE"), model.do("DBSIZE"); got.N >= want.N {
			t.Errorf("DBSIZE by the port of a cluster's clients is one node's: got %s of %s", got, want)
		}
		same("FLUSHALL")
		same("DBSIZE")
	}
}

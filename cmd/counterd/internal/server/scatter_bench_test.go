// Scenario: pipelines and pages through a forward port are measured.

package server

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// forwardPosts are how many posts the servers of BenchmarkForward have.
const forwardPosts = 20_000

// asked is connections on which a benchmark sends the same pipelines over and over.
type asked struct {
	w     []*wireClient
	all   [][]byte // the pipelines
	reply [][]byte // memory for the replies of each
	next  int      // of all
}

// askedCommands are in the pipelines of an asked at least: of posts of all shards.
const askedCommands = 64

// postsOf are posts of groups of hash slots.
func postsOf(groups slot.Set) (mids []string) {
	for mid := uint64(1_000_000_000_000); len(mids) < forwardPosts; mid += 4003 {
		if groups.Has(slot.Group(mid)) {
			mids = append(mids, fmt.Sprint(mid))
		}
	}
	return mids
}

// newAsked fills a server with posts by the first of its connections, and makes a pipeline of commands of a kind.
func newAsked(b *testing.B, dial func() *wireClient, mids []string, what string, k benchKind) *asked {
	a := &asked{}
	for range k.connections {
		a.w = append(a.w, dial())
	}
	w, deep := a.w[0], k.deep
	for from := 0; from < forwardPosts; from += 100 {
		var set []byte
		for i := range 100 {
			set = resptest.Append(set, "HSET", "{"+mids[from+i]+"}", "cntrn", fmt.Sprint(i), "cntcm", fmt.Sprint(700*i))
		}
		if _, err := w.conn.Write(set); err != nil {
			b.Fatal(err)
		}
		for range 100 {
			if v := w.read(); v.Kind == '-' {
				b.Fatal(v)
			}
		}
	}
	at := 0
	next := func() string {
		at = (at + 7919) % forwardPosts
		return mids[at]
	}
	for range askedCommands / deep {
		var all []byte
		for range deep {
			words := []string{"INCR", "{" + next() + "}.cntcm"}
			if what == "page" {
				words = []string{"COUNTER.MGET", "weibo"}
				for range 20 {
					words = append(words, next())
				}
			}
			all = resptest.Append(all, words...)
		}
		n := 0
		for range 2 { // the numbers of an INCR may get longer
			if _, err := w.conn.Write(all); err != nil {
				b.Fatal(err)
			}
			n = 0
			for range deep {
				v := w.read()
				if v.Kind == '-' {
					b.Fatal(v)
				}
				n += len(v.Raw)
			}
		}
		a.all, a.reply = append(a.all, all), append(a.reply, make([]byte, n))
	}
	return a
}

// round sends a pipeline on each connection and reads the replies.
func (a *asked) round(b *testing.B, what string, deep int) {
	i := a.next % len(a.all)
	a.next++
	for _, w := range a.w {
		if _, err := w.conn.Write(a.all[i]); err != nil {
			b.Fatal(err)
		}
	}
	for _, w := range a.w {
		if what == "page" {
			if _, err := io.ReadFull(w.r, a.reply[i]); err != nil {
				b.Fatal(err)
			}
			continue
		}
		for range deep {
			if _, err := w.r.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// processorTime is that of this process, clients included.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchKind is how many connections send at the same time, and how deep their pipelines are.
type benchKind struct{ connections, deep int }

// eachKind runs a benchmark of INCR and of pages, of one connection and of several.
func eachKind(b *testing.B, run func(b *testing.B, what string, k benchKind)) {
	for _, what := range []string{"INCR", "page"} {
		for _, k := range []benchKind{{1, 1}, {1, 64}, {16, 1}, {16, 64}} {
			b.Run(fmt.Sprintf("%s/connections=%d/deep=%d", strings.ToLower(what), k.connections, k.deep), func(b *testing.B) { run(b, what, k) })
		}
	}
}

// serveBench starts a server of its own, on a port, and a cluster of three shards. The nodes keep their posts by groups of hash slots, as
// those do that were nodes from the beginning.
func serveBench(b *testing.B) (alone func() *wireClient, k *testCluster) {
	port := freeport.Take(b)
	wireServe(b, func(c *config.Config) { c.Port, c.Bind = port, []string{"127.0.0.1"} })
	inGroups := func(_ int, o *counter.Options) string {
		o.SlotGroups = true
		return ""
	}
	k = startClusterIn(b, inGroups, func(c *config.Config) { c.Cluster.ForwardPort = freeport.Take(b) }, 1, 1, 1)
	return func() *wireClient { return k.dialPort(port, 2) }, k
}

// BenchmarkForward sends pipelines of INCRs, and of pages of 20 posts, to a server of its own and to a forward port whose node has a third
// of the posts, in turns. It reports the medians of the processor time of a command, of all servers and the clients together, and their
// ratio. All are in this process.
func BenchmarkForward(b *testing.B) {
	eachKind(b, func(b *testing.B, what string, kind benchKind) {
		alone, k := serveBench(b)
		mids := postsOf(slot.AllGroups())
		one := newAsked(b, alone, mids, what, kind)
		compare(b, one, newAsked(b, func() *wireClient { return k.forward(0, 2) }, mids, what, kind), what, kind)
	})
}

// BenchmarkShard is BenchmarkForward for posts of one shard of three, on the port of its node that clients of a cluster use.
func BenchmarkShard(b *testing.B) {
	eachKind(b, func(b *testing.B, what string, kind benchKind) {
		alone, k := serveBench(b)
		mids := postsOf(k.shards[0].Groups)
		one := newAsked(b, alone, mids, what, kind)
		compare(b, one, newAsked(b, func() *wireClient { return k.dial(k.primary(0), 2) }, mids, what, kind), what, kind)
	})
}

// compare measures two pipelines in turns.
func compare(b *testing.B, alone, cluster *asked, what string, k benchKind) {
	var took [2][]float64
	const windows = 15
	commands := k.deep * k.connections
	rounds := max(1, b.N/commands/windows)
	for range windows {
		for i, a := range []*asked{alone, cluster} {
			before := processorTime(b)
			for range rounds {
				a.round(b, what, k.deep)
			}
			took[i] = append(took[i], float64(processorTime(b)-before)/float64(rounds*commands))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	one, all := took[0][len(took[0])/2], took[1][len(took[1])/2]
	b.ReportMetric(one, "one-ns")
	b.ReportMetric(all, "cluster-ns")
	b.ReportMetric(all/one, "times")
	b.ReportMetric(0, "ns/op")
}

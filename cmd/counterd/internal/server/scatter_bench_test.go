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

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// forwardPosts are how many posts the servers of BenchmarkForward have.
const forwardPosts = 20_000

// asked is a connection on which a benchmark sends the same pipeline over and over.
type asked struct {
	w     *wireClient
	all   []byte // the pipeline
	reply []byte // memory for its replies
}

// postsOf are posts of groups of hash slots.
func postsOf(groups slot.Set) (mids []string) {
	for mid := uint64(1_000_000_000_000); len(mids) < forwardPosts; mid += 4003 {
		if groups.Has(slot.Group(mid)) {
			mids = append(mids, fmt.Sprint(mid))
		}
	}
	return mids
}

// newAsked fills a server with posts by w, and makes a pipeline of commands of a kind.
func newAsked(b *testing.B, w *wireClient, mids []string, what string, deep int) *asked {
	a := &asked{w: w}
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
	for range deep {
		words := []string{"INCR", "{" + next() + "}.cntcm"}
		if what == "page" {
			words = []string{"COUNTER.MGET", "weibo"}
			for range 20 {
				words = append(words, next())
			}
		}
		a.all = resptest.Append(a.all, words...)
	}
	for range 2 { // the numbers of an INCR may get longer
		if _, err := w.conn.Write(a.all); err != nil {
			b.Fatal(err)
		}
		n := 0
		for range deep {
			v := w.read()
			if v.Kind == '-' {
				b.Fatal(v)
			}
			n += len(v.Raw)
		}
		a.reply = make([]byte, n)
	}
	return a
}

// round sends the pipeline and reads its replies.
func (a *asked) round(b *testing.B, what string, deep int) {
	if _, err := a.w.conn.Write(a.all); err != nil {
		b.Fatal(err)
	}
	if what == "page" {
		if _, err := io.ReadFull(a.w.r, a.reply); err != nil {
			b.Fatal(err)
		}
		return
	}
	for range deep {
		if _, err := a.w.r.ReadSlice('\n'); err != nil {
			b.Fatal(err)
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

// BenchmarkForward sends pipelines of INCRs, and of pages of 20 posts, to a server of its own and to a forward port whose node has a third
// of the posts, in turns. It reports the medians of the processor time of a command, of all servers and the client together, and their
// ratio. All are in this process.
func BenchmarkForward(b *testing.B) {
	for _, what := range []string{"INCR", "page"} {
		for _, deep := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/deep=%d", strings.ToLower(what), deep), func(b *testing.B) {
				mids := postsOf(slot.AllGroups())
				alone := newAsked(b, wireDial(b, wireServe(b, nil), 2), mids, what, deep)
				compare(b, alone, newAsked(b, serveForward(b, 3, nil).forward(0, 2), mids, what, deep), what, deep)
			})
		}
	}
}

// BenchmarkShard is BenchmarkForward for posts of one shard of three, on the port of its node that clients of a cluster use.
func BenchmarkShard(b *testing.B) {
	for _, what := range []string{"INCR", "page"} {
		for _, deep := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/deep=%d", strings.ToLower(what), deep), func(b *testing.B) {
				k := serveForward(b, 3, nil)
				mids := postsOf(k.shards[0].Groups)
				alone := newAsked(b, wireDial(b, wireServe(b, nil), 2), mids, what, deep)
				compare(b, alone, newAsked(b, k.dial(k.primary(0), 2), mids, what, deep), what, deep)
			})
		}
	}
}

// compare measures two pipelines in turns.
func compare(b *testing.B, alone, cluster *asked, what string, deep int) {
	var took [2][]float64
	const windows = 15
	rounds := max(1, b.N/deep/windows)
	for range windows {
		for i, a := range []*asked{alone, cluster} {
			before := processorTime(b)
			for range rounds {
				a.round(b, what, deep)
			}
			took[i] = append(took[i], float64(processorTime(b)-before)/float64(rounds*deep))
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

// Scenario: an answer is as large as clients can make it.

package console

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/cmd/counterd/internal/testkit/factstest"
)

// largest is a status as large as clients can make it: names, addresses and commands of the longest texts that the server
// gives, of letters that JSON escapes and gzip cannot do much with.
func largest(r *rand.Rand) *Status {
	text := func() string {
		b := make([]byte, 300)
		for i := range b {
			b[i] = byte('!' + r.IntN('~'-'!'+1))
		}
		return string(b)
	}
	st, state := new(Status), factstest.Full()
	state.Replicas, state.Commands = nil, nil
	for range maxReplicas {
		state.Replicas = append(state.Replicas, facts.Replica{Addr: text()})
		st.Verdict.Problems = append(st.Verdict.Problems, Problem{ID: "replica-" + text(), Text: text(), Hint: text()})
	}
	for range maxEpisodes {
		st.Verdict.Ended = append(st.Verdict.Ended, Episode{ID: text(), Text: text()})
	}
	d := &st.Details
	for range listed {
		d.Server = append(d.Server, Setting{"Name", text()})
		state.Commands = append(state.Commands, facts.Command{Name: "counter.mget", Calls: r.Int64(), Times: new(stats.Histogram)})
		d.Slow = append(d.Slow, Slow{Text: text(), Addr: text(), Name: text()})
		d.Largest = append(d.Largest, Client{Addr: text(), Name: text(), Lib: text()})
		d.Busiest = append(d.Busiest, Client{Addr: text(), Name: text(), Lib: text()})
	}
	st.Facts, _ = state.MarshalJSON() // it has no error
	return st
}

// TestLargest: whatever clients call themselves, an answer stays below 100 KB.
func TestLargest(t *testing.T) {
	b := encode(largest(rand.New(rand.NewPCG(1, 2))))
	if len(b.gzip) > 100<<10 || len(b.plain) > 400<<10 {
		t.Errorf("%d bytes, compressed %d", len(b.plain), len(b.gzip))
	}
	if strings.ContainsAny(string(b.plain), "<>") {
		t.Error("markup is not escaped")
	}
}

// BenchmarkEncode measures an answer of a usual server and of the largest possible one, and a map.
func BenchmarkEncode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	usual, state := new(Status), factstest.Full()
	state.Commands = nil
	for i := range listed {
		d := &usual.Details
		d.Server = append(d.Server, Setting{"Data directory", "/var/lib/counterd"})
		state.Commands = append(state.Commands, facts.Command{Name: fmt.Sprintf("command%d", i), Calls: r.Int64N(1e9), Times: new(stats.Histogram)})
		d.Slow = append(d.Slow, Slow{ID: int64(i), Text: "counter.mget (batch of 20: counter.mget x20)", Addr: fmt.Sprintf("10.0.0.%d:%d", i, 30000+r.IntN(9999))})
		d.Largest = append(d.Largest, Client{ID: int64(i), Addr: fmt.Sprintf("10.0.0.%d:%d", i, 30000+r.IntN(9999)), Name: "web", Commands: r.Int64N(1e6)})
		d.Busiest = append(d.Busiest, Client{ID: int64(i), Addr: fmt.Sprintf("10.0.0.%d:%d", i, 30000+r.IntN(9999)), Name: "web", Commands: r.Int64N(1e6)})
	}
	usual.Facts, _ = state.MarshalJSON() // it has no error
	var m mapper
	blocks, err := m.walk(blocksOf{blocks: manyBlocks(r, 8, 1000)}, 8, func() time.Time { return at })
	if err != nil {
		b.Fatal(err)
	}
	for name, v := range map[string]any{"usual": usual, "largest": largest(r), "map": blocks} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var body *body
			for b.Loop() {
				body = encode(v)
			}
			b.ReportMetric(float64(len(body.gzip)), "bytes")
		})
	}
}

// Scenario: the console of a large server is measured.

package server

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/console"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/counter"
)

// BenchmarkConsole measures the cost of the console on a large server: 14,000 blocks of 250 counters and 4,000
// connections. The judged facts are read each second, all of them while somebody watches, and a walk takes a 200th of
// the time then.
func BenchmarkConsole(b *testing.B) {
	s := wireServeStore(b, "", counter.Options{BlockItems: 16}, func(c *config.Config) { c.MaxClients = 10000 })
	store := s.store()
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 249 {
		if err := store.AlterScript(fmt.Sprintf("add counter c%d\nadd column c%d v hint=8 max=32 suffix=v%d", n, n, n)); err != nil {
			b.Fatal(err)
		}
	}
	batch := store.NewBatch()
	for _, def := range store.Schema().Counters() {
		for mid := uint64(1); mid < 4500; {
			batch.Reset()
			if err := batch.Begin(); err != nil {
				b.Fatal(err)
			}
			for range 256 {
				mid++
				batch.Add(counter.Op{Kind: counter.OpSet, Counter: def, Mid: mid, Arg: r.Uint64N(200)})
			}
			batch.Run()
			batch.End()
			if err := batch.Commit(); err != nil {
				b.Fatal(err)
			}
		}
	}
	for range 4000 {
		wireDial(b, s, 2).want("PING", "+PONG")
	}
	src := &consoleSource{srv: &s.shared, usage: new(facts.UsageCache)}
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"judged", func() {
			src.Totals()
			src.State(facts.JSONParts &^ (facts.PartUsage | facts.PartCommands | facts.PartConnections))
		}},
		{"watched", func() { src.State(facts.JSONParts); src.Details(20) }},
		{"walk", func() {
			n := 0
			if err := src.Walk(func(console.Block) { n++ }); err != nil || n < 10_000 {
				b.Fatal(n, err)
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.run()
			}
		})
	}
}

// Scenario: a pair of nodes sets its clocks, forgets producers, updates by condition and goes on from restored directories.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/setclock"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// pairClock is the time of a pair, and by how much the clock of each node was set.
type pairClock struct {
	begun  time.Time
	passed time.Duration
	set    [2]time.Duration
}

func (c *pairClock) of(node int) func() time.Time {
	return func() time.Time { return setclock.By(c.begun.Add(c.passed), c.set[node]) }
}

// other makes a rare step.
func (p *pair) other(t *testing.T) {
	t.Helper()
	primary := p.nodes[p.lead]
	switch p.rng.IntN(8) {
	case 6, 7:
		p.tick(t, primary)
	case 0:
		p.clock.set[p.rng.IntN(2)] = time.Duration(p.rng.IntN(7200)-3600) * time.Second
		p.counts["clock set"]++
	case 1:
		p.restore(t, p.nodes[1-p.lead])
	case 2:
		p.update(t, primary)
	default:
		for range 1 + p.rng.IntN(6) {
			p.clock.passed += time.Duration(p.rng.IntN(12)) * time.Second
			p.numbered(t, primary)
		}
	}
}

// tick moves the time of windows on, by the clock of the primary.
func (p *pair) tick(t *testing.T, n *pairNode) {
	t.Helper()
	m, was := n.state(t).m.clone(), n.s.Windows().Time()
	p.clock.passed += time.Duration(p.rng.IntN(5)) * time.Second
	if err := n.s.repl.AdmitCursors(); err != nil {
		t.Fatal(err)
	}
	if err := n.s.Windows().Tick(n.s.Admin().Now(), nil); err != nil {
		t.Fatal(err)
	}
	n.acknowledge(t, m)
	if n.s.Windows().Time() > was {
		p.counts["ticked"]++
	}
}

// update sets a column of the posts of a range.
func (p *pair) update(t *testing.T, n *pairNode) {
	t.Helper()
	def := n.s.Schema().Counter("a")
	if def == nil {
		return
	}
	from := p.mid()
	to := from + p.rng.Uint64N(1000)
	m, begin := n.state(t).m.clone(), n.s.data.Log.Position()
	between := m.clone()
	changed, err := n.s.Update(query.Query{Counter: def, From: from, To: to}, []Change{{Kind: OpSet, Column: 0, Arg: 1}}, ReturnNothing, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for mid, row := range m["a"] {
		if mid >= from && mid <= to {
			row[def.Columns[0].Name] = 1
			want++
		}
	}
	if changed != want {
		t.Fatalf("an update of %d to %d changed %d posts, want %d", from, to, changed, want)
	}
	n.acknowledge(t, m)
	// An update makes its changes in steps, and a frame may end behind each.
	frames := logBytes(t, n.s, begin)
	for at := begin; len(frames) > 0; {
		size := format.FrameHeaderLen + int(format.FramePayloadLen(frames))
		var rec format.Record
		for src := frames[format.FrameHeaderLen:size]; len(src) > 0; {
			length, err := format.DecodeRecord(src, &rec)
			if err != nil {
				t.Fatal(err)
			}
			between["a"][rec.Mid][def.Columns[0].Name] = 1
			src = src[length:]
		}
		at, frames = at+uint64(size), frames[size:]
		n.states[at] = stateOf(t, n, between)
	}
	p.counts["updated"]++
}

// numbered deletes a post as one of more producers than there are places.
func (p *pair) numbered(t *testing.T, n *pairNode) {
	t.Helper()
	def := n.s.Schema().Counter("a")
	if def == nil {
		return
	}
	m, mid := n.state(t).m.clone(), p.mid()
	p.seq++
	before := n.s.Admin().ProducerStats().Taken
	o, _ := numbered(t, n.s, Once{Producer: []byte(fmt.Sprint("p", p.rng.IntN(6))), Seq: p.seq}, Op{Counter: def, Kind: OpDelete, Mid: mid})
	if errors.As(o.Err, new(*ProducersFullError)) {
		p.counts["full"]++
		return
	}
	if o.Err != nil || o.Repeat {
		t.Fatalf("number %d: %v, a repeat: %v", p.seq, o.Err, o.Repeat)
	}
	delete(m["a"], mid)
	n.acknowledge(t, m)
	p.counts["evicted"] += int(n.s.Admin().ProducerStats().Taken - before)
}

// copy gives a replica the primary's directory. A restored directory has no snapshot before the moment of its own.
func (p *pair) copy(t *testing.T, n *pairNode) {
	t.Helper()
	primary := p.nodes[p.lead]
	if err := primary.s.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	n.sim, n.states = primary.sim.Kill(), maps.Clone(primary.states)
	n.open(t)
	if err := n.s.repl.Yield(); err != nil {
		t.Fatal(err)
	}
	n.forget(n.s.data.Log.Position())
	p.counts["copied"]++
}

// rareSteps are steps that a test with pairs has to have once at least.
var rareSteps = []string{"clock set", "restored", "updated", "full", "evicted", "ticked"}

// tally adds the counts of the rare steps.
func (p *pair) tally(total map[string]int) {
	for what, n := range p.counts {
		total[what] += n
	}
}

// restore restores a replica to its end or to an earlier moment, and goes on from that directory. The log of a restored directory
// begins at a snapshot, so the primary must not lose the log before it.
func (p *pair) restore(t *testing.T, n *pairNode) {
	t.Helper()
	primary := p.nodes[p.lead].s
	p.feed(t, primary.data.Log.Position())
	ends := slices.Sorted(maps.Keys(n.states))[1:] // at the first there was no counter
	at := ends[len(ends)-1-p.rng.IntN(min(4, len(ends)))]
	if err := errors.Join(primary.data.Log.Sync(), n.s.data.Log.Sync(), n.s.Close()); err != nil {
		t.Fatal(err)
	}
	sim := vfs.NewSim()
	done, err := datadir.Restore(n.sim, "data", sim, "data", datadir.Target{Offset: at}, datadir.RestoreOptions{})
	if err == nil && done.Offset == at {
		n.sim = sim
		p.counts["restored"]++
	} else if !errors.As(err, new(*datadir.WindowError)) {
		t.Fatalf("restored to %d: %+v, %v", at, done, err)
	}
	n.open(t)
	if err := n.s.repl.Yield(); err != nil {
		t.Fatal(err)
	}
	n.forget(n.s.data.Log.Position())
	n.check(t)
}

// Scenario: groups of hash slots move between two stores in use.

package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestGroupMoves moves groups to and fro between two stores that are used, snapshotted, tiered and lose their power: each
// post is served by its owner with its last value, and a numbered change that is tried again, by whoever owns the post
// then, is not made again.
func TestGroupMoves(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	newRand(t)
	runs := 12
	if *long {
		runs = 300
	}
	all := map[string]int{}
	for run := range runs {
		m := newMovers(t, rand.New(rand.NewPCG(*seed, uint64(run))))
		for range 700 {
			switch n := m.rng.IntN(100); {
			case n < 50:
				m.write(t)
			case n < 65:
				m.again(t)
			case n < 94:
				m.advance(t)
			case n < 97:
				node := m.nodes[m.rng.IntN(2)]
				change := node.s.Admin().Demote
				if m.rng.IntN(3) == 0 {
					change = node.s.Admin().Promote
				}
				if err := change("a", m.rng.Uint64N(600)); err != nil && !errors.Is(err, ErrNoBlock) {
					t.Fatal(err)
				}
			case n < 98:
				m.drop(t)
			case n < 99:
				if err := m.nodes[m.rng.IntN(2)].s.Snapshot(); err != nil {
					t.Fatal(err)
				}
			default:
				m.crash(t)
			}
			if m.rng.IntN(10) == 0 {
				checkTops(t, m.nodes[m.rng.IntN(2)].s)
			}
		}
		m.check(t)
		for _, n := range m.nodes {
			m.replica(t, n)
			if v := m.move; v != nil && v.x != nil {
				v.x.Close()
			}
			n.s.Close()
			n.open(t)
		}
		m.own(0)
		m.own(1)
		m.check(t)
		for _, n := range m.nodes {
			n.s.Close()
		}
		for what, n := range m.counts {
			all[what] += n
		}
	}
	t.Log(all)
}

// TestExportConfirmed: what a move gives away of producers, and of the log, is on all nodes that must have it. Posts are
// given as they are.
func TestExportConfirmed(t *testing.T) {
	s := openElected(t, vfs.NewSim(), func(o *Options) { o.SlotGroups = true })
	defer close1(t, s)
	r := s.Replication()
	if _, err := r.LeadAt(1); err != nil {
		t.Fatal(err)
	}
	r.Confirm(Everywhere)
	if err := s.AlterScript(moversSchema); err != nil {
		t.Fatal(err)
	}
	confirmed := r.Position()
	r.Confirm(confirmed)
	r.Doubt(errors.New("a replica is away")) // nobody waits
	change := func(seq uint64) {
		t.Helper()
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Add(Op{Kind: OpAdd, Counter: b.Schema().Counter("a"), Mid: 1, Arg: 1})
		o, _ := b.Once(0)
		o.Producer, o.Seq = []byte("p"), seq
		b.Run()
		b.End()
		var uncertain *UncertainError
		if err := b.Commit(); b.Op(0).Err != nil || !errors.As(err, &uncertain) {
			t.Fatalf("%v, %v: want a change that is not confirmed", b.Op(0).Err, err)
		}
	}
	change(1)
	x, err := s.Groups().Export(slot.AllGroups())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	change(2)
	if records, _, err := x.Producers(0, 1<<20); !errors.Is(err, ErrUnconfirmed) {
		t.Errorf("got %d bytes of producers, %v, want %v", len(records), err, ErrUnconfirmed)
	}
	if records, next, end, err := x.Log(nil, x.From(), 1<<20); len(records) > 0 || next != x.From() || end != confirmed || err != nil {
		t.Errorf("got %d bytes of log up to %d of %d, %v: want none, and that the log ends at %d", len(records), next, end, err, confirmed)
	}
	var rows []byte
	for at, done := (ExportPlace{}), false; !done; {
		if rows, at, done, err = x.Rows(rows, at); err != nil {
			t.Fatal(err)
		}
	}
	if len(rows) == 0 {
		t.Error("got no rows, want one post")
	}
	r.Confirm(x.From())
	if records, next, err := x.Producers(0, 1<<20); len(records) == 0 || next != 0 || err != nil {
		t.Errorf("got %d bytes of producers, %v", len(records), err)
	}
	if records, next, end, err := x.Log(nil, x.From(), 1<<20); len(records) > 0 || next != x.From() || end != x.From() || err != nil {
		t.Errorf("got %d bytes of log up to %d of %d, %v: want none", len(records), next, end, err)
	}
	r.Confirm(r.Position())
	if records, next, end, err := x.Log(nil, x.From(), 1<<20); len(records) == 0 || next != r.Position() || end != next || err != nil {
		t.Errorf("got %d bytes of log up to %d of %d, %v: want all", len(records), next, end, err)
	}
}

// TestImportBegunAnew: what an attempt brought of producers goes with it, on this node and on its replicas, and what they
// did in other groups stays. Groups that are not here are not exported.
func TestImportBegunAnew(t *testing.T) {
	m := newMovers(t, rand.New(rand.NewPCG(1, 2)))
	defer func() {
		for _, n := range m.nodes {
			close1(t, n.s)
		}
	}()
	source, destination := m.nodes[0].s, m.nodes[1].s
	mids := [2]uint64{1, 2}
	for i, mid := range mids {
		if _, done := m.try(t, Op{Kind: OpAdd, Mid: mid, Arg: 1}, fmt.Sprint("p ", i+1)); !done {
			t.Fatal("it was made before")
		}
	}
	var set slot.Set
	set.Add(slot.Group(mids[0]))
	var other slot.Set
	other.Add(slot.Group(mids[1]))
	bring := func(set slot.Set) {
		t.Helper()
		x, err := source.Groups().Export(set)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		i, err := destination.Groups().Import("m", set)
		if err != nil {
			t.Fatal(err)
		}
		records, _, err := x.Producers(0, 1<<20)
		if err == nil {
			_, _, err = i.Apply(records)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	entries := func() int { return int(destination.Admin().ProducerStats().Entries) }
	bring(set.Union(other))
	if n := entries(); n != 2 {
		t.Fatalf("%d entries came, want 2", n)
	}
	if _, err := destination.Groups().Export(set); !errors.Is(err, ErrNotHere) {
		t.Errorf("groups that are on their way are exported: %v", err)
	}
	if _, err := destination.Groups().Import("m", set); err != nil {
		t.Fatal(err)
	}
	if n := entries(); n != 1 {
		t.Errorf("begun anew, %d entries are left, want that of the other group", n)
	}
	n := m.nodes[1]
	close1(t, n.s)
	n.open(t)
	destination = n.s
	if n := entries(); n != 1 {
		t.Errorf("after a restart %d entries are left, want 1", n)
	}
	if _, err := destination.Groups().Drop("m", other); err != nil {
		t.Fatal(err)
	}
	if n := entries(); n != 0 {
		t.Errorf("given up, %d entries are left, want none", n)
	}
	var refused *TermError
	if _, err := destination.Groups().In(7).Drop("m", set); !errors.As(err, &refused) || !errors.Is(err, ErrDeposed) {
		t.Errorf("a drop in the name of an epoch that is not led: %v", err)
	}
}

// TestImportRefusesRecords: records that no export makes end with an error, wherever they stand. An import that comes back to a
// record that it can neither take nor refuse would hold the store's lock for ever.
func TestImportRefusesRecords(t *testing.T) {
	m := newMovers(t, rand.New(rand.NewPCG(7, 8)))
	defer func() {
		for _, n := range m.nodes {
			close1(t, n.s)
		}
	}()
	s := m.nodes[1].s
	def := s.Schema().Counters()[0]
	set := func(dst []byte) []byte { return format.AppendSet(dst, def.ID, def.Columns[0].ID, 5, 1) }
	define := func(dst []byte) []byte { return format.AppendDefine(dst, 3, 1, 0, []byte("p")) }
	next := func(dst []byte) []byte {
		return format.AppendOnce(dst, 3, 1, 7, 0, format.Result{Kind: format.ResultNext})
	}
	flush := func(dst []byte) []byte { return format.AppendFlush(dst) }
	once := func(dst []byte) []byte {
		return format.AppendOnce(dst, 3, 2, 7, slot.Group(5), format.Result{Kind: format.ResultInt})
	}
	type records []func([]byte) []byte
	for i, list := range []records{{next}, {define, next}, {set, next}, {define, next, flush}, {define, next, next}, {define, next, once}, {next, define}, {once}, {next, set}} {
		in, err := s.Groups().Import("m", slot.AllGroups())
		if err != nil {
			t.Fatal(err)
		}
		var given []byte
		for _, f := range list {
			given = f(given)
		}
		if _, done, err := in.Apply(given); !errors.Is(err, format.ErrCorrupt) || done >= len(given) {
			t.Errorf("records %d: %d of %d bytes were taken over, %v; want %v", i, done, len(given), err, format.ErrCorrupt)
		}
		if end, done, err := in.Apply(set(nil)); err != nil || done == 0 || end == 0 {
			t.Errorf("records %d: behind them: %d bytes, offset %d, %v", i, done, end, err)
		}
	}
}

// TestGroupMovesBehind moves groups to a store that was stopped for three days. The time of its log moves on ten minutes behind its start, and all that it counted
// in windows goes then. The counts of windows that came with the groups stay.
func TestGroupMovesBehind(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	rng := newRand(t)
	clock := int64(1_795_000_000)
	m := newMovers(t, rng, func(o *Options) { o.Now = func() time.Time { return time.Unix(clock, 0) } })
	tick := func(i int) {
		t.Helper()
		if err := m.nodes[i].s.Windows().Tick(time.Unix(clock, 0), nil); err != nil {
			t.Fatal(err)
		}
	}
	tick(0)
	tick(1)
	clock += 3 * 24 * 60 * 60
	tick(0)
	for range 300 {
		m.write(t)
	}
	values := func() string {
		t.Helper()
		var list []string
		for mid := range m.posts {
			s := m.nodes[m.owner[slot.Group(mid)]].s
			b := s.NewBatch()
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			def := b.Schema().Counter("a")
			b.Add(Op{Kind: OpGet, Counter: def, Mid: mid, Column: int16(len(def.Columns))})
			b.Run()
			list = append(list, fmt.Sprint(mid, " ", b.Op(0).Value, b.Op(0).Err))
			b.End()
		}
		slices.Sort(list)
		return strings.Join(list, "\n")
	}
	want := values()
	if _, err := m.nodes[1].s.Groups().Import("too early", slot.AllGroups()); errors.Is(err, ErrTimeBehind) {
		tick(1) // ten minutes later
	} else if err != nil {
		t.Fatal(err)
	}
	for !slices.Contains(m.owner[:], 1) || m.move != nil {
		m.advance(t)
	}
	tick(1)
	if got := values(); got != want {
		t.Errorf("counts of a window are\n%s\nwant\n%s", got, want)
	}
	m.check(t)
	for _, n := range m.nodes {
		n.s.Close()
	}
}

// Scenario: a primary and its replica against a model.

package counter

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	testseed "github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// pair is a primary and its replica, which random operations are played on. Every state that the primary acknowledged
// is known by its log offset, so that at any time each node must hold exactly the state of its own offset.
type pair struct {
	rng      *rand.Rand
	nodes    [2]*pairNode
	lead     int // which is the primary
	added    int // columns
	cuts     int // tails taken back
	links    int
	restarts int
	seq      uint64 // the last number of any producer
	clock    pairClock
	counts   map[string]int // of rare steps
}

// pairNode is one of the two, over its restarts.
type pairNode struct {
	sim    *vfs.Sim
	opts   Options
	s      *Store
	states map[uint64]pairState // by log offset, those that the node's log has
}

type pairState struct {
	m       model
	schema  string
	cursors string
	windows string // the time of the log, and the counts of all derived columns
}

// stateOf is the state of a node whose posts are m.
func stateOf(t testing.TB, n *pairNode, m model) pairState {
	t.Helper()
	return pairState{m.clone(), n.s.Schema().String(), cursorsText(n.s), windowsText(t, n.s)}
}

// windowsText is the time of the log, and the items of the spaces of derived columns.
func windowsText(t testing.TB, s *Store) string {
	t.Helper()
	text := fmt.Sprint(s.Windows().Time())
	for _, def := range s.Schema().Counters() {
		for i := range def.Derived {
			text += fmt.Sprint("; ", def.Derived[i].Name, spaceRows(t, s, &def.Derived[i])) // maps are printed in order
		}
	}
	return text
}

// clone copies a model: the one of a state must not change.
func (m model) clone() model {
	c := model{}
	for name, items := range m {
		c[name] = map[uint64]map[string]uint64{}
		for mid, row := range items {
			c[name][mid] = maps.Clone(row)
		}
	}
	return c
}

const pairSchemaScript = `add counter a old=on
add column a v hint=3 max=20 suffix=v top=3
add column a w hint=64 max=64 default=9 suffix=w
add column a v1h window=1h/5m of=v
add column a v10s window=10s/1s of=v suffix=vs
add column a heat decay=10m of=v*3 top=2
add counter b
add column b x hint=1 max=1 suffix=x`

func newPair(t *testing.T, rng *rand.Rand) *pair {
	t.Helper()
	p := &pair{rng: rng, clock: pairClock{begun: time.Now()}, counts: map[string]int{}}
	for i := range p.nodes {
		n := &pairNode{sim: vfs.NewSim(), states: map[uint64]pairState{0: {m: model{}, windows: "0"}}}
		n.opts = Options{BlockItems: 16 + rng.IntN(40), HashSeed: 1 + rng.Uint64(), RetainBytes: 1 << 30, Manual: true, AppendFsync: []SyncPolicy{SyncAlways, SyncEverySec}[rng.IntN(2)],
			SlotGroups: rng.IntN(2) == 0, Producers: ProducerLimits{Producers: 3, MinIdle: 30}, Now: p.clock.of(i)}
		p.nodes[i] = n
		n.open(t)
	}
	a := p.nodes[0]
	if err := a.s.AlterScript(pairSchemaScript); err != nil {
		t.Fatal(err)
	}
	a.acknowledge(t, model{"a": {}, "b": {}})
	for p.nodes[1].s.data.Log.Position() == 0 {
		p.link(t)
	}
	for _, n := range p.nodes { // so that they have a past in common, whatever fails
		if err := n.s.data.Log.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (n *pairNode) open(t *testing.T) {
	t.Helper()
	if err := n.tryOpen(); err != nil {
		t.Fatal(err)
	}
}

func (n *pairNode) tryOpen() (err error) {
	n.opts.FS = n.sim
	s, err := Open("data", n.opts)
	if err == nil {
		n.s = s
	}
	return err
}

// acknowledge commits the changes and notes the state.
func (n *pairNode) acknowledge(t *testing.T, m model) {
	t.Helper()
	at := n.s.data.Log.Position()
	if err := n.s.data.Log.Commit(at); err != nil {
		t.Fatal(err)
	}
	n.states[at] = stateOf(t, n, m)
}

// state is the state that the node must hold.
func (n *pairNode) state(t *testing.T) pairState {
	t.Helper()
	st, ok := n.states[n.s.data.Log.Position()]
	if !ok {
		t.Fatalf("the log ends at %d, where no change ended", n.s.data.Log.Position())
	}
	return st
}

// forget drops the states behind an offset.
func (n *pairNode) forget(end uint64) {
	maps.DeleteFunc(n.states, func(at uint64, _ pairState) bool { return at > end })
}

func (n *pairNode) check(t *testing.T) {
	t.Helper()
	st := n.state(t)
	if got := n.s.Schema().String(); got != st.schema {
		t.Fatalf("at %d: got schema %q, want %q", n.s.data.Log.Position(), got, st.schema)
	}
	if got := cursorsText(n.s); got != st.cursors {
		t.Fatalf("at %d: got cursors %q, want %q", n.s.data.Log.Position(), got, st.cursors)
	}
	if got := windowsText(t, n.s); got != st.windows {
		t.Fatalf("at %d: got windows %q, want %q", n.s.data.Log.Position(), got, st.windows)
	}
	checkTops(t, n.s)
	checkStore(t, n.s, st.m)
}

// step does one thing to one of the two, or to what is between them.
func (p *pair) step(t *testing.T) {
	t.Helper()
	primary, any := p.nodes[p.lead], p.nodes[p.rng.IntN(2)]
	switch k := p.rng.IntN(100); {
	case k < 5:
		m := primary.state(t).m.clone()
		playSchema(t, p.rng, primary.s, m, &p.added)
		primary.acknowledge(t, m)
	case k < 15:
		playTiers(t, p.rng, any.s, p.mid())
	case k < 20:
		if err := any.s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	case k < 25:
		any.s.data.Log.Tick()
	case k < 45:
		p.link(t)
	case k < 51:
		p.restart(t, any)
	case k < 53:
		p.swap(t)
	case k < 63:
		p.other(t)
	case k < 69:
		m := primary.state(t).m.clone()
		if err := playCursor(t, p.rng, primary.s); err != nil {
			t.Fatal(err)
		}
		primary.acknowledge(t, m)
	case k < 74:
		m := primary.state(t).m.clone()
		playDrop(t, p.rng, primary.s, m, p.mid)
		primary.acknowledge(t, m)
	default:
		p.write(t, primary)
	}
	any.check(t)
}

func (p *pair) mid() uint64 {
	if p.rng.IntN(6) == 0 {
		return p.rng.Uint64() >> 1
	}
	return fewGroups(p.rng.Uint64N(120))
}

// write does some operations in one commit: one frame, or two where a piece of the log's memory ends.
func (p *pair) write(t *testing.T, n *pairNode) {
	t.Helper()
	m := n.state(t).m.clone()
	b := n.s.NewBatch()
	for range 1 + p.rng.IntN(8) {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		b.Add(randomOp(p.rng, b, p.mid))
		b.Run()
		checkOp(t, b, b.Op(0), m)
		b.End()
		n.states[n.s.data.Log.Position()] = stateOf(t, n, m)
	}
	n.acknowledge(t, m)
}

// restart closes a node, kills it, or lets its power fail: only then it may lack what it wrote.
func (p *pair) restart(t *testing.T, n *pairNode) {
	t.Helper()
	p.restarts++
	before, replica := n.s.data.Log.Written(), n.s.Replica()
	durable := n.s.data.Log.Durable()
	least := before
	switch p.rng.IntN(3) {
	case 0:
		if err := n.s.Close(); err != nil {
			t.Fatal(err)
		}
	case 1:
		left := n.sim.Kill()
		_ = n.s.Close()
		n.sim = left
	default:
		left := n.sim.Crash(p.rng.Uint64(), []int{0, 50, 100}[p.rng.IntN(3)])
		_ = n.s.Close()
		n.sim, least = left, durable
	}
	n.open(t)
	end := n.s.data.Log.Position()
	if end < least {
		t.Fatalf("the log ends at %d, want %d at least", end, least)
	}
	if n.s.Replica() != replica {
		t.Fatalf("replica %v became %v in a restart", replica, n.s.Replica())
	}
	n.forget(end)
	n.check(t)
}

// swap makes the replica the primary, after it got everything or not; the old primary may go on for a while before it
// learns of it.
func (p *pair) swap(t *testing.T) {
	t.Helper()
	old, next := p.nodes[p.lead], p.nodes[1-p.lead]
	if p.rng.IntN(2) == 0 { // as FAILOVER does it
		for old.s.data.Log.Position() != next.s.data.Log.Position() || p.common(t) != next.s.data.Log.Position() {
			p.link(t)
		}
		if err := old.s.repl.Yield(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := next.s.repl.Lead(); err != nil {
		t.Fatal(err)
	}
	if !old.s.Replica() {
		for range p.rng.IntN(4) {
			p.write(t, old)
		}
		if err := old.s.repl.Yield(); err != nil {
			t.Fatal(err)
		}
	}
	p.lead = 1 - p.lead
}

// common is the offset up to which both logs agree, as the primary finds it.
func (p *pair) common(t *testing.T) uint64 {
	t.Helper()
	primary, replica := p.nodes[p.lead].s, p.nodes[1-p.lead].s
	mine, its := primary.repl.Lineage(), replica.repl.Lineage()
	common, ok := mine.Common(primary.data.Log.Written(), &its, replica.data.Log.Position())
	if !ok && replica.data.Log.Position() != 0 {
		t.Fatalf("no common past, and the replica's log ends at %d", replica.data.Log.Position())
	}
	return common
}

// link is one connection of the replica to the primary, cut at a random byte.
func (p *pair) link(t *testing.T) {
	t.Helper()
	p.links++
	p.reach(t)
	primary, replica := p.nodes[p.lead], p.nodes[1-p.lead]
	if common := p.common(t); common < replica.s.data.Log.Position() {
		p.cut(t, replica, common)
	}
	if _, err := replica.s.repl.Follow(primary.s.repl.Lineage()); err != nil {
		t.Fatal(err)
	}
	stream := logBytes(t, primary.s, replica.s.data.Log.Position())
	if p.rng.IntN(3) > 0 {
		stream = stream[:p.rng.IntN(len(stream)+1)]
	}
	for len(stream) > 0 {
		at := replica.s.data.Log.Position()
		n := len(stream)
		if n >= format.FrameHeaderLen {
			n = format.FrameHeaderLen + int(format.FramePayloadLen(stream))
		}
		if bad := bytes.Clone(stream[:min(n, len(stream))]); p.rng.IntN(4) == 0 || n > len(stream) || len(stream) < format.FrameHeaderLen {
			if n <= len(stream) {
				bad[p.rng.IntN(len(bad))] ^= 1 << p.rng.IntN(8)
			}
			if _, err := replica.s.repl.Replicate(bad); !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrTerm) || replica.s.data.Log.Position() != at {
				t.Fatalf("a bad frame at %d: %v, the log ends at %d", at, err, replica.s.data.Log.Position())
			}
			replica.check(t)
		}
		if n > len(stream) || len(stream) < format.FrameHeaderLen {
			break
		}
		end, err := replica.s.repl.Replicate(stream[:n])
		if err != nil {
			t.Fatal(err)
		}
		st, ok := primary.states[end]
		if !ok {
			t.Fatalf("a frame ends at %d, where no change ended", end)
		}
		replica.states[end] = st
		if p.rng.IntN(3) == 0 {
			if err := replica.s.data.Log.Commit(end); err != nil {
				t.Fatal(err)
			}
		}
		if p.rng.IntN(4) == 0 {
			replica.check(t)
		}
		stream = stream[n:]
	}
	replica.check(t)
}

// logBytes reads a log from an offset to its end.
func logBytes(t *testing.T, s *Store, from uint64) []byte {
	t.Helper()
	all, err := readLog(s, from)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readLog(s *Store, from uint64) (all []byte, err error) {
	r, err := s.data.Log.NewReader(from)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.Pos() != from {
		return nil, fmt.Errorf("the frame at %d begins at %d", from, r.Pos())
	}
	for {
		f, err := r.TryNext()
		if f == nil || err != nil {
			return all, err
		}
		all = append(all, f.Raw...)
	}
}

// cut takes back what the replica has and the primary has not: exactly that is saved.
func (p *pair) cut(t *testing.T, n *pairNode, at uint64) {
	t.Helper()
	p.cuts++
	end := n.s.data.Log.Position()
	if err := n.s.data.Log.Commit(end); err != nil { // a link that was cut may have left the end unwritten, which no reader sees
		t.Fatal(err)
	}
	lost := logBytes(t, n.s, at)
	lineage := n.s.repl.Lineage()
	if err := n.s.Close(); err != nil {
		t.Fatal(err)
	}
	before := lineage.Cut(at)
	before.Replica = true
	tail, err := past.Cut(n.sim, "data", at, before)
	if errors.Is(err, format.ErrGone) && p.counts["restored"]+p.counts["damaged"] > 0 || errors.Is(err, format.ErrCorrupt) && p.counts["damaged"] > 0 {
		p.copy(t, n)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	saved, err := vfs.ReadFile(n.sim, tail.File, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if tail.To < end && p.counts["damaged"] > 0 { // the frames before the damage are saved; no start needs that part of the log
		lost = lost[:tail.To-at]
	} else if tail.To != end {
		t.Fatalf("the tail saved ends at %d, want %d", tail.To, end)
	}
	if tail.From != at || !bytes.Equal(saved[64:], lost) {
		t.Fatalf("cut from %d to %d: the tail saved is %+v with %d bytes, want %d", at, end, tail, len(saved)-64, len(lost))
	}
	if err := n.tryOpen(); errors.Is(err, format.ErrCorrupt) && p.counts["damaged"] > 0 { // the start needs a damaged part of the log now
		p.copy(t, n)
		return
	} else if err != nil {
		t.Fatal(err)
	}
	if got := n.s.data.Log.Position(); got != at {
		t.Fatalf("cut at %d: the log ends at %d", at, got)
	}
	n.forget(at)
	n.check(t)
}

// meet has the replica follow the primary to its end.
func (p *pair) meet(t *testing.T) {
	t.Helper()
	for range 2 { // the second has nothing to cut the first for
		for p.nodes[0].s.data.Log.Position() != p.nodes[1].s.data.Log.Position() {
			p.link(t)
		}
		p.link(t)
	}
}

func (p *pair) close(t *testing.T) {
	t.Helper()
	for _, n := range p.nodes {
		if err := n.s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReplicaModel plays random operations, schema changes and FLUSHALL on a primary whose replica follows over a link
// that is cut at random bytes, while both make snapshots, demote and promote at times of their own, end in every way,
// and change roles.
func TestReplicaModel(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	playPairs(t, 8, rareSteps, (*pair).step)
}

// playPairs plays pairs until each of the rare steps has come, each pair with a seed of its own and the number of a stream of random numbers.
func playPairs(t *testing.T, stream uint64, rare []string, step func(*pair, *testing.T)) {
	t.Helper()
	newRand(t)
	runs := 4
	if *long {
		runs = 1000
	}
	total := pair{counts: map[string]int{}}
	for run := range testseed.Rounds(t, runs, total.counts, rare...) {
		runSeed := *seed + uint64(run)
		t.Run(fmt.Sprintf("seed=%d", runSeed), func(t *testing.T) {
			p := newPair(t, rand.New(rand.NewPCG(runSeed, stream)))
			for range 300 {
				step(p, t)
			}
			p.meet(t)
			if x, y := digestOf(t, p.nodes[0].s), digestOf(t, p.nodes[1].s); x != y {
				t.Errorf("digests %s and %s", x, y)
			}
			p.close(t)
			p.tally(total.counts)
			total.cuts, total.links, total.restarts = total.cuts+p.cuts, total.links+p.links, total.restarts+p.restarts
		})
	}
	t.Logf("%d links, %d restarts, %d tails taken back, %v", total.links, total.restarts, total.cuts, total.counts)
}

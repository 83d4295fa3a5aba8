package counter

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/vfs"
)

// movers are two stores that random operations are played on, while groups move between them. owner is the word of who
// decides: which store serves a group.
type movers struct {
	rng    *rand.Rand
	nodes  [2]*moverNode
	owner  [slot.Groups]int
	posts  map[uint64][2]uint64 // what is to be there
	added  map[uint64][2]uint64 // additions to v and w of posts that are there
	seqs   map[string]uint64
	made   map[string]Once // by producer and number: what it answered
	mids   map[string]uint64
	move   *testMove
	counts map[string]int
	moves  int
	full   bool // the last try found no place for its producer
}

type moverNode struct {
	sim  *vfs.Sim
	opts Options
	s    *Store
}

// testMove is one on its way.
type testMove struct {
	id       string
	groups   slot.Set
	from, to int
	x        *GroupExport
	i        *GroupImport
	step     int // producers, rows, log
	at       int
	place    ExportPlace
	offset   uint64
	left     []byte // records not applied yet
	failed   bool   // the destination had no place for a producer
}

const moversSchema = "add counter a\nadd column a v hint=3 max=20 suffix=v top=2\nadd column a w hint=8 max=40 default=2 suffix=w\nadd column a wh window=1d/1d of=w top=2\nadd column a sum decay=366d of=v+w*3 top=3"

func newMovers(t *testing.T, rng *rand.Rand, change ...func(*Options)) *movers {
	t.Helper()
	m := &movers{rng: rng, posts: map[uint64][2]uint64{}, added: map[uint64][2]uint64{}, seqs: map[string]uint64{}, made: map[string]Once{}, mids: map[string]uint64{}, counts: map[string]int{}}
	for i := range m.nodes {
		n := &moverNode{sim: vfs.NewSim()}
		n.opts = Options{BlockItems: 16 + rng.IntN(100), HashSeed: 1 + rng.Uint64(), RetainBytes: 1 << 30, Manual: true, AppendFsync: SyncAlways, SlotGroups: rng.IntN(2) == 0,
			Now: func() time.Time { return time.Unix(1_795_000_000, 0) }}
		for _, f := range change {
			f(&n.opts)
		}
		m.nodes[i] = n
		n.open(t)
		if err := n.s.repl.AdmitCursors(); err != nil {
			t.Fatal(err)
		}
		if err := n.s.AlterScript(moversSchema); err != nil {
			t.Fatal(err)
		}
		m.own(i)
	}
	return m
}

func (n *moverNode) open(t *testing.T) {
	t.Helper()
	n.opts.FS = n.sim
	s, err := Open("data", n.opts)
	if err != nil {
		t.Fatal(err)
	}
	n.s = s
}

// own tells a store what it serves: of the groups that are handed over nobody serves any.
func (m *movers) own(i int, held ...slot.Set) {
	var set slot.Set
	for g, owner := range m.owner {
		if owner == i {
			set[g>>6] |= 1 << (g & 63)
		}
	}
	for _, h := range held {
		for w := range set {
			set[w] &^= h[w]
		}
	}
	m.nodes[i].s.Groups().Own(set)
}

// write makes a change of one post at its owner, as a producer's or not, and may try it again.
func (m *movers) write(t *testing.T) {
	t.Helper()
	rng := m.rng
	mid := rng.Uint64N(500)
	if rng.IntN(4) == 0 {
		mid = 1<<40 + mid*977
	}
	key := ""
	op := Op{Kind: OpAdd, Mid: mid, Column: int16(rng.IntN(2)), Arg: rng.Uint64N(50)}
	switch rng.IntN(10) {
	case 0:
		op.Kind = OpSet
	case 1:
		op.Kind = OpDelete
	}
	if rng.IntN(2) == 0 {
		producer := fmt.Sprint("p", rng.IntN(4))
		m.seqs[producer]++
		key = fmt.Sprint(producer, " ", m.seqs[producer])
		m.mids[key] = mid
	}
	value, done := m.try(t, op, key)
	if !done {
		t.Fatalf("%+v of post %d was made before", op, mid)
	}
	row, there := m.posts[mid]
	if !there {
		row = [2]uint64{0, 2}
		delete(m.added, mid)
	}
	switch op.Kind {
	case OpAdd:
		row[op.Column] += op.Arg
		m.count(mid, op.Column, op.Arg)
		if value != row[op.Column] {
			t.Fatalf("post %d: got %d, want %d", mid, value, row[op.Column])
		}
		m.posts[mid] = row
	case OpSet:
		row[op.Column] = op.Arg
		m.posts[mid] = row
	case OpDelete:
		delete(m.posts, mid)
	}
}

// count notes an addition, from which derived columns follow.
func (m *movers) count(mid uint64, column int16, n uint64) {
	sums := m.added[mid]
	sums[column] += n
	m.added[mid] = sums
}

// try makes an operation at the post's owner. done is false if its number was used before.
func (m *movers) try(t *testing.T, op Op, key string) (value uint64, done bool) {
	t.Helper()
	s := m.nodes[m.owner[slot.Group(op.Mid)]].s
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	op.Counter = b.Schema().Counter("a")
	b.Add(op)
	var o *Once
	if key != "" {
		producer, number, _ := strings.Cut(key, " ")
		o, _ = b.Once(0)
		o.Producer, o.Hash, o.Room = []byte(producer), uint32(op.Mid), 100
		fmt.Sscan(number, &o.Seq)
		if op.Kind == OpDelete {
			o.Make = func(*Batch, *Once, int, int) Result { return Result{Kind: ResultBlob, Blob: []byte("gone " + key)} }
		}
	}
	b.Run()
	b.End()
	if err := b.Op(0).Err; err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	value = b.Op(0).Value
	if o != nil {
		if m.full = errors.As(o.Err, new(*ProducersFullError)); m.full {
			return 0, false
		}
		if o.Err != nil {
			t.Fatalf("%s: %v", key, o.Err)
		}
		kept := *o
		kept.Result.Blob = bytes.Clone(o.Result.Blob)
		if o.Repeat {
			if was := m.made[key]; was.Result.Kind != o.Result.Kind || was.Result.N != o.Result.N || !bytes.Equal(was.Result.Blob, o.Result.Blob) {
				t.Fatalf("%s: answered %+v, and now %+v", key, was.Result, o.Result)
			}
			return value, false
		}
		m.made[key] = kept
	}
	return value, true
}

// again tries one of the newest numbers of a producer again, at whoever owns its post now.
func (m *movers) again(t *testing.T) {
	t.Helper()
	producer := fmt.Sprint("p", m.rng.IntN(4))
	if m.seqs[producer] == 0 {
		return
	}
	key := fmt.Sprint(producer, " ", m.seqs[producer]-m.rng.Uint64N(min(m.seqs[producer], 30)))
	o := m.made[key]
	op := Op{Kind: OpAdd, Mid: m.mids[key], Arg: 7}
	if o.Result.Kind == ResultBlob {
		op.Kind = OpDelete
	}
	if m.held(op.Mid) {
		return
	}
	if _, done := m.try(t, op, key); done {
		t.Fatalf("%s of post %d was made twice", key, op.Mid)
	}
	m.counts["repeat"]++
}

func (m *movers) held(mid uint64) bool {
	return m.move != nil && m.move.step == 9 && m.move.groups.Has(slot.Group(mid))
}

// advance goes a step on with the move, or begins one.
func (m *movers) advance(t *testing.T) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	v := m.move
	if v == nil {
		from := m.rng.IntN(2)
		v = &testMove{id: fmt.Sprint("move", m.moves), from: from, to: 1 - from}
		share := 1 + m.rng.IntN(3)
		for g, owner := range m.owner {
			if owner == from && m.rng.IntN(share) == 0 {
				v.groups[g>>6] |= 1 << (g & 63)
			}
		}
		if v.groups == (slot.Set{}) {
			return
		}
		m.moves++
		m.move = v
		v.step = -1
	}
	source, destination := m.nodes[v.from].s, m.nodes[v.to].s
	apply := func(records []byte) {
		t.Helper()
		v.left = append(v.left, records...)
		_, done, err := v.i.Apply(v.left)
		if v.failed = v.failed || errors.As(err, new(*ProducersFullError)); v.failed {
			return
		}
		must(err)
		if done != len(v.left) {
			t.Fatalf("%d of %d bytes taken", done, len(v.left))
		}
		v.left = v.left[:0]
	}
	var err error
	defer func() {
		if v.failed {
			m.own(v.from)
			v.step, v.failed = -1, false
			m.counts["move found no place"]++
		}
	}()
	switch v.step {
	case -1: // the two may begin anew at any time
		if v.x != nil {
			must(v.x.Close())
		}
		v.x, err = source.Groups().Export(v.groups)
		must(err)
		v.i, err = destination.Groups().Import(v.id, v.groups)
		must(err)
		v.step, v.at, v.place, v.offset, v.left = 0, 0, ExportPlace{}, v.x.From(), nil
	case 0:
		var records []byte
		records, v.at, err = v.x.Producers(v.at, 1+m.rng.IntN(200))
		must(err)
		apply(records)
		if v.at == 0 {
			v.step = 1
		}
	case 1:
		records, next, done, err := v.x.Rows(nil, v.place)
		must(err)
		apply(records)
		if v.place = next; done {
			v.step = 2
		}
	case 2:
		m.catchUp(t, apply, 1+m.rng.IntN(300))
		if m.rng.IntN(3) == 0 {
			v.step = 3
		}
	case 3: // hold, the rest, and the word
		m.own(v.from, v.groups)
		end := source.Replication().Position()
		must(source.Replication().CommitHere(end))
		v.step = 9
		for v.offset < end {
			if m.catchUp(t, apply, 1<<20); v.failed {
				return
			}
		}
		must(destination.Replication().CommitHere(destination.Replication().Position()))
		if m.rng.IntN(4) == 0 { // canceled
			m.own(v.from)
			end, err := destination.Groups().Drop(v.id, v.groups)
			must(err)
			must(destination.Replication().CommitHere(end))
			must(v.x.Close())
			m.move = nil
			m.counts["canceled"]++
			return
		}
		for g := range m.owner {
			if v.groups.Has(uint8(g)) {
				m.owner[g] = v.to
			}
		}
		m.counts["moved"]++
		end, err := destination.Groups().Accept(v.id, v.groups)
		must(err)
		must(destination.Replication().CommitHere(end))
		m.own(v.to)
		m.own(v.from)
		if m.rng.IntN(2) == 0 { // the source drops later
			_, err := source.Groups().Drop(v.id, v.groups)
			must(err)
		}
		must(v.x.Close())
		m.move = nil
	}
}

func (m *movers) catchUp(t *testing.T, apply func([]byte), most int) {
	t.Helper()
	v := m.move
	records, next, _, err := v.x.Log(nil, v.offset, most)
	if err != nil {
		t.Fatal(err)
	}
	apply(records)
	v.offset = next
}

// crash stops a store as a loss of power does, and opens it again. What it acknowledged is there; a move begins anew.
func (m *movers) crash(t *testing.T) {
	t.Helper()
	i := m.rng.IntN(2)
	n := m.nodes[i]
	disk := n.sim.Crash(m.rng.Uint64(), m.rng.IntN(101))
	if v := m.move; v != nil && v.x != nil {
		if err := v.x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.s.Close(); err != nil {
		t.Fatal(err)
	}
	n.sim = disk
	n.open(t)
	m.own(i)
	if m.move != nil {
		m.move.step, m.move.x = -1, nil
	}
	m.counts["crash"]++
}

// check compares what the two serve with what is to be there.
func (m *movers) check(t *testing.T) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for mid, row := range m.posts {
		want[fmt.Sprint("a:", mid)] = fmt.Sprintf("v=%d w=%d wh=%d sum=%d", row[0], row[1], m.added[mid][1], m.added[mid][0]+3*m.added[mid][1])
	}
	for i, n := range m.nodes {
		checkTops(t, n.s)
		for key, text := range dump(t, n.s) {
			if key == "schema" || key == "producers" {
				continue
			}
			if _, twice := got[key]; twice {
				t.Fatalf("%s: both have it", key)
			}
			var mid uint64
			if fmt.Sscanf(key, "a:%d", &mid); m.owner[slot.Group(mid)] != i {
				t.Fatalf("%s: store %d has it", key, i)
			}
			got[key] = text
		}
	}
	if !maps.Equal(got, want) {
		for key, text := range want {
			if got[key] != text {
				t.Errorf("%s: got %q, want %q", key, got[key], text)
			}
		}
		t.Fatalf("got %d posts, want %d", len(got), len(want))
	}
}

// replica plays a store's log into another and wants it to be the same.
func (m *movers) replica(t *testing.T, n *moverNode) {
	t.Helper()
	sim := vfs.NewSim()
	opts := n.opts
	opts.FS = sim
	s, err := Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.repl.Follow(n.s.repl.Lineage()); err != nil {
		t.Fatal(err)
	}
	if err := n.s.data.Log.Commit(n.s.data.Log.Position()); err != nil {
		t.Fatal(err)
	}
	eachFrame(t, n.s, 0, func(raw []byte) {
		if _, err := s.repl.Replicate(raw); err != nil {
			t.Fatal(err)
		}
	})
	set := n.s.Groups().Owned()
	s.Groups().Own(set)
	if got, want := dump(t, s), dump(t, n.s); !maps.Equal(got, want) {
		for key := range want {
			if got[key] != want[key] {
				a, b := strings.Fields(got[key]), strings.Fields(want[key])
				for i := range max(len(a), len(b)) {
					if i >= len(a) || i >= len(b) || a[i] != b[i] {
						t.Errorf("%s: the replica has ... %v, want %v", key, a[i:min(len(a), i+6)], b[i:min(len(b), i+6)])
						break
					}
				}
			}
		}
		t.Fatalf("the replica has %d entries, want %d", len(got), len(want))
	}
	importing, gone := n.s.Groups().States()
	if got, other := s.Groups().States(); !maps.Equal(got, importing) || other != gone {
		t.Fatalf("the replica has groups %v and %v, want %v and %v", got, other, importing, gone)
	}
}

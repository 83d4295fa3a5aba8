package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/persist/vfs"
)

// dump reads everything in a store: "counter:mid" to its columns by name, and what it remembers of producers.
func dump(t testing.TB, s *Store) map[string]string {
	t.Helper()
	checkTops(t, s)
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	out := map[string]string{"schema": b.Schema().String()}
	if text := producersText(t, s); text != "" {
		out["producers"] = text
	}
	if text := cursorsText(s); text != "" {
		out["cursors"] = text
	}
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		var items []ScanItem
		var err error
		if items, cursor, err = NewReader(b).Scan(nil, cursor, 100); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		for _, it := range items {
			b.Add(Op{Kind: OpRead, Counter: it.Counter, Mid: it.Mid})
		}
		b.Run()
		for i, it := range items {
			var row []string
			for c, v := range b.Row(b.Op(i)) {
				row = append(row, fmt.Sprintf("%s=%d", it.Counter.Col(c).Name, v))
			}
			out[fmt.Sprintf("%s:%d", it.Counter.Name, it.Mid)] = strings.Join(row, " ")
		}
	}
	return out
}

// player does random things to a durable store and knows every state that it may be in after a crash: the one
// acknowledged last, and those that the operations not acknowledged yet lead to, one by one.
type player struct {
	rng    *rand.Rand
	sim    *vfs.Sim
	opts   Options
	s      *Store
	states []map[string]string // possible states; the first is the acknowledged one
	added  int

	// Of producers: what each made last, and its highest number and epoch. A crash ends the player, so it is all there.
	made         map[string]Once
	seqs, epochs map[string]uint64
}

func (p *player) open() error {
	p.opts.FS = p.sim
	s, err := Open("data", p.opts)
	p.s = s
	return err
}

// acknowledged drops all states but the present one.
func (p *player) acknowledged() { p.states = p.states[len(p.states)-1:] }

// step does one thing. An error means that the file system has crashed.
func (p *player) step(t testing.TB) error {
	switch n := p.rng.IntN(100); {
	case n < 5:
		return p.s.Snapshot()
	case n < 6:
		p.s.snapshots.SnapshotIfDue() // whatever it finds, nothing acknowledged depends on it
		return nil
	case n < 8:
		if err := p.s.Close(); err != nil {
			return err
		}
		return p.open()
	case n < 12:
		return p.alter(t)
	case n < 20:
		return p.tier(t)
	case n < 22:
		return p.clear(t)
	case n < 27:
		return p.drop(t)
	case n < 45:
		return p.numbered(t)
	case n < 52:
		return p.cursor(t)
	default:
		return p.batch(t)
	}
}

// cursor sets or removes a cursor of the feed.
func (p *player) cursor(t testing.TB) error {
	err := playCursor(t, p.rng, p.s)
	p.states = append(p.states, dump(t, p.s))
	if err == nil {
		p.acknowledged()
	}
	return err
}

// tier demotes, merges or promotes a block; nobody may see any difference.
func (p *player) tier(t testing.TB) error {
	mid := p.mid()
	change, counters := p.s.Admin().Demote, p.s.Schema().Counters()
	if p.rng.IntN(3) == 0 {
		change = p.s.Admin().Promote
	}
	if err := change(counters[p.rng.IntN(len(counters))].Name, mid); err != nil && !errors.Is(err, ErrNoBlock) {
		return err
	}
	if got, want := dump(t, p.s), p.states[len(p.states)-1]; !maps.Equal(got, want) {
		t.Fatalf("a change of tier changed %v to %v", want, got)
	}
	return nil
}

func (p *player) alter(t testing.TB) error {
	def := p.s.Schema().Counter("a")
	script := ""
	if p.rng.IntN(4) == 0 {
		if script = "drop counter b"; p.s.Schema().Counter("b") == nil {
			script = "add counter b\nadd column b z hint=2 max=30 suffix=z"
		}
	} else if len(def.Columns) > 2 && p.rng.IntN(2) == 0 {
		script = "drop column a " + def.Columns[1].Name
	} else {
		p.added++
		script = fmt.Sprintf("add column a c%d hint=2 max=30 default=%d suffix=c%d", p.added, p.rng.IntN(3), p.added)
	}
	err := p.s.AlterScript(script)
	p.states = append(p.states, dump(t, p.s))
	if err == nil {
		p.acknowledged()
	}
	return err
}

func (p *player) clear(t testing.TB) error {
	b := p.s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	err := b.Whole().Clear()
	b.End()
	p.states = append(p.states, dump(t, p.s))
	if err := errors.Join(err, b.Commit()); err != nil {
		return err
	}
	p.acknowledged()
	return nil
}

// batch runs a few operations, one batch each so that every state in between is known, and commits them together.
func (p *player) batch(t testing.TB) error {
	b := p.s.NewBatch()
	var failed error
	for range 1 + p.rng.IntN(4) {
		if err := b.Begin(); err != nil {
			return err
		}
		b.Reset()
		def := b.Schema().Counter("a")
		if other := b.Schema().Counter("b"); other != nil && p.rng.IntN(3) == 0 {
			def = other
		}
		op := Op{Kind: []OpKind{OpSet, OpAdd, OpAdd, OpReset, OpDelete}[p.rng.IntN(5)], Counter: def, Mid: p.mid(),
			Column: int16(p.rng.IntN(len(def.Columns))), Arg: p.rng.Uint64N(30)}
		if p.rng.IntN(5) == 0 {
			op.Mid = p.rng.Uint64() >> 1
		}
		switch p.rng.IntN(8) {
		case 0, 1: // the same of the first of some posts
			failed = errors.Join(failed, p.update(b, op))
		case 2:
			b.End()
			if err := p.updateWhole(b, op); err != nil {
				failed = errors.Join(failed, err)
			}
		default:
			b.Add(op)
			b.Run()
			if err := b.Op(0).Err; err != nil && !errors.Is(err, ErrOutOfRange) {
				failed = err
			}
		}
		b.End()
		p.states = append(p.states, dump(t, p.s))
	}
	if err := errors.Join(failed, b.Commit()); err != nil {
		return err
	}
	p.acknowledged()
	return nil
}

// numbered makes some changes of producers, or tries them again, commits them together, and compares what repeats answer
// with what was answered before.
func (p *player) numbered(t testing.TB) error {
	b := p.s.NewBatch()
	var failed error
	for range 1 + p.rng.IntN(3) {
		id := fmt.Sprint("producer", p.rng.IntN(4))
		o := Once{Producer: []byte(id), Seq: p.seqs[id] + 1 + p.rng.Uint64N(3), Epoch: p.epochs[id], Hash: p.rng.Uint32() >> 11, Room: p.rng.IntN(100),
			Each: p.rng.IntN(2) == 0, Make: answers}
		switch again, ok := p.made[id]; {
		case ok && p.rng.IntN(3) == 0:
			o.Seq, o.Hash = again.Seq, again.Hash
		case p.rng.IntN(40) == 0:
			o.Seq += 1 << 40
		}
		if p.rng.IntN(10) == 0 {
			o.Epoch += 1 + p.rng.Uint64N(2)
		}
		if err := p.once(t, b, &o); err != nil {
			failed = err
			break
		}
		p.states = append(p.states, dump(t, p.s))
		if o.Err != nil {
			var uncertain *UncertainError
			if !errors.Is(o.Err, ErrNotReady) && !errors.As(o.Err, &uncertain) {
				t.Fatalf("%+v: got %v", o, o.Err)
			}
			failed = o.Err
			break
		}
		if again := p.made[id]; o.Repeat && (again.Seq != o.Seq || again.Result.Kind != o.Result.Kind || string(again.Result.Blob) != string(o.Result.Blob)) {
			t.Fatalf("got %+v for a repeat of %+v", o, again)
		} else if !o.Repeat && again.Seq == o.Seq {
			t.Fatalf("%+v was made again", o)
		}
		p.epochs[id] = o.Epoch
		if o.Result.Kind != 0 { // it was not refused
			p.made[id], p.seqs[id] = o, max(o.Seq, p.seqs[id])
		}
	}
	if err := errors.Join(failed, b.Commit()); err != nil {
		return err
	}
	p.acknowledged()
	return nil
}

// once runs one of p's numbered changes: an operation, a group or a transaction, or a fence before.
func (p *player) once(t testing.TB, b *Batch, o *Once) error {
	b.Reset()
	add := func(kind OpKind) {
		def := b.Schema().Counter("a")
		b.Add(Op{Kind: kind, Counter: def, Mid: p.mid(), Column: int16(p.rng.IntN(len(def.Columns))), Arg: p.rng.Uint64N(30) - 3})
	}
	if p.rng.IntN(5) == 0 {
		if err := b.BeginExclusive(); err != nil {
			return err
		}
		defer b.End()
		if b.TryOnce(o) {
			for range p.rng.IntN(4) {
				add(OpAdd)
			}
			b.Run()
			b.KeepOnce(o, answers(b, o, 0, b.Len()))
		}
		return nil
	}
	if err := b.Begin(); err != nil {
		return err
	}
	defer b.End()
	switch p.rng.IntN(6) {
	case 0:
	case 1:
		add(OpReset)
	case 2:
		add(OpDelete)
	case 3, 4:
		add(OpAdd)
	default:
		for range 1 + p.rng.IntN(5) {
			add(OpAdd)
		}
	}
	into, _ := b.Once(0)
	*into = *o
	b.Run()
	*o = *into
	for i := range b.Len() {
		if err := b.Op(i).Err; err != nil && !errors.Is(err, ErrOutOfRange) {
			return err
		}
	}
	return nil
}

// update changes one post, that there is, of those up to op's, several columns of it at once.
func (p *player) update(b *Batch, op Op) error {
	q := query.Query{Counter: op.Counter, To: op.Mid, Desc: true, Limit: 1}
	changes := []Change{{Kind: op.Kind, Column: op.Column, Arg: op.Arg}}
	if other := int16(len(op.Counter.Columns)) - 1 - op.Column; op.Kind != OpDelete && other != op.Column {
		changes = append(changes, Change{Kind: OpAdd, Column: other, Arg: 1})
	}
	u, err := NewUpdate(q, changes, Returning(p.rng.IntN(2)))
	if err != nil {
		return except(err, ErrOutOfRange)
	}
	for done := false; err == nil && !done; {
		done, err = u.Step(b)
	}
	if u.Changed() > 1 {
		return fmt.Errorf("%d posts were changed", u.Changed())
	}
	return except(err, ErrOutOfRange)
}

// updateWhole changes some posts as one change. b is open, exclusively, afterwards.
func (p *player) updateWhole(b *Batch, op Op) error {
	change := Change{Kind: op.Kind, Column: op.Column, Arg: op.Arg}
	u, err := NewUpdate(query.Query{Counter: op.Counter, To: op.Mid, Where: []query.Condition{{Column: op.Column, Op: query.Less, Value: 9}}}, []Change{change}, ReturnNothing)
	if err != nil {
		return errors.Join(except(err, ErrOutOfRange), b.BeginExclusive())
	}
	for done := false; err == nil && !done; b.End() {
		if err = b.Begin(); err == nil {
			done, err = u.Gather(b)
		}
	}
	err = errors.Join(except(err, ErrOutOfRange), b.BeginExclusive())
	if err == nil {
		err = u.Apply(b)
	}
	return err
}

// mid is one of few.
func (p *player) mid() uint64 {
	if mid := p.rng.Uint64N(60); !p.opts.SlotGroups {
		return mid
	} else {
		return fewGroups(mid)
	}
}

const playSchemaScript = "add counter a old=on\nadd column a v hint=3 max=20 suffix=v top=2\nadd column a w hint=8 max=40 default=2 suffix=w\nadd column a vh window=1d/1d of=v top=2\nadd column a vd decay=1h of=v*2 top=3"

func newPlayer(t testing.TB, seed uint64, sim *vfs.Sim) (*player, error) {
	rng := rand.New(rand.NewPCG(seed, 3))
	p := &player{rng: rng, sim: sim, made: map[string]Once{}, seqs: map[string]uint64{}, epochs: map[string]uint64{}, opts: Options{BlockItems: 16 + rng.IntN(20), HashSeed: 1 + rng.Uint64(), AppendFsync: SyncAlways, Manual: true, SlotGroups: seed%2 == 1, Now: func() time.Time { return time.Unix(1_795_000_000, 0) }}}
	p.states = []map[string]string{{"schema": ""}}
	if err := p.open(); err != nil {
		return p, err
	}
	_ = p.s.repl.AdmitCursors()
	err := p.s.AlterScript(playSchemaScript)
	p.states = append(p.states, dump(t, p.s))
	if err == nil {
		p.acknowledged()
	}
	return p, err
}

// check recovers from what a crash left and compares with the states that are allowed.
func (p *player) check(t testing.TB, left *vfs.Sim, what string) {
	t.Helper()
	opts := p.opts
	opts.FS = left
	s, err := Open("data", opts)
	if err != nil {
		t.Fatalf("%s: recovery: %v", what, err)
	}
	defer s.Close()
	got := dump(t, s)
	for _, want := range p.states {
		if maps.Equal(got, want) {
			return
		}
	}
	t.Fatalf("%s: got %v\nwant one of %d states, the acknowledged one being %v\nthe last %v", what, got, len(p.states), p.states[0], p.states[len(p.states)-1])
}

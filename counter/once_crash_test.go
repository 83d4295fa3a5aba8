// Scenario: power failures while numbered changes are made.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// onceScript is a sequence of numbered changes by several producers, and what each answers when it is made once.
type onceScript struct {
	steps []onceStep
	final map[string]string // dump of a store behind the last, but for the schema and producers
}

type onceStep struct {
	producer    string
	seq         uint64
	transaction bool
	series      bool // each operation has a number of its own, from seq on
	ops         []Op
	want        string
}

const onceSchema = "add counter a\nadd column a v hint=3 max=6 suffix=v top=2\nadd column a w hint=8 max=40 default=2 suffix=w"

// newOnceScript draws a script and plays it on a map.
func newOnceScript(rng *rand.Rand, n int) onceScript {
	type cell struct {
		mid    uint64
		column int16
	}
	values, there := map[cell]uint64{}, map[uint64]bool{}
	defaults, limits := [2]uint64{0, 2}, [2]uint64{1<<6 - 1, 1<<40 - 1}
	seqs := map[string]uint64{}
	var sc onceScript
	for range n {
		st := onceStep{producer: fmt.Sprint("p", rng.IntN(3)), transaction: rng.IntN(5) == 0}
		seqs[st.producer] += 1 + rng.Uint64N(3)
		st.seq = seqs[st.producer]
		kind, count := OpAdd, 1
		switch rng.IntN(8) {
		case 0:
			count = 1 + rng.IntN(6)
		case 1:
			kind, count = OpSet, 1+rng.IntN(3)
		case 2:
			kind, count = OpReset, 1+rng.IntN(2)
		case 3, 4:
			count, st.series, st.transaction = 1+rng.IntN(9), true, false
			seqs[st.producer] += uint64(count - 1)
		}
		for range count {
			op := Op{Kind: kind, Mid: rng.Uint64N(8), Column: int16(rng.IntN(2)), Arg: rng.Uint64N(20)}
			switch {
			case st.series:
				op.Column = 1 // which has room for all: a number that was refused is free
			case kind == OpAdd:
				op.Arg -= 4
			}
			st.ops = append(st.ops, op)
			at := cell{op.Mid, op.Column}
			old := defaults[op.Column]
			if v, ok := values[at]; ok {
				old = v
			}
			value, err := op.Arg, error(nil)
			switch kind {
			case OpAdd:
				if value = old + op.Arg; value > limits[op.Column] { // below 0 it is very large {
					value, err = old, ErrOutOfRange
				} else {
					values[at], there[op.Mid] = value, true
				}
			case OpSet:
				value = 0
				if there[op.Mid] {
					value = old
				}
				values[at], there[op.Mid] = op.Arg, true
			case OpReset:
				value = 0
				if there[op.Mid] {
					value, values[at] = old, defaults[op.Column]
				}
			}
			st.want += fmt.Sprintf("%d %v;", value, err)
		}
		sc.steps = append(sc.steps, st)
	}
	sc.final = map[string]string{}
	for mid := range there {
		row := [2]uint64{defaults[0], defaults[1]}
		for c := range row {
			if v, ok := values[cell{mid, int16(c)}]; ok {
				row[c] = v
			}
		}
		sc.final[fmt.Sprint("a:", mid)] = fmt.Sprintf("v=%d w=%d", row[0], row[1])
	}
	return sc
}

// run makes a step, or tries it again. An error says that the client does not know whether it was made.
func (st *onceStep) run(t testing.TB, s *Store) (repeat bool, err error) {
	t.Helper()
	b := s.NewBatch()
	begin := b.Begin
	if st.transaction {
		begin = b.BeginExclusive
	}
	if err := begin(); err != nil {
		return false, err
	}
	add := func() {
		for _, op := range st.ops {
			op.Counter = b.Schema().Counter("a")
			b.Add(op)
		}
	}
	o := &Once{}
	if !st.transaction {
		add()
		if st.series {
			return st.runSeries(t, b)
		}
		o, _ = b.Once(0)
	}
	*o = Once{Producer: []byte(st.producer), Seq: st.seq, Hash: uint32(st.seq), Room: 1000, Each: true, Make: answers}
	if !st.transaction {
		b.Run()
	} else if b.TryOnce(o) {
		add()
		b.Run()
		b.KeepOnce(o, answers(b, o, 0, len(st.ops)))
	}
	b.End()
	if err := errors.Join(o.Err, b.Commit()); err != nil {
		return false, err
	}
	for i := range b.Len() {
		if err := b.Op(i).Err; err != nil && !errors.Is(err, ErrOutOfRange) {
			return false, err
		}
	}
	if got := string(o.Result.Blob); got != st.want {
		t.Fatalf("%s %d, repeat %v: got %s, want %s", st.producer, st.seq, o.Repeat, got, st.want)
	}
	return o.Repeat, nil
}

// runSeries is run of a series, whose operations are in b. A crash may have kept a part of it.
func (st *onceStep) runSeries(t testing.TB, b *Batch) (repeat bool, err error) {
	t.Helper()
	for i := range b.Len() {
		b.Op(i).SetHash(uint32(st.seq) + uint32(i))
	}
	OnceSeries(b, 0, []byte(st.producer), 0, st.seq)
	b.Run()
	b.End()
	err = b.Commit()
	got := ""
	repeat = true
	for i := range b.Len() {
		op := b.Op(i)
		err = errors.Join(err, op.Err)
		repeat = repeat && !op.Done
		got += fmt.Sprintf("%d %v;", op.Value, op.Err)
	}
	if err == nil && got != st.want {
		t.Fatalf("%s %d, repeat %v: got %s, want %s", st.producer, st.seq, repeat, got, st.want)
	}
	return repeat, err
}

// play makes the steps from one on, with snapshots, and changes of tier and restarts in between, until one fails; it
// returns how many were acknowledged. The first may have been made before.
func (sc *onceScript) play(t testing.TB, rng *rand.Rand, s *Store, from int) (acknowledged int, repeats int) {
	t.Helper()
	for i := from; i < len(sc.steps); i++ {
		switch rng.IntN(12) {
		case 0:
			if s.Snapshot() != nil {
				return i, repeats
			}
		case 1:
			if err := s.Admin().Demote("a", rng.Uint64N(8)); err != nil && !errors.Is(err, ErrNoBlock) {
				return i, repeats
			}
		}
		repeat, err := sc.steps[i].run(t, s)
		if err != nil {
			return i, repeats
		}
		if repeat {
			repeats++
			if i > from {
				t.Fatalf("step %d answers as if it was made before", i)
			}
		}
		if rng.IntN(6) == 0 { // the reply was lost on its way
			back := max(0, i-rng.IntN(20))
			if repeat, err := sc.steps[back].run(t, s); err != nil {
				return i + 1, repeats
			} else if !repeat {
				t.Fatalf("step %d was made again", back)
			}
		}
	}
	return len(sc.steps), repeats
}

// TestCrashOnce ends the process, or lets the power fail, at each operation of the file system while numbered changes
// are made. Whoever got no answer tries again: each is made once, whatever the point, and all answers are those of one
// run without a crash.
func TestCrashOnce(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	newRand(t)
	runs, points, repeated := 2, 0, 0
	if *long {
		runs = 300
	}
	for run := range runs {
		seed := *seed + uint64(run)
		for at := 0; ; at++ {
			rng := rand.New(rand.NewPCG(seed, 5))
			sc := newOnceScript(rng, 40)
			opts := Options{BlockItems: 16, HashSeed: 1 + seed, Manual: true, AppendFsync: []SyncPolicy{SyncAlways, SyncEverySec}[seed%2], SlotGroups: seed%4 < 2}
			sim := vfs.NewSim()
			sim.TornCrashAt(at, []int{0, 50, 100}[at%3])
			opts.FS = sim
			acknowledged := 0
			s, err := Open("data", opts)
			if err == nil {
				if err = s.AlterScript(onceSchema); err == nil {
					acknowledged, _ = sc.play(t, rng, s, 0)
				}
			}
			if !sim.Crashed() {
				if err != nil || acknowledged < len(sc.steps) {
					t.Fatalf("-seed=%d: no crash, but %d steps, %v", seed, acknowledged, err)
				}
				s.Close()
				break
			}
			after := rng.Uint64()
			left := map[string]*vfs.Sim{"kill": sim.Kill()}
			if opts.AppendFsync == SyncAlways { // else what was acknowledged may be gone
				keep := []int{0, 30, 70, 100}[at%4]
				left[fmt.Sprintf("power failure, %d%% kept", keep)] = sim.Crash(seed+uint64(at), keep)
			}
			for how, disk := range left {
				points++
				what := fmt.Sprintf("-seed=%d: %s at operation %d", seed, how, at)
				opts.FS = disk
				r, err := Open("data", opts)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if r.Schema().Counter("a") == nil {
					if err := r.AlterScript(onceSchema); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
				n, repeats := sc.play(t, rand.New(rand.NewPCG(after, 1)), r, acknowledged)
				repeated += repeats
				got := dump(t, r)
				maps.DeleteFunc(got, func(k, _ string) bool { return k == "schema" || k == "producers" })
				if n < len(sc.steps) || !maps.Equal(got, sc.final) {
					t.Fatalf("%s: acknowledged %d, then %d of %d: got %v, want %v", what, acknowledged, n, len(sc.steps), got, sc.final)
				}
				r.Close()
			}
			if s != nil {
				s.Close()
			}
		}
	}
	t.Logf("%d crash points, of which %d were between a change and its answer", points, repeated)
	if repeated == 0 {
		t.Error("no crash was between a change and its answer")
	}
}

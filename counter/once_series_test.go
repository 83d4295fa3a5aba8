// Scenario: series of numbered additions beside the same additions one by one.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// TestOnceSeries makes random series in one store, and each of their operations as a numbered change of its own in another: numbers that are new,
// repeated, left out, used for another command, or of a lower epoch; posts that are new, in several blocks, and in files; values out of range; columns with
// a top list and with derived ones. Both answer the same, and have the same posts and producers, also after a restart.
func TestOnceSeries(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	const script = "add counter a\nadd column a v hint=3 max=6 suffix=v\nadd column a w hint=8 max=40 default=2 suffix=w\n" +
		"add counter b\nadd column b v hint=3 max=20 suffix=bv top=3\n" +
		"add counter c\nadd column c v hint=3 max=20 suffix=cv\nadd column c h window=1h/5m of=v"
	for run := range 24 {
		opts := Options{BlockItems: []int{16, 64, 4096}[run%3], HashSeed: 1 + rng.Uint64(), Manual: true, SlotGroups: run%4 == 0}
		now := time.Unix(1_700_000_000, 0)
		opts.Now = func() time.Time { return now }
		dirs := [2]string{}
		if run%5 > 0 {
			dirs = [2]string{t.TempDir(), t.TempDir()}
		}
		together, alone := openDir(t, dirs[0], opts, script), openDir(t, dirs[1], opts, script)
		next := map[string]uint64{}
		for range 60 {
			compareSeries(t, rng, together, alone, next)
			if rng.IntN(8) == 0 {
				mid := rng.Uint64N(200)
				for _, s := range []*Store{together, alone} {
					if err := s.Admin().Demote("a", mid); err != nil && !errors.Is(err, ErrNoBlock) && dirs[0] != "" {
						t.Fatal(err)
					}
				}
			}
		}
		want := dump(t, alone)
		if got := dump(t, together); !maps.Equal(got, want) {
			t.Fatalf("run %d: got %v, want %v", run, got, want)
		}
		if dirs[0] == "" {
			continue
		}
		together.Close()
		again, err := Open(dirs[0], opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := dump(t, again); !maps.Equal(got, want) {
			t.Fatalf("run %d, after a restart: got %v, want %v", run, got, want)
		}
		again.Close()
	}
}

// compareSeries runs a batch of some series in both stores.
func compareSeries(t *testing.T, rng *rand.Rand, together, alone *Store, next map[string]uint64) {
	t.Helper()
	x, y := together.NewBatch(), alone.NewBatch()
	for _, b := range []*Batch{x, y} {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
	}
	var onces []int
	for range 1 + rng.IntN(4) {
		producer := fmt.Sprint("p", rng.IntN(3))
		seq := next[producer]
		switch rng.IntN(6) {
		case 0:
			seq -= min(seq, rng.Uint64N(300)>>rng.IntN(8))
		case 1:
			seq += rng.Uint64N(4)
		case 2:
			if rng.IntN(8) == 0 {
				seq += 20_000 // the base moves
			}
		}
		epoch := uint64(0)
		if rng.IntN(20) == 0 {
			epoch = rng.Uint64N(3)
		}
		first := x.Len()
		for i := range 1 + rng.IntN(40)>>rng.IntN(4) {
			name := string("aaaabc"[rng.IntN(6)])
			op := Op{Kind: OpAdd, Mid: rng.Uint64N(200) >> rng.IntN(4), Arg: rng.Uint64N(9) - 2}
			if name == "a" {
				op.Column = int16(rng.IntN(2))
			}
			number := seq + uint64(i)
			hash := uint32(number)*77 + uint32(rng.IntN(40)/39)
			op.Counter = x.Schema().Counter(name)
			x.Op(x.Add(op)).SetHash(hash)
			op.Counter = y.Schema().Counter(name)
			at := y.Add(op)
			o, once := y.Once(at)
			*o = Once{Producer: []byte(producer), Epoch: epoch, Seq: number, Hash: hash}
			onces = append(onces, once)
			next[producer] = max(next[producer], number+1)
		}
		OnceSeries(x, first, []byte(producer), epoch, seq)
	}
	for _, b := range []*Batch{x, y} {
		b.Run()
		b.End()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	for i, once := range onces {
		got, op, o := x.Op(i), y.Op(i), y.OnceAt(once)
		value, err := op.Value, op.Err
		switch {
		case o.Err != nil:
			err = o.Err
		case o.Repeat && o.Result.Kind == ResultInt:
			value = o.Result.N
		case o.Repeat:
			err = &RepeatedError{Result: o.Result}
		}
		if got.Value != value || fmt.Sprint(got.Err) != fmt.Sprint(err) || got.Done != op.Done || got.Found != op.Found {
			t.Fatalf("operation %d, number %d of %s: got %d, %v, done %v, found %v, want %d, %v, done %v, found %v",
				i, o.Seq, o.Producer, got.Value, got.Err, got.Done, got.Found, value, err, op.Done, op.Found)
		}
	}
}

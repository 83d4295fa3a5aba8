package producers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// check verifies the invariant.
func (m *made) check() error {
	count, end := uint32(0), uint64(0)
	for i, s := range m.spans {
		if i > 0 && s.block() < end || s.bits == 0 || s.blocks() > 1 && s.bits != fullBlock {
			return fmt.Errorf("span %d is of block %d and %d blocks, behind one up to %d: %x", i, s.block(), s.blocks(), end, s.bits)
		}
		count, end = count+s.seqs(), s.end()
	}
	if count != m.count {
		return fmt.Errorf("%d seqs, %d counted", count, m.count)
	}
	return nil
}

// TestMade: seqs in random order against a map, runs of them and single ones, while the lowest are removed.
func TestMade(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	for run := range 30 {
		rnd := rand.New(rand.NewPCG(*seed, uint64(run)))
		var m made
		want := map[uint64]bool{}
		base, span, floor := rnd.Uint64()>>rnd.IntN(64), 1+rnd.Uint64N(1<<uint(1+rnd.IntN(14))), uint64(0)
		base = min(base, 1<<64-1-2*span)
		next := base
		for step := range 3000 {
			seq := base + rnd.Uint64N(span)
			if rnd.IntN(3) > 0 {
				seq = next
				next = base + (next+1-base)%span
			}
			if seq >= floor {
				m.add(seq)
				want[seq] = true
			}
			if rnd.IntN(200) == 0 {
				floor = max(floor, base+rnd.Uint64N(span)/uint64(1+rnd.IntN(8)))
				m.removeBelow(floor)
				maps.DeleteFunc(want, func(seq uint64, _ bool) bool { return seq < floor })
			}
			if step%50 > 0 {
				continue
			}
			must(t, m.check())
			if int(m.count) != len(want) {
				t.Fatalf("run %d step %d: %d seqs, want %d", run, step, m.count, len(want))
			}
			for range 50 {
				if seq := base + rnd.Uint64N(span+2); m.has(seq) != want[seq] {
					t.Fatalf("run %d step %d: seq %d is there: %v", run, step, seq, m.has(seq))
				}
			}
			if all := slices.Sorted(maps.Keys(want)); len(all) > 0 && (m.lowest() != all[0] || m.highest() != all[len(all)-1]) {
				t.Fatalf("run %d step %d: %d to %d, want %d to %d", run, step, m.lowest(), m.highest(), all[0], all[len(all)-1])
			}
		}
	}
}

// TestMadeEnds: the lowest and the highest seqs that there are.
func TestMadeEnds(t *testing.T) {
	var m made
	for _, seq := range []uint64{1<<64 - 1, 0, 63, 64, 1<<64 - 64, 1<<64 - 65} {
		m.add(seq)
		must(t, m.check())
		if !m.has(seq) {
			t.Errorf("seq %d is not there", seq)
		}
	}
	if m.lowest() != 0 || m.highest() != 1<<64-1 || m.count != 6 {
		t.Errorf("%d to %d, %d seqs", m.lowest(), m.highest(), m.count)
	}
	m.removeBelow(1<<64 - 1)
	if m.count != 1 || m.lowest() != 1<<64-1 {
		t.Errorf("%+v", m)
	}
}

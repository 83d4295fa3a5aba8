// Scenario: histories of pages that a correct server cannot have made.

package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// TestPageValue: an answer with two values has seen half a change, and a post that does not exist has zeros.
func TestPageValue(t *testing.T) {
	n := func(v int64) wire.Value { return wire.Value{IsInt: true, Int: v} }
	all := func(list ...wire.Value) wire.Value { return wire.Value{Array: list} }
	for _, c := range []struct {
		answer wire.Value
		value  int64
		half   bool
	}{
		{all(n(3), n(3), n(3)), 3, false},
		{all(all(n(3), n(3)), all(n(3), n(4))), 0, true},
		{all(all(n(1), n(1)), wire.Value{Null: true}), 0, true},
		{all(wire.Value{Null: true}, wire.Value{Null: true}), gone, false},
		{all(all(n(0), n(0)), wire.Value{Null: true}), gone, false},
		{all(), 0, true},
	} {
		p := page{owner: "c2"}
		if value, half := p.value(leaves(c.answer)); half != c.half || !half && value != c.value {
			t.Errorf("%+v has value %d, half %t, want %d, %t", c.answer, value, half, c.value, c.half)
		}
	}
}

// TestPageGone: a read of a page without posts must have seen a version that deletes.
func TestPageGone(t *testing.T) {
	at := func(from, till int, value int64, read bool) attempt {
		return attempt{client: "c2", read: read, from: time.Duration(from) * time.Second, till: time.Duration(till) * time.Second, value: value}
	}
	for _, c := range []struct {
		name    string
		deleted []int64
		seen    attempt
		fault   bool
	}{
		{"before the first version", []int64{0}, at(1, 2, gone, true), false},
		{"beside the first version", []int64{0}, at(11, 12, gone, true), false},
		{"after it", []int64{0}, at(14, 15, gone, true), true},
		{"beside a deletion", []int64{0, 2}, at(14, 22, gone, true), false},
		{"after a deletion and the version behind it", []int64{0, 2}, at(34, 35, gone, true), true},
	} {
		p := page{name: "page", owner: "c2", deleted: c.deleted}
		for i := range 3 {
			p.history.Add(p.name, at(10*(i+1), 10*(i+1)+3, int64(i+1), false))
		}
		p.history.Add(p.name, c.seen)
		final, faults := p.resolve(3)
		if final != 3 || (len(faults) > 0) != c.fault {
			t.Errorf("%s: last value %d, faults %q, want a fault: %t", c.name, final, faults, c.fault)
		}
		if faults := p.history.Check(p.name, final, false); len(faults) > 0 {
			t.Errorf("%s: the other attempts: %q", c.name, faults)
		}
	}
	p := page{name: "page"}
	p.history.Add(p.name, at(1, 2, 1, false))
	p.history.Add(p.name, at(3, 4, 0, true)) // taken back
	if faults := p.history.Check(p.name, 1, false); !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, "goes back") }) {
		t.Errorf("a read that goes back: %q", faults)
	}
}

// TestPagesOfSentinel: where Sentinel decides, a page may lose an acknowledged change, also where producers come and go. It may not lose a
// confirmed change.
func TestPagesOfSentinel(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		for _, owner := range []string{"", "c2"} {
			r := Run{Config: Config{Sentinel: true, Standalone: true, MinIdle: minIdle}, Story: &Story{}}
			p := &page{name: "page", owner: owner, deleted: []int64{0}}
			for i := range int64(3) {
				p.history.Add(p.name, attempt{client: "c2", numbered: true, from: time.Duration(i), till: time.Duration(i), value: i + 1, confirmed: confirmed})
			}
			if faults := p.check(&r, 2); (len(faults) > 0) != confirmed {
				t.Errorf("owner %q, the last of three changes is lost, and confirmed: %t: faults %q", owner, confirmed, faults)
			}
		}
	}
}

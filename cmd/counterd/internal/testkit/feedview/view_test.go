package feedview

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/wire"
)

var (
	columns = []string{"pa", "pb"}
	one     = Cell{"c", 100, "n"}
	page    = Page{Name: "page1", Cells: []Cell{{"p", 7, "pa"}, {"p", 7, "pb"}, {"p", 8, "pa"}, {"p", 8, "pb"}}}
)

// incr is a change of a counter to a value.
func incr(value int64) Change {
	return Change{Parts: []Part{{Kind: "set", Counter: one.Counter, Mid: one.Mid, Columns: []string{one.Column}, Values: []int64{value}}}}
}

// turn is a change of posts of the page to a value.
func turn(value int64, mids ...uint64) (c Change) {
	for _, mid := range mids {
		c.Parts = append(c.Parts, Part{Kind: "set", Counter: "p", Mid: mid, Columns: columns, Values: []int64{value, value}})
	}
	return c
}

// TestView: a change that is lost, comes twice, comes out of order, or is half of one is a fault.
func TestView(t *testing.T) {
	numbered := func(value int64) Change {
		c := incr(value)
		c.Producer, c.Seq = "p", "1"
		return c
	}
	gone := func(mids ...uint64) (c Change) {
		for _, mid := range mids {
			c.Parts = append(c.Parts, Part{Kind: "del", Counter: "p", Mid: mid})
		}
		return c
	}
	flush := Change{Parts: []Part{{Kind: "flush"}}}
	drop := Change{Parts: []Part{{Kind: "drop", Counter: "c", Mid: 100, End: 101}}}
	beside := Change{Parts: []Part{{Kind: "drop", Counter: "c", Mid: 100, End: 101, Groups: strconv.Itoa(int(slot.Group(100)) ^ 1)}}}
	after := func(value, old int64) Change {
		c := incr(value)
		c.Parts[0].Told, c.Parts[0].Old = true, map[string]int64{one.Column: old}
		return c
	}
	strange := Change{Parts: []Part{{Kind: "set", Counter: "c", Mid: 100, Columns: []string{"x"}, Values: []int64{9}}}}
	for _, c := range []struct {
		name    string
		changes []Change
		want    string // in the fault of the last change; empty: none
	}{
		{"in order", []Change{incr(1), incr(2), turn(1, 7, 8), incr(3), strange}, ""},
		{"with old values", []Change{after(1, 0), after(2, 1), drop, after(1, 0)}, ""},
		{"with another old value", []Change{after(1, 0), after(2, 2)}, "was 1 before a change that tells map[n:2]"},
		{"lost", []Change{incr(1), incr(3)}, "want 2"},
		{"twice", []Change{incr(1), incr(1)}, "want 2"},
		{"out of order", []Change{incr(2)}, "want 1"},
		{"half", []Change{turn(1, 7)}, "half a change of page1"},
		{"half is gone", []Change{turn(1, 7, 8), gone(7)}, "half a change of page1"},
		{"gone", []Change{turn(1, 7, 8), gone(7, 8), turn(1, 7, 8)}, ""},
		{"a number twice", []Change{numbered(1), numbered(2)}, "came twice"},
		{"flushed", []Change{incr(1), flush, incr(1)}, ""},
		{"flushed, and lost", []Change{incr(1), flush, incr(2)}, "want 1"},
		{"dropped", []Change{incr(1), drop, incr(1)}, ""},
		{"dropped of other groups", []Change{incr(1), beside, incr(2)}, ""},
	} {
		v := New(Options{Cells: []Cell{one}, Pages: []Page{page}})
		text := ""
		for i := range c.changes {
			text = strings.Join(v.Take(0, uint64(i+1), &c.changes[i]), "\n")
		}
		if (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, text, c.want)
		}
	}
	owned := page
	owned.Owned = true
	v := New(Options{Pages: []Page{owned}, Repeats: true})
	for _, value := range []int64{3, 3, 7} {
		if c := turn(value, 7, 8); len(v.Take(0, 1, &c)) > 0 {
			t.Errorf("version %d is a fault", value)
		}
	}
	if c := turn(5, 7, 8); len(v.Take(0, 1, &c)) == 0 {
		t.Error("version 5 behind 7 is none")
	}
}

// TestUndo: changes can be taken back, up to a gap; behind a gap the next value may be any.
func TestUndo(t *testing.T) {
	v := New(Options{Cells: []Cell{one}, Undo: true})
	take := func(at uint64, value int64) {
		t.Helper()
		c := incr(value)
		if faults := v.Take(0, at, &c); len(faults) > 0 {
			t.Errorf("%d: %v", value, faults)
		}
	}
	take(10, 1)
	take(20, 2)
	take(30, 3)
	v.Undo(10)
	take(20, 2)
	v.Gap()
	if _, known := v.Value(one); known {
		t.Error("the value behind a gap is known")
	}
	take(50, 9)
	take(60, 10)
	v.Undo(50)
	take(60, 10)
	v.Undo(0)
	if _, known := v.Value(one); known {
		t.Error("the value before a gap is known")
	}
}

// TestGrowing: a post of a growing counter is known from its first change on, which is not checked behind a gap. Posts of other counters are not
// looked at.
func TestGrowing(t *testing.T) {
	v := New(Options{Growing: []string{one.Counter}})
	take := func(c Change) string { return strings.Join(v.Take(0, 1, &c), "\n") }
	if fault := take(turn(9, 7, 8)); fault != "" {
		t.Error(fault)
	}
	for value := int64(1); value < 3; value++ {
		if fault := take(incr(value)); fault != "" {
			t.Error(fault)
		}
	}
	if take(incr(4)) == "" {
		t.Error("4 behind 2 is no fault")
	}
	if value, known := v.Value(Cell{one.Counter, one.Mid + 1, one.Column}); value != 0 || !known {
		t.Errorf("a post without changes is %d, %v", value, known)
	}
	drop := Change{Parts: []Part{{Kind: "drop", Counter: one.Counter, Mid: 0, End: one.Mid + 1}}}
	if take(drop); take(incr(2)) == "" {
		t.Error("2 behind a drop is no fault")
	}
	v = New(Options{Growing: []string{one.Counter}})
	v.Gap()
	if _, known := v.Value(one); known {
		t.Error("the value behind a gap is known")
	}
	if fault := take(incr(7)); fault != "" {
		t.Error(fault)
	}
	if take(incr(9)) == "" {
		t.Error("9 behind 7 is no fault")
	}
}

// TestMoved: a flush of one shard leaves posts whose groups have moved to another.
func TestMoved(t *testing.T) {
	v := New(Options{Shards: 2, Cells: []Cell{one}})
	first := incr(1)
	owner := v.owners[slot.Group(one.Mid)]
	other := 3 - owner
	gain := Change{Parts: []Part{{Kind: "gain", Groups: "0-255"}}}
	flush := Change{Parts: []Part{{Kind: "flush"}}}
	v.Take(owner, 1, &first)
	v.Take(other, 1, &gain)
	v.Take(owner, 2, &flush)
	if value, _ := v.Value(one); value != 1 {
		t.Errorf("got %d, want 1", value)
	}
	v.Take(other, 3, &flush)
	if value, _ := v.Value(one); value != 0 {
		t.Errorf("got %d, want 0", value)
	}
	v.Gap() // the group may have moved since
	v.Take(owner, 4, &flush)
	if _, known := v.Value(one); known {
		t.Error("the value is known of a post whose shard is not")
	}
}

// TestParse: changes are read as COUNTER.FEED answers them.
func TestParse(t *testing.T) {
	text := func(s string) wire.Value { return wire.Value{Str: s} }
	number := func(n int64) wire.Value { return wire.Value{IsInt: true, Int: n} }
	list := func(v ...wire.Value) wire.Value { return wire.Value{Array: v} }
	got := Parse(list(text("1-a"), number(5), list(
		list(text("set"), text("c"), number(100), text("n"), number(4)),
		list(text("gain"), text("move"), text("0-9"), number(2), number(77)),
		list(text("drop"), text("c"), text("1"), text("9223372036854775808"), text("3")),
	), text("p"), number(6)))
	if len(got.Gains) != 1 || got.Gains[0].From != 2 || got.Gains[0].Offset != 77 || got.Value.Producer != "p" || got.Value.Seq != "6" || got.Position != "1-a" {
		t.Errorf("got %+v", got)
	}
	p := got.Value.Parts
	if len(p) != 3 || p[0].Mid != 100 || !slices.Equal(p[0].Values, []int64{4}) || p[1].Groups != "0-9" || p[2].End != 1<<63 || p[2].Groups != "3" {
		t.Errorf("got %+v", p)
	}
}

// TestFlushBesideMove: a flush removes the posts that its shard has. A flush behind the move of a post, which is read before the other shard's gain,
// has not removed it.
func TestFlushBesideMove(t *testing.T) {
	group := strconv.Itoa(int(slot.Group(one.Mid)))
	flush, lose := Change{Parts: []Part{{Kind: "flush"}}}, Change{Parts: []Part{{Kind: "lose", Groups: group}}}
	gain := Change{Parts: []Part{{Kind: "gain", Groups: group, From: 1, Offset: 10}}}
	type taken struct {
		shard, at uint64
		c         Change
	}
	for _, c := range []struct {
		name    string
		changes []taken
		next    int64 // value of the post
	}{
		{"before the move", []taken{{1, 10, flush}, {1, 20, lose}, {2, 5, gain}}, 1},
		{"behind the loss", []taken{{1, 20, lose}, {1, 30, flush}, {2, 5, gain}}, 3},
		{"behind the loss and the gain", []taken{{2, 5, gain}, {1, 20, lose}, {1, 30, flush}}, 3},
		{"between the end and the loss", []taken{{1, 15, flush}, {1, 17, flush}, {1, 20, lose}, {2, 5, gain}}, 3},
		{"of the other shard before the gain", []taken{{1, 20, lose}, {2, 3, flush}, {2, 5, gain}}, 3},
		{"of the other shard", []taken{{1, 20, lose}, {2, 5, gain}, {2, 6, flush}}, 1},
	} {
		v := New(Options{Cells: []Cell{one}, Shards: 2})
		v.owners[slot.Group(one.Mid)] = 1
		all := append([]taken{{1, 1, incr(1)}, {1, 2, incr(2)}}, c.changes...)
		for _, one := range append(all, taken{2, 40, incr(c.next)}) {
			if faults := v.Take(one.shard, one.at, &one.c); len(faults) > 0 {
				t.Errorf("%s: %q", c.name, faults)
			}
		}
	}
}

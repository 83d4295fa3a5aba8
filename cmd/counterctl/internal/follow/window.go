package follow

import (
	"cmp"
	"math"
	"slices"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
)

// Sizes of a window. A target takes 4096 numbers in 2 ms, and its answers are kept for repeats up to 64 KiB. A transaction
// of the source is one transaction of the target, up to the most that the target takes at once.
const (
	windowNumbers = 4096
	windowMax     = 100_000
)

// number is a column of a post that rules map to.
type number struct {
	mid    uint64
	column uint16
}

// change is the effect of a window on a number: to set it, delete it, or add to it.
type change struct {
	op    mapping.Op
	value int64
	ref   ref // whose; of additions only
}

// window is the effect of a piece of the stream on numbers.
type window struct {
	changes map[number]change
	limits  []uint64 // by column
}

func newWindow(columns []mapping.Column) *window {
	w := &window{changes: map[number]change{}}
	for _, c := range columns {
		w.limits = append(w.limits, c.Counter.Columns[c.Index].Limit())
	}
	return w
}

// put adds an item of a key of the source. ok is false if the column cannot hold the number. Nothing is changed then.
func (w *window) put(i mapping.Item, r ref) (ok bool) {
	at := number{i.Mid, i.Column}
	before, some := w.changes[at]
	switch {
	case i.Op != mapping.Add:
		w.changes[at] = change{op: i.Op, value: i.Value}
	case !some:
		w.changes[at] = change{mapping.Add, i.Value, r}
	case i.Value > 0 && before.value > math.MaxInt64-i.Value, i.Value < 0 && before.value < math.MinInt64-i.Value:
		return false
	case before.op == mapping.Add:
		before.value += i.Value
		w.changes[at] = before
	default: // set, or deleted: the source counts from 0 then
		sum := before.value + i.Value
		if sum < 0 || uint64(sum) > w.limits[i.Column] {
			return false
		}
		w.changes[at] = change{op: mapping.Set, value: sum}
	}
	return true
}

// numbers lists the changed numbers in order: neighbours share blocks.
func (w *window) numbers() []number {
	list := make([]number, 0, len(w.changes))
	for n := range w.changes {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b number) int { return cmp.Or(cmp.Compare(a.column, b.column), cmp.Compare(a.mid, b.mid)) })
	return list
}

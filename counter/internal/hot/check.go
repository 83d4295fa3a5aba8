package hot

import "fmt"

// Check verifies the invariants of the package comment. It takes time in proportion to the table: it is for
// tests and for offline tools.
func (t *Table) Check() error {
	passed := make([]int, t.geo.m)
	entries := 0
	var err error
	n := 0
	t.each(func(s Ref) bool {
		n++
		mid := t.Mid(s)
		if mid < t.lo || mid >= t.hi {
			err = fmt.Errorf("hot: slot %d: mid %d outside [%d,%d)", s, mid, t.lo, t.hi)
			return false
		}
		if f, ok := t.Find(mid); !ok || f != s {
			err = fmt.Errorf("hot: slot %d: mid %d is found at %d, %v", s, mid, f, ok)
			return false
		}
		b, _, h := t.geo.place(mid)
		for step := t.geo.step(h); b != uint64(s>>3); b = t.geo.next(b, step) {
			passed[b]++
		}
		for c := range int(t.items.count) {
			col := t.items.column(c)
			if p := t.items.packed(s, col); col.plain != 0 && p == col.mark() {
				entries++
				if t.items.over.n == 0 {
					err = fmt.Errorf("hot: slot %d column %d: marked, but the overflow table is empty", s, c)
					return false
				}
				if _, found := t.items.over.find(t.items.overKey(s, c)); !found {
					err = fmt.Errorf("hot: slot %d column %d: marked, but not in the overflow table", s, c)
					return false
				}
			}
			if v := t.Get(s, c); v > t.Limit(c) {
				err = fmt.Errorf("hot: slot %d column %d: got %d, want at most %d", s, c, v, t.Limit(c))
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	for b, want := range passed {
		if got := int(load8(t.items.base, t.items.at(uint64(b))+laneBytes)); got != want && got != 255 {
			return fmt.Errorf("hot: bucket %d: got passed %d, want %d", b, got, want)
		}
	}
	if n != t.n {
		return fmt.Errorf("hot: got %d used lanes, want %d", n, t.n)
	}
	if entries != t.items.over.n {
		return fmt.Errorf("hot: got %d overflow entries, want %d marks", t.items.over.n, entries)
	}
	return nil
}

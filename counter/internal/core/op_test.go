package core

import "testing"

// TestLargeOps: operations of a large batch are empty, also where their memory had those of another batch.
func TestLargeOps(t *testing.T) {
	d := NewData(Config{Manual: true}, nil)
	defer d.Release(nil)
	const n = 4 * retainedOps
	for round := range 4 {
		b := d.NewBatch()
		b.Grow(n)
		for i := range b.Extend(n - 1) {
			if op := b.Op(i); *op != (Op{}) {
				t.Fatalf("round %d: operation %d of a new batch is %+v", round, i, *op)
			}
			*b.Op(i) = Op{Mid: 7, Found: true, Err: ErrOutOfRange}
		}
		if op := b.Next(); *op != (Op{}) {
			t.Fatalf("round %d: the next operation is %+v", round, *op)
		}
		if b.Reset(); b.Len() != 0 || cap(b.ops) > retainedOps {
			t.Fatalf("a batch at rest has %d operations and room for %d, want none and %d at most", b.Len(), cap(b.ops), retainedOps)
		}
	}
}

package core

import "testing"

// TestAdd: a sum stays within its column, whatever is added.
func TestAdd(t *testing.T) {
	const top = 1<<63 - 1
	for _, c := range []struct {
		v     uint64
		n     int64
		limit uint64
		want  uint64
		ok    bool
	}{
		{0, 1, 1, 1, true}, {1, 1, 1, 0, false}, {0, -1, 1, 0, false}, {5, -5, 9, 0, true}, {top, 0, top, top, true},
		{top, 1, top, 0, false}, {0, top, top, top, true}, {top, -1 << 63, top, 0, false}, {3, -1 << 63, top, 0, false}, {0, -1 << 63, top, 0, false},
	} {
		if got, ok := add(c.v, c.n, c.limit); ok != c.ok || ok && got != c.want {
			t.Errorf("add(%d, %d, %d): got %d, %v, want %d, %v", c.v, c.n, c.limit, got, ok, c.want, c.ok)
		}
	}
}

package resp

import (
	"math"
	"testing"
)

// TestSize finds each reply among others, in all versions of the protocol, and ends with bytes that are no whole reply.
func TestSize(t *testing.T) {
	kinds := []func(r *Replies){
		func(r *Replies) { r.Status("OK") }, func(r *Replies) { r.Error("ERR no") }, func(r *Replies) { r.Int(-7) },
		func(r *Replies) { r.BulkString("a\r\nb") }, func(r *Replies) { r.BulkString("") }, func(r *Replies) { r.Null() },
		func(r *Replies) { r.NullArray() }, func(r *Replies) { r.Array(0) }, func(r *Replies) { r.Text("some\r\ntext") },
		func(r *Replies) { r.Double(1.5) }, func(r *Replies) { r.Uint128(1, math.MaxUint64) }, func(r *Replies) { r.BulkStrings([]string{"a", "b"}) },
		func(r *Replies) {
			r.Map(2)
			r.Int(1)
			r.Array(2)
			r.Int(1)
			r.Null()
			r.Int(2)
			r.Set(1)
			r.BulkString("x")
		},
		func(r *Replies) { r.Push(2); r.BulkString("invalidate"); r.Array(1); r.BulkString("key") },
	}
	for _, b := range []string{"\n", "+\n", "*1\r\n+\n", "$1\n"} {
		if got := Size([]byte(b)); got != len(b) {
			t.Errorf("%q: got %d, want %d", b, got, len(b))
		}
	}
	for _, proto := range []int{2, 3, Neutral} {
		for i, kind := range kinds {
			var r Replies
			r.SetProtocol(proto)
			kind(&r)
			want := r.Len()
			for next := range kinds {
				r.Cut(want)
				kinds[next](&r)
				if got := Size(r.From(0)); got != want {
					t.Errorf("protocol %d, reply %d before %d: got %d, want %d", proto, i, next, got, want)
				}
			}
			for n := 1; n < want; n++ {
				if got := Size(r.From(0)[:n]); got < 1 || got > n {
					t.Errorf("protocol %d, %d bytes of reply %d: got %d", proto, n, i, got)
				}
			}
		}
	}
}

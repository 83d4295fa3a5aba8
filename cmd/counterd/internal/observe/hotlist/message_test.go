package hotlist

import (
	"testing"

	"github.com/counterd/counterd/counter"
)

// TestMessage: messages look as they are documented, also with the largest numbers.
func TestMessage(t *testing.T) {
	for _, c := range []struct {
		whole   bool
		entered []counter.TopEntry
		left    []uint64
		want    string
	}{
		{true, nil, nil, `{"whole":true,"entered":[],"left":[]}`},
		{true, []counter.TopEntry{{Value: 1<<63 - 1, Mid: 1<<63 - 1}, {Value: 5, Mid: 7}}, nil,
			`{"whole":true,"entered":[[9223372036854775807,9223372036854775807],[7,5]],"left":[]}`},
		{false, []counter.TopEntry{{Value: 0, Mid: 3}}, []uint64{1, 9}, `{"whole":false,"entered":[[3,0]],"left":[1,9]}`},
	} {
		if got := string(appendMessage(nil, c.whole, c.entered, c.left)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

package format

import (
	"strings"
	"testing"
)

// TestMoveFrom: the id of an accept names the place of the source's log, as far as there is one and it fits.
func TestMoveFrom(t *testing.T) {
	for _, c := range []struct {
		move          string
		shard, offset uint64
		text          string
	}{
		{"4f1d", 2, 77, "4f1d@2:77"}, {"a@b", 1 << 40, 1<<63 - 1, "a@b@1099511627776:9223372036854775807"}, {"4f1d", 2, 0, "4f1d"},
		{strings.Repeat("m", MaxMoveID), 2, 77, strings.Repeat("m", MaxMoveID)},
	} {
		text := MoveFrom(c.move, c.shard, c.offset)
		if text != c.text {
			t.Errorf("got %q, want %q", text, c.text)
		}
		move, shard, offset := ParseMoveFrom(text)
		if c.text == c.move {
			c.shard, c.offset = 0, 0
		}
		if move != c.move || shard != c.shard || offset != c.offset {
			t.Errorf("%q: got %q, %d, %d", text, move, shard, offset)
		}
	}
	for _, text := range []string{"", "m@", "m@1", "m@1:", "m@:1", "m@x:1", "m@1:x"} {
		if move, shard, offset := ParseMoveFrom(text); move != text || shard != 0 || offset != 0 {
			t.Errorf("%q: got %q, %d, %d", text, move, shard, offset)
		}
	}
}

package window

import (
	"strings"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestClock: the next tick is due when the first bucket of any window ends, and an hour after the one before at the latest. Time does not go back.
func TestClock(t *testing.T) {
	parse := func(columns string) *schema.Schema {
		sch, err := schema.ParseScript(strings.NewReader("add counter c\nadd column c v hint=8 suffix=v\n"+columns), schema.Empty())
		if err != nil {
			t.Fatal(err)
		}
		return sch
	}
	var c Clock
	if _, ok := c.Next(parse("")); ok {
		t.Error("a schema without windows wants ticks")
	}
	for _, w := range []struct {
		columns   string
		now, want int64
	}{
		{"add column c w window=1h/5m of=v suffix=w", 1000, 1200},
		{"add column c w window=1h/5m of=v suffix=w", 1200, 1500},
		{"add column c w window=1h/5m of=v suffix=w\nadd column c x window=10s/1s of=v suffix=x", 1500, 1501},
		{"add column c w window=60d/2d of=v suffix=w", 1501, 1501 + tickWithin},
	} {
		c.Advance(uint64(w.now))
		c.Advance(uint64(w.now) - 1)
		if got, ok := c.Next(parse(w.columns)); !ok || got != w.want || c.Seconds() != w.now {
			t.Errorf("%s at %d: got %d, %v, want %d", w.columns, w.now, got, ok, w.want)
		}
	}
}

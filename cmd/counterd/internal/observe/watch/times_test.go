package watch

import (
	"strings"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestTimes: a watched window passes when a bucket ends, a column that decays as soon as time has moved on, and the first time that it was watched counts.
func TestTimes(t *testing.T) {
	s, err := schema.ParseScript(strings.NewReader("add counter c\nadd column c n hint=8 max=32\nadd column c w window=10m/60s of=n\nadd column c h decay=1h of=n\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	def := s.Counter("c")
	const now = 6000
	for name, c := range map[string]struct {
		columns []int
		then    int64
		passed  bool
	}{
		"no derived column":          {[]int{0}, now + 3600, false},
		"the same bucket":            {[]int{1}, now + 59, false},
		"the next bucket":            {[]int{1}, now + 60, true},
		"no time":                    {[]int{1, 2, schema.WholeItem}, now, false},
		"a second of a decaying one": {[]int{2}, now + 1, true},
		"a second of the post":       {[]int{schema.WholeItem}, now + 1, true},
	} {
		var m Mark
		var keys []schema.Key
		for _, col := range c.columns {
			keys = append(keys, schema.Key{Counter: def, Mid: 7, Col: col})
		}
		m.Since(keys, now)
		m.Since(keys, c.then)
		if got := m.Passed(c.then); got != c.passed || m.Dirty() {
			t.Errorf("%s: got %t, want %t", name, got, c.passed)
		}
		new(Table).Remove(&m)
		if m.Passed(c.then) {
			t.Errorf("%s: it passes when nothing is watched any more", name)
		}
	}
}

package schema

import (
	"errors"
	"strings"
	"testing"
)

// oldScript has a counter whose log has old values.
const oldScript = `add counter weibo ids=weibo retain=730d old=on
add column weibo comment hint=8
add counter plain
`

// TestOld: the attribute old of a counter, and values of it that are refused.
func TestOld(t *testing.T) {
	s := parse(t, oldScript)
	if got := s.String(); got != strings.ReplaceAll(oldScript, "hint=8", "hint=8 max=8 default=0 suffix=comment") {
		t.Errorf("got %s", got)
	}
	for _, c := range []struct {
		line string
		kind error  // nil: it is taken
		say  string // of the error, or the line of the counter then
	}{
		{"add counter weibo", nil, "add counter weibo ids=weibo retain=730d old=on"},
		{"add counter weibo OLD=On", nil, "add counter weibo ids=weibo retain=730d old=on"},
		{"add counter plain old=on", ErrSchemaMismatch, "counter plain is defined differently: old have off want on: use ALTER COUNTER"},
		{"add counter weibo old=off", ErrSchemaMismatch, "old have on want off"},
		{"add counter new old=on", nil, "add counter new old=on"},
		{"add counter new old=off", nil, "add counter new"},
		{"alter counter weibo old=off", nil, "add counter weibo ids=weibo retain=730d"},
		{"alter counter weibo retain=off", nil, "add counter weibo ids=weibo old=on"},
		{"alter counter plain old=on", nil, "add counter plain old=on"},
		{"alter counter plain", ErrAttribute, "nothing to alter of counter plain: want ids=, retain= or old="},
		{"alter counter plain old=on old=on", ErrAttribute, "twice"},
		{"alter counter plain old", ErrAttribute, "needs a value"},
		{"alter counter plain old=yes", ErrAttribute, "old=\"yes\" is neither: want on or off"},
		{"alter column plain x old=on", ErrAttribute, "want top="},
	} {
		st, err := ParseStatement(strings.Fields(c.line))
		next := s
		if err == nil {
			next, err = s.Apply(st)
		}
		if c.kind != nil {
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%s: got %v, want %v: %s", c.line, err, c.kind, c.say)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		checkSchema(t, next)
		if !strings.Contains("\n"+next.String(), "\n"+c.say+"\n") {
			t.Errorf("%s: got %s", c.line, next)
		}
	}
}

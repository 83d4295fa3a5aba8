package glob

import (
	"strings"
	"testing"
)

// TestMatch holds what Redis's own matching answers.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"**", "abc", true}, {"a*c", "abbc", true}, {"a*c", "abcd", false}, {"*b*", "abc", true},
		{"?", "a", true}, {"?", "", false}, {"a?c", "abc", true}, {"[abc]", "b", true}, {"[abc]", "d", false}, {"[^a-c]", "b", false},
		{"[^a-c]", "d", true}, {"[c-a]", "b", true}, {`[\]]`, "]", true}, {"[ab", "b", true}, {`\*`, "*", true}, {`\*`, "a", false}, {`a\`, `a\`, true},
		{"A", "a", false}, {"1.*", "1.cntcm", true}, {"*.cntcm", "1.cntrn", false},
	} {
		if got := Match(c.pattern, c.s); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
}

// TestStars: a pattern of stars takes no more time than its length times the name's. With backtracking this one would
// not end.
func TestStars(t *testing.T) {
	if Match(strings.Repeat("a*", 50)+"b", strings.Repeat("a", 10_000)) {
		t.Error("matched")
	}
}

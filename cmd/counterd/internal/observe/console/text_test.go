package console

import (
	"strings"
	"testing"
)

// TestSlowText: invisible characters in a slow command are escaped, and long ones are
// cut.
func TestSlowText(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "888888.cntcm"}, "get 888888.cntcm"}, {[]string{"set", "", "a b"}, `set "" "a b"`}, {[]string{"x", "a\x00\n\u202e\xff"}, `x "a\x00\n\u202e\xff"`},
		{[]string{"<script>alert(1)</script>", "é"}, "<script>alert(1)</script> é"}, {[]string{strings.Repeat("é", 200)}, strings.Repeat("é", 150) + "…"},
	} {
		if got := SlowText(c.args); got != c.want {
			t.Errorf("%q: got %s, want %s", c.args, got, c.want)
		}
	}
}

package repl

import (
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/wire"
)

// TestParseRole reads what nodes answer to ROLE, a primary's replicas too, and what is none.
func TestParseRole(t *testing.T) {
	for reply, want := range map[string]Role{
		"*3\r\n$6\r\nmaster\r\n:77\r\n*0\r\n":                                           {Primary: true, Offset: 77},
		"*3\r\n$6\r\nmaster\r\n:77\r\n*1\r\n*3\r\n$3\r\n::1\r\n$1\r\n1\r\n$2\r\n77\r\n": {Primary: true, Offset: 77},
		"*5\r\n$5\r\nslave\r\n$3\r\n::1\r\n:6379\r\n$9\r\nconnected\r\n:78\r\n":         {Of: Address{"::1", 6379}, State: LinkConnected, Offset: 78},
	} {
		v, err := wire.NewReader(strings.NewReader(reply), 512).ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseRole(v); got != want || err != nil {
			t.Errorf("%q: %+v, %v, want %+v", reply, got, err, want)
		}
	}
	for _, reply := range []string{"+OK\r\n", ":5\r\n", "*0\r\n", "$-1\r\n", "*1\r\n$6\r\nmaster\r\n", "*2\r\n$6\r\nmaster\r\n:-1\r\n", "*2\r\n$8\r\nsentinel\r\n*0\r\n",
		"*4\r\n$5\r\nslave\r\n$3\r\n::1\r\n:6379\r\n$9\r\nconnected\r\n", "*5\r\n$5\r\nslave\r\n$3\r\n::1\r\n+x\r\n$9\r\nconnected\r\n:78\r\n"} {
		v, err := wire.NewReader(strings.NewReader(reply), 512).ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseRole(v); err == nil {
			t.Errorf("%q is read as %+v", reply, got)
		}
	}
}

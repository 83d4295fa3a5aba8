package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/wire"
)

// TestWords takes answers apart. An error in one is the command's: two nodes that cannot read a post are not alike.
func TestWords(t *testing.T) {
	for reply, want := range map[string][]string{
		"+OK\r\n": {"OK"}, "*0\r\n": nil, "$-1\r\n": nil, "$0\r\n\r\n": {""}, "*3\r\n:1\r\n*-1\r\n*1\r\n$1\r\nx\r\n": {"1", "x"},
		"*2\r\n:1\r\n*1\r\n-UNREADABLE x\r\n": {"server: UNREADABLE x"},
	} {
		v, err := wire.NewReader(strings.NewReader(reply), 512).ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendWords(nil, v)
		if err != nil {
			got = []string{err.Error()}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", reply, got, want)
		}
	}
}

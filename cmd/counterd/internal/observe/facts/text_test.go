package facts

import (
	"strings"
	"testing"
)

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.00K", 1572864: "1.50M", 1 << 40: "1.00T"} {
		if got := Human(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

// TestClip: a text is cut between characters.
func TestClip(t *testing.T) {
	if got := Clip(strings.Repeat("é", 200)); got != strings.Repeat("é", 150)+"…" {
		t.Errorf("got %s", got)
	}
	if got := Clip("short"); got != "short" {
		t.Errorf("got %s", got)
	}
}

package server

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestTroubleRunbooks: each row has a section in the runbooks, which the status page links to.
func TestTroubleRunbooks(t *testing.T) {
	book, err := os.ReadFile("../../../../docs/operate/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range allTroubles {
		if !strings.Contains(string(book), `<a id="`+row.id+`"></a>`) {
			t.Errorf("trouble %q has no section", row.id)
		}
	}
}

// TestStall: a disk hangs when something waits for it and nothing becomes durable for a while; an idle one does not.
func TestStall(t *testing.T) {
	var d stall
	begun := time.Now()
	for _, c := range []struct {
		at               time.Duration
		written, durable uint64
		late             bool
	}{
		{0, 10, 10, false}, {time.Hour, 20, 10, false}, {time.Hour + 4*time.Second, 30, 10, false}, {time.Hour + 6*time.Second, 40, 10, true},
		{time.Hour + 7*time.Second, 50, 11, false}, {time.Hour + 13*time.Second, 50, 11, true}, {time.Hour + 14*time.Second, 50, 50, false},
		{2 * time.Hour, 50, 50, false}, {2*time.Hour + time.Second, 60, 50, false},
	} {
		if got := d.late(begun.Add(c.at), c.written, c.durable); got != c.late {
			t.Errorf("at %s, written %d, durable %d: got %v, want %v", c.at, c.written, c.durable, got, c.late)
		}
	}
}

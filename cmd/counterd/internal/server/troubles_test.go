package server

import (
	"os"
	"strings"
	"testing"
)

// TestTroubleRunbooks: each row has a section in the runbooks, which the console links to.
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

package errclass

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]Class{
		"-READONLY You can't write against a read only replica.": Transient,
		"READONLY":                          Transient,
		"ERR syntax error":                  Permanent,
		"ERR max number of clients reached": Transient,
		"ERR max number of clients":         Permanent,
		"UNCERTAIN changes up to log offset 7 are made but not safe on disk":        InDoubt,
		"EXECABORT Transaction discarded because of previous errors.":               Permanent,
		"EXECABORT Transaction discarded because of: READONLY You can't":            Transient,
		"EXECABORT Transaction discarded because of: wrong number of":               Permanent,
		"EXECABORT Transaction discarded because of: max number of clients reached": Transient,
	} {
		if got, ok := Of(text); got != want || !ok {
			t.Errorf("%q is %v (known: %v), want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "ERROR", "READ ONLY", "err syntax error", "WRONGTYPES x", "PONG"} {
		if class, ok := Of(text); ok || class != Permanent {
			t.Errorf("%q is %v, want no class", text, class)
		}
	}
}

// TestRows: each row is found by its own code, and none hides another.
func TestRows(t *testing.T) {
	for _, row := range Table() {
		if got, ok := Of(row.Code + " some words"); !ok || got != row.Class {
			t.Errorf("%s is %v, want %v", row.Code, got, row.Class)
		}
		if row.Means == "" || strings.HasSuffix(row.Means, ".") {
			t.Errorf("%s: %q", row.Code, row.Means)
		}
	}
}

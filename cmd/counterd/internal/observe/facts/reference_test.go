package facts

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the reference page again")

// TestReference: docs/reference/metrics.md agrees with the table.
func TestReference(t *testing.T) {
	const path = "../../../../../docs/reference/metrics.md"
	want := reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/reference/metrics.md is not current (%v): go test ./cmd/counterd/internal/observe/facts -run TestReference -update", err)
	}
	for i := range table {
		if f := &table[i]; f.Metric != "" && !strings.Contains(want, "`"+Namespace+f.Metric+"`") || f.Info != "" && !strings.Contains(want, "`"+f.Info+"`") {
			t.Errorf("the page has no %s %s", f.Info, f.Metric)
		}
	}
}

package main

import (
	"bytes"
	"testing"
	"time"
)

// TestSummary adds rounds up.
func TestSummary(t *testing.T) {
	var s summary
	s.add(&Result{System: "a", Scenario: "y", Acknowledged: 10, Recover: 3 * time.Second})
	s.add(&Result{System: "b", Scenario: "x", Acknowledged: 7, Lost: 2, Wrong: 1, Recover: healthyIn})
	s.add(&Result{System: "a", Scenario: "y", Acknowledged: 5, Recover: time.Second})
	s.add(&Result{System: "a", Scenario: "y", Acknowledged: 1, Recover: 2 * time.Second})
	var out bytes.Buffer
	s.print(&out)
	want := `| scenario | system | rounds | acknowledged | lost | rounds with loss | wrong | whole again | not whole in time |
|---|---|---|---|---|---|---|---|---|
| x | b | 1 | 7 | 2 | 1 | 1 | 60.0 s (60.0 to 60.0) | 1 |
| y | a | 3 | 16 | 0 | 0 | 0 | 2.0 s (1.0 to 3.0) | 0 |
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

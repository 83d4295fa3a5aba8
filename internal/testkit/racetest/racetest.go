// Package racetest is for tests that know of the race detector. Only tests import it.
package racetest

import "testing"

// Skip skips a test under the race detector. It stands in the first line of a test that starts no goroutine, where the
// detector sees nothing and takes ten times as long; reason says so in the test's own words.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if Enabled {
		t.Skip("not under the race detector: " + reason)
	}
}

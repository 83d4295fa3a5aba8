//go:build race

package racetest

// Enabled tells that the program runs under the race detector.
const Enabled = true

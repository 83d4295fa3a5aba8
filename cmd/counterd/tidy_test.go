// Scenario: the rules of the whole tree.

package main

import (
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/tidy"
)

// TestTidy: the whole tree keeps the rules of package tidy.
func TestTidy(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	tidy.Run(t, filepath.Join("..", ".."))
}

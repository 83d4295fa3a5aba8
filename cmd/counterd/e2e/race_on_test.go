//go:build race

package e2e

// raceEnabled says that these tests run under the race detector, so the server is built with it too.
const raceEnabled = true

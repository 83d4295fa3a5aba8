// Package seed gives random tests their seed: a new one each time, printed when the test fails, or the seed that -seed or
// the variable SEED names, so that a failure replays.
//
//	go test ./persist -run '^TestLogCrash$' -seed 42
//	SEED=42 make unit PKG=./persist
package seed

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// Value is the seed of this run of the test binary, once the flags are parsed.
var Value = flag.Uint64("seed", initial(), "replay the random tests from this seed; without it, SEED of the environment or a new one")

// initial is SEED, or a new seed. It is short: people type it.
func initial() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil && n != 0 {
		return n
	}
	return uint64(time.Now().UnixNano()) & (1<<40 - 1)
}

// Of returns the seed of a test. If the test fails, it prints how to replay it.
func Of(t testing.TB) uint64 {
	t.Helper()
	told(t, *Value)
	return *Value
}

// Rand returns a generator of a test's own, which begins at its seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Of(t), 0))
}

var drawn atomic.Uint64

// Next returns one of many seeds of a test that repeats itself with each: the seed of the run first, then those that follow
// it. A replay of the printed seed comes first.
func Next(t testing.TB) uint64 {
	t.Helper()
	n := *Value + drawn.Add(1) - 1
	told(t, n)
	return n
}

func told(t testing.TB, n uint64) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintf(os.Stderr, "replay %s with: -run '^%s$' -seed %d\n", t.Name(), t.Name(), n)
		}
	})
}

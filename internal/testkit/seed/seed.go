// Package seed gives random tests their seed: a new one each time, printed when the test fails, or the one that -seed or the variable
// SEED names, so that a failure replays.
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
	"sync"
	"testing"
	"time"
)

var given = flag.Uint64("seed", 0, "replay the random tests from this seed (0: that of the variable SEED, or a new one)")

// first is the seed of this run of the test binary.
var first = sync.OnceValue(func() uint64 {
	if *given != 0 {
		return *given
	}
	if text := os.Getenv("SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			panic("SEED must be a number, got " + strconv.Quote(text))
		}
		if n != 0 {
			return n
		}
	}
	return uint64(time.Now().UnixNano()) & (1<<40 - 1)
})

// Given says whether a seed was named: a test that draws many may run only that one.
func Given() bool { return *given != 0 || os.Getenv("SEED") != "" && os.Getenv("SEED") != "0" }

// Of returns the seed of a test. If the test fails, it prints how to replay it.
func Of(t testing.TB) uint64 {
	t.Helper()
	n := first()
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintf(os.Stderr, "replay %s with: -run '^%s$' -seed %d\n", t.Name(), t.Name(), n)
		}
	})
	return n
}

// Rand returns a generator of a test's own, which begins at its seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Of(t), 0))
}

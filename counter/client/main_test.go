package client

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

var seedFlag = flag.Uint64("seed", 0, "replay the random tests from this seed (0: a new one, printed)")

func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable() // go-redis says when it cannot connect, which tests see to
	goleak.VerifyTestMain(m)
}

// random is the test's own generator. It prints the seed that it replays from if the test fails.
func random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) & (1<<40 - 1)
	}
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintf(os.Stderr, "replay %s with: go test ./counter/client -run '^%s$' -seed %d\n", t.Name(), t.Name(), seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

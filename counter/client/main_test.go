package client

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable() // go-redis says when it cannot connect, which tests see to
	goleak.VerifyTestMain(m)
}

// random is the test's own generator. It prints the seed that it replays from if the test fails.
func random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed.Of(t), 0))
}

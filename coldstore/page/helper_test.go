package page

import (
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

const maxMid = 1<<63 - 1 // mids of a file end there

func newRand(t testing.TB) *rand.Rand { return seed.Rand(t) }

package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/redis/go-redis/v9"
)

var seedFlag = flag.Int64("seed", 0, "replay the random tests from this seed (0: a new one, printed)")

// counterdPath is the binary under test, set by TestMain before any test runs.
var counterdPath string

func TestMain(m *testing.M) {
	flag.Parse()
	redis.SetLogger(silentRedis{}) // tests kill servers, and go-redis tells of each connection that it misses
	os.Exit(runAll(m))
}

type silentRedis struct{}

func (silentRedis) Printf(context.Context, string, ...any) {}

// runAll builds the binary once and runs the tests. It is apart from TestMain because os.Exit runs no defers.
func runAll(m *testing.M) int {
	if path := os.Getenv("COUNTERD_BINARY"); path != "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
		counterdPath = abs
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "counterd-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	counterdPath = filepath.Join(dir, "counterd")
	args := []string{"build", "-o", counterdPath}
	if racetest.Enabled {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "github.com/counterd/counterd/cmd/counterd")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: go build of counterd:", err)
		return 1
	}
	return m.Run()
}

// tool returns the path of a program of Debian's redis packages or of util-linux. Where it is missing the test
// must end early with `if !ok { return }`: what is left out is printed even without -v, and is a
// failure when REQUIRE_REDIS is set, as it is where the tests guard a release.
func tool(t testing.TB, name string) (path string, ok bool) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path, true
	}
	if os.Getenv("REQUIRE_REDIS") != "" {
		t.Fatalf("%s is not installed and REQUIRE_REDIS is set (apt-get install redis)", name)
	}
	fmt.Fprintf(os.Stderr, "LEFT OUT: %s: %s is not installed (apt-get install redis)\n", t.Name(), name)
	t.Logf("left out: %s is not installed", name)
	return "", false
}

// scaled returns n times the environment's SCALE, a tenth of it under -short, a quarter under the race
// detector, which slows client and server about as much.
func scaled(n int) int {
	f := 1.0
	if s := os.Getenv("SCALE"); s != "" {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || v <= 0 {
			panic("SCALE must be a positive number, got " + strconv.Quote(s))
		}
		f = v
	}
	if testing.Short() {
		f /= 10
	}
	if racetest.Enabled {
		f /= 4
	}
	return max(1, int(float64(n)*f))
}

var firstSeed = sync.OnceValue(func() int64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return time.Now().UnixNano() & (1<<40 - 1)
})

// random returns the test's own generator and the seed it replays from, which is printed if the test fails.
func random(t testing.TB) (*rand.Rand, int64) {
	t.Helper()
	seed := firstSeed()
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintf(os.Stderr, "replay %s with: go test ./cmd/counterd/e2e -run '^%s$' -seed %d\n", t.Name(), t.Name(), seed)
		}
	})
	return rand.New(rand.NewPCG(uint64(seed), 0)), seed
}

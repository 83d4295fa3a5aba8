package harness

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/counterd/counterd/internal/testkit/programs"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/redis/go-redis/v9"
)

// CounterdPath is the binary under test, set by Main before any test runs.
var CounterdPath string

// Main runs the tests of a folder with a counterd that is built once. Each folder's TestMain calls it.
func Main(m *testing.M) {
	flag.Parse()
	redis.SetLogger(silentRedis{}) // tests kill servers, and go-redis tells of each connection that it misses
	if err := findCounterd(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

type silentRedis struct{}

func (silentRedis) Printf(context.Context, string, ...any) {}

// findCounterd takes the binary that COUNTERD_BINARY names, or else builds one.
func findCounterd() (err error) {
	if path := os.Getenv("COUNTERD_BINARY"); path != "" {
		CounterdPath, err = filepath.Abs(path)
		return err
	}
	CounterdPath, err = programs.Path("counterd")
	return err
}

// Tool returns the path of a program of Debian's redis packages or of util-linux. Where it is missing the test
// must end early with `if !ok { return }`: what is left out is printed even without -v, and is a
// failure when REQUIRE_REDIS is set, as it is where the tests guard a release.
func Tool(t testing.TB, name string) (path string, ok bool) {
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

// Scaled returns n times the environment's SCALE, a tenth of it under -short, a quarter under the race
// detector, which slows client and server about as much.
func Scaled(n int) int {
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

// Random returns the test's own generator and the seed it replays from, which is printed if the test fails.
func Random(t testing.TB) (*rand.Rand, int64) {
	t.Helper()
	n := seed.Of(t)
	return rand.New(rand.NewPCG(n, 0)), int64(n)
}

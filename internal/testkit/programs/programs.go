// Package programs builds the programs of this repository for tests that run them, each once for all tests.
//
// make e2e builds all of them into one directory and names it in COUNTERD_PROGRAMS. A test that runs by itself builds into
// bin/e2e (bin/e2e-race under the race detector), where the next one finds them; the go command sees what is out of date.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// Dir is the variable of the environment that names a directory with programs that are built.
const Dir = "COUNTERD_PROGRAMS"

var built sync.Map // name: func() (string, error)

// Path returns the path of a program of cmd, built from the source that the test is of.
func Path(name string) (string, error) {
	once, _ := built.LoadOrStore(name, sync.OnceValues(func() (string, error) { return build(name) }))
	return once.(func() (string, error))()
}

func build(name string) (string, error) {
	if dir := os.Getenv(Dir); dir != "" {
		return filepath.Abs(filepath.Join(dir, name))
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "e2e")
	if racetest.Enabled {
		dir += "-race"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // and the lock ends
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	path := filepath.Join(dir, name)
	args := []string{"build", "-o", path}
	if racetest.Enabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/"+name)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build of %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// Root is the directory of the module, above that of the test.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && len(text) > len(module) && string(text[:len(module)]) == module {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of counterd above the test's directory")
		}
	}
}

const module = "module github.com/counterd/counterd\n"

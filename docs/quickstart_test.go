// Scenario: the programs of docs/start/quickstart run.

package docs

import (
	"context"
	"errors"
	"fmt"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// quickstarts are the programs of docs/start/quickstart. find names the command that runs one, or says why nothing does.
var quickstarts = []struct {
	language string
	find     func() (command []string, env string, err error)
}{
	{"go", func() ([]string, string, error) {
		return []string{"go", "run", "./docs/start/quickstart/go"}, "", nil
	}},
	{"python", func() ([]string, string, error) {
		for _, name := range []string{"python3", "/usr/bin/python3"} {
			if exec.Command(name, "-c", "import redis").Run() == nil {
				return []string{name, "docs/start/quickstart/python/quickstart.py"}, "", nil
			}
		}
		return nil, "", errors.New("no python3 finds redis (apt-get install python3-redis)")
	}},
	{"node", func() ([]string, string, error) {
		// make test installs ioredis there.
		modules, err := filepath.Abs(filepath.Join(root, "cmd/counterd/e2e/clients/node_modules"))
		if err != nil {
			return nil, "", err
		}
		env := "NODE_PATH=" + modules + string(filepath.ListSeparator) + os.Getenv("NODE_PATH")
		probe := exec.Command("node", "-e", "require('ioredis')")
		probe.Env = append(os.Environ(), env)
		if probe.Run() != nil {
			return nil, "", errors.New("node does not find ioredis (npm install ioredis)")
		}
		return []string{"node", "docs/start/quickstart/node/quickstart.js"}, env, nil
	}},
	{"java", func() ([]string, string, error) {
		probe := exec.Command("javap", "redis.clients.jedis.JedisPooled")
		if probe.Run() != nil {
			return nil, "", errors.New("java does not find Jedis (CLASSPATH=.../jedis.jar:.../commons-pool2.jar:.../slf4j-api.jar:.../gson.jar:.../json.jar)")
		}
		return []string{"java", "docs/start/quickstart/java/Quickstart.java"}, "", nil
	}},
}

// printed is what each quickstart prints.
const printed = `reposts: 1
likes: 41
likes: 41
19089006004: 12 comments, 1 reposts, 0 likes
19089006001: 0 comments, 0 reposts, 41 likes
19089006000: nothing yet
`

// TestQuickstarts runs the program of each language, where the language and its library are installed, against an empty
// server with the example schema. The page shows what they print.
func TestQuickstarts(t *testing.T) {
	racetest.Skip(t, "it runs programs")
	if shown := strings.Join(read(t, "docs/start/quickstart/README.md"), "\n"); !strings.Contains(shown, printed) {
		t.Errorf("docs/start/quickstart/README.md does not show what the programs print:\n%s", printed)
	}
	for _, q := range quickstarts {
		t.Run(q.language, func(t *testing.T) {
			command, env, err := q.find()
			if err != nil {
				fmt.Fprintf(os.Stderr, "LEFT OUT: %s: %v\n", t.Name(), err)
				return
			}
			t.Parallel()
			c := newConsole(t)
			c.serve("counterd --dir data --schema cmd/counterd/weibo.schema &")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, command[0], command[1:]...)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), fmt.Sprint("COUNTERD=127.0.0.1:", c.free[6379]))
			if env != "" {
				cmd.Env = append(cmd.Env, env)
			}
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != printed {
				t.Errorf("%s: %v, prints\n%s\nwant\n%s", strings.Join(command, " "), err, out, printed)
			}
		})
	}
}

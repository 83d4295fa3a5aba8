package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const rueidisModule = "github.com/redis/rueidis"

// The suite of rueidis knows its servers by their ports: a single one, one behind Sentinel, one for RESP2 only, and a cluster.
var (
	rueidisSingle  = []int{6379, rueidisPrimary, 6355}
	rueidisCluster = []int{7001, 7002, 7003}
)

const (
	rueidisPrimary  = 6380 // the server that Sentinel watches
	rueidisSentinel = 26379
)

// rueidisTests are the tests of rueidis that need servers. Tests of other versions and of other servers than Redis repeat them.
const rueidisTests = "^Test((Single|Sentinel|Cluster)ClientIntegration(WithPool)?|SingleClient5Integration|Negative.*)$"

// rueidis runs those tests of rueidis that need servers, each in a process of its own: a panic ends the process.
func rueidis(ctx context.Context, o options, list []row) (found []outcome, err error) {
	s, err := newServers(o.counterd)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.rueidis(ctx); err != nil {
		return nil, err
	}
	program, err := rueidisProgram(ctx, o.path, s.dir)
	if err != nil {
		return nil, err
	}
	names, err := tool(ctx, o.path, nil, program, "-test.list", rueidisTests)
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(string(names)) {
		args := []string{"tool", "test2json", "-p", rueidisModule, program, "-test.v=test2json", "-test.timeout=1h", "-test.run=^" + name + "$"}
		if skip := skipped(rueidisParts(list, name)); len(skip) > 0 {
			args = append(args, "-test.skip=^"+name+"$/^("+strings.Join(skip, "|")+")$")
		}
		output, err := tool(ctx, o.path, nil, "go", args...)
		if err != nil {
			return nil, err
		}
		f, err := readGoTest(rueidisModule, output)
		if err != nil {
			return nil, err
		}
		fmt.Printf("%-36s %3d parts ran\n", name, len(f))
		found = append(found, f...)
	}
	return found, nil
}

// rueidis starts the servers that the suite of rueidis knows.
func (s *servers) rueidis(ctx context.Context) error {
	for _, port := range rueidisSingle {
		if _, err := s.node(ctx, behind{port: port}); err != nil {
			return err
		}
	}
	if err := s.sentinel(ctx, rueidisSentinel); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(rueidisSentinel), DisableIdentity: true})
	defer rdb.Close()
	if err := rdb.Do(ctx, "SENTINEL", "MONITOR", "test", "127.0.0.1", rueidisPrimary, 2).Err(); err != nil {
		return err
	}
	return s.cluster(ctx, 3, rueidisCluster, behind{answered: clusterAnswered}, nil)
}

// rueidisParts are the rows of the parts of a test, by the names of the parts.
func rueidisParts(list []row, name string) (parts []row) {
	for _, l := range list {
		if part, ok := strings.CutPrefix(l.test, name+"/"); ok {
			parts = append(parts, row{l.unit, part, l.what})
		}
	}
	return parts
}

// rueidisRun stands for the function run of rueidis, which calls all parts of a test at the same time: each of them becomes a test.
const rueidisRun = `package rueidis

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func run(t *testing.T, client Client, parts ...func(*testing.T, Client)) {
	var running sync.WaitGroup
	for _, part := range parts {
		name := runtime.FuncForPC(reflect.ValueOf(part).Pointer()).Name()
		running.Go(func() {
			t.Run(name[strings.LastIndexByte(name, '.')+1:], func(t *testing.T) { part(t, client) })
		})
	}
	running.Wait()
}
`

// rueidisChanges are the changes in the file of the tests: the function gets another name, and the client of Sentinel uses the one
// database that counterd has.
var rueidisChanges = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(?m)^func run\(`), "func runTogether("},
	{regexp.MustCompile(`SelectDB:\s+2,`), "SelectDB: 0,"},
}

// rueidisProgram builds the tests of rueidis with these changes, and leaves the checkout as it is.
func rueidisProgram(ctx context.Context, checkout, dir string) (program string, err error) {
	const file = "redis_test.go"
	source, err := os.ReadFile(filepath.Join(checkout, file))
	if err != nil {
		return "", err
	}
	for _, c := range rueidisChanges {
		if n := len(c.from.FindAll(source, -1)); n != 1 {
			return "", fmt.Errorf("%s has %d times %s, want once: this is another version of rueidis", file, n, c.from)
		}
		source = c.from.ReplaceAll(source, []byte(c.to))
	}
	replaced := map[string]string{filepath.Join(checkout, file): filepath.Join(dir, file), filepath.Join(checkout, "suite_run_test.go"): filepath.Join(dir, "suite_run_test.go")}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{file: source, "suite_run_test.go": []byte(rueidisRun), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	program = filepath.Join(dir, "suite.test")
	output, err := tool(ctx, checkout, nil, "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	if err == nil && len(bytes.TrimSpace(output)) > 0 {
		err = fmt.Errorf("go test -c:\n%s", output)
	}
	return program, err
}

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/counterd/counterd"

// topLevel is all that may stand at the root, dot-files and build output aside.
var topLevel = []string{"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "bench", "bin", "cmd", "coldstore", "counter", "dist", "docs", "go.mod", "go.sum",
	"internal", "packaging", "persist", "schema"}

// allowed names, for each package (and those below it, unless they have a line of their own), the packages of the
// module it may import. Imports run one way: server -> node -> repl -> counter -> hot, coldstore, persist -> schema,
// vfs; and counterctl -> datadir, counter -> persist.
var allowed = map[string][]string{
	"schema":                            {},
	"persist/vfs":                       {},
	"persist":                           {"persist", "internal/slot", "persist/vfs", "schema"},
	"coldstore":                         {"coldstore", "internal/slot", "persist/vfs", "schema"},
	"counter/internal/hot":              {"internal/slot", "schema"},
	"counter/internal/arena":            {},
	"counter/internal/producers":        {"internal/slot", "persist"},
	"counter/datadir":                   {"persist", "persist/vfs"},
	"counter/client":                    {"internal/errclass", "internal/numbered", "internal/slot", "schema"},
	"counter":                           {"counter/internal", "coldstore", "internal/slot", "persist", "persist/vfs", "schema"},
	"internal/slot":                     {},
	"cmd/internal/topology":             {"internal/slot"},
	"cmd/internal/registry":             {"cmd/internal/registry", "cmd/internal/secretfile", "cmd/internal/topology", "internal/slot"},
	"internal/wire":                     {},
	"internal/errclass":                 {},
	"internal/numbered":                 {},
	"internal/testkit":                  {},
	"cmd/internal/testkit/registrytest": {"cmd/internal/registry", "cmd/internal/topology", "internal/slot"},
	"internal/tsv":                      {},
	"bench":                             {"bench", "internal/tsv", "internal/wire", "schema"},
	"cmd/internal/secretargs":           {},
	"cmd/internal/bytesize":             {},
	"cmd/internal/connect":              {"cmd/internal/cli", "cmd/internal/secretfile", "internal/wire"},
	"cmd/internal/secretfile":           {},
	"internal/version":                  {},
	"internal/atomicfile":               {},
	"packaging":                         {},
	"cmd/internal/manual":               {},
	"cmd/internal/cli":                  {"cmd/internal/manual", "internal/version", "cmd/internal/secretargs"},
	"cmd/counterbench":                  {"internal/tsv", "cmd/counterbench/internal", "cmd/internal/bytesize", "cmd/internal/cli", "bench", "counter", "counter/client", "internal/wire", "schema"},
	"cmd/counterctl": {"cmd/counterctl/internal", "cmd/internal/bytesize", "cmd/internal/cli", "cmd/internal/topology", "internal/tsv", "counter", "coldstore", "internal/wire", "persist", "persist/vfs", "schema", "cmd/internal/connect",
		"cmd/internal/registry", "cmd/internal/topology", "internal/slot", "internal/atomicfile", "internal/errclass"},
	"cmd/counterd/internal/net/resp":        {},
	"cmd/counterd/internal/observe/pubsub":  {"cmd/counterd/internal/commands/glob", "cmd/counterd/internal/net/resp"},
	"cmd/counterd/internal/config":          {"cmd/internal/bytesize", "cmd/internal/secretfile", "counter", "internal/atomicfile"},
	"cmd/counterd/internal/net/tlsconf":     {"cmd/counterd/internal/config", "cmd/internal/secretfile"},
	"cmd/counterd/internal/commands/glob":   {},
	"cmd/counterd/internal/nodes/move":      {"cmd/counterd/internal/nodes/cluster", "cmd/internal/registry", "cmd/internal/topology", "internal/slot", "counter", "internal/wire"},
	"cmd/counterd/internal/nodes/cluster":   {"cmd/internal/registry", "cmd/internal/topology", "internal/slot", "internal/atomicfile"},
	"cmd/counterd/internal/observe/slowlog": {},
	"cmd/counterd/internal/observe/popular": {},
	"cmd/counterd/internal/observe/stats":   {},
	"cmd/counterd/internal/net/web":         {"cmd/counterd/internal/net/brake", "cmd/counterd/internal/observe/stats"},
	"cmd/counterd/internal/observe/metrics": {"counter", "internal/errclass", "persist"},
	"cmd/counterd/internal/observe/console": {"cmd/counterd/internal/observe/stats"},
	"cmd/counterd/internal/commands/dataset": {"cmd/counterd/internal/commands/command", "cmd/counterd/internal/commands/glob", "cmd/counterd/internal/commands/items",
		"cmd/counterd/internal/net/resp", "counter", "schema"},
	"cmd/counterd/internal/net/front":     {"cmd/counterd/internal/config", "cmd/counterd/internal/net/resp", "cmd/counterd/internal/observe/stats"},
	"cmd/counterd/internal/observe/watch": {"counter", "schema"},
	"cmd/counterd/internal/commands/idmp": {"cmd/counterd/internal/net/resp", "counter"},
	"cmd/counterd/internal/commands/command": {"cmd/counterd/internal/commands/idmp", "cmd/counterd/internal/commands/items", "cmd/counterd/internal/net/resp", "cmd/counterd/internal/commands/glob",
		"cmd/counterd/internal/observe/stats"},
	"cmd/counterd/internal/commands/acl":     {"cmd/counterd/internal/commands/command", "cmd/counterd/internal/commands/glob", "cmd/internal/secretfile", "internal/atomicfile", "schema"},
	"cmd/counterd/internal/commands/items":   {"cmd/counterd/internal/commands/idmp", "cmd/counterd/internal/net/resp", "cmd/counterd/internal/commands/glob", "counter", "schema"},
	"cmd/counterd/internal/observe/tracking": {"counter", "schema"},
	"cmd/counterd/internal/nodes/node": {"cmd/counterd/internal/commands/command", "cmd/counterd/internal/config", "cmd/counterd/internal/commands/items", "internal/wire",
		"cmd/counterd/internal/nodes/repl", "cmd/counterd/internal/net/resp", "counter", "internal/errclass"},
	"cmd/counterd/internal/commands/find": {"cmd/counterd/internal/commands/command", "cmd/counterd/internal/commands/idmp", "cmd/counterd/internal/commands/items", "cmd/counterd/internal/commands/query",
		"cmd/counterd/internal/net/resp", "counter", "schema"},
	"cmd/counterd/internal/nodes/gather":   {"cmd/counterd/internal/net/resp", "cmd/internal/topology", "internal/slot", "internal/wire"},
	"cmd/counterd/internal/commands/query": {"cmd/counterd/internal/net/resp", "counter", "schema"},
	"cmd/counterd/internal/server":         {"cmd/counterd/internal", "cmd/internal/registry", "cmd/internal/topology", "counter", "internal/slot", "internal/version", "schema"},
	"cmd/counterd/internal/nodes/route":    {"cmd/counterd/internal/net/resp", "cmd/internal/topology", "internal/slot", "schema"},
	"cmd/counterd/internal/nodes/repl":     {"cmd/counterd/internal", "counter", "internal/wire", "persist", "persist/vfs", "schema"},
	"cmd/counterctl/internal/backup":       {"counter/datadir", "internal/atomicfile", "persist", "persist/vfs"},
	"cmd/counterctl/internal/bulk":         {"internal/tsv", "coldstore", "counter", "persist/vfs", "schema"},
	"cmd/counterctl/internal/export":       {"internal/atomicfile", "cmd/counterctl/internal/mapping", "internal/wire", "schema"},
	"cmd/counterctl/internal/rdb":          {},
	"cmd/counterctl/internal/follow": {"internal/atomicfile", "cmd/counterctl/internal/mapping", "cmd/counterctl/internal/source", "cmd/counterctl/internal/transfer",
		"internal/errclass", "internal/wire", "persist/vfs", "schema"},
	"cmd/counterd": {"cmd/counterd/internal", "cmd/internal/manual", "cmd/internal/registry", "counter", "internal/wire", "schema", "cmd/internal/secretargs"},

	"cmd/counterbench/internal/plan":   {"cmd/internal/topology", "internal/slot"},
	"cmd/counterctl/internal/mapping":  {"schema"},
	"cmd/counterctl/internal/source":   {"internal/tsv", "cmd/counterctl/internal/rdb", "cmd/counterctl/internal/mapping", "cmd/counterctl/internal/transfer", "internal/wire", "schema"},
	"cmd/counterctl/internal/transfer": {"internal/atomicfile", "cmd/counterctl/internal/mapping", "internal/errclass", "internal/wire", "schema"},
}

// importers names, for some packages, the only ones that may import them: a server starts none of the tools that mend
// its data. Tests may import any.
var importers = map[string][]string{
	"counter/datadir":                   {"cmd/counterctl", "cmd/counterctl/internal/backup"},
	"internal/testkit/benchtest":        {},
	"internal/testkit/chromium":         {},
	"internal/testkit/cutproxy":         {},
	"internal/testkit/resptest":         {},
	"internal/testkit/racetest":         {},
	"internal/testkit/etcdtest":         {},
	"internal/testkit/tlstest":          {},
	"cmd/internal/testkit/registrytest": {},
}

// pure packages must not know files, the network or the clock.
var pure = map[string][]string{
	"schema":                                 {"os", "net", "time", "syscall"},
	"internal/errclass":                      {"os", "net", "time", "syscall", "sync"},
	"internal/numbered":                      {"os", "net", "time", "syscall", "sync"},
	"internal/slot":                          {"os", "net", "time", "syscall", "sync"},
	"cmd/internal/topology":                  {"os", "syscall", "sync"},
	"counter/internal/hot":                   {"os", "net", "time", "syscall", "sync"},
	"counter/internal/producers":             {"os", "net", "time", "syscall", "sync"},
	"cmd/counterd/internal/net/resp":         {"os", "net", "time", "syscall"},
	"cmd/counterd/internal/commands/glob":    {"os", "net", "time", "syscall"},
	"cmd/counterd/internal/commands/idmp":    {"os", "net", "time", "syscall", "sync"},
	"cmd/counterd/internal/commands/command": {"os", "net", "syscall", "sync"},
	"cmd/counterd/internal/commands/items":   {"os", "net", "time", "syscall", "sync"},
	"cmd/counterd/internal/commands/find":    {"os", "net", "time", "syscall", "sync"},
	"cmd/counterd/internal/commands/query":   {"os", "net", "time", "syscall", "sync"},
	"cmd/counterd/internal/nodes/route":      {"os", "net", "time", "syscall", "sync"},
	"counter":                                {"net"},
	"persist":                                {"net"},
	"coldstore":                              {"net"},

	"cmd/counterctl/internal/mapping": {"os", "net", "time", "syscall", "sync"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestTree(t *testing.T) {
	root := filepath.Join("..", "..")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(topLevel, e.Name()) {
			t.Errorf("%s stands at the root of the tree, where only %v may", e.Name(), topLevel)
		}
	}
}

func TestImports(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages++
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		rule := ruleFor(name)
		if rule == "" {
			t.Errorf("package %s has no rule: what may it import?", name)
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains(pure[name], imp) {
				t.Errorf("%s imports %s, but it is pure", name, imp)
			}
			inner, ours := strings.CutPrefix(imp, module+"/")
			if ours && !slices.ContainsFunc(allowed[rule], func(a string) bool { return inner == a || strings.HasPrefix(inner, a+"/") }) {
				t.Errorf("%s imports %s, want only %v", name, inner, allowed[rule])
			}
			if who, few := importers[inner]; ours && few && !slices.Contains(who, name) {
				t.Errorf("%s imports %s, which is for %v only", name, inner, who)
			}
		}
	}
	if packages < 8 {
		t.Errorf("go list named %d packages only", packages)
	}
}

// ruleFor finds the longest key of allowed that name is or lies below.
func ruleFor(name string) string {
	for ; name != "." && name != ""; name = filepath.ToSlash(filepath.Dir(name)) {
		if _, ok := allowed[name]; ok {
			return name
		}
	}
	return ""
}

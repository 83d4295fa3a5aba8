package tidy

import (
	"os"
	"path"
	"slices"
	"strings"
)

// topNames is all that may stand at the root, dot-files and build output aside.
var topNames = []string{"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "bench", "bin", "cmd", "coldstore", "counter", "dist", "docs", "go.mod", "go.sum",
	"internal", "packaging", "persist", "schema"}

func topLevel(t *Tree, report Report) {
	entries, err := os.ReadDir(t.Root)
	if err != nil {
		report("%v", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(topNames, e.Name()) {
			report("%s stands at the root of the tree, where only %v may", e.Name(), topNames)
		}
	}
}

// floors gives each package, and those below it that have no row of their own, a floor. A package imports packages of lower
// floors only. Numbers leave room: a new package between two others takes one between theirs.
var floors = map[string]int{
	"schema":    10,
	"internal":  10,
	"packaging": 10,
	"docs":      200,

	"internal/decay":    5,
	"internal/slot":     5,
	"internal/feedjoin": 15,

	"persist/vfs":                10,
	"persist/format":             12,
	"persist/logfile":            20,
	"persist/snapfile":           20,
	"persist":                    30,
	"persist/archive":            32,
	"persist/past":               34,
	"coldstore/page":             12,
	"coldstore":                  30,
	"counter/internal":           40,
	"counter/internal/block":     45,
	"counter/internal/query":     50,
	"counter/internal/window":    50,
	"counter/internal/scancache": 50,
	"counter/internal/rangecopy": 50,
	"counter/internal/core":      55,
	"counter/internal/build":     57,
	"counter/internal/durable":   57,
	"counter/internal/tier":      58,
	"counter/internal/replica":   58,
	"counter/internal/topbuild":  58,
	"counter/internal/feed":      59,
	"counter/datadir":            40,
	"counter/client":             20,
	"counter":                    60,

	"bench":          30,
	"bench/report":   20,
	"bench/heavy":    20,
	"bench/sample":   20,
	"bench/postgen":  20,
	"bench/procstat": 20,
	"bench/feedload": 25,
	"bench/addload":  25,
	"bench/floor":    20,

	"cmd/internal":               20,
	"cmd/internal/backup":        40,
	"cmd/internal/backup/place":  30,
	"cmd/internal/backup/bucket": 35,
	"cmd/internal/cli":           30,
	"cmd/internal/connect":       40,
	"cmd/internal/registry":      40,
	"cmd/internal/query":         70,

	"cmd/counterd/internal/net/resp":          20,
	"cmd/counterd/internal/net/brake":         20,
	"cmd/counterd/internal/commands/glob":     20,
	"cmd/counterd/internal/commands/argqueue": 20,
	"cmd/counterd/internal/observe/stats":     20,
	"cmd/counterd/internal/observe/popular":   20,
	"cmd/counterd/internal/observe/slowlog":   20,
	"cmd/counterd/internal/net":               30,
	"cmd/counterd/internal/nodes/gather":      40,
	"cmd/counterd/internal/nodes/route":       40,
	"cmd/counterd/internal/nodes/cluster":     50,
	"cmd/counterd/internal/config":            70,
	"cmd/counterd/internal/observe/facts":     65,
	"cmd/counterd/internal/observe":           75,
	"cmd/counterd/internal/observe/hotlist":   78,
	"cmd/counterd/internal/nodes":             75,
	"cmd/counterd/internal/commands/idmp":     75,
	"cmd/counterd/internal/commands/items":    80,
	"cmd/counterd/internal/net/front":         80,
	"cmd/counterd/internal/net/tlsconf":       80,
	"cmd/counterd/internal/commands":          90,
	"cmd/counterd/internal/commands/acl":      100,
	"cmd/counterd/internal/commands/admin":    100,
	"cmd/counterd/internal/commands/dataset":  100,
	"cmd/counterd/internal/commands/feed":     100,
	"cmd/counterd/internal/commands/find":     100,
	"cmd/counterd/internal/nodes/role":        100,
	"cmd/counterd/internal/nodes/scatter":     110,
	"cmd/counterd/internal/nodes/serving":     110,
	"cmd/counterd/internal/server":            120,
	"cmd/counterd":                            200,

	"cmd/counterctl/internal/rdb":       20,
	"cmd/counterctl/internal/mapping":   30,
	"cmd/counterctl/internal/export":    40,
	"cmd/counterctl/internal/transfer":  40,
	"cmd/counterctl/internal":           70,
	"cmd/counterctl/internal/human":     40,
	"cmd/counterctl/internal/node":      50,
	"cmd/counterctl/internal/patience":  20,
	"cmd/counterctl/internal/directory": 80,
	"cmd/counterctl/internal/posts":     80,
	"cmd/counterctl/internal/cluster":   90,
	"cmd/counterctl/internal/feed":      80,
	"cmd/counterctl/internal/source":    50,
	"cmd/counterctl":                    200,
	"cmd/counterbench":                  200,

	"internal/testkit":                         300,
	"internal/testkit/filetest":                290,
	"internal/testkit/freeport":                290,
	"internal/testkit/seed":                    290,
	"internal/testkit/racetest":                290,
	"internal/testkit/programs":                295,
	"internal/testkit/weave":                   295,
	"cmd/internal/testkit":                     300,
	"cmd/counterd/internal/testkit/feedview":   305,
	"cmd/counterd/internal/testkit/simulation": 310,
	"cmd/counterd/e2e/harness":                 390,
	"cmd/counterd/e2e/consumers":               395,
	"cmd/counterd/e2e":                         400,
}

// floor finds the row of a package: its own, or that of the nearest directory above it.
func floor(name string) (row string, n int, ok bool) {
	for ; name != "."; name = path.Dir(name) {
		if n, ok := floors[name]; ok {
			return name, n, true
		}
	}
	return "", 0, false
}

// each import calls f for each import of the module's own packages by code, tests left out.
func (t *Tree) imports(f func(file *File, from, to string)) {
	t.Each(func(d *Dir) {
		d.EachFile(func(_ string, file *File) {
			if file.Test {
				return
			}
			for _, imp := range file.Imports() {
				if to, ours := strings.CutPrefix(imp, module+"/"); ours {
					f(file, d.Path, to)
				}
			}
		})
	})
}

func checkFloors(t *Tree, report Report) {
	used := map[string]bool{}
	t.Each(func(d *Dir) {
		row, _, ok := floor(d.Path)
		if !ok {
			report("package %s has no floor: give it one in floors.go", d.Path)
		}
		used[row] = true
	})
	for name := range floors {
		if !used[name] {
			report("floors.go has a row for %s, where no package is", name)
		}
	}
	t.imports(func(file *File, from, to string) {
		_, high, _ := floor(from)
		_, low, ok := floor(to)
		if ok && low >= high {
			report("%s: %s (floor %d) imports %s (floor %d): imports go down", file.Path, from, high, to, low)
		}
	})
}

// borders are packages that floors alone would allow: packages in from, and below it, never import packages in to.
var borders = []struct{ from, to, why string }{
	{"schema", "cmd", "a library knows no program"},
	{"counter", "cmd", "a library knows no program"},
	{"persist", "cmd", "a library knows no program"},
	{"coldstore", "cmd", "a library knows no program"},
	{"internal", "cmd", "a library knows no program"},
	{"counter", "internal/wire", "the store does not know the protocol"},
	{"persist", "internal/wire", "the store does not know the protocol"},
	{"coldstore", "persist", "a cold file stands alone"},
	{"coldstore/page", "persist/vfs", "a page is bytes: it opens no file"},
	{"persist/format", "persist/vfs", "formats are bytes: they open no file"},
	{"counter/client", "counter", "a client needs no store"},
	{"counter/client", "persist", "a client needs no store"},
	{"cmd/counterd/internal", "counter/client", "the server is no client of itself"},
	{"cmd/counterd/internal", "coldstore", "the server asks counter"},
	{"cmd/counterd", "bench", "the server carries no benchmark"},
}

// exempt from borders.
var exempt = map[[2]string]bool{
	{"coldstore", "persist/vfs"}: true,
}

// importers names, for some packages, the only ones that may import them: a server starts none of the tools that mend its
// data, and has no client of S3. Tests may import any.
var importers = map[string][]string{
	"counter/datadir":            {"cmd/counterctl", "cmd/counterctl/internal/directory"},
	"cmd/internal/backup/bucket": {"cmd/counterctl"},
}

func checkBorders(t *Tree, report Report) {
	t.imports(func(file *File, from, to string) {
		for _, b := range borders {
			if within(from, b.from) && within(to, b.to) && !exempt[[2]string{b.from, to}] {
				report("%s imports %s: %s", file.Path, to, b.why)
			}
		}
		if who, few := importers[to]; few && !slices.Contains(who, from) && !isTestkit(from) {
			report("%s imports %s, which is for %v only", file.Path, to, who)
		}
	})
}

// pure packages must not know files, the network or the clock.
var pure = map[string][]string{
	"schema":                                  {"os", "net", "time", "syscall"},
	"internal/decay":                          {"os", "net", "time", "syscall", "sync"},
	"internal/errclass":                       {"os", "net", "time", "syscall", "sync"},
	"internal/numbered":                       {"os", "net", "time", "syscall", "sync"},
	"internal/slot":                           {"os", "net", "time", "syscall", "sync"},
	"cmd/internal/topology":                   {"os", "syscall", "sync"},
	"counter/internal/hot":                    {"os", "net", "time", "syscall", "sync"},
	"counter/internal/producers":              {"os", "net", "time", "syscall", "sync"},
	"counter/internal/toplist":                {"os", "net", "time", "syscall"},
	"cmd/counterd/internal/net/resp":          {"os", "net", "time", "syscall"},
	"cmd/counterd/internal/commands/glob":     {"os", "net", "time", "syscall"},
	"cmd/counterd/internal/commands/argqueue": {"os", "net", "time", "syscall"},
	"cmd/counterd/internal/commands/idmp":     {"os", "net", "time", "syscall", "sync"},
	"cmd/counterd/internal/commands/command":  {"os", "net", "syscall", "sync"},
	"cmd/counterd/internal/commands/items":    {"os", "net", "time", "syscall", "sync"},
	"cmd/counterd/internal/commands/find":     {"os", "net", "time", "syscall", "sync"},
	"cmd/internal/query":                      {"os", "net", "time", "syscall", "sync"},
	"cmd/counterd/internal/nodes/route":       {"os", "net", "time", "syscall", "sync"},
	"counter":                                 {"net"},
	"persist":                                 {"net"},
	"persist/format":                          {"os", "net", "time", "syscall"},
	"coldstore":                               {"net"},
	"coldstore/page":                          {"os", "net", "time", "syscall"},
	"cmd/counterctl/internal/mapping":         {"os", "net", "time", "syscall", "sync"},
}

func checkPure(t *Tree, report Report) {
	for name := range pure {
		if t.Dirs[name] == nil {
			report("pure names %s, where no package is", name)
		}
	}
	t.Each(func(d *Dir) {
		d.EachFile(func(_ string, file *File) {
			for _, imp := range file.Imports() {
				if !file.Test && slices.Contains(pure[d.Path], imp) {
					report("%s imports %s, and its package is pure", file.Path, imp)
				}
			}
		})
	})
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mochaTest is a test of Mocha, or a hook that failed.
type mochaTest struct {
	FullTitle, File string
	Err             struct{ Message string }
}

// mocha is a report of Mocha, as far as it is read. Hooks are in Failures only.
type mocha struct{ Tests, Failures, Pending []mochaTest }

func (t mochaTest) key() string { return t.File + t.FullTitle }

// readMocha reads a report of Mocha. The unit of a test is its file, and of a hook of all files the first. Tests that the suite itself does
// not run are left away.
func readMocha(folder, first string, content []byte) (found []outcome, err error) {
	var report mocha
	if err := json.Unmarshal(content, &report); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	add := func(tests []mochaTest, passed bool) {
		for _, t := range tests {
			if seen[t.key()] {
				continue
			}
			seen[t.key()] = true
			unit, err := filepath.Rel(folder, t.File)
			if err != nil {
				unit = first
			}
			found = append(found, outcome{unit: unit, test: oneLine(t.FullTitle), passed: passed, said: t.Err.Message})
		}
	}
	add(report.Failures, false)
	for _, t := range report.Pending {
		seen[t.key()] = true
	}
	add(report.Tests, true)
	return found, nil
}

// The suite of ioredis knows its servers by their ports: one server, and a cluster of three shards.
const ioredisSingle = 6379

var ioredisCluster = []int{3000, 3001, 3002, 3003, 3004, 3005}

// ioredisAnswered are the commands that the proxies of the cluster answer. The suite removes all scripts before each test.
func ioredisAnswered(args [][]byte) bool {
	return clusterAnswered(args) || word(args, 0) == "script" && word(args, 1) == "flush"
}

// ioredis runs the functional tests of ioredis against one server, and those of its cluster client against six nodes.
func ioredis(ctx context.Context, o options, list []row) (found []outcome, err error) {
	s, err := newServers(o.counterd)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if _, err := s.node(ctx, behind{port: ioredisSingle}); err != nil {
		return nil, err
	}
	if err := s.cluster(ctx, 3, ioredisCluster, behind{answered: ioredisAnswered}, nil); err != nil {
		return nil, err
	}
	runs, err := o.mochaFiles()
	if err != nil {
		return nil, err
	}
	table := newIndex(list)
	for _, files := range runs {
		if table.what(files[0], "") != "" {
			continue // the whole file is left out
		}
		f, err := o.mochaRun(ctx, s.dir, list, files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", files, err)
		}
		fmt.Printf("%-50s %3d tests ran\n", files[0], len(f))
		found = append(found, f...)
	}
	return found, nil
}

// mochaFiles are the files of tests of ioredis, as one process runs them: those of commands together.
func (o options) mochaFiles() (runs [][]string, err error) {
	if o.only != "" {
		return [][]string{{o.only}}, nil
	}
	add := func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".ts") {
			return err
		}
		path, err = filepath.Rel(o.path, path)
		if last := len(runs) - 1; last >= 0 && filepath.Base(filepath.Dir(path)) == "commands" && filepath.Dir(runs[last][0]) == filepath.Dir(path) {
			runs[last] = append(runs[last], path)
		} else {
			runs = append(runs, []string{path})
		}
		return err
	}
	for _, folder := range []string{"functional", "cluster"} {
		if err := filepath.WalkDir(filepath.Join(o.path, "test", folder), add); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// mochaRun runs the tests of files in a process of its own: a promise that nobody waits for ends the process. A helper of functional tests
// empties the server after each test.
func (o options) mochaRun(ctx context.Context, dir string, list []row, files []string) ([]outcome, error) {
	report := filepath.Join(dir, "report.json")
	_ = os.Remove(report) // that of another file
	args := []string{"node_modules/mocha/bin/mocha.js", "--no-config", "--no-package", "--require", "ts-node/register", "--timeout", "8000", "--exit",
		"--reporter", "json", "--reporter-option", "output=" + report}
	if strings.HasPrefix(files[0], "test/functional/") {
		args = append(args, "test/helpers/global.ts")
	}
	var skip []string
	for _, file := range files {
		skip = append(skip, skipped(of(list, file))...)
	}
	if len(skip) > 0 {
		args = append(args, "--invert", "--grep", "^("+strings.Join(skip, "|")+")$")
	}
	output, err := tool(ctx, o.path, []string{"TS_NODE_TRANSPILE_ONLY=true", "NODE_ENV=test"}, "node", append(args, files...)...)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(report)
	if err != nil {
		return []outcome{{unit: files[0], test: "the run of the file", said: string(output[max(0, len(output)-400):])}}, nil
	}
	return readMocha(o.path, files[0], content)
}

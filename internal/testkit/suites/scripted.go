package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// junit is a report of pytest, as far as it is read.
type junit struct {
	Cases []struct {
		Class   string `xml:"classname,attr"`
		Name    string `xml:"name,attr"`
		Failure *struct {
			Message string `xml:"message,attr"`
		} `xml:"failure"`
		Error *struct {
			Message string `xml:"message,attr"`
		} `xml:"error"`
		Skipped *struct{} `xml:"skipped"`
	} `xml:"testsuite>testcase"`
}

// readJUnit reads a report of pytest. The unit of a test is its module.
func readJUnit(content []byte) (found []outcome, err error) {
	var report junit
	if err := xml.Unmarshal(content, &report); err != nil {
		return nil, err
	}
	for _, c := range report.Cases {
		if c.Skipped != nil {
			continue
		}
		module, class, _ := cutModule(c.Class)
		o := outcome{unit: module, test: oneLine(strings.TrimPrefix(class+"."+c.Name, ".")), passed: c.Failure == nil && c.Error == nil}
		if c.Failure != nil {
			o.said = c.Failure.Message
		} else if c.Error != nil {
			o.said = c.Error.Message
		}
		found = append(found, o)
	}
	return found, nil
}

// cutModule cuts the class of a test behind its module.
func cutModule(class string) (module, rest string, ok bool) {
	parts := strings.Split(class, ".")
	for i, p := range parts {
		if strings.HasPrefix(p, "Test") {
			return strings.Join(parts[:i], "."), strings.Join(parts[i:], "."), true
		}
	}
	return class, "", false
}

// redisPyFiles are the files of redis-py's suite whose tests have rows in the table.
var redisPyFiles = []string{"test_pipeline.py", "test_pubsub.py", "test_connection.py", "test_connection_pool.py", "test_cache.py", "test_monitor.py",
	"test_encoding.py", "test_multiprocessing.py", "test_client.py", "test_command_parser.py", "test_function.py"}

// redisPy runs the suite of redis-py against one server.
func redisPy(ctx context.Context, o options, _ []row) ([]outcome, error) {
	s, err := newServers(o.counterd)
	if err != nil {
		return nil, err
	}
	defer s.close()
	port, err := s.node(ctx, behind{})
	if err != nil {
		return nil, err
	}
	report := filepath.Join(s.dir, "report.xml")
	args := []string{"-m", "pytest", "-q", "--continue-on-collection-errors", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings=", "--junitxml", report, "--redis-url", "redis://127.0.0.1:" + strconv.Itoa(port) + "/0"}
	for _, file := range redisPyFiles {
		if at := "tests/" + file; o.only == "" || o.only == at {
			args = append(args, at)
		}
	}
	output, err := tool(ctx, o.path, []string{"PYTHONPATH=" + o.path, "PYTHONDONTWRITEBYTECODE=1"}, python(), args...)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output[max(0, len(output)-4000):])
	}
	return readJUnit(content)
}

// python is the interpreter: PYTHON of the environment, or python3.
func python() string {
	if p := os.Getenv("PYTHON"); p != "" {
		return p
	}
	return "python3"
}

// mocha is a report of Mocha, as far as it is read.
type mocha struct {
	Tests []struct {
		FullTitle string
		File      string
		Pending   bool
		Err       struct{ Message string }
	}
	Passes, Failures, Pending []struct{ FullTitle, File string }
}

// readMocha reads a report of Mocha. The unit of a test is its file.
func readMocha(folder string, content []byte) (found []outcome, err error) {
	var report mocha
	if err := json.Unmarshal(content, &report); err != nil {
		return nil, err
	}
	pending := map[string]bool{}
	for _, p := range report.Pending {
		pending[p.File+p.FullTitle] = true
	}
	failed := map[string]bool{}
	for _, f := range report.Failures {
		failed[f.File+f.FullTitle] = true
	}
	for _, t := range report.Tests {
		if key := t.File + t.FullTitle; !pending[key] {
			unit, err := filepath.Rel(folder, t.File)
			if err != nil {
				unit = t.File
			}
			found = append(found, outcome{unit: unit, test: oneLine(t.FullTitle), passed: !failed[key], said: t.Err.Message})
		}
	}
	return found, nil
}

// ioredis runs the functional tests of ioredis against one server, and those of its cluster client against six nodes.
func ioredis(ctx context.Context, o options, list []row) (found []outcome, err error) {
	s, err := newServers(o.counterd)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if _, err := s.node(ctx, behind{port: 6379}); err != nil {
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
		f, err := o.mochaRun(ctx, s.dir, files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", files, err)
		}
		fmt.Printf("%-50s %3d tests ran\n", files[0], len(f))
		found = append(found, f...)
	}
	return found, nil
}

// mochaFiles are the files of functional tests of ioredis, as one process runs them: those of commands together.
func (o options) mochaFiles() (runs [][]string, err error) {
	if o.only != "" {
		return [][]string{{o.only}}, nil
	}
	err = filepath.WalkDir(filepath.Join(o.path, "test", "functional"), func(path string, d os.DirEntry, err error) error {
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
	})
	return runs, err
}

// mochaRun runs the tests of files: a promise that nobody waits for ends the process.
func (o options) mochaRun(ctx context.Context, dir string, files []string) ([]outcome, error) {
	report := filepath.Join(dir, "report.json")
	_ = os.Remove(report) // that of another file
	output, err := tool(ctx, o.path, []string{"TS_NODE_TRANSPILE_ONLY=true", "NODE_ENV=test"}, "node", append([]string{"node_modules/mocha/bin/mocha.js", "--no-config",
		"--require", "ts-node/register", "--timeout", "8000", "--exit", "--reporter", "json", "--reporter-option", "output=" + report, "test/helpers/global.ts"}, files...)...)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(report)
	if err != nil {
		return []outcome{{unit: files[0], test: "the run of the file", said: string(output[max(0, len(output)-400):])}}, nil
	}
	return readMocha(o.path, content)
}

// respCompatibility runs the cases of resp-compatibility against one server.
func respCompatibility(ctx context.Context, o options, _ []row) ([]outcome, error) {
	s, err := newServers(o.counterd)
	if err != nil {
		return nil, err
	}
	defer s.close()
	port, err := s.node(ctx, behind{})
	if err != nil {
		return nil, err
	}
	return o.respCases(ctx, port)
}

// respCompatibilityCluster runs the cases of resp-compatibility against a cluster.
func respCompatibilityCluster(ctx context.Context, o options, _ []row) ([]outcome, error) {
	s, err := newServers(o.counterd)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var ports []int
	for range 3 {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	if err := s.cluster(ctx, 3, ports, nil, nil); err != nil {
		return nil, err
	}
	return o.respCases(ctx, ports[0], "--cluster")
}

func (o options) respCases(ctx context.Context, port int, args ...string) ([]outcome, error) {
	args = append([]string{"resp_compatibility.py", "--testfile", "cts.json", "--port", strconv.Itoa(port), "--show-failed"}, args...)
	output, err := tool(ctx, o.path, []string{"PYTHONDONTWRITEBYTECODE=1"}, python(), args...)
	if err != nil {
		return nil, err
	}
	return readResp(string(output)), nil
}

var (
	respCase   = regexp.MustCompile(`^test: (.*) (passed|failed)$`)
	respFailed = regexp.MustCompile(`^FailedTest\(name='(.*?)', reason=(.*)\)$`)
)

// readResp reads the output of resp-compatibility. Several cases may have one name: they get numbers.
func readResp(output string) (found []outcome) {
	number := map[string]int{}
	of := map[string][]int{} // the places of failed cases, by name
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		if m := respCase.FindStringSubmatch(line); m != nil {
			number[m[1]]++
			o := outcome{unit: "cts.json", test: m[1], passed: m[2] == "passed"}
			if n := number[m[1]]; n > 1 {
				o.test += " (" + strconv.Itoa(n) + ")"
			}
			if !o.passed {
				of[m[1]] = append(of[m[1]], len(found))
			}
			found = append(found, o)
		} else if m := respFailed.FindStringSubmatch(line); m != nil && len(of[m[1]]) > 0 {
			found[of[m[1]][0]].said = m[2]
			of[m[1]] = of[m[1]][1:]
		}
	}
	return found
}

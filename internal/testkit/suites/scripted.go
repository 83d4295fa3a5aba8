package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/testkit/freeport"
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
	return o.onOneNode(ctx, behind{}, func(dir string, port int) ([]outcome, error) {
		report := filepath.Join(dir, "report.xml")
		args := []string{"-m", "pytest", "-q", "--continue-on-collection-errors", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings=",
			"--junitxml", report, "--redis-url", "redis://127.0.0.1:" + strconv.Itoa(port) + "/0"}
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
	})
}

// python is the interpreter: PYTHON of the environment, or python3.
func python() string {
	if p := os.Getenv("PYTHON"); p != "" {
		return p
	}
	return "python3"
}

// respCompatibility runs the cases of resp-compatibility against one server.
func respCompatibility(ctx context.Context, o options, _ []row) ([]outcome, error) {
	return o.onOneNode(ctx, behind{}, func(_ string, port int) ([]outcome, error) { return o.respCases(ctx, port) })
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
		port, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	if err := s.cluster(ctx, 3, ports, behind{answered: clusterAnswered}, nil); err != nil {
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

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/internal/testkit/benchtest"
)

// shortRun returns flags of a short run on a server.
func shortRun(s *benchtest.Server, flags string) []string {
	return append([]string{"run", "--server", s.Addr, "--posts", "2000", "--clients", "4", "--depth", "8", "--duration", "40ms",
		"--warmup", "5ms", "--slices", "2", "--progress=false"}, strings.Fields(flags)...)
}

func TestRunAndCompare(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace.tsv")
	if err := os.WriteFile(trace, []byte("9\t3600000000000001\n9\t0\n9\t3600000000000002\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var files []string
	for i := range 2 {
		a, b := benchtest.Start(t, true), benchtest.Start(t, false)
		file, page := filepath.Join(dir, fmt.Sprint(i, ".json")), filepath.Join(dir, "report.html")
		status, out, errs := tool(t, shortRun(a, "--vs "+b.Addr+",redis-packed --workloads load,incr,replay,timeline --verify --mode async"+
			" --threads 2 --trace-columns id,target --trace "+trace+" --json "+file+" --html "+page)...)
		if status != 0 || errs != "" {
			t.Fatalf("status %d\n%s%s", status, out, errs)
		}
		for _, want := range []string{"2,000 posts of 3 counters (seed 1); 4 clients, 8 deep, async", "as counterd", "as redis-packed", "replay",
			"A/B", "bytes a post", "all as sent"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		r, err := report.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Phases) != 4 || len(r.Servers) != 2 || r.Settings.Threads != 2 {
			t.Errorf("the file has %+v", r)
		}
		if content, err := os.ReadFile(page); err != nil || !strings.Contains(string(content), "</html>") {
			t.Errorf("the page: %v, %d bytes", err, len(content))
		}
		files = append(files, file)
	}
	status, out, errs := tool(t, "compare", files[0], files[1])
	if status != 0 || errs != "" || !strings.Contains(out, "timeline") || !strings.Contains(out, "before") {
		t.Errorf("compare: status %d\n%s%s", status, out, errs)
	}
	if status, _, errs := tool(t, "compare", files[0], trace); status != 1 || !strings.Contains(errs, "not a report") {
		t.Errorf("compare with no report: status %d: %s", status, errs)
	}
}

func TestRunJSONToOutput(t *testing.T) {
	status, out, errs := tool(t, shortRun(benchtest.Start(t, true), "--workloads load,get --json -")...)
	var r report.Report
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil || len(r.Phases) != 2 {
		t.Errorf("status %d, %v\n%s%s", status, err, out, errs)
	}
}

// TestRunVerifyFails checks that lost increments make the tool fail.
func TestRunVerifyFails(t *testing.T) {
	s := benchtest.Start(t, true)
	var incrs atomic.Int64
	s.Lose = func(string) bool { return incrs.Add(1) == 7 }
	status, out, errs := tool(t, shortRun(s, "--workloads load,incr --verify")...)
	if status != 1 || !strings.Contains(out, "DIFFER") || errs != fmt.Sprintf("counterbench run: %s: 1 counters differ from what was sent\n", s.Addr) {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

func TestRunPinned(t *testing.T) {
	s := benchtest.Start(t, true)
	// Both are this process: it is pinned twice, and set free again.
	status, out, errs := tool(t, shortRun(s, "--workloads load --pin-server 0 --pin-client 0")...)
	if status != 0 || errs != "" {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	if status, _, errs := tool(t, shortRun(s, "--workloads load --flush --pin-server x")...); status != 2 {
		t.Errorf("status %d: %s", status, errs)
	}
}

func TestRunMisuse(t *testing.T) {
	s := benchtest.Start(t, true)
	for _, flags := range []string{"--posts 0", "--workloads nothing", "--workloads incr,load", "--workloads incr --verify", "--mode x",
		"--vs nowhere", "--vs h:1,oracle", "--rate -1", "--rate 0%", "--rate 101%", "--rate NaN", "--rate Inf", "--rate fast", "--threads -1", "--workloads replay", "extra"} {
		if status, _, errs := tool(t, shortRun(s, flags)...); status != 2 || !strings.HasPrefix(errs, "counterbench run: ") {
			t.Errorf("%s: status %d, want 2\n%s", flags, status, errs)
		}
	}
	if s.Commands() != 0 {
		t.Errorf("the server got %d commands, want none", s.Commands())
	}
}

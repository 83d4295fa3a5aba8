package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/internal/testkit/benchtest"
)

func TestIdle(t *testing.T) {
	a, b := benchtest.Start(t, true), benchtest.Start(t, false)
	file := filepath.Join(t.TempDir(), "idle.json")
	status, out, errs := tool(t, "idle", "--server", a.Addr, "--vs", b.Addr, "--connections", "12", "--settle", "0s", "--progress=false", "--json", file)
	if status != 0 || errs != "" || !strings.Contains(out, "12 idle connections") {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var idle report.Idle
	if err := json.Unmarshal(content, &idle); err != nil || idle.Connections != 12 || len(idle.Servers) != 2 {
		t.Errorf("%v: %s", err, content)
	}
	if status, out, _ := tool(t, "idle", "--server", a.Addr, "--connections", "2", "--settle", "0s", "--json", "-"); status != 0 || json.Unmarshal([]byte(out), &idle) != nil {
		t.Errorf("status %d\n%s", status, out)
	}
	for _, flags := range []string{"--connections 0", "--connections 99000000", "--settle -1s", "--server x", "--vs x", "--vs h:1,oracle", "extra"} {
		if status, _, errs := tool(t, append([]string{"idle", "--server", a.Addr}, strings.Fields(flags)...)...); status != 2 {
			t.Errorf("%s: status %d, want 2\n%s", flags, status, errs)
		}
	}
}

func TestMarkdown(t *testing.T) {
	a, b := benchtest.Start(t, true), benchtest.Start(t, false)
	dir := t.TempDir()
	deep, half := filepath.Join(dir, "deep.json"), filepath.Join(dir, "half.json")
	for file, flags := range map[string]string{deep: "--workloads load,get --flush", half: "--workloads get --duration 400ms --rate 50%"} {
		if status, out, errs := tool(t, shortRun(a, "--vs "+b.Addr+" --json "+file+" "+flags)...); status != 0 {
			t.Fatalf("%s: status %d\n%s%s", flags, status, out, errs)
		}
	}
	status, out, errs := tool(t, "markdown", deep, half)
	if status != 0 || errs != "" {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	for _, want := range []string{"| server CPU an operation, redis / redis | 8 deep |", "| latency at 50 % of the most that redis 7.0.0", "| memory | bytes a post |"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if status, _, _ := tool(t, "markdown"); status != 2 {
		t.Errorf("without files: status %d, want 2", status)
	}
	if status, _, errs := tool(t, "markdown", filepath.Join(dir, "none.json")); status != 1 || !strings.Contains(errs, "none.json") {
		t.Errorf("without the file: status %d\n%s", status, errs)
	}
}

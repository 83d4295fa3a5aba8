package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// smallDemo returns flags of a demo of a few posts, against the test's own server.
func smallDemo(t *testing.T, kind string) []string {
	t.Helper()
	t.Setenv(asServer, kind)
	t.Setenv("TMPDIR", t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"demo", "--counterd", self, "--redis", "", "--duration", "50ms", "--progress=false"}
}

// leftovers lists what the demo left in the temporary folder.
func leftovers(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestDemo(t *testing.T) {
	racetest.Skip(t, "TestDemoInterrupted runs the same server and load")
	status, out, errs := tool(t, smallDemo(t, "counterd")...)
	if status != 0 || errs != "" {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	for _, want := range []string{"280,000 real posts of Reddit, 3 counters each\n", "bytes a post", "estimated", "measured", "pages/s",
		"less by", "p50", "p99", "top posts", "126,3", "With --stay"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "redis-cli -p") {
		t.Errorf("commands for a server that has ended:\n%s", out)
	}
	if n := strings.Count(out, "\n"); n > 30 {
		t.Errorf("%d lines, want at most 30:\n%s", n, out)
	}
	if left := leftovers(t); len(left) != 0 {
		t.Errorf("left behind: %s", left)
	}
}

func TestDemoServerFails(t *testing.T) {
	status, _, errs := tool(t, smallDemo(t, "broken")...)
	if status != 1 || !strings.HasSuffix(errs, "did not start: exit status 3; it said:\n  cannot open the log:\n  disk on fire\n") {
		t.Errorf("status %d\n%s", status, errs)
	}
	if left := leftovers(t); len(left) != 0 {
		t.Errorf("left behind: %s", left)
	}
}

// TestDemoInterrupted interrupts the demo at some moments; the server it started must be gone each time.
func TestDemoInterrupted(t *testing.T) {
	for _, after := range []time.Duration{0, 30 * time.Millisecond, 400 * time.Millisecond} {
		args := smallDemo(t, "counterd")
		port, err := freePort("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(after, cancel)
		status, out, errs := toolContext(ctx, append(args, "--stay", "--port", strconv.Itoa(port))...)
		timer.Stop()
		cancel()
		if status != 1 && status != 0 {
			t.Errorf("after %s: status %d\n%s%s", after, status, out, errs)
		}
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
			t.Errorf("after %s: the server still listens: %v", after, err)
		} else {
			l.Close()
		}
		if left := leftovers(t); len(left) != 0 {
			t.Errorf("after %s: left behind: %s", after, left)
		}
	}
}

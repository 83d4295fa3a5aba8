package protocol

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

// TestStartRefused checks that what cannot start says why, in words that name the cause, and ends with a status.
func TestStartRefused(t *testing.T) {
	s := harness.Start(t)
	port := strconv.Itoa(s.Port)
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.schema")
	if err := os.WriteFile(bad, []byte("add counter weibo\n# fine until here\nadd column weibo a hint=9 max=8 suffix=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	free := strconv.Itoa(freeport.Take(t))
	for _, c := range []struct {
		name  string
		args  []string
		words []string
	}{
		{"taken port", []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir}, []string{port, "in use"}},
		{"unknown flag", []string{"--nosuch"}, []string{"nosuch"}},
		{"no such address", []string{"--port", free, "--bind", "192.0.2.1", "--dir", dir}, []string{"no address 192.0.2.1"}},
		{"port out of range", []string{"--port", "70000"}, []string{"70000"}},
		{"no schema file", []string{"--port", free, "--schema", filepath.Join(dir, "absent")}, []string{"absent", "no such file"}},
		{"bad schema file", []string{"--port", free, "--schema", bad}, []string{"bad.schema", "3", "hint"}},
		{"argument", []string{"--port", free, "something"}, []string{"something"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, status := harness.RunCounterd(t, c.args...)
			if status == 0 {
				t.Errorf("exit status 0\n%s", out)
			}
			for _, w := range c.words {
				if !strings.Contains(out, w) {
					t.Errorf("the message does not say %q:\n%s", w, out)
				}
			}
			if strings.Contains(out, "goroutine ") {
				t.Errorf("a panic instead of a message:\n%s", out)
			}
		})
	}
	s.Dial(t).Want("+PONG\r\n", "PING")
}

// TestHelp checks that --help is an answer, not an error: it goes to standard output.
func TestHelp(t *testing.T) {
	for _, arg := range []string{"--help", "-h"} {
		cmd := exec.Command(harness.CounterdPath, arg)
		var failed strings.Builder
		cmd.Stderr = &failed
		out, err := cmd.Output()
		if err != nil || failed.Len() > 0 || !strings.Contains(string(out), "--appendonly") {
			t.Errorf("%s: %v, standard error %q, standard output:\n%s", arg, err, failed.String(), out)
		}
	}
}

// TestStartMemoryOnly checks that a server with data in memory only is refused over a directory with data, and says what
// it is elsewhere.
func TestStartMemoryOnly(t *testing.T) {
	s := harness.Start(t)
	port, dir := strconv.Itoa(freeport.Take(t)), strings.Split(s.Dial(t).Do("CONFIG", "GET", "dir").Raw, "\r\n")[4]
	for _, more := range [][]string{nil, {"--check-config"}} {
		out, status := harness.RunCounterd(t, append(more, "--port", port, "--dir", dir, "--appendonly", "no")...)
		if status != 1 || !strings.Contains(out, dir) || !strings.Contains(out, "appendonly yes") {
			t.Errorf("%q over data: status %d\n%s", more, status, out)
		}
	}
	if !filepath.IsAbs(dir) {
		t.Errorf("CONFIG GET dir: got %s, want an absolute path", dir)
	}
	memory := harness.Start(t, "--dir", t.TempDir(), "--appendonly", "no")
	if got := memory.Dial(t).Do("INFO", "persistence").Text; !strings.Contains(got, "\r\nin_memory_only:1\r\n") {
		t.Errorf("INFO does not say that data is in memory only:\n%s", got)
	}
}

// TestStartSchema starts with a schema script.
func TestStartSchema(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.schema")
	if err := os.WriteFile(file, []byte("# a comment\n\n"+harness.SchemaScript+harness.PlainScript), 0o600); err != nil {
		t.Fatal(err)
	}
	s := harness.Start(t, "--schema", file)
	c := s.Dial(t)
	c.Want(":1\r\n", "INCR", "5.cntcm")
	c.Want(":1\r\n", "INCR", "n:5")
	harness.SeedSchema(t, c) // changes nothing
	c.Want(harness.BulkOf("1"), "GET", "5.cntcm")
}

// TestStartSocket serves a unix socket beside TCP, and again after a restart on the same path.
func TestStartSocket(t *testing.T) {
	path := harness.SocketPath(t)
	for range 2 {
		s := harness.Start(t, "--unixsocket", path)
		harness.SeedSchema(t, s.Dial(t))
		c := harness.DialAddr(t, "unix", path)
		c.Want(":1\r\n", "INCR", "5.cntcm")
		s.Dial(t).Want(":2\r\n", "INCR", "5.cntcm")
		s.Stop()
		c.WantEOF()
	}
}

// TestStartMemory holds the server to the design's bound for a small data set.
func TestStartMemory(t *testing.T) {
	if racetest.Enabled {
		return
	}
	s := harness.Start(t)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	for i := range 1000 {
		c.Want(":1\r\n", "INCR", strconv.Itoa(i*4000)+".cntcm")
	}
	// Without the pages of the program, 18 MiB with etcd's client.
	if own := s.Rss() - s.Status("RssFile"); own > 16<<20 {
		t.Errorf("with a thousand items the server holds %d KiB beside its program, want under 16 MiB", own>>10)
	}
	// With them when the server has rested, and has given back the pages that only its start used.
	for deadline := time.Now().Add(time.Minute); s.Rss() > 16<<20; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("at rest the server holds %d KiB with its program, want under 16 MiB", s.Rss()>>10)
		}
	}
}

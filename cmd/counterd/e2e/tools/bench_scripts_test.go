package tools

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// TestBenchScripts runs the measuring scripts on very little, so that they keep step with the programs: their results
// say nothing here, that they come about is what is tested.
func TestBenchScripts(t *testing.T) {
	t.Parallel()
	harness.NoteSources()
	bin := t.TempDir()
	if err := os.Symlink(harness.CounterdPath, filepath.Join(bin, "counterd")); err != nil {
		t.Fatal(err)
	}
	bench, err := programs.Path("counterbench")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bench, filepath.Join(bin, "counterbench")); err != nil {
		t.Fatal(err)
	}
	peer, other, locked := harness.Start(t), harness.Start(t), harness.Start(t, "--requirepass", "secret")
	out := t.TempDir()
	tooFew, scaling := 0, []string{"GOMAXPROCS=2 (A)", "measured: "}
	if runtime.NumCPU() < 2 {
		tooFew, scaling = 1, []string{"one processor is too few"}
	}
	for _, test := range []struct {
		name, script string
		env          string
		args         []string
		status       int
		want         []string // in what it prints
		files        []string
	}{
		{name: "peers", script: "peers.sh", env: "DEPTHS=8 IDLE=0", args: []string{peer.Addr},
			want:  []string{"| server CPU an operation, counterd / counterd | 8 deep |", "| incr | ", "latency at 50 %", "| memory | bytes a post"},
			files: []string{"peer-deep8.json", "peer-deep8.html", "peer-half.json"}},
		{name: "not empty", script: "peers.sh", env: "DEPTHS=8", args: []string{peer.Addr}, status: 1, want: []string{"load wants it empty"}},
		{name: "no password", script: "peers.sh", args: []string{locked.Addr}, status: 1, want: []string{locked.Addr, "NOAUTH", "--vs-password"}},
		{name: "wrong password", script: "peers.sh", env: "PEER_PASSWORD=x", args: []string{locked.Addr}, status: 1, want: []string{locked.Addr, "WRONGPASS"}},
		{name: "nobody there", script: "peers.sh", args: []string{"127.0.0.1:1"}, status: 1, want: []string{"connection refused", "is the server started"}},
		{name: "no program", script: "peers.sh", env: "PEER_BIN=no-such-program", status: 1, want: []string{"no-such-program is not there"}},
		{name: "two peers", script: "peers.sh", args: []string{"a:1", "b:2"}, status: 1, want: []string{"takes one peer"}},
		{name: "scaling", script: "scaling.sh", env: "GO=true DEPTH=8", status: tooFew, want: scaling},
		{name: "large", script: "large.sh", env: "LARGE=3000 SMALL=300 HUGE=5000 MAXMEMORY=1gb DEPTH=8",
			want: []string{"3,000 (A) and 300 (B) posts", "after loading: resident ", "hot_items:5000", "cold "}, files: []string{"large.json", "huge.json"}},
		{name: "huge", script: "huge.sh", env: "POSTS=140000 HOT=0 MAXMEMORY=1gb LATE=2000 SCRUB=1 CLIENTS=2",
			want:  []string{"disk, posts in files", "reads of the disk for an old post", "| rewrite of a file, 140,000 posts |", "| shutdown, 140,000 posts |"},
			files: []string{"huge.json"}},
		{name: "tails", script: "tails.sh", env: "WHILE=bgsave,scrub FLOOD=2 FLOOD_DEPTH=10 HEAVY= RATE=1000 SLICES=1", args: []string{other.Addr},
			want:  []string{"while", "| a snapshot is made | p50 | p99 |", "| other connections flood the server: 2 connections, 10 deep |"},
			files: []string{"tails-peer.json", "tails.html"}},
		{name: "feed", script: "feed.sh", env: "POSTS=2000 COUNT=2000 RATE=2000 DURATION=1s ROUNDS=1",
			want: []string{"INCR, no feed ", "cores of 1 M changes/s to one reader ", "at 2000/s: INCR and its change ", "lag p99 "}},
		{name: "compare without a package", script: "compare.sh", env: "PKG=", status: 2, want: []string{"name one package"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", append([]string{filepath.Join("..", "..", "..", "..", "bench", test.script)}, test.args...)...)
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.WaitDelay = 10 * time.Second
			tmp := t.TempDir()
			cmd.Env = append(os.Environ(), "BIN="+bin, "OUT="+out, "TMPDIR="+tmp, "POSTS=2000", "DURATION=200ms", "WARMUP=10ms", "SLICES=2", "SERVER_CPU=", "CLIENT_CPU=")
			cmd.Env = append(cmd.Env, strings.Fields(test.env)...)
			printed, err := cmd.CombinedOutput()
			status := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if status != test.status {
				t.Fatalf("status %d, want %d\n%s", status, test.status, printed)
			}
			for _, want := range test.want {
				if !strings.Contains(string(printed), want) {
					t.Errorf("no %q in\n%s", want, printed)
				}
			}
			for _, file := range test.files {
				if info, err := os.Stat(filepath.Join(out, file)); err != nil || info.Size() == 0 {
					t.Errorf("%s: %v", file, err)
				}
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
				t.Errorf("it left %v behind (%v)", left, err)
			}
		})
	}
}

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// buildCounterctl builds the tool once, beside the server under test.
var buildCounterctl = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(counterdPath), "counterctl-under-test")
	if os.Getenv("COUNTERD_BINARY") != "" { // somebody else's directory
		path = filepath.Join(os.TempDir(), fmt.Sprintf("counterctl-%d", os.Getpid()))
	}
	out, err := exec.Command("go", "build", "-o", path, "github.com/counterd/counterd/cmd/counterctl").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build of counterctl: %w\n%s", err, out)
	}
	return path, nil
})

// counterctl runs the tool and returns what it prints on both streams, and its exit status.
func counterctl(t testing.TB, args ...string) (out string, status int) {
	t.Helper()
	path, err := buildCounterctl()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*ioTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	data, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "goroutine ") {
		t.Errorf("counterctl %s: a panic instead of a message:\n%s", strings.Join(args, " "), data)
	}
	return string(data), cmd.ProcessState.ExitCode()
}

// wantCtl runs the tool and checks its exit status and words of its output.
func wantCtl(t testing.TB, status int, args []string, words ...string) string {
	t.Helper()
	out, got := counterctl(t, args...)
	if got != status {
		t.Errorf("counterctl %s: exit status %d, want %d\n%s", strings.Join(args, " "), got, status, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("counterctl %s does not say %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}

// startIn runs counterd on a data directory.
func startIn(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	return start(t, append([]string{"--dir", dir}, args...)...)
}

// spawn runs counterd on a data directory and does not wait until it serves.
func spawn(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	s := &server{t: t, name: "counterd", log: new(logBuffer), dir: dir, port: freePort(t), exited: make(chan struct{})}
	s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	s.cmd = exec.Command(counterdPath, append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", dir}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.exitErr = s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(s.cleanup)
	return s
}

// refused runs counterd on a data directory that it must refuse, with exit status 1 and words that say why.
func refused(t testing.TB, dir string, words ...string) {
	t.Helper()
	out, status := runCounterd(t, "--port", strconv.Itoa(freePort(t)), "--bind", "127.0.0.1", "--dir", dir)
	if status != 1 {
		t.Errorf("exit status %d, want 1\n%s", status, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("the message does not say %q:\n%s", w, out)
		}
	}
	if strings.Contains(out, "goroutine ") {
		t.Errorf("a panic instead of a message:\n%s", out)
	}
}

// infoValue returns a field of INFO, "" if it is not there.
func infoValue(t testing.TB, c *conn, section, field string) string {
	t.Helper()
	_, after, found := strings.Cut("\n"+c.do("INFO", section).Text, "\n"+field+":")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(after, "\r\n")
	return value
}

// infoNumber returns a field of INFO that is a number.
func infoNumber(t testing.TB, c *conn, section, field string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(infoValue(t, c, section, field), 10, 64)
	if err != nil {
		t.Fatalf("INFO %s: %s is %q", section, field, infoValue(t, c, section, field))
	}
	return n
}

// waitUntil waits until a condition holds.
func waitUntil(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(ioTimeout); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", ioTimeout, what)
		}
	}
}

// saveInBackground starts a snapshot and waits until it is made.
func saveInBackground(t testing.TB, c *conn) {
	t.Helper()
	saves := infoNumber(t, c, "persistence", "rdb_saves")
	if v := c.do("BGSAVE"); v.Kind != '+' {
		t.Fatalf("BGSAVE answered %q", v.Raw)
	}
	waitUntil(t, "a snapshot is made", func() bool {
		return infoNumber(t, c, "persistence", "rdb_saves") > saves && infoValue(t, c, "persistence", "rdb_bgsave_in_progress") == "0"
	})
}

// leftOut says that a test cannot run here, as tool does.
func leftOut(t testing.TB, why string) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "LEFT OUT: %s: %s\n", t.Name(), why)
	t.Logf("left out: %s", why)
}

// injection is an strace at a running server: it makes system calls fail, or kills the server at one.
type injection struct {
	cmd  *exec.Cmd
	said *logBuffer
	done chan struct{}
}

// inject attaches strace to all threads of a server. calls is its list of system calls, what the rest of its inject=
// expression. ok is false where strace is missing or may not attach, which has then been said.
func (s *server) inject(calls, what string) (in *injection, ok bool) {
	s.t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		leftOut(s.t, "strace is not installed (apt-get install strace)")
		return nil, false
	}
	in = &injection{said: new(logBuffer), done: make(chan struct{})}
	args := []string{"-f", "-p", strconv.Itoa(s.cmd.Process.Pid), "-o", "/dev/null", "-e", "inject=" + calls + ":" + what}
	trace := "trace=" + calls
	if strings.Contains(calls, "sync") { // which the server asks for by io_submit where it can
		trace += ",io_submit"
		args = append(args, "-e", "inject=io_submit:error=ENOSYS")
	}
	in.cmd = exec.Command(path, append(args, "-e", trace)...)
	in.cmd.Stderr = in.said
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := in.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = in.cmd.Wait()
		close(in.done)
	}()
	s.t.Cleanup(in.end)
	for deadline := time.Now().Add(ioTimeout); !strings.Contains(in.said.String(), "attached"); time.Sleep(5 * time.Millisecond) {
		select {
		case <-in.done:
			if strings.Contains(in.said.String(), "ermitted") {
				leftOut(s.t, "strace may not attach: "+in.said.String())
				return nil, false
			}
			s.t.Fatalf("strace ended: %s", in.said)
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("strace did not attach: %s", in.said)
		}
	}
	return in, true
}

// end detaches.
func (in *injection) end() {
	_ = in.cmd.Process.Signal(syscall.SIGINT)
	<-in.done
}

// segments returns the paths of the log's files, in order.
func segments(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "log", "*.aof"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("segments in %s: %q, %v", dir, paths, err)
	}
	return paths
}

// patch changes bytes of a file; a negative offset counts from behind the last byte that is not zero.
func patch(t testing.TB, path string, off int64, change func(b []byte), n int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if off < 0 {
		off += int64(len(bytes.TrimRight(data, "\x00")))
	}
	b := data[off : off+int64(n)]
	change(b)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

// copyTree copies a data directory.
func copyTree(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// contents reads everything in a server: "counter:mid" to its columns, as HGETALL has them.
func contents(t testing.TB, s *server, counters ...string) map[string]string {
	t.Helper()
	c := s.dial(t)
	defer c.close()
	all := map[string]string{}
	for cursor, first := "0", true; first || cursor != "0"; first = false {
		v := c.do("SCAN", cursor, "COUNT", "1000")
		if len(v.List) != 2 {
			t.Fatalf("SCAN answered %q", v.Raw)
		}
		cursor = v.List[0].Text
		var request []byte
		var asked []string
		for _, e := range v.List[1].List {
			mid := e.Text[strings.IndexByte(e.Text, ':')+1:]
			for _, name := range counters {
				if strings.HasPrefix(e.Text, name+":") || name == counters[0] && !strings.Contains(e.Text, ":") {
					asked = append(asked, name+":"+mid)
					request = resptest.Append(request, "HGETALL", name+":"+mid)
				}
			}
		}
		c.write(string(request))
		for _, key := range asked {
			all[key] = c.reply().Raw
		}
	}
	return all
}

// sameContents compares two servers, item by item.
func sameContents(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	wrong := 0
	for key, w := range want {
		if got[key] != w {
			if wrong++; wrong <= 3 {
				t.Errorf("%s: %s is %q, want %q", what, key, got[key], w)
			}
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			if wrong++; wrong <= 3 {
				t.Errorf("%s: %s is there and should not be", what, key)
			}
		}
	}
	if wrong > 0 {
		t.Fatalf("%s: %d of %d items differ", what, wrong, len(want))
	}
}

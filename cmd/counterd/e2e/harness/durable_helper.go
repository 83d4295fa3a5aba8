package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/programs"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/persist/format"
)

// Counterctl runs the tool and returns what it prints on both streams, and its exit status.
func Counterctl(t testing.TB, args ...string) (out string, status int) {
	t.Helper()
	path, err := programs.Path("counterctl")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*IoTimeout)
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

// WantCtl runs the tool and checks its exit status and words of its output.
func WantCtl(t testing.TB, status int, args []string, words ...string) string {
	t.Helper()
	out, got := Counterctl(t, args...)
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

// StartIn runs counterd on a data directory.
func StartIn(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	return Start(t, append([]string{"--dir", dir}, args...)...)
}

// Spawn runs counterd on a data directory and does not wait until it serves.
func Spawn(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	s := &Server{T: t, Name: "counterd", Log: new(LogBuffer), Dir: dir, Port: freeport.Take(t), Exited: make(chan struct{})}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
	s.Cmd = exec.Command(CounterdPath, append([]string{"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", dir}, args...)...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Log, s.Log
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.ExitErr = s.Cmd.Wait()
		close(s.Exited)
	}()
	t.Cleanup(s.Cleanup)
	return s
}

// Refused runs counterd on a data directory that it must refuse, with exit status 1 and words that say why.
func Refused(t testing.TB, dir string, words ...string) {
	t.Helper()
	out, status := RunCounterd(t, "--port", strconv.Itoa(freeport.Take(t)), "--bind", "127.0.0.1", "--dir", dir)
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

// AwaitClaim waits until the file DURABLE of a server says that all of its log is durable. The server writes it once a second:
// damage of later changes looks like a torn tail, or as if they had never been made.
func AwaitClaim(t testing.TB, addr, dir string) {
	t.Helper()
	Eventually(t, time.Minute, "all of the log is known to be durable", func() bool {
		_, after, _ := strings.Cut(Ask(addr, "INFO", "replication"), "\nmaster_repl_offset:")
		field, _, _ := strings.Cut(after, "\r\n")
		offset, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return false
		}
		file, err := os.ReadFile(format.ClaimPath(dir))
		return err == nil && slices.ContainsFunc(format.WholeClaims(file), func(c format.Claim) bool { return c.Offset >= offset })
	})
}

// InfoValue returns a field of INFO, "" if it is not there.
func InfoValue(t testing.TB, c *Conn, section, field string) string {
	t.Helper()
	_, after, found := strings.Cut("\n"+c.Do("INFO", section).Text, "\n"+field+":")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(after, "\r\n")
	return value
}

// InfoNumber returns a field of INFO that is a number.
func InfoNumber(t testing.TB, c *Conn, section, field string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(InfoValue(t, c, section, field), 10, 64)
	if err != nil {
		t.Fatalf("INFO %s: %s is %q", section, field, InfoValue(t, c, section, field))
	}
	return n
}

// WaitUntil waits until a condition holds.
func WaitUntil(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(IoTimeout); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", IoTimeout, what)
		}
	}
}

// SaveInBackground starts a snapshot and waits until it is made.
func SaveInBackground(t testing.TB, c *Conn) {
	t.Helper()
	saves := InfoNumber(t, c, "persistence", "rdb_saves")
	WaitUntil(t, "the server begins a snapshot", func() bool {
		v := c.Do("BGSAVE")
		if v.Kind != '+' && !strings.Contains(v.Raw, "already in progress") { // the server makes one by itself
			t.Fatalf("BGSAVE answered %q", v.Raw)
		}
		return v.Kind == '+'
	})
	WaitUntil(t, "a snapshot is made", func() bool {
		return InfoNumber(t, c, "persistence", "rdb_saves") > saves && InfoValue(t, c, "persistence", "rdb_bgsave_in_progress") == "0"
	})
}

// LeftOut says that a test cannot run here, as tool does.
func LeftOut(t testing.TB, why string) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "LEFT OUT: %s: %s\n", t.Name(), why)
	t.Logf("left out: %s", why)
}

// injection is an strace at a running server: it makes system calls fail, or kills the server at one.
type injection struct {
	cmd  *exec.Cmd
	said *LogBuffer
	done chan struct{}
}

// Inject attaches strace to all threads of a server. calls is its list of system calls, what the rest of its inject=
// expression. ok is false where strace is missing or may not attach, which has then been said.
func (s *Server) Inject(calls, what string) (in *injection, ok bool) {
	s.T.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		LeftOut(s.T, "strace is not installed (apt-get install strace)")
		return nil, false
	}
	in = &injection{said: new(LogBuffer), done: make(chan struct{})}
	args := []string{"-f", "-p", strconv.Itoa(s.Cmd.Process.Pid), "-o", "/dev/null", "-e", "inject=" + calls + ":" + what}
	trace := "trace=" + calls
	if strings.Contains(calls, "sync") { // which the server asks for by io_submit where it can
		trace += ",io_submit"
		args = append(args, "-e", "inject=io_submit:error=ENOSYS")
	}
	in.cmd = exec.Command(path, append(args, "-e", trace)...)
	in.cmd.Stderr = in.said
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := in.cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
	go func() {
		_ = in.cmd.Wait()
		close(in.done)
	}()
	s.T.Cleanup(in.End)
	for deadline := time.Now().Add(IoTimeout); !strings.Contains(in.said.String(), "attached"); time.Sleep(5 * time.Millisecond) {
		select {
		case <-in.done:
			if strings.Contains(in.said.String(), "ermitted") {
				LeftOut(s.T, "strace may not attach: "+in.said.String())
				return nil, false
			}
			s.T.Fatalf("strace ended: %s", in.said)
		default:
		}
		if time.Now().After(deadline) {
			s.T.Fatalf("strace did not attach: %s", in.said)
		}
	}
	return in, true
}

// End detaches.
func (in *injection) End() {
	_ = in.cmd.Process.Signal(syscall.SIGINT)
	<-in.done
}

// Segments returns the paths of the log's files, in order.
func Segments(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "log", "*.aof"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("segments in %s: %q, %v", dir, paths, err)
	}
	return paths
}

// Patch changes bytes of a file; a negative offset counts from behind the last byte that is not zero.
func Patch(t testing.TB, path string, off int64, change func(b []byte), n int) {
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

// CopyTree copies a data directory.
func CopyTree(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// Contents reads everything in a server: "counter:mid" to its columns, as HGETALL has them.
func Contents(t testing.TB, s *Server, counters ...string) map[string]string {
	t.Helper()
	c := s.Dial(t)
	defer c.Close()
	all := map[string]string{}
	for cursor, first := "0", true; first || cursor != "0"; first = false {
		v := c.Do("SCAN", cursor, "COUNT", "1000")
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
		c.Write(string(request))
		for _, key := range asked {
			all[key] = c.Reply().Raw
		}
	}
	return all
}

// SameContents compares two servers, item by item.
func SameContents(t testing.TB, what string, got, want map[string]string) {
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

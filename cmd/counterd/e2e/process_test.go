package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 20 * time.Second // until PING is answered; the race detector on a busy machine takes seconds
	stopTimeout  = 10 * time.Second // from SIGTERM to the end, the promise of a graceful shutdown
)

// server is one running process that speaks the Redis protocol: counterd, or redis-server to compare with.
// It listens on 127.0.0.1 and a port of its own, and is ended by its pid when the test ends.
type server struct {
	t    testing.TB
	name string // "counterd" or "redis-server"
	cmd  *exec.Cmd
	log  *logBuffer
	dir  string
	addr string
	port int

	exited  chan struct{} // closed once the process has been waited for
	exitErr error         // what Wait returned; read it after exited is closed
	stopped bool          // stop has been called: the cleanup has nothing left to do
	dialed  []*conn       // by dial

	signalled bool // SIGTERM has been sent
}

// start runs counterd in an empty directory with the given arguments after the common ones, and returns
// once it answers PING. When the test ends the server is stopped, must exit with 0, and must not
// have logged a panic or a data race.
func start(t testing.TB, args ...string) *server {
	t.Helper()
	noteSources()
	return launch(t, "counterd", counterdPath, args)
}

// noteSources lists the module's directories. The go command caches a passed test until a file it looked at
// changes, and cannot know otherwise that the binary under test is made from these.
var noteSources = sync.OnceFunc(func() {
	os.Getenv("COUNTERD_BINARY")
	_ = filepath.WalkDir("../../..", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		return nil
	})
})

// startRedis runs a redis-server without persistence and with one database, as counterd has. ok is false
// where redis-server is not installed, which has then been reported.
func startRedis(t testing.TB, args ...string) (s *server, ok bool) {
	t.Helper()
	path, ok := tool(t, "redis-server")
	if !ok {
		return nil, false
	}
	return launch(t, "redis-server", path, append([]string{"--save", "", "--appendonly", "no", "--databases", "1"}, args...)), true
}

func launch(t testing.TB, name, path string, args []string) *server {
	t.Helper()
	// Another process may take the port between its choice and the server's bind: then try the next one.
	for attempt := 0; ; attempt++ {
		s := &server{t: t, name: name, log: new(logBuffer), dir: t.TempDir(), port: freePort(t), exited: make(chan struct{})}
		s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
		all := append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir}, args...)
		s.cmd = exec.Command(path, all...)
		s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it must not outlive a test that is killed
		s.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")         // the detector's second of sleep at the end adds up
		if err := s.cmd.Start(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		go func() {
			s.exitErr = s.cmd.Wait()
			close(s.exited)
		}()
		if s.awaitPing() {
			t.Cleanup(s.cleanup)
			return s
		}
		s.kill()
		if attempt == 2 || !strings.Contains(strings.ToLower(s.log.String()), "in use") {
			t.Fatalf("%s %s did not answer PING within %v\n%s", name, strings.Join(all, " "), startTimeout, s.log)
		}
	}
}

// awaitPing waits until the server answers PING; false if it ended or the time is over.
func (s *server) awaitPing() bool {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		select {
		case <-s.exited:
			return false
		case <-time.After(10 * time.Millisecond):
		}
		c, err := dialTimeout("tcp", s.addr, time.Second)
		if err != nil {
			continue
		}
		if i := slices.Index(s.cmd.Args, "--requirepass"); i > 0 { // else PING does not tell whether data is loaded
			_, _ = c.tryDo("AUTH", s.cmd.Args[i+1])
		}
		v, err := c.tryDo("PING")
		c.close()
		if err == nil && (v.Raw == "+PONG\r\n" || strings.HasPrefix(v.Raw, "-NOAUTH ")) {
			return true
		}
	}
	return false
}

// stop sends SIGTERM and checks that the process ends in time and with exit status 0.
func (s *server) stop() {
	s.t.Helper()
	s.stopped = true
	s.terminate()
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
		s.kill()
		s.t.Errorf("%s (pid %d) still ran %v after SIGTERM\n%s", s.name, s.cmd.Process.Pid, stopTimeout, s.log)
		return
	}
	if s.exitErr != nil {
		s.t.Errorf("%s (pid %d) after SIGTERM: %v, want exit status 0\n%s", s.name, s.cmd.Process.Pid, s.exitErr, s.log)
	}
	s.checkLog()
}

// terminate sends SIGTERM, once, and does not wait: a second one would end the process at once.
func (s *server) terminate() {
	if !s.signalled {
		s.signalled = true
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
	}
}

// kill ends the process at once and waits for it.
func (s *server) kill() {
	s.stopped = true
	_ = s.cmd.Process.Kill()
	<-s.exited
}

func (s *server) cleanup() {
	if !s.alive() && !s.stopped {
		s.t.Errorf("%s (pid %d) died during the test: %v\n%s", s.name, s.cmd.Process.Pid, s.exitErr, s.log)
		s.checkLog()
		return
	}
	if !s.stopped {
		s.stop()
	}
	if s.t.Failed() && s.name == "counterd" {
		s.t.Logf("log of %s on port %d:\n%s", s.name, s.port, s.log)
	}
}

// alive says whether the process is still running.
func (s *server) alive() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// checkLog fails the test when the process reported a defect of its own.
func (s *server) checkLog() {
	s.t.Helper()
	text := s.log.String()
	for _, bad := range []string{"WARNING: DATA RACE", "panic:", "panic=", `"panic":`, "fatal error:", "goroutine 1 ["} {
		if strings.Contains(text, bad) {
			s.t.Errorf("%s logged %q\n%s", s.name, bad, text)
			return
		}
	}
}

// rss returns the resident memory of the process in bytes.
func (s *server) rss() int64 { return s.status("VmRSS") }

// status is a line of the process's status that is a size, in bytes.
func (s *server) status(name string) int64 {
	s.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatalf("resident memory of %s: %v\n%s", s.name, err, s.log)
	}
	for line := range strings.Lines(string(data)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	s.t.Fatalf("no %s line in /proc/%d/status", name, s.cmd.Process.Pid)
	return 0
}

// socketPath returns a path for a unix socket, short enough for the 108 bytes that a socket address holds.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// logBuffer collects a process's output; it is written by os/exec's goroutine and read by tests.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns the output so far, its last 16 KiB if there is more.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.buf.String()
	if len(s) > 16<<10 {
		s = "..." + s[len(s)-16<<10:]
	}
	return s
}

// size returns how much has been written.
func (b *logBuffer) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Len()
}

// from returns the output after its first n bytes.
func (b *logBuffer) from(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf.Bytes()[n:])
}

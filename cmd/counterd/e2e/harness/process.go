package harness

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

	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/jumpclock"
)

const (
	StartTimeout = time.Minute      // until PING is answered; the race detector on a busy machine takes seconds
	StopTimeout  = 30 * time.Second // from SIGTERM to the end: 10 s are promised, on a machine that is not busy
)

// Server is one running process that speaks the Redis protocol: counterd, or redis-server to compare with.
// It listens on 127.0.0.1 and a port of its own, and is ended by its pid when the test ends.
type Server struct {
	T    testing.TB
	Name string // "counterd" or "redis-server"
	Cmd  *exec.Cmd
	Log  *LogBuffer
	Dir  string
	Addr string
	Port int

	Exited  chan struct{} // closed once the process has been waited for
	ExitErr error         // what Wait returned; read it after exited is closed
	stopped bool          // stop has been called: the cleanup has nothing left to do
	dialed  []*Conn       // by dial

	Signalled bool // SIGTERM has been sent

	clock *jumpclock.Clock // of the process, once SetClock was called
}

// Start runs counterd in an empty directory with the given arguments after the common ones, and returns
// once it answers PING. When the test ends the server is stopped, must exit with 0, and must not
// have logged a panic or a data race.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	NoteSources()
	return launch(t, "counterd", CounterdPath, args)
}

// NoteSources lists the module's directories. The go command caches a passed test until a file it looked at
// changes, and cannot know otherwise that the binary under test is made from these.
var NoteSources = sync.OnceFunc(func() {
	os.Getenv("COUNTERD_BINARY")
	_ = filepath.WalkDir("../../../..", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		return nil
	})
})

// StartRedis runs a redis-server without persistence and with one database, as counterd has. ok is false
// where redis-server is not installed, which has then been reported.
func StartRedis(t testing.TB, args ...string) (s *Server, ok bool) {
	t.Helper()
	path, ok := Tool(t, "redis-server")
	if !ok {
		return nil, false
	}
	return launch(t, "redis-server", path, append([]string{"--save", "", "--appendonly", "no", "--databases", "1"}, args...)), true
}

func launch(t testing.TB, name, path string, args []string) *Server {
	t.Helper()
	// Another process may take the port between its choice and the server's bind: then try the next one.
	for attempt := 0; ; attempt++ {
		s := &Server{T: t, Name: name, Log: new(LogBuffer), Dir: t.TempDir(), Port: freeport.Take(t), Exited: make(chan struct{})}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
		all := append([]string{"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.Dir}, args...)
		s.Cmd = exec.Command(path, all...)
		s.Cmd.Stdout, s.Cmd.Stderr = s.Log, s.Log
		s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it must not outlive a test that is killed
		s.Cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")         // the detector's second of sleep at the end adds up
		if err := s.Cmd.Start(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		go func() {
			s.ExitErr = s.Cmd.Wait()
			close(s.Exited)
		}()
		if s.AwaitPing() {
			t.Cleanup(s.Cleanup)
			return s
		}
		s.Kill()
		if attempt == 2 || !strings.Contains(strings.ToLower(s.Log.String()), "in use") {
			t.Fatalf("%s %s did not answer PING within %v\n%s", name, strings.Join(all, " "), StartTimeout, s.Log)
		}
	}
}

// AwaitPing waits until the server answers PING; false if it ended or the time is over.
func (s *Server) AwaitPing() bool {
	for deadline := time.Now().Add(StartTimeout); time.Now().Before(deadline); {
		select {
		case <-s.Exited:
			return false
		case <-time.After(10 * time.Millisecond):
		}
		c, err := DialTimeout("tcp", s.Addr, time.Second)
		if err != nil {
			continue
		}
		if i := slices.Index(s.Cmd.Args, "--requirepass"); i > 0 { // else PING does not tell whether data is loaded
			_, _ = c.TryDo("AUTH", s.Cmd.Args[i+1])
		}
		v, err := c.TryDo("PING")
		c.Close()
		if err == nil && (v.Raw == "+PONG\r\n" || strings.HasPrefix(v.Raw, "-NOAUTH ")) {
			return true
		}
	}
	return false
}

// Stop sends SIGTERM and checks that the process ends in time and with exit status 0.
func (s *Server) Stop() {
	s.T.Helper()
	s.stopped = true
	s.Terminate()
	select {
	case <-s.Exited:
	case <-time.After(StopTimeout):
		s.Kill()
		s.T.Errorf("%s (pid %d) still ran %v after SIGTERM\n%s", s.Name, s.Cmd.Process.Pid, StopTimeout, s.Log)
		return
	}
	if s.ExitErr != nil {
		s.T.Errorf("%s (pid %d) after SIGTERM: %v, want exit status 0\n%s", s.Name, s.Cmd.Process.Pid, s.ExitErr, s.Log)
	}
	s.CheckLog()
}

// Terminate sends SIGTERM, once, and does not wait: a second one would end the process at once.
func (s *Server) Terminate() {
	if !s.Signalled {
		s.Signalled = true
		_ = s.Cmd.Process.Signal(syscall.SIGTERM)
	}
}

// Kill ends the process at once and waits for it.
func (s *Server) Kill() {
	s.stopped = true
	_ = s.Cmd.Process.Kill()
	<-s.Exited
}

func (s *Server) Cleanup() {
	if !s.Alive() && !s.stopped {
		s.T.Errorf("%s (pid %d) died during the test: %v\n%s", s.Name, s.Cmd.Process.Pid, s.ExitErr, s.Log)
		s.CheckLog()
		return
	}
	if !s.stopped {
		s.Stop()
	}
	if s.T.Failed() && s.Name == "counterd" {
		s.T.Logf("log of %s on port %d:\n%s", s.Name, s.Port, s.Log)
	}
}

// Alive says whether the process is still running.
func (s *Server) Alive() bool {
	select {
	case <-s.Exited:
		return false
	default:
		return true
	}
}

// CheckLog fails the test when the process reported a defect of its own.
func (s *Server) CheckLog() {
	s.T.Helper()
	text := s.Log.String()
	for _, bad := range []string{"WARNING: DATA RACE", "panic:", "panic=", `"panic":`, "fatal error:", "goroutine 1 ["} {
		if strings.Contains(text, bad) {
			s.T.Errorf("%s logged %q\n%s", s.Name, bad, text)
			return
		}
	}
}

// Rss returns the resident memory of the process in bytes.
func (s *Server) Rss() int64 { return s.Status("VmRSS") }

// Status is a line of the process's status that is a size, in bytes.
func (s *Server) Status(name string) int64 {
	s.T.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		s.T.Fatalf("resident memory of %s: %v\n%s", s.Name, err, s.Log)
	}
	for line := range strings.Lines(string(data)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	s.T.Fatalf("no %s line in /proc/%d/status", name, s.Cmd.Process.Pid)
	return 0
}

// SocketPath returns a path for a unix socket, short enough for the 108 bytes that a socket address holds.
func SocketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// LogBuffer collects a process's output; it is written by os/exec's goroutine and read by tests.
type LogBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns the output so far, its last 16 KiB if there is more.
func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.buf.String()
	if len(s) > 16<<10 {
		s = "..." + s[len(s)-16<<10:]
	}
	return s
}

// Size returns how much has been written.
func (b *LogBuffer) Size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Len()
}

// From returns the output after its first n bytes.
func (b *LogBuffer) From(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf.Bytes()[n:])
}

package harness

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/freeport"
)

// StartAt runs counterd on a port and in a directory that outlive it.
func StartAt(t testing.TB, port int, dir string, args ...string) *Server {
	t.Helper()
	NoteSources()
	return LaunchAt(t, "counterd", CounterdPath, port, dir, args)
}

// LaunchAt is startAt for any server.
func LaunchAt(t testing.TB, name, path string, port int, dir string, args []string) *Server {
	t.Helper()
	s := &Server{T: t, Name: name, Log: new(LogBuffer), Dir: dir, Port: port, Exited: make(chan struct{})}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.Cmd = exec.Command(path, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir}, args...)...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Log, s.Log
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.Cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.ExitErr = s.Cmd.Wait()
		close(s.Exited)
	}()
	if !s.AwaitPing() {
		s.Kill()
		t.Fatalf("%s did not answer PING\n%s", name, s.Log)
	}
	t.Cleanup(s.Cleanup)
	return s
}

// StartSentinels runs three redis-sentinels that watch a primary. At a down-after of 1 s a second failover followed the
// first now and then, and did so with redis-server too: Sentinel connects to a node once a second at most, so the new
// primary's first PING may be answered more than 1 s after it was named, which one Sentinel takes for +sdown; and as
// what the others said of the old primary counts for 5 s more, that makes +odown. Hence 3 s. It returns their addresses
// and logs.
func StartSentinels(t testing.TB, path string, primary int, settings ...string) (addrs []string, logs []*LogBuffer) {
	t.Helper()
	for range 3 {
		port, dir := freeport.Take(t), t.TempDir()
		conf := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor mymaster 127.0.0.1 %d 2\nsentinel down-after-milliseconds mymaster 3000\nsentinel failover-timeout mymaster 10000\n",
			port, dir, primary) + strings.Join(settings, "\n") + "\n"
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log := new(LogBuffer)
		cmd := exec.Command(path, conf)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("sentinel on port %d:\n%s", port, log)
			}
		})
		addrs, logs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))), append(logs, log)
	}
	return addrs, logs
}

// ReplicationField returns a line of INFO replication.
func ReplicationField(s *Server, name string) string {
	c, err := DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	v, err := c.TryDo("INFO", "replication")
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(v.Raw, "\r\n") {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return rest
		}
	}
	return ""
}

func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = 2 * time.Minute

// binary is counterd of the module around this one: of the directory that COUNTERD_PROGRAMS names, or built here.
var binary = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("COUNTERD_PROGRAMS"); dir != "" {
		return filepath.Join(dir, "counterd"), nil
	}
	dir, err := os.MkdirTemp("", "counterd-clients-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "counterd")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/counterd")
	cmd.Dir = filepath.Join("..", "..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil && os.Getenv("COUNTERD_PROGRAMS") == "" {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// start starts a counterd with the example schema and returns its address.
func start(t *testing.T, more ...string) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	var log bytes.Buffer
	cmd := exec.Command(path, append([]string{"--port", fmt.Sprint(port), "--dir", t.TempDir(), "--schema", filepath.Join("..", "..", "weibo.schema")}, more...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if runtime.GOOS == "linux" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	runtime.LockOSThread() // Pdeathsig is of the thread that starts it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	runtime.UnlockOSThread()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("counterd:\n%s", log.String())
		}
	})
	addr := fmt.Sprint("127.0.0.1:", port)
	eventually(t, "counterd serves", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		answer := make([]byte, 7)
		_, _ = conn.Write([]byte("PING\r\n"))
		_, err = io.ReadFull(conn, answer)
		return err == nil && string(answer) == "+PONG\r\n" // before, it is loading
	})
	return addr
}

// eventually waits for what must come.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// Package etcdtest starts etcd for tests: the etcd that is installed, on free ports of 127.0.0.1, with its data in memory
// where the machine has a directory for that. It ends with its test, by its process id.
//
//	etcd := etcdtest.Start(t)                        // skips the test loudly where etcd is not installed
//	r, err := registry.OpenEtcd(registry.EtcdConfig{Endpoints: etcd.Endpoints}, "a name")
//	etcd.Stop(); etcd.Start()                        // as a power cut that loses nothing, on the same ports
package etcdtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Etcd is one member, alone.
type Etcd struct {
	Endpoints []string // one

	t    testing.TB
	args []string
	cmd  *exec.Cmd
	out  *bytes.Buffer // of cmd
	conf clientv3.Config
}

// Options are how it differs from the plain one.
type Options struct {
	Args []string    // more of its flags
	TLS  *tls.Config // by which it is asked whether it serves, where Args make it speak https
}

// Path is the etcd that is installed; empty: none is.
func Path() string {
	path, _ := exec.LookPath("etcd")
	return path
}

// Start starts one.
func Start(t testing.TB, options ...Options) *Etcd {
	t.Helper()
	if Path() == "" {
		t.Skip("LEFT OUT: etcd is not installed; make setup installs Debian's etcd-server")
	}
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	scheme := "http"
	if o.TLS != nil {
		scheme = "https"
	}
	dir := t.TempDir()
	if shm, err := os.MkdirTemp("/dev/shm", "etcdtest"); err == nil {
		dir = shm // an fsync of a disk that is busy takes longer than etcd's elections
		t.Cleanup(func() { os.RemoveAll(shm) })
	}
	client, peer := fmt.Sprintf("%s://127.0.0.1:%d", scheme, port(t)), fmt.Sprintf("http://127.0.0.1:%d", port(t))
	e := &Etcd{Endpoints: []string{client}, t: t}
	e.conf = clientv3.Config{Endpoints: e.Endpoints, TLS: o.TLS, Logger: zap.NewNop(), MaxUnaryRetries: 1}
	e.args = append([]string{"--data-dir", filepath.Join(dir, "data"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer, "--log-level", "warn",
		"--heartbeat-interval", "50", "--election-timeout", "500"}, o.Args...)
	e.Start()
	t.Cleanup(e.Stop)
	return e
}

// port is a port that was free a moment ago.
func port(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Start starts it again, with its data. It serves then.
func (e *Etcd) Start() {
	e.t.Helper()
	e.out = &bytes.Buffer{}
	e.cmd = exec.Command(Path(), e.args...)
	e.cmd.Stdout, e.cmd.Stderr = e.out, e.out
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if runtime.GOARCH != "amd64" {
		e.cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH)
	}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := e.serves()
		if err == nil {
			return
		}
		if time.Since(began) > 60*time.Second {
			e.Stop()
			e.t.Fatalf("etcd does not serve: %v; it said: %s", err, e.out)
		}
	}
}

func (e *Etcd) serves() error {
	c, err := clientv3.New(e.conf)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = c.Get(ctx, "etcdtest") // it has a leader, itself
	if errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) {
		return nil // it asks for credentials, so it serves
	}
	return err
}

// Stop kills it.
func (e *Etcd) Stop() {
	if e.cmd != nil {
		e.cmd.Process.Kill()
		e.cmd.Wait()
		e.cmd = nil
	}
}

// Signal sends one: SIGSTOP has it silent with its connections open, SIGCONT ends that. It is stopped on return.
func (e *Etcd) Signal(sig syscall.Signal) {
	e.t.Helper()
	if err := e.cmd.Process.Signal(sig); err != nil {
		e.t.Fatal(err)
	}
	if sig != syscall.SIGSTOP {
		return
	}
	for began := time.Now(); !e.stopped(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 60*time.Second {
			e.t.Fatal("etcd does not stop")
		}
	}
}

// stopped tells whether all its threads are.
func (e *Etcd) stopped() bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", e.cmd.Process.Pid))
	for _, file := range stats {
		text, err := os.ReadFile(file)
		_, state, _ := bytes.Cut(text, []byte(") "))
		if err == nil && !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return len(stats) > 0
}

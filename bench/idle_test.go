package bench

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/counterd/counterd/internal/testkit/benchtest"
)

func TestIdle(t *testing.T) {
	a, b := benchtest.Start(t, true), benchtest.Start(t, false)
	open := 0
	result, err := Idle(context.Background(), IdleConfig{Targets: []Target{{Addr: a.Addr}, {Addr: b.Addr}}, Connections: 20,
		Progress: func(n int, addr string) {
			if open++; n < 1 || n > 20 || addr == "" {
				t.Errorf("%d open of %q", n, addr)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Servers) != 2 || result.Connections != 20 || open != 40 {
		t.Fatalf("%+v, progress %d", result, open)
	}
	for _, s := range result.Servers {
		if s.Before <= 0 || s.Open <= 0 || s.Closed <= 0 || !s.Local || s.Seconds <= 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestIdleErrors(t *testing.T) {
	s := benchtest.Start(t, false)
	var pings atomic.Int64
	s.Before = func(command string) error {
		if command == "ping" && pings.Add(1) > 5 {
			return errors.New("ERR max number of clients reached")
		}
		return nil
	}
	target := []Target{{Addr: s.Addr}}
	for name, test := range map[string]struct {
		config IdleConfig
		want   string
	}{
		"no server":       {IdleConfig{Connections: 1}, "0 servers"},
		"none":            {IdleConfig{Targets: target}, "0 connections, want 1.."},
		"too many":        {IdleConfig{Targets: target, Connections: MaxIdle + 1}, "connections, want 1.."},
		"negative":        {IdleConfig{Targets: target, Connections: 1, Settle: -1}, "settle"},
		"full":            {IdleConfig{Targets: target, Connections: 9}, "connection 6 of 9: PING: server: ERR max number of clients reached; start the server with a higher --maxclients"},
		"nothing listens": {IdleConfig{Targets: []Target{{Addr: closedPort(t)}}, Connections: 1}, "refused"},
	} {
		if _, err := Idle(context.Background(), test.config); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Idle(ctx, IdleConfig{Targets: target, Connections: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// closedPort returns an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestIdleAddresses checks that connections beyond what one address has ports for come from the next.
func TestIdleAddresses(t *testing.T) {
	s := benchtest.Start(t, false)
	target := Target{Addr: s.Addr}
	beside, err := target.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, want := range map[int]string{0: "127.0.0.1", perAddress: "127.0.0.2", MaxIdle - 1: "127.0.0.250"} {
		c, err := dialIdle(Target{Addr: l.Addr().String()}, beside, i)
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		if host, _, _ := net.SplitHostPort(accepted.RemoteAddr().String()); host != want {
			t.Errorf("connection %d comes from %s, want %s", i, host, want)
		}
		accepted.Close()
	}
}

func TestAllowFiles(t *testing.T) {
	if err := allowFiles(1); err != nil {
		t.Errorf("one file: %v", err)
	}
	var had, now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	// No system allows so many, not even to root.
	err := allowFiles(1 << 60)
	var files *FilesError
	if !errors.As(err, &files) || files.Want != 1<<60 || files.Limit != had.Max || !strings.Contains(err.Error(), "ulimit") {
		t.Errorf("2^60 files: %v, want a FilesError", err)
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil || now != had {
		t.Errorf("the limit is %+v after the refusal (%v), want %+v", now, err, had)
	}
}

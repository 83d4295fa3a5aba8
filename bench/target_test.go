package bench

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/benchtest"
	"github.com/counterd/counterd/internal/wire"
)

// TestPeerErrors checks that a peer that cannot be measured is named, with what is wrong, before anything is sent to
// the other.
func TestPeerErrors(t *testing.T) {
	locked := benchtest.Start(t, false)
	locked.Before = func(string) error { return errors.New("NOAUTH Authentication required.") }
	full := benchtest.Start(t, false)
	c, err := wire.Dial(t.Context(), full.Addr, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do("SET", "x", "1"); err != nil {
		t.Fatal(err)
	}
	redis := benchtest.Start(t, false)
	web := listen(t, func(c net.Conn) { c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
	silent := listen(t, func(net.Conn) {})

	var failed *wire.ServerError
	var notEmpty *NotEmptyError
	for name, test := range map[string]struct {
		peer Target
		is   func(error) bool
	}{
		"nobody there": {Target{Addr: closedPort(t)}, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		"no password":  {Target{Addr: locked.Addr}, func(err error) bool { return errors.As(err, &failed) && strings.HasPrefix(failed.Text, "NOAUTH") }},
		"wrong kind":   {Target{Addr: redis.Addr, Kind: Counterd}, func(err error) bool { return strings.Contains(err.Error(), "is no counterd") }},
		"no Redis":     {Target{Addr: web}, func(err error) bool { return errors.Is(err, wire.ErrProtocol) }},
		"no answer":    {Target{Addr: silent, patience: 100 * time.Millisecond}, func(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }},
		"not empty":    {Target{Addr: full.Addr}, func(err error) bool { return errors.As(err, &notEmpty) && notEmpty.Keys == 1 }},
	} {
		a := benchtest.Start(t, true)
		test.peer.patience = cmp.Or(test.peer.patience, time.Minute)
		config := small(t, Target{Addr: a.Addr, patience: time.Minute}, test.peer)
		config.Workloads = []string{"load"}
		_, err := Run(context.Background(), config)
		if err == nil || !test.is(err) || !strings.Contains(err.Error(), test.peer.Addr) {
			t.Errorf("%s: %v", name, err)
		}
		config.Targets = config.Targets[:1]
		config.Verify = false
		if _, err := Run(context.Background(), config); err != nil {
			t.Errorf("%s: the other side afterwards: %v, want it to be empty still", name, err)
		}
		if name == "not empty" || name == "wrong kind" {
			continue
		}
		if _, err := Idle(context.Background(), IdleConfig{Targets: []Target{test.peer}, Connections: 1}); err == nil || !test.is(err) || !strings.Contains(err.Error(), test.peer.Addr) {
			t.Errorf("%s, idle: %v", name, err)
		}
		if _, err := test.peer.FindPID(nil, 0); err == nil || !test.is(err) || !strings.Contains(err.Error(), test.peer.Addr) {
			t.Errorf("%s, process: %v", name, err)
		}
	}
}

// listen accepts connections, greets each, and closes them with the test.
func listen(t *testing.T, greet func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			greet(c)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestParseTarget(t *testing.T) {
	got, err := ParseTarget("h:1,redis-hash")
	if err != nil || got != (Target{Addr: "h:1", Kind: RedisHash}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ParseTarget("/run/counterd.sock"); err != nil || got.Addr != "/run/counterd.sock" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "host", "h:1,oracle"} {
		if _, err := ParseTarget(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

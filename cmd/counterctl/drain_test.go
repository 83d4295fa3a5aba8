package main

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/counterd/counterd/internal/wire"
)

// fakeRole is a server that has a role and hands it over when it is asked.
type fakeRole struct {
	addr  string
	mu    sync.Mutex
	info  string // of INFO replication cluster
	stuck bool   // a failover never ends
	asked []string
	hands *fakeRole // whose role a failover changes
}

func startRole(t *testing.T, info string) *fakeRole {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f := &fakeRole{addr: l.Addr().String(), info: info}
	f.hands = f
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(conn)
		}
	}()
	return f
}

func (f *fakeRole) serve(conn net.Conn) {
	defer conn.Close()
	r := wire.NewReader(conn, 512)
	for {
		v, err := r.ReadValue()
		if err != nil {
			return
		}
		var words []string
		for _, w := range v.Array {
			words = append(words, w.Str)
		}
		_, _ = conn.Write([]byte(f.answer(strings.Join(words, " "))))
	}
}

func (f *fakeRole) answer(command string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasPrefix(command, "INFO ") {
		return fmt.Sprintf("$%d\r\n%s\r\n", len(f.info), f.info)
	}
	f.asked = append(f.asked, command)
	if f.stuck {
		return "+OK\r\n"
	}
	if f.hands != f {
		f.hands.mu.Lock()
		defer f.hands.mu.Unlock()
	}
	f.hands.info = "role:slave\r\n"
	return "+OK\r\n"
}

// TestDrain: a primary with replicas is handed over, by Sentinel where it is given; all other nodes have nothing to do.
func TestDrain(t *testing.T) {
	const primary = "# Replication\r\nrole:master\r\nconnected_slaves:1\r\n# Cluster\r\ncluster_enabled:0\r\n"
	for info, want := range map[string]string{
		"role:slave\r\nconnected_slaves:0\r\ncluster_enabled:0\r\n":  "nothing to hand over: it is a replica",
		"role:master\r\nconnected_slaves:0\r\ncluster_enabled:0\r\n": "nothing to hand over: it has no replica",
		"role:master\r\nconnected_slaves:2\r\ncluster_enabled:1\r\n": "a node of a cluster hands over when it is stopped",
		primary: "has handed its role over",
	} {
		f := startRole(t, info)
		out, text, status := ctl(t, "drain", f.addr)
		if status != 0 || !strings.Contains(out, want) || (len(f.asked) == 1) != (info == primary) {
			t.Errorf("%q: got %d %q %q after %q, want %q", info, status, out, text, f.asked, want)
		}
	}
	node, sentinel := startRole(t, primary), startRole(t, "")
	sentinel.hands = node
	out, text, status := ctl(t, "drain", node.addr, "--sentinel", "127.0.0.1:1,"+sentinel.addr, "--sentinel-name", "posts")
	if status != 0 || !strings.Contains(out, "has handed its role over") || fmt.Sprint(sentinel.asked) != "[SENTINEL FAILOVER posts]" || len(node.asked) != 0 {
		t.Errorf("by Sentinel: got %d %q %q, asked %q and %q", status, out, text, sentinel.asked, node.asked)
	}
	stuck := startRole(t, primary)
	stuck.stuck = true
	if out, text, status := ctl(t, "drain", stuck.addr, "--wait", "300ms"); status != 1 || !strings.Contains(text, "is still the primary after 300ms") {
		t.Errorf("a failover that does not end: got %d %q %q", status, out, text)
	}
	if out, text, status := ctl(t, "drain", startRole(t, primary).addr, "--sentinel", "127.0.0.1:1"); status != 1 || !strings.Contains(text, "no Sentinel began a failover") {
		t.Errorf("no Sentinel: got %d %q %q", status, out, text)
	}
}

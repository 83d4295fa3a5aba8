package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/wire"
)

// fixedMap is a registry whose map does not change.
type fixedMap struct {
	registry.Registry
	m *topology.Map
}

func (f fixedMap) Load(context.Context) (*topology.Map, error) { return f.m, nil }

// archiver is a primary that begins archives. Its first connections do as faults say: hang, are cut, or answer by an error.
type archiver struct {
	id     topology.NodeID
	faults []string
	conns  atomic.Int64
}

func (a *archiver) serve(t *testing.T) (port int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			sock, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { sock.Close() })
			fault := ""
			if n := int(a.conns.Add(1)); n <= len(a.faults) {
				fault = a.faults[n-1]
			}
			go a.talk(wire.NewConn(sock, 4096), sock, fault)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func (a *archiver) talk(c *wire.Conn, sock net.Conn, fault string) {
	for {
		command, err := c.ReadValue()
		if err != nil || fault == "hang" {
			return // and the socket stays open
		}
		if fault == "cut" {
			sock.Close()
			return
		}
		reply := "+OK\r\n"
		switch name := command.Array[0].Str; {
		case name == "CLUSTER":
			reply = fmt.Sprintf("$%d\r\n%s\r\n", len(a.id), a.id)
		case name == "SCHEMA":
			reply = "*0\r\n"
		case name == "PSYNC" && fault == "hang in PSYNC":
			return
		case name == "PSYNC" && fault != "" && fault != "slow":
			reply = "-" + fault + "\r\n"
		case name == "PSYNC":
			if fault == "slow" {
				time.Sleep(time.Second)
			}
			reply = "+FULLRESYNC 0123 5\r\n$EOF:" + strings.Repeat("e", archiveEnd) + "\r\n"
		}
		if c.Send([]byte(reply)) != nil {
			return
		}
	}
}

// TestTakeAllRepeats: primaries that hang, are cut off or load are asked again until --wait is over; an error that does not pass ends the
// command at once. A primary that is slow and answers on other connections is waited for. An archive that was begun outlives its try.
func TestTakeAllRepeats(t *testing.T) {
	// The short limit is for nodes that hang. A busy machine may exceed it: there are more tries then.
	const long, short = 30 * time.Second, 300 * time.Millisecond
	always := func(fault string) []string { return slices.Repeat([]string{fault}, 1000) }
	for _, c := range []struct {
		faults      [2][]string
		limit, wait time.Duration
		want        string // of the error
		least       int64  // connections to the second node
	}{
		{limit: long, wait: time.Minute, least: 1},
		{faults: [2][]string{{"hang", "cut"}, {"", "", "LOADING data", "hang in PSYNC", "hang"}}, limit: short, wait: time.Minute, least: 6},
		{faults: [2][]string{nil, always("slow")}, limit: short, wait: 10 * time.Second, least: 2},
		{faults: [2][]string{{"", ""}, {"cut", "NOPERM no"}}, limit: long, wait: time.Minute, want: "NOPERM no", least: 2},
		{faults: [2][]string{always("hang"), nil}, limit: short, wait: time.Millisecond, want: "no backup within 1ms"},
	} {
		m, _ := twoShards(t)
		var nodes [2]*archiver
		for i := range nodes {
			nodes[i] = &archiver{id: id(i), faults: c.faults[i]}
			m.Nodes[id(i)].Host, m.Nodes[id(i)].Port = "127.0.0.1", nodes[i].serve(t)
		}
		s := &session{Registry: fixedMap{m: m}, flags: &flagsOf{wait: c.wait, node: connect.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))}}
		s.out.Stderr = new(bytes.Buffer)
		b, taken, err := s.takeAll(t.Context(), tryLimits{c.limit, min(c.limit, 100*time.Millisecond)})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.40v: got %v, want %s", c.faults, err, c.want)
			}
		} else if err != nil || len(taken) != 2 || len(b.Shards) != 2 || b.Shards[0].Offset != 5 {
			t.Errorf("%.40v: got %v, %d archives", c.faults, err, len(taken))
		}
		if got := nodes[1].conns.Load(); got < c.least {
			t.Errorf("%.40v: %d connections, want %d at least", c.faults, got, c.least)
		}
		time.Sleep(time.Millisecond) // an end of the try would have closed them by now
		for _, one := range taken {
			_ = one.sock.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			if _, err := one.in.ReadByte(); err == nil || !strings.Contains(err.Error(), "timeout") {
				t.Errorf("%.40v: an archive that was begun: %v", c.faults, err)
			}
			one.close()
		}
	}
}

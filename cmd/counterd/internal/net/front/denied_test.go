// Scenario: denied, a client from another machine is refused while no password is set.

package front

import (
	"bufio"
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// farConn comes from another machine.
type farConn struct{ *net.TCPConn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 7} }

// TestDeniedIsForeseen: a start without a password says that other machines are refused, where one could reach it.
func TestDeniedIsForeseen(t *testing.T) {
	for _, tt := range []struct {
		bind      string
		protected bool
		want      string
	}{{"127.0.0.1", true, ""}, {"*", false, ""}, {"*", true, "clients of other machines are refused"}} {
		conf := config.Default()
		conf.Bind, conf.Port, conf.ProtectedMode = []string{tt.bind}, freeport.Take(t), tt.protected
		var logged bytes.Buffer // Listen alone writes it
		h := &echoes{}
		h.Front = New(h, config.NewLive(conf), &h.totals, nil, slog.New(slog.NewTextHandler(&logged, nil)))
		if err := h.Listen(); err != nil {
			t.Fatal(err)
		}
		h.Stop()
		if err := h.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := logged.String(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("bind %s, protected mode %v: %q", tt.bind, tt.protected, got)
		}
	}
}

// TestDenied: without a password who comes from another machine is told so, and that it is no use to come again.
func TestDenied(t *testing.T) {
	h := serve(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	_ = here.SetDeadline(time.Now().Add(time.Minute))
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	h.admit(farConn{there.(*net.TCPConn)}, Clients, nil)
	r := bufio.NewReader(here)
	v, err := resptest.Read(r, 2)
	if err != nil {
		t.Fatal(err)
	}
	if class, ok := errclass.Of(v.String()); !strings.HasPrefix(v.String(), "-DENIED ") || !ok || class != errclass.Permanent {
		t.Errorf("got %s, of class %v (%v)", v, class, ok)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection is open")
	}
}

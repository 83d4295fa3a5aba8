package repl

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// TestParseRole reads what nodes answer to ROLE, a primary's replicas too, and what is none.
func TestParseRole(t *testing.T) {
	for reply, want := range map[string]Role{
		"*3\r\n$6\r\nmaster\r\n:77\r\n*0\r\n":                                           {Primary: true, Offset: 77},
		"*3\r\n$6\r\nmaster\r\n:77\r\n*1\r\n*3\r\n$3\r\n::1\r\n$1\r\n1\r\n$2\r\n77\r\n": {Primary: true, Offset: 77},
		"*5\r\n$5\r\nslave\r\n$3\r\n::1\r\n:6379\r\n$9\r\nconnected\r\n:78\r\n":         {Of: Address{"::1", 6379}, State: LinkConnected, Offset: 78},
	} {
		v, err := wire.NewReader(strings.NewReader(reply), 512).ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseRole(v); got != want || err != nil {
			t.Errorf("%q: %+v, %v, want %+v", reply, got, err, want)
		}
	}
	for _, reply := range []string{"+OK\r\n", ":5\r\n", "*0\r\n", "$-1\r\n", "*1\r\n$6\r\nmaster\r\n", "*2\r\n$6\r\nmaster\r\n:-1\r\n", "*2\r\n$8\r\nsentinel\r\n*0\r\n",
		"*4\r\n$5\r\nslave\r\n$3\r\n::1\r\n:6379\r\n$9\r\nconnected\r\n", "*5\r\n$5\r\nslave\r\n$3\r\n::1\r\n+x\r\n$9\r\nconnected\r\n:78\r\n"} {
		v, err := wire.NewReader(strings.NewReader(reply), 512).ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseRole(v); err == nil {
			t.Errorf("%q is read as %+v", reply, got)
		}
	}
}

// TestAsksEndWithTheirContext asks a node that accepts and says nothing: whoever gives up does not wait for it, in
// whichever word it stands still.
func TestAsksEndWithTheirContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr)
	silent := Address{at.IP.String(), at.Port}
	for name, ask := range map[string]func(ctx context.Context, c Settings) error{
		"ROLE": func(ctx context.Context, c Settings) error {
			_, err := AskRole(ctx, silent, c, time.Hour)
			return err
		},
		"REPLICAOF": func(ctx context.Context, c Settings) error {
			_, err := Promote(ctx, silent, c)
			return err
		},
		"FAILOVER": func(ctx context.Context, c Settings) error { return AskFailover(ctx, silent, c, time.Hour) },
	} {
		for _, password := range []string{"", "secret"} { // with one it stands still in AUTH
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- ask(ctx, Settings{Port: 1, MasterAuth: password, Timeout: time.Hour}) }()
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1)); err != nil { // it has asked
				t.Errorf("%s: %v", name, err)
			}
			cancel()
			if err := <-done; err == nil {
				t.Errorf("%s: no error of a node that says nothing", name)
			}
			conn.Close()
		}
	}
}

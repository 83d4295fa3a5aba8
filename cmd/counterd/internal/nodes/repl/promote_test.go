package repl

import (
	"context"
	"net"
	"testing"
	"time"
)

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

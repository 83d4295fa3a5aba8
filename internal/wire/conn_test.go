package wire

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// answering listens and answers each connection's first command.
func answering(t *testing.T, answer string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			if _, err := bufio.NewReader(conn).ReadString('*'); err == nil {
				_, _ = io.WriteString(conn, answer)
			}
		}
	}()
	return l.Addr().String()
}

// TestPasswordIsNotTold asks a server for a password. The server knows no AUTH and repeats the command in its
// error, as Redis does.
func TestPasswordIsNotTold(t *testing.T) {
	addr := answering(t, "-ERR unknown command 'AUTH', with args beginning with: 'admin' 'geheim' \r\n")
	_, err := Dial(t.Context(), addr, Options{User: "admin", Password: "geheim", Answer: time.Minute})
	if err == nil || strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), "'admin'") || !strings.Contains(err.Error(), "unknown command 'AUTH'") {
		t.Errorf("got %v", err)
	}
}

// TestContextEnds: a reply that never comes is waited for until the context ends.
func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, err := Dial(ctx, answering(t, "+PO"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	time.AfterFunc(10*time.Millisecond, cancel)
	if v, err := c.Do("PING"); err == nil {
		t.Errorf("got %v", v)
	}
	if _, err := Dial(ctx, c.RemoteAddr(), Options{}); err == nil {
		t.Error("connected when the context had ended")
	}
}

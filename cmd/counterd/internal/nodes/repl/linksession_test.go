package repl

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPasswordIsNotLogged asks a server for its role that knows no AUTH and answers with what it was sent, as Redis
// does. Errors are logged.
func TestPasswordIsNotLogged(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := bufio.NewReader(conn).ReadString('*'); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "-ERR unknown command 'AUTH', with args beginning with: 'admin' 'geheim' \r\n")
	}()
	host, text, _ := net.SplitHostPort(l.Addr().String())
	port, _ := strconv.Atoi(text)
	_, err = dialNode(context.Background(), Address{Host: host, Port: port}, Settings{MasterUser: "admin", MasterAuth: "geheim"}, time.Minute)
	if err == nil || strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), "'admin'") || !strings.Contains(err.Error(), "unknown command 'AUTH'") {
		t.Errorf("got %v", err)
	}
}

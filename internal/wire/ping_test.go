package wire

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestPing: a server that answers serves, also if it asks for a password; a server that loads, or that is silent, does
// not.
func TestPing(t *testing.T) {
	for reply, want := range map[string]string{
		"+PONG\r\n": "", "-NOAUTH Authentication required.\r\n": "", "-LOADING loading\r\n": "LOADING", "-NOAUTHORITY\r\n": "NOAUTHORITY", "": "EOF",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if _, err := NewReader(conn, 512).ReadValue(); err == nil {
				_, _ = conn.Write([]byte(reply))
			}
		}()
		err = Ping(t.Context(), l.Addr().String(), Options{Timeout: time.Minute, Answer: time.Minute})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", reply, err, want)
		}
		l.Close()
	}
}

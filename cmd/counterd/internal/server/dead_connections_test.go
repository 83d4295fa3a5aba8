// Scenario: connections end while a command of theirs waits.

package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
)

// TestDeadConnectionsChangeNothing has connections end while a command of theirs waits, in each way that there is: they
// are forgotten at once, and what they had not begun is never executed. A client that gave up tries elsewhere, and then
// its change would count twice.
func TestDeadConnectionsChangeNothing(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{SnapshotGrowth: -1}, nil)
	admin := wireDial(t, s, 2)
	admin.want("PING", "+PONG")
	ends := map[string]func(c *wireClient, id int64){
		"close":      func(c *wireClient, _ int64) { c.conn.Close() },
		"half close": func(c *wireClient, _ int64) { _ = c.conn.(*net.UnixConn).CloseWrite() },
		"kill":       func(_ *wireClient, id int64) { admin.want(fmt.Sprintf("CLIENT KILL ID %d", id), ":1") },
	}
	for _, pause := range []string{"WRITE", "ALL", ""} {
		for name, commands := range map[string]string{
			"one":      "INCR 6.cntrn",
			"many":     strings.Repeat("INCR 6.cntrn\r\n", 100) + "SET 7.cntrn 1",
			"exec":     "MULTI\r\nINCR 6.cntrn\r\nEXEC",
			"wait":     "WAIT 1 0\r\nINCR 6.cntrn\r\nMULTI\r\nINCR 6.cntrn\r\nEXEC",
			"wait aof": "WAITAOF 0 1 0\r\nINCR 6.cntrn",
		} {
			if pause == "" && !strings.HasPrefix(name, "wait") {
				continue
			}
			for how, end := range ends {
				t.Run(fmt.Sprintf("pause=%s/%s/%s", pause, name, how), func(t *testing.T) {
					c := wireDial(t, s, 2)
					id := c.do("CLIENT ID").N
					if pause != "" {
						admin.want("CLIENT PAUSE 600000 "+pause, "+OK")
					}
					if _, err := io.WriteString(c.conn, commands+"\r\n"); err != nil {
						t.Fatal(err)
					}
					untilBlocked(t, s, 1)
					if how == "kill" && pause == "ALL" { // would wait itself
						for _, k := range s.connected() {
							if k.session.ID() == id {
								k.session.Conn().Close()
							}
						}
					} else {
						end(c, id)
					}
					until(t, "the connection forgotten", func() bool { return len(s.connected()) == 1 })
					if n := s.front.Blocked(); n != 0 {
						t.Errorf("%d connections wait", n)
					}
					if pause != "" {
						s.role.EndPause()
					}
					admin.want("GET 6.cntrn", "nil")
					admin.want("GET 7.cntrn", "nil")
				})
			}
		}
	}
}

// TestPausedThatLives: whoever stays is served after the pause, and so is what it sent meanwhile.
func TestPausedThatLives(t *testing.T) {
	s := wireServe(t, nil)
	admin, c := wireDial(t, s, 2), wireDial(t, s, 2)
	admin.want("CLIENT PAUSE 600000 WRITE", "+OK")
	c.send("INCR 6.cntrn")
	untilBlocked(t, s, 1)
	c.send("INCR 6.cntrn")
	c.send("PING")
	admin.want("CLIENT UNPAUSE", "+OK")
	for _, want := range []string{":1", ":2", "+PONG"} {
		if got := c.read().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestClientUnblock(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{SnapshotGrowth: -1}, nil)
	admin := wireDial(t, s, 2)
	for _, tt := range []struct{ command, reason, want string }{
		{"WAIT 1 0", "", ":0"},
		{"WAIT 1 600000", "TIMEOUT", ":0"},
		{"WAIT 1 0", "ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"},
		{"WAITAOF 0 1 0", "error", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"},
	} {
		c := wireDial(t, s, 2)
		unblock := strings.TrimSpace(fmt.Sprintf("CLIENT UNBLOCK %d %s", c.do("CLIENT ID").N, tt.reason))
		admin.want(unblock, ":0")
		c.send(tt.command)
		untilBlocked(t, s, 1)
		admin.want(unblock, ":1")
		if got := c.read().String(); got != tt.want {
			t.Errorf("%s, unblocked by %s: got %s, want %s", tt.command, tt.reason, got, tt.want)
		}
		c.want("INCR 6.cntrn", fmt.Sprintf(":%d", admin.do("INCR 6.cntrn").N+1))
	}
	c := wireDial(t, s, 2)
	id := c.do("CLIENT ID").N
	admin.want("CLIENT PAUSE 600000 WRITE", "+OK")
	c.send("INCR 6.cntrn")
	untilBlocked(t, s, 1)
	admin.want(fmt.Sprintf("CLIENT UNBLOCK %d", id), ":0") // only what a command waits for by itself
	admin.want("CLIENT UNPAUSE", "+OK")
	if got := c.read().String(); got != ":9" {
		t.Errorf("got %s", got)
	}
}

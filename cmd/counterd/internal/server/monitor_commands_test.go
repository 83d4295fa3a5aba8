// Scenario: MONITOR shows every command, and no password.

package server

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// TestMonitor: every command is shown in Redis's form, in order, EXEC after the commands of its transaction; no
// password is, and no command of an administrator.
func TestMonitor(t *testing.T) {
	s := wireServe(t, nil)
	for _, proto := range []int{2, 3} {
		m := wireDial(t, s, proto)
		m.want("MONITOR", "+OK")
		c := wireDial(t, s, 2)
		line := regexp.MustCompile(`^\+[0-9]{10}\.[0-9]{6} \[0 unix:` + regexp.QuoteMeta(s.config.Get().UnixSocket) + `\] (.*)$`)
		shown := func(want string) {
			t.Helper()
			got := line.FindStringSubmatch(m.read().String())
			if got == nil || got[1] != want {
				t.Fatalf("got %q, want %s", got, want)
			}
		}
		c.do("SET 1.cntcm 5")
		c.do("get 1.cntcm")
		c.do("SET 1.cntcm x") // an error all the same
		c.do("GET")           // refused before it ran
		c.do("NOSUCH")
		c.do("CONFIG SET requirepass x-secret-x") // an administrator's
		c.sendArgs("CONFIG", "SET", "requirepass", "")
		c.do("AUTH x-secret-x")
		c.do("AUTH default x-secret-x")
		c.do("HELLO 2 AUTH default x-secret-x SETNAME me")
		c.do("CLIENT ID")
		c.do("INFO server")
		if v := c.sendArgs("ECHO", "a \"b\"\\\n\r\t\a\b\x00\xff"+strings.Repeat("y", 1100)); v != "" && v[0] == '-' {
			t.Error(v)
		}
		c.sendArgs("CONFIG", "SET", "requirepass", "")
		for _, want := range []string{`"SET" "1.cntcm" "5"`, `"get" "1.cntcm"`, `"SET" "1.cntcm" "x"`, `"AUTH" "(redacted)"`, `"AUTH" "(redacted)" "(redacted)"`,
			`"HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "me"`, `"CLIENT" "ID"`, `"INFO" "server"`,
			`"ECHO" "a \"b\"\\\n\r\t\a\b\x00\xff` + strings.Repeat("y", 1024-13) + `... (89 more bytes)"`} {
			shown(want)
		}
		for _, command := range []string{"MULTI", "INCR 1.cntcm", "PING", "EXEC", "MULTI", "SYNTAX ERROR", "EXEC"} {
			c.do(command)
		}
		for _, want := range []string{`"MULTI"`, `"INCR" "1.cntcm"`, `"PING"`, `"EXEC"`, `"MULTI"`, `"EXEC"`} {
			shown(want)
		}
		if info := c.do("CLIENT LIST").Text; !strings.Contains(info, " flags=OU ") {
			t.Errorf("CLIENT LIST: %s", info)
		}
		long := make([]string, 2000)
		for i := range long {
			long[i] = strings.Repeat("z", 100)
		}
		c.sendArgs(append([]string{"EXISTS"}, long...)...)
		if got := m.read().String(); len(got) > maxMonitorLine+1000 || !strings.HasSuffix(got, ` more arguments)"`) {
			t.Errorf("got %d bytes that end in %q", len(got), got[len(got)-50:])
		}
		m.want("RESET", "+RESET")
		m.proto = 2
		c.do("PING")
		m.want("ECHO x", `"x"`)
		if n := s.monitors.n.Load(); n != 0 {
			t.Errorf("%d monitor", n)
		}
		c.want("MULTI", "+OK")
		c.want("MONITOR", "-ERR Command not allowed inside a transaction")
		c.want("DISCARD", "+OK")
	}
}

// TestSlowMonitor: a monitor that does not read is closed, and no client waits for it; a monitor that reads gets every
// command of each connection in order.
func TestSlowMonitor(t *testing.T) {
	s := wireServe(t, func(c *config.Config) {
		if err := c.OutputLimits.Set("pubsub 1mb 0 0"); err != nil {
			t.Fatal(err)
		}
	})
	slow, reader := wireDial(t, s, 2), wireDial(t, s, 2)
	slow.want("MONITOR", "+OK")
	const connections, commands = 4, 400
	ready := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { // counts what each said
		reader.want("MONITOR", "+OK")
		close(ready)
		var next [connections]int
		for done := 0; done < connections*commands; {
			text := reader.read().String()
			_, command, _ := strings.Cut(text, "] ")
			var who, n int
			if _, err := fmt.Sscanf(command, `"INCRBY" "%d.cntcm" "%d"`, &who, &n); err != nil {
				continue
			}
			if n != next[who] {
				t.Errorf("connection %d: got %s, want its command %d", who, text, next[who])
				return
			}
			next[who]++
			done++
		}
	})
	<-ready
	for who := range connections {
		all.Go(func() {
			c := wireDial(t, s, 2)
			for n := 0; n < commands; {
				var text strings.Builder
				for range 20 {
					fmt.Fprintf(&text, "INCRBY %d.cntcm %d\r\n", who, n)
					n++
				}
				if _, err := c.conn.Write([]byte(text.String())); err != nil {
					t.Error(err)
					return
				}
				for range 20 {
					c.read()
				}
			}
		})
	}
	all.Wait()
	w := wireDial(t, s, 2)
	long := []string{"EXISTS"}
	for range 50 {
		long = append(long, strings.Repeat("x", 1000))
	}
	until(t, "the slow one is closed", func() bool {
		w.sendArgs(long...)
		reader.read()
		return s.stats.SlowSubscribers.Load() == 1 && s.monitors.n.Load() == 1
	})
}

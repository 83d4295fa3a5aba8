// Scenario: SLOWLOG and LATENCY report slow commands, and accounting allocates nothing.

package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// slowArgs are the arguments of the entries of SLOWLOG GET, the newest first.
func slowArgs(t *testing.T, v resptest.Value) (list []string) {
	t.Helper()
	for _, e := range v.List {
		if len(e.List) != 6 || e.List[0].Kind != ':' || e.List[1].Kind != ':' || e.List[2].Kind != ':' || e.List[3].Kind != '*' || e.List[4].Kind != '$' || e.List[5].Kind != '$' {
			t.Fatalf("entry %v", e)
		}
		list = append(list, strings.Trim(e.List[3].String(), "[]"))
	}
	return list
}

func TestSlowlog(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.want("CLIENT SETNAME me", "+OK")
	c.want("CONFIG SET slowlog-log-slower-than 0", "+OK")
	c.want("SLOWLOG RESET", "+OK")
	c.do("SET 1.cntrn 7")
	c.do("MGET 1.cntrn 2 nosuch")
	c.do("ECHO " + strings.Repeat("x", 200))
	c.do("WATCH" + strings.Repeat(" k", 40))
	c.do("AUTH secret")
	c.do("HELLO 2 AUTH user secret SETNAME me")
	c.do("COMMAND GETKEYS AUTH secret")
	c.do("ACL DRYRUN default HELLO 3 AUTH default secret")
	c.do("CONFIG SET maxclients 100 requirepass secret")
	c.do("CONFIG SET requirepass " + "secret")
	c.do("CONFIG SET masterauth secret timeout 7 MASTERUSER secret")
	c.do("CONFIG SET timeout 7 requirepas secret")
	c.do("MULTI")
	c.do("INCR 1.cntrn")
	c.do("EXEC")
	v := c.do("SLOWLOG GET -1")
	got := slowArgs(t, v)
	want := []string{
		`"incr" "1.cntrn"`,
		`"MULTI"`,
		`"CONFIG" "SET" "timeout" "7" "requirepas" "(redacted)"`,
		`"CONFIG" "SET" "masterauth" "(redacted)" "timeout" "7" "MASTERUSER" "(redacted)"`,
		`"CONFIG" "SET" "requirepass" "(redacted)"`,
		`"CONFIG" "SET" "maxclients" "100" "requirepass" "(redacted)"`,
		`"ACL" "DRYRUN" "default" "HELLO"` + strings.Repeat(` "(redacted)"`, 4),
		`"COMMAND" "GETKEYS" "AUTH" "(redacted)"`,
		`"HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "me"`,
		`"AUTH" "(redacted)"`,
		`"WATCH"` + strings.Repeat(` "k"`, 30) + ` "... (10 more arguments)"`,
		fmt.Sprintf(`"ECHO" "%s... (72 more bytes)"`, strings.Repeat("x", 128)),
		`"mget" "1.cntrn"`,
		`"set" "1.cntrn"`,
		`"SLOWLOG" "RESET"`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	for i, e := range v.List {
		if i > 0 && e.List[0].N != v.List[i-1].List[0].N-1 || e.List[4].Text != s.config.Get().UnixSocket+":0" || e.List[5].Text != "me" {
			t.Errorf("entry %v", e)
		}
	}
	if n := len(c.do("SLOWLOG GET").List); n != 10 {
		t.Errorf("SLOWLOG GET has %d, want 10", n)
	}
	if n := len(c.do("SLOWLOG GET 2").List); n != 2 {
		t.Errorf("SLOWLOG GET 2 has %d", n)
	}
	c.want("CONFIG SET slowlog-max-len 3 slowlog-log-slower-than -1", "+OK")
	c.want("SLOWLOG LEN", ":3")
	c.want("PING", "+PONG")
	if got := slowArgs(t, c.do("SLOWLOG GET")); len(got) != 3 || got[2] != `"SLOWLOG" "GET"` && !strings.HasPrefix(got[0], `"SLOWLOG"`) {
		t.Errorf("got %v", got)
	}
	c.want("CONFIG SET slowlog-max-len 0", "+OK")
	c.want("SLOWLOG LEN", ":0")
}

// TestSlowlogBatch sends commands together: they make one entry.
func TestSlowlogBatch(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.SlowlogSlower = 0 })
	c := wireDial(t, s, 2)
	if _, err := c.conn.Write([]byte(strings.Repeat("GET 1.cntrn\r\nINCR 1.cntrn\r\nINCR 2.cntrn\r\n", 20))); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		c.read()
	}
	got := slowArgs(t, c.do("SLOWLOG GET"))
	if len(got) != 1 || got[0] != `"get" "(batch of 60: incr x40, get x20)"` {
		t.Errorf("got %v", got)
	}
	if n := c.do("LATENCY HISTOGRAM incr get").List[1].Get(t, "calls").N; n != 40 {
		t.Errorf("%d calls of incr, want 40", n)
	}
}

// TestAccountingAllocatesNothing: the accounting of a batch or command allocates nothing
// while nothing is slow.
func TestAccountingAllocatesNothing(t *testing.T) {
	s := wireServe(t, nil)
	c := &call{srv: &s.shared, session: new(front.Session)}
	get := s.commands.Find([]byte("get"))
	args := [][]byte{[]byte("get"), []byte("1")}
	if n := testing.AllocsPerRun(100, func() {
		c.runs = append(c.runs[:0], run{get, 3, 0})
		c.account(time.Microsecond)
		c.noteSlow(get, args, time.Microsecond)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLatencyHistogram checks the shape and that counts are cumulative.
func TestLatencyHistogram(t *testing.T) {
	s := wireServe(t, nil)
	get := s.commands.Find([]byte("get"))
	get.Account(0, 10, 10*time.Microsecond)
	get.Account(0, 2, 100*time.Microsecond)
	wireDial(t, s, 2).want("LATENCY HISTOGRAM get nosuch set", `["get" ["calls" :12 "histogram_usec" [:1 :10 :64 :12]]]`)
	wireDial(t, s, 3).want("LATENCY HISTOGRAM GET", `("get" ("calls" :12 "histogram_usec" (:1 :10 :64 :12)))`)
	if v := wireDial(t, s, 2).do("LATENCY HISTOGRAM client"); v.String() != "[]" {
		t.Errorf("CLIENT was not called: %v", v)
	}
	if v := wireDial(t, s, 2).do("LATENCY DOCTOR"); v.Kind != '$' || !strings.Contains(v.Text, "'") {
		t.Errorf("LATENCY DOCTOR: %v", v)
	}
}

package server

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// clientFields are those of CLIENT LIST in the order of Redis.
const clientFields = "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll omem tot-mem events cmd user redir resp lib-name lib-ver"

// clientLine reads one line of CLIENT LIST.
func clientLine(t *testing.T, line string) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	var names []string
	for _, f := range strings.Split(line, " ") {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			t.Fatalf("field %q in %q", f, line)
		}
		names = append(names, name)
		fields[name] = value
	}
	if got := strings.Join(names, " "); got != clientFields {
		t.Fatalf("fields %s, want %s", got, clientFields)
	}
	return fields
}

func TestClientReplies(t *testing.T) {
	s := wireServe(t, nil)
	for _, c := range []struct{ command, want string }{
		{"CLIENT", "-ERR wrong number of arguments for 'client' command (usage: CLIENT subcommand [argument ...])"},
		{"CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP."},
		{"CLIENT TRACKING on", "+OK"},
		{"client maint_notifications on", "-ERR unknown subcommand 'maint_notifications'. Try CLIENT HELP."},
		{"CLIENT GETNAME x", "-ERR wrong number of arguments for 'client|getname' command (usage: CLIENT GETNAME)"},
		{"CLIENT GETNAME", "nil"},
		{"CLIENT GETREDIR", ":-1"},
		{"CLIENT SETNAME a\x01b", "-ERR Client names cannot contain spaces, newlines or special characters."},
		{"CLIENT SETNAME " + strings.Repeat("x", maxAttribute+1), "-ERR Client names cannot contain spaces, newlines or special characters."},
		{"CLIENT SETINFO LIB-NAME foo", "+OK"},
		{"CLIENT SETINFO lib-ver 1.2", "+OK"},
		{"CLIENT SETINFO foo 1.2", "-ERR Unrecognized option 'foo'"},
		{"CLIENT SETINFO lib-ver 1\x01", "-ERR lib-ver cannot contain spaces, newlines or special characters."},
		{"CLIENT KILL 1.2.3.4:5", "-ERR No such client"},
		{"CLIENT KILL ID x", "-ERR client-id should be greater than 0"},
		{"CLIENT KILL ID 0", "-ERR client-id should be greater than 0"},
		{"CLIENT KILL ID 99999", ":0"},
		{"CLIENT KILL TYPE foo", "-ERR Unknown client type 'foo'"},
		{"CLIENT KILL USER foo", "-ERR No such user 'foo'"},
		{"CLIENT KILL SKIPME maybe", "-ERR syntax error"},
		{"CLIENT KILL FOO bar", "-ERR syntax error"},
		{"CLIENT KILL ID 1 TYPE", "-ERR syntax error"},
		{"CLIENT KILL MAXAGE x", "-ERR maxage is not an integer or out of range"},
		{"CLIENT KILL MAXAGE 1000", ":0"},
		{"CLIENT LIST TYPE foo", "-ERR Unknown client type 'foo'"},
		{"CLIENT LIST TYPE master", `""`},
		{"CLIENT LIST ID x", "-ERR Invalid client ID"},
		{"CLIENT LIST ID 99998 99999", `""`},
		{"CLIENT LIST foo", "-ERR syntax error"},
		{"CLIENT LIST TYPE", "-ERR syntax error"},
		{"CLIENT NO-EVICT x", "-ERR syntax error"},
		{"CLIENT NO-EVICT on", "+OK"},
		{"CLIENT NO-TOUCH off", "+OK"},
		{"CLIENT REPLY x", "-ERR syntax error"},
		{"CLIENT UNBLOCK x", "-ERR value is not an integer or out of range"},
		{"CLIENT UNBLOCK 1 x", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"},
		{"CLIENT UNBLOCK 1 error", ":0"},
		{"CLIENT UNPAUSE", "+OK"},
		{"CLIENT PAUSE x", "-ERR timeout is not an integer or out of range"},
		{"CLIENT PAUSE -1", "-ERR timeout is negative"},
		{"CLIENT PAUSE 10 foo", "-ERR CLIENT PAUSE mode must be WRITE or ALL"},
		{"CLIENT PAUSE 10 all x", "-ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP."},
		{"CLIENT PAUSE 0", "+OK"},
		{"INCR 1.cntcm", ":1"},
	} {
		wireDial(t, s, 2).want(c.command, c.want)
	}
	c := wireDial(t, s, 3)
	c.want("CLIENT GETNAME", "nil")
	c.want("CLIENT SETNAME me", "+OK")
	c.want("CLIENT GETNAME", `"me"`)
	c.want("RESET", "+RESET")
	c.proto = 2
	c.want("CLIENT GETNAME", "nil")
}

func TestClientList(t *testing.T) {
	s := wireServe(t, nil)
	a, b := wireDial(t, s, 3), wireDial(t, s, 2)
	a.want("CLIENT SETNAME first", "+OK")
	a.want("CLIENT SETINFO lib-name go", "+OK")
	a.want("MULTI", "+OK")
	a.want("PING", "+QUEUED")
	b.want("CLIENT NO-EVICT on", "+OK")

	info := clientLine(t, strings.TrimSuffix(b.do("CLIENT INFO").Text, "\n"))
	if info["cmd"] != "client|info" || info["resp"] != "2" || info["flags"] != "Ue" || info["multi"] != "-1" || info["argv-mem"] != "10" {
		t.Errorf("CLIENT INFO: %v", info)
	}
	if v := wireDial(t, s, 3).do("CLIENT INFO"); v.Kind != '=' {
		t.Errorf("RESP3 CLIENT INFO: %v", v)
	}
	// What a shows was published after it had answered: wait for that.
	var first map[string]string
	for {
		lines := strings.Split(strings.TrimSuffix(b.do("CLIENT LIST TYPE normal").Text, "\n"), "\n")
		if first = clientLine(t, lines[0]); first["multi"] == "1" {
			break
		}
	}
	for name, want := range map[string]string{"id": "1", "name": "first", "lib-name": "go", "resp": "3", "flags": "xU", "cmd": "ping", "user": "default", "redir": "-1",
		"addr": s.config.Get().UnixSocket + ":0"} {
		if first[name] != want {
			t.Errorf("%s is %s, want %s", name, first[name], want)
		}
	}
	if fd, err := strconv.Atoi(first["fd"]); err != nil || fd < 3 {
		t.Errorf("fd is %s", first["fd"])
	}
	if got := b.do("CLIENT LIST ID 1 7777").Text; strings.Count(got, "\n") != 1 {
		t.Errorf("CLIENT LIST ID: %q", got)
	}
}

// TestClientListBehindTheSameCommand: a turn that ends with the command that the last one ended with still tells of changes that the commands before it have made.
func TestClientListBehindTheSameCommand(t *testing.T) {
	s := wireServe(t, nil)
	a, b := wireDial(t, s, 2), wireDial(t, s, 2)
	shows := func(fields ...string) {
		t.Helper()
		for { // a publishes its state after it has answered
			line := clientLine(t, strings.TrimSuffix(b.do("CLIENT LIST ID 1").Text, "\n"))
			same := line["cmd"] == "get"
			for i := 0; i < len(fields); i += 2 {
				same = same && line[fields[i]] == fields[i+1]
			}
			if same {
				return
			}
		}
	}
	turn := func(commands ...string) {
		t.Helper()
		var packet []byte
		for _, command := range commands {
			packet = resptest.Append(packet, strings.Fields(command)...)
		}
		if _, err := a.conn.Write(packet); err != nil {
			t.Fatal(err)
		}
		for range commands {
			if v := a.read(); v.Kind == '-' {
				t.Fatalf("%v: %v", commands, v)
			}
		}
	}
	turn("GET 1.cntrn")
	shows("flags", "U", "resp", "2")
	turn("CLIENT NO-EVICT on", "GET 1.cntrn")
	shows("flags", "Ue")
	turn("CLIENT NO-TOUCH on", "GET 1.cntrn")
	shows("flags", "UeT")
	a.proto = 3
	turn("HELLO 3", "GET 1.cntrn")
	shows("resp", "3")
	for i := range 3 {
		turn("GET 1.cntrn")
		for want := int64(8 + i); s.connected()[0].info.calls.Load() != want; {
			runtime.Gosched()
		}
	}
}

func TestClientKill(t *testing.T) {
	s := wireServe(t, nil)
	ids := func(c *wireClient) int64 { return c.do("CLIENT ID").N }
	a, b, c := wireDial(t, s, 2), wireDial(t, s, 2), wireDial(t, s, 2)
	ids(b)
	c.want(fmt.Sprintf("CLIENT KILL ID %d", ids(a)), ":1")
	a.ended()
	until(t, "the end of the session", func() bool { return len(s.front.Sessions()) == 2 }) // or it may be killed once more
	c.want(fmt.Sprintf("CLIENT KILL ID %d", ids(c)), ":0")                                  // SKIPME is yes by default
	c.want(fmt.Sprintf("CLIENT KILL ID %d ADDR 1.2.3.4:5", ids(b)), ":0")
	c.want("CLIENT KILL TYPE replica SKIPME no", ":0")
	c.want("CLIENT KILL USER default LADDR "+s.config.Get().UnixSocket+":0", ":1")
	b.ended()
	c.want(fmt.Sprintf("CLIENT KILL ID %d SKIPME no", ids(c)), ":1") // answered before it takes effect
	c.ended()

	d := wireDial(t, s, 2)
	d.want("CLIENT KILL "+s.config.Get().UnixSocket+":0", "+OK") // the old form may kill oneself
	d.ended()
}

func TestClientReply(t *testing.T) {
	s := wireServe(t, nil)
	for i, c := range []struct{ commands, want string }{
		{"CLIENT REPLY SKIP;PING;PING", "+PONG"},
		{"CLIENT REPLY SKIP;CLIENT REPLY ON;PING", "+OK +PONG"},
		{"CLIENT REPLY SKIP;CLIENT REPLY OFF;PING;CLIENT REPLY ON;PING", "+OK +PONG"},
		{"PING;CLIENT REPLY SKIP;CLIENT REPLY OFF;PING;CLIENT REPLY SKIP;CLIENT REPLY ON;PING", "+PONG +OK +PONG"},
		{"PING;CLIENT REPLY SKIP;RESET;PING", "+PONG +PONG"},
		{"PING;CLIENT REPLY OFF;UNSUBSCRIBE;PUNSUBSCRIBE a;PING;CLIENT REPLY ON", `+PONG ["unsubscribe" nil :0] ["punsubscribe" "a" :0] +OK`},
		{"CLIENT REPLY SKIP;UNSUBSCRIBE;PING", `["unsubscribe" nil :0] +PONG`},
		{"CLIENT REPLY SKIP;WAIT 0 0;PING;CLIENT REPLY SKIP;INFO;CLIENT REPLY SKIP;KEYS *;PING", `+PONG +PONG`},
		{"CLIENT REPLY OFF;PING;CLIENT REPLY ON;PING", "+OK +PONG"},
		{"CLIENT REPLY SKIP;CLIENT REPLY SKIP;PING;PING;PING", "+PONG +PONG"},
		{"CLIENT REPLY OFF;CLIENT REPLY SKIP;PING;CLIENT REPLY ON", "+OK"},
		{"CLIENT REPLY SKIP;GET 1.cntrn;INCR 2.cntrn;CLIENT REPLY OFF;INCR 2.cntrn;NOSUCH;CLIENT REPLY ON;GET 2.cntrn", `:1 +OK "2"`},
		{"GET 9.cntrn;CLIENT REPLY OFF;GET 2.cntrn;RESET;GET 2.cntrn", `nil +RESET nil`},
		{"CLIENT REPLY SKIP;MULTI;CLIENT REPLY OFF;EXEC", "-ERR Command not allowed inside a transaction -EXECABORT Transaction discarded because of previous errors."},
	} {
		for _, together := range []bool{true, false} {
			conn := wireDial(t, s, 2)
			var packet strings.Builder
			for _, command := range strings.Split(c.commands, ";") {
				if together {
					packet.WriteString(command + "\r\n")
				} else {
					conn.send(command)
				}
			}
			if _, err := conn.conn.Write([]byte(packet.String())); err != nil {
				t.Fatal(err)
			}
			conn.send("ECHO end")
			var got []string
			for v := conn.read(); v.Text != "end"; v = conn.read() {
				got = append(got, v.String())
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%d %s: got %s, want %s", i, c.commands, g, c.want)
			}
			conn.do("DEL 2")
		}
	}
}

// TestReplyOffIsBounded: replies that are not sent are not kept either.
func TestReplyOffIsBounded(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.send("CLIENT REPLY OFF")
	for range 2000 {
		c.send("COMMAND LIST")
	}
	c.send("CLIENT REPLY ON")
	if v := c.read(); v.String() != "+OK" {
		t.Fatalf("got %v", v)
	}
	info := clientLine(t, strings.TrimSuffix(c.do("CLIENT INFO").Text, "\n"))
	if n, err := strconv.Atoi(info["rbs"]); err != nil || n > 256<<10 {
		t.Errorf("rbs=%s", info["rbs"])
	}
}

// TestClientRace has connections looked at and killed while they work; the race detector judges.
func TestClientRace(t *testing.T) {
	s := wireServe(t, nil)
	var group sync.WaitGroup
	for i := range 4 {
		c := wireDial(t, s, 2+i%2)
		group.Go(func() {
			for j := range 50 {
				c.do(fmt.Sprintf("INCR %d.cntrn", j))
				c.do("CLIENT SETNAME n" + strconv.Itoa(j))
				c.do("MULTI")
				c.do("PING")
				c.do("EXEC")
			}
		})
	}
	watcher := wireDial(t, s, 2)
	group.Go(func() {
		for i := range 50 {
			for line := range strings.Lines(watcher.do("CLIENT LIST").Text) {
				clientLine(t, strings.TrimSuffix(line, "\n"))
			}
			watcher.do("INFO everything")
			watcher.do("CONFIG RESETSTAT")
			watcher.do("LATENCY HISTOGRAM")
			watcher.do(fmt.Sprintf("CONFIG SET slowlog-log-slower-than %d slowlog-max-len %d", i%2*1000, i%5))
			watcher.do("SLOWLOG GET")
			s.sample()
		}
	})
	group.Wait()
	watcher.do("CLIENT KILL TYPE normal")
}

// Scenario: commands about the server as a whole.

package server

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestAdminReplies lists replies that are the same each time, byte for byte those of Redis where it has them.
func TestAdminReplies(t *testing.T) {
	s := wireServe(t, nil)
	const noCluster = "-ERR This instance has cluster support disabled"
	for _, c := range []struct{ command, resp2, resp3 string }{
		{"CONFIG GET nosuch", "[]", "()"},
		{"CONFIG GET databases", `["databases" "1"]`, `("databases" "1")`},
		{"CONFIG GET SAVE data*", `["databases" "1" "SAVE" ""]`, `("databases" "1" "SAVE" "")`},
		{"CONFIG GET timeout timeo*", `["timeout" "0"]`, `("timeout" "0")`},
		{"CONFIG SET foo bar", "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'", ""},
		{"CONFIG SET port", "-ERR wrong number of arguments for 'config|set' command (usage: CONFIG SET parameter value [parameter value ...])", ""},
		{"CONFIG SET databases 3", "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config", ""},
		{"CONFIG SET timeout 1 maxclients", "-ERR syntax error", ""},
		{"CONFIG SET timeout x", "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer", ""},
		{"CONFIG SET timeout 0 TIMEOUT 0", "-ERR CONFIG SET failed (possibly related to argument 'TIMEOUT') - duplicate parameter", ""},
		{"CONFIG SET timeout 100 maxclients 500", "+OK", ""},
		{"CONFIG GET timeout maxclients", `["maxclients" "500" "timeout" "100"]`, `("maxclients" "500" "timeout" "100")`},
		{"CONFIG REWRITE", "-ERR The server is running without a config file", ""},
		{"CONFIG RESETSTAT", "+OK", ""},
		{"CONFIG", "-ERR wrong number of arguments for 'config' command (usage: CONFIG subcommand [argument ...])", ""},
		{"CONFIG FOO", "-ERR unknown subcommand 'FOO'. Try CONFIG HELP.", ""},
		{"SLOWLOG GET x", "-ERR count should be greater than or equal to -1", ""},
		{"SLOWLOG GET -2", "-ERR count should be greater than or equal to -1", ""},
		{"SLOWLOG GET 1 2", "-ERR wrong number of arguments for 'slowlog|get' command (usage: SLOWLOG GET [count])", ""},
		{"SLOWLOG RESET", "+OK", ""},
		{"SLOWLOG LEN", ":0", ""},
		{"SLOWLOG GET", "[]", ""},
		{"LATENCY LATEST", "[]", ""},
		{"LATENCY HISTORY foo", "[]", ""},
		{"LATENCY RESET", ":0", ""},
		{"LATENCY GRAPH foo", "-ERR No samples available for event 'foo'", ""},
		{"LATENCY HISTOGRAM nosuch", "[]", "()"},
		{"SET 1.cntrn 7", "+OK", ""},
		{"OBJECT ENCODING 1.cntrn", `"int"`, ""},
		{"OBJECT ENCODING 1", `"listpack"`, ""},
		{"OBJECT ENCODING 2", "nil", ""},
		{"OBJECT ENCODING nosuch", "nil", ""},
		{"OBJECT REFCOUNT 1", ":1", ""},
		{"OBJECT IDLETIME 1", "-ERR idle times are not tracked", ""},
		{"OBJECT FREQ 2", "nil", ""},
		{"OBJECT FREQ 1", "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime " +
			"LRU and LFU data will take some time to adjust.", ""},
		{"MEMORY USAGE 2", "nil", ""},
		{"MEMORY PURGE", "+OK", ""},
		{"ROLE", `["master" :0 []]`, ""},
		{"WAIT x 1", "-ERR value is not an integer or out of range", ""},
		{"WAIT 0 x", "-ERR timeout is not an integer or out of range", ""},
		{"WAIT 0 -1", "-ERR timeout is negative", ""},
		{"WAIT 1 60000", ":0", ""},
		{"WAITAOF 0 1 60000", "[:0 :0]", ""},
		{"WAITAOF 1 0 0", "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.", ""},
		{"WAITAOF 2 0 0", "-ERR value is out of range, value must between 0 and 1", ""},
		{"MODULE LIST", "[]", ""},
		{"FUNCTION FLUSH", "+OK", ""},
		{"FUNCTION LIST", "[]", ""},
		{"CLUSTER INFO", noCluster, ""},
		{"CLUSTER SLOTS", noCluster, ""},
		{"READONLY", noCluster, ""},
		{"READWRITE", noCluster, ""},
		{"ASKING", noCluster, ""},
		{"SENTINEL MASTERS", "-ERR unknown command 'SENTINEL', with args beginning with: 'MASTERS' ", ""},
		{"REPLICAOF NO ONE", "+OK", ""},
		{"slaveof no one", "+OK", ""},
		{"SLAVEOF x y", "-ERR Invalid master port", ""},
		{"FAILOVER ABORT", "-ERR No failover in progress.", ""},
		{"FAILOVER", "-ERR FAILOVER requires connected replicas.", ""},
		{"SHUTDOWN FOO", "-ERR syntax error", ""},
		{"SHUTDOWN ABORT", "-ERR No shutdown in progress.", ""},
		{"SHUTDOWN SAVE NOSAVE", "-ERR syntax error", ""},
		{"SHUTDOWN SAVE", errMemoryReply, ""},
		{"SAVE", errMemoryReply, ""},
		{"BGSAVE", errMemoryReply, ""},
		{"BGSAVE SCHEDULE", errMemoryReply, ""},
		{"BGSAVE FOO", "-ERR syntax error", ""},
		{"BGREWRITEAOF", errMemoryReply, ""},
		{"EXPIRE 1 10", "-ERR counters do not expire", ""},
		{"PEXPIREAT 1 10", "-ERR counters do not expire", ""},
		{"PERSIST 1", ":0", ""},
		{"EXPIRETIME 1", ":-1", ""},
		{"PEXPIRETIME 2", ":-2", ""},
		{"INFO nosuch", `""`, `txt""`},
	} {
		for _, proto := range []int{2, 3} {
			want := c.resp2
			if proto == 3 && c.resp3 != "" {
				want = c.resp3
			}
			wireDial(t, s, proto).want(c.command, want)
		}
	}
	c := wireDial(t, s, 2)
	if n := c.do("LASTSAVE").N; n != s.started.Unix() {
		t.Errorf("LASTSAVE is %d, want the start", n)
	}
	now := c.do("TIME")
	if sec, err := strconv.ParseInt(now.List[0].Text, 10, 64); err != nil || len(now.List) != 2 || time.Since(time.Unix(sec, 0)).Abs() > time.Minute {
		t.Errorf("TIME is %v", now)
	}
	if n := c.do("MEMORY USAGE 1").N; n < 1 {
		t.Errorf("MEMORY USAGE is %d", n)
	}
}

const errMemoryReply = "-ERR data is kept in memory only (appendonly no)"

// TestHelp reads HELP of every container: simple strings in Redis's layout.
func TestHelp(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 3)
	for _, cmd := range s.commands.List {
		if cmd.Sub == nil {
			continue
		}
		v := c.do(cmd.Name + " help")
		if len(v.List) != 1+2*len(cmd.Sub) || !strings.HasPrefix(v.List[0].Text, strings.ToUpper(cmd.Name)+" <subcommand>") {
			t.Errorf("%s HELP: %v", cmd.Name, v)
		}
		for i, line := range v.List {
			if line.Kind != '+' || i > 0 && strings.HasPrefix(line.Text, "    ") != (i%2 == 0) {
				t.Errorf("%s HELP, line %d: %v", cmd.Name, i, line)
			}
		}
	}
}

// TestSentinelFailover sends what Sentinel sends to a server that it makes the master.
func TestSentinelFailover(t *testing.T) {
	s := wireServe(t, nil)
	other := wireDial(t, s, 2)
	other.want("PING", "+PONG")
	c := wireDial(t, s, 2)
	c.want("MULTI", "+OK")
	for _, command := range []string{"SLAVEOF NO ONE", "CONFIG REWRITE", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub", "FAILOVER ABORT"} {
		c.want(command, "+QUEUED")
	}
	c.want("EXEC", "[+OK -ERR The server is running without a config file :1 :0 -ERR No failover in progress.]")
	other.ended()
	c.want("PING", "+PONG")
}

// TestShutdownCommand checks that it has no answer, that what came before has, and that Terminate is called once.
func TestShutdownCommand(t *testing.T) {
	s := wireServe(t, nil)
	called := make(chan bool, 2)
	s.Terminate = func() { called <- true }
	for range 2 {
		c := wireDial(t, s, 2)
		if _, err := c.conn.Write([]byte("INCR 1.cntrn\r\nSHUTDOWN NOSAVE\r\nINCR 1.cntrn\r\n")); err != nil {
			t.Fatal(err)
		}
		if v := c.read(); v.Kind != ':' {
			t.Errorf("got %v", v)
		}
		c.ended()
	}
	<-called
	if n := len(called); n != 0 {
		t.Errorf("Terminate was called %d times more", n)
	}
	wireDial(t, s, 2).want("GET 1.cntrn", `"2"`)
}

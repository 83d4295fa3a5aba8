package server

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// dataless are the commands that neither read nor change data, and so need not ask for any: why, and which. Groups of
// Redis that are about nothing else are not listed. A command that is in no line, and has neither keys nor Asks, fails
// TestEveryCommandAsks: whoever adds one says here that it shows no data, or what it asks.
var dataless = map[string]string{
	"a user with the right to it follows all data: so it is with Redis, whose replicas have no other": "psync sync replconf monitor counter.move",
	"about the server, as INFO is": "info time role lastsave save bgsave bgrewriteaof counter.scrub shutdown replicaof slaveof failover command config acl slowlog latency" +
		" memory|stats memory|doctor memory|purge memory|malloc-stats memory|help module",
	"waits for what was changed before":  "wait waitaof",
	"has nothing":                        "function cluster readonly readwrite asking object|help",
	"numbers of producers, not of posts": "idmp|help",
	"names and positions, not posts":     "counter.cursor|help",
}

// TestEveryCommandAsks walks the table: each command that touches data asks for its keys, and a user without any is
// refused, whatever else it may do.
func TestEveryCommandAsks(t *testing.T) {
	s := wireServe(t, nil)
	admin, few := wireDial(t, s, 2), wireDial(t, s, 2)
	for _, set := range []string{"SET 1.cntcm 5", "SET 2.cntrn 7", "ADD COUNTER other", "ADD COLUMN other n hint=16"} {
		admin.want(set, "+OK")
	}
	admin.want("ACL SETUSER few on nopass +@all ~other:*", "+OK")
	few.want("AUTH few x", "+OK")
	free := make(map[string]bool)
	for _, names := range dataless {
		for name := range strings.FieldsSeq(names) {
			free[name] = true
		}
	}
	for _, g := range []string{"connection", "transactions", "pubsub"} {
		free["group "+g] = true
	}
	before := values(t, s.Store())
	s.commands.Each(func(cmd *row) {
		a := cmd.Access()
		container, _, _ := strings.Cut(cmd.Name, "|")
		said := free[cmd.Name] || free[container] || free["group "+cmd.Group] && cmd.Flags&(command.ReadOnly|command.Write) == 0 && cmd.Plan == nil
		switch {
		case a.Container:
			return
		case !a.Asks() && !said:
			t.Errorf("%s: it asks for no data, and no line of dataless says why not", cmd.Name)
			return
		case !a.Asks() && cmd.Plan != nil:
			t.Errorf("%s: it is planned, so it is on items, and asks for no keys", cmd.Name)
		case !a.Asks():
			return
		}
		words := example(t, cmd)
		if words == nil {
			return // about other things than data: command.NoData
		}
		if cmd.Is("counter.link") {
			return // it is refused before, where there is no cluster
		}
		if reply := few.do(strings.Join(words, " ")).String(); !strings.HasPrefix(reply, "-NOPERM No permissions to access a key") {
			t.Errorf("%s: got %.200s, want NOPERM", words, reply)
		}
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		if !cmd.Takes(args) {
			t.Errorf("%s: that is no whole command", words)
		}
	})
	if after := values(t, s.Store()); after != before {
		t.Errorf("data was changed:\n%s%s", before, after)
	}
}

// example is a whole command on what counter weibo has; nil for one that asks nothing of data by its own word.
func example(t *testing.T, cmd *row) []string {
	if slices.Contains([]string{"dbsize", "schema", "counter.producers", "idmp|last", "idmp|fence", "counter.cursor|get", "counter.cursor|list", "function|list", "function|flush"}, cmd.Name) {
		return nil
	}
	if cmd.Is("client|tracking") { // without an option it tells of read keys alone
		return []string{"client", "tracking", "on", "bcast"}
	}
	arguments, err := command.ParseSyntax(cmd.Syntax)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(cmd.Name, "|")
	var add func(args []command.Argument)
	add = func(args []command.Argument) {
		for _, a := range args {
			if a.Optional && a.Name != "counter" {
				continue
			}
			if a.Token != "" {
				words = append(words, a.Token)
			}
			switch {
			case a.Kind == "block":
				add(a.Args)
			case a.Kind == "oneof":
				add(a.Args[:1])
			case a.Kind == "pure-token":
			case a.Kind == "key":
				words = append(words, "weibo:1.cntcm")
			case a.Name == "counter":
				words = append(words, "weibo")
			case a.Name == "cursor":
				words = append(words, "0")
			case a.Name == "field", a.Name == "column", a.Name == "name":
				words = append(words, "comment")
			default:
				words = append(words, "1")
			}
		}
	}
	add(arguments)
	return words
}

// TestKeyRights: the rights of patterns, by each way to the data. Reads are answered, refused commands get NOPERM.
func TestKeyRights(t *testing.T) {
	s := wireServe(t, nil)
	admin := wireDial(t, s, 2)
	for _, set := range []string{"ADD COUNTER other", "ADD COLUMN other n hint=16", "SET other:1.n 3", "MSET 1.cntcm 5 1.cntrn 6"} {
		admin.want(set, "+OK")
	}
	for _, add := range []string{"ADD COLUMN other counters hint=4", "ADD COLUMN other weibo hint=4"} {
		admin.want(add, "+OK")
	}
	for i, c := range []struct{ rules, may, mayNot string }{
		{"~weibo:*", "GET 1.cntcm|GET weibo:1.cntrn|GET {1}.cntcm|GET weibo:{1}.cntcm|GET {weibo:1}.cntcm|GET 0001.cntcm|HGETALL 1|HGETALL weibo:1|MGET 1.cntcm 1.cntrn|EXISTS 1 2|TYPE 1|" +
			"COUNTER.MGET weibo 1 2|COUNTER.MGET weibo 1 COLUMNS comment|COUNTER.FIND weibo|COUNTER.TOP weibo comment 3|COUNTER.SUM weibo comment|COUNTER.COUNT weibo|" +
			"COUNTER.UPDATE weibo WHERE comment > 99 INCR comment 1|COUNTER.MINCRBY 1.cntcm 1 weibo:1.cntcm -1 QUIET|INCRBY 1.cntcm 0|COUNTER.DIGEST weibo|COUNTER.BLOCKS weibo|MEMORY USAGE 1|" +
			"CLIENT TRACKING ON BCAST PREFIX weibo:|CLIENT TRACKING OFF|CLIENT TRACKING ON|CLIENT TRACKING OFF|" +
			"OBJECT ENCODING 1|WATCH 1.cntcm|UNWATCH|HSCAN 1 0|DEL 9",
			"COUNTER.FEED FROM OLDEST|COUNTER.FEED FROM OLDEST COUNTERS weibo other|COUNTER.FEED FROM OLDEST COLUMNS counters weibo|GET other:1.n|GET 1.n|HGETALL other:1|MGET 1.cntcm 1.n|COUNTER.MGET other 1|COUNTER.FIND other|COUNTER.TOP other n 3|COUNTER.UPDATE other SET n 1|SCAN 0|FLUSHALL|FLUSHDB|" +
				"CLUSTER GETKEYSINSLOT 0 10|CLIENT TRACKING ON BCAST|CLIENT TRACKING ON PREFIX weibo: BCAST PREFIX w|CLIENT TRACKING ON BCAST PREFIX 7|CLIENT TRACKING ON BCAST REDIRECT BCAST|" +
				"COUNTER.DIGEST|COUNTER.BLOCKS|COUNTER.DIGEST other|DROP COUNTER other|ADD COLUMN other m hint=4|ADD COUNTER third|MEMORY USAGE other:1|OBJECT ENCODING other:1|WATCH other:1|GET x|" +
				"COUNTER.MINCRBY 1.cntcm 1 1.n 1|COUNTER.DRAIN 1.cntcm 1.n|EXPIRE other:1 5|EXISTS 1 other:1|DEL 1 other:1|MSET 1.cntcm 1 1.n 1"},
		{"~*.cntrn", "GET 1.cntrn|GET weibo:1.cntrn|GET {weibo:1}.cntrn|INCRBY 1.cntrn 0|MGET 1.cntrn 2.cntrn|COUNTER.MGET weibo 1 2 COLUMNS repost|COUNTER.MGET weibo 1 columns cntrn|STRLEN 1.cntrn",
			"GET 1.cntcm|GET 1|HGET 1 repost|HGETALL 1|COUNTER.MGET weibo 1|COUNTER.MGET weibo 1 COLUMNS repost comment|COUNTER.MGET weibo 1 COLUMNS nosuch|COUNTER.FIND weibo|COUNTER.SUM weibo repost|" +
				"COUNTER.TOP weibo repost 1|COUNTER.UPDATE weibo INCR repost 1|DEL 1|SCAN 0|DROP COLUMN weibo comment|HSET 1 repost 1"},
		{"%R~weibo:*", "GET 1.cntcm|COUNTER.FIND weibo|COUNTER.MGET weibo 1|HGETALL 1", "INCR 1.cntcm|SET 1.cntcm 1|DEL 1|COUNTER.UPDATE weibo INCR repost 1|COUNTER.DRAIN 1.cntcm|GETDEL 1.cntcm|HSET 1 comment 1|DROP COUNTER weibo"},
		{"%W~weibo:*", "SET 1.cntcm 5|DEL 9|MSET 1.cntrn 6|EXISTS 1", "GET 1.cntcm|INCR 1.cntcm|SET 1.cntcm 1 GET|COUNTER.FIND weibo|COUNTER.UPDATE weibo INCR repost 1|HGETALL 1|GETSET 1.cntcm 5"},
		{"~weibo:* -@dangerous", "INCRBY 1.cntcm 0|COUNTER.FIND weibo|COUNTER.DRAIN 9.cntcm|COUNTER.MSET weibo 9 1 1", "GET 1.n|SCAN 0"},
		{"~weibo:* ~other:*", "SCAN 0|CLIENT TRACKING ON BCAST|CLIENT TRACKING OFF|COUNTER.FIND other|COUNTER.DIGEST|COUNTER.BLOCKS|MGET 1.cntcm 1.n", "GET x|ADD COUNTER third|COUNTER.DIGEST nosuch"},
		{"~1.cntcm", "GET 1.cntcm|GET 01.cntcm|GET {1}.cntcm|GET weibo:1.cntcm|COUNTER.MGET weibo 1 COLUMNS comment|COUNTER.MSET weibo 01 5 COLUMNS comment",
			"GET 1.cntrn|GET 11.cntcm|HGET 1 comment|COUNTER.MSET weibo 1 5 COLUMNS repost|COUNTER.MSET weibo 1 5 6"},
		{"~weibo:1", "HGETALL 1|HGETALL weibo:1|COUNTER.MGET weibo 1|GET 1.cntcm|COUNTER.MSET weibo 1 5 6 COLUMNS comment repost|MSET 1.cntcm 5 01.cntrn 6",
			"GET 10.cntcm|HGETALL 2|COUNTER.MGET weibo 1 2|COUNTER.MGET weibo 2 1|COUNTER.MSET weibo 1 5 2 5 COLUMNS comment|MSET 1.cntcm 5 2.cntcm 6"},
		{"~weibo:0*", "GET 0.cntcm|GET 00.cntcm", "GET 01.cntcm|GET weibo:01.cntcm|GET weibo:{01}.cntcm|GET {weibo:01}.cntcm|HGETALL 01|HSET 01 comment 1|DEL 01|MGET 0.cntcm 01.cntcm|" +
			"COUNTER.MGET weibo 01|COUNTER.MSET weibo 01 1 COLUMNS comment|COUNTER.DRAIN 01.cntcm|WATCH 01|COUNTER.MINCRBY 01.cntcm 1"},
		{"~weibo:??", "GET 10.cntcm|HGETALL 010", "GET 01.cntcm|GET 1.cntcm|HGETALL 01|GET 100.cntcm"},
		{"", "SCHEMA|DBSIZE|PING|TIME", "GET 1.cntcm|SCAN 0|COUNTER.MGET weibo 1|EXISTS 1"},
	} {
		user := fmt.Sprint("u", i)
		admin.want("ACL SETUSER "+user+" on nopass +@all "+c.rules, "+OK")
		w := wireDial(t, s, 3)
		w.want("AUTH "+user+" x", "+OK")
		for command := range strings.SplitSeq(c.may, "|") {
			if got := w.do(command).String(); strings.HasPrefix(got, "-") {
				t.Errorf("%s: %s: got %s, want an answer", c.rules, command, got)
			}
			if got := admin.do("ACL DRYRUN " + user + " " + command).String(); got != "+OK" {
				t.Errorf("%s: DRYRUN %s: got %s", c.rules, command, got)
			}
		}
		for command := range strings.SplitSeq(c.mayNot, "|") {
			if got := w.do(command).String(); !strings.HasPrefix(got, "-NOPERM No permissions to access a key") {
				t.Errorf("%s: %s: got %s, want NOPERM", c.rules, command, got)
			}
			if got := admin.do("ACL DRYRUN " + user + " " + command).String(); !strings.Contains(got, "User "+user+" has no permissions to access ") {
				t.Errorf("%s: DRYRUN %s: got %s", c.rules, command, got)
			}
		}
	}
	admin.want("MGET 1.cntcm 1.cntrn other:1.n", `["5" "6" "3"]`)
}

// TestUsersChange: a change holds from the next command on, of connections that are open too.
func TestUsersChange(t *testing.T) {
	s := wireServe(t, nil)
	admin, w, gone, deaf, hears := wireDial(t, s, 2), wireDial(t, s, 2), wireDial(t, s, 2), wireDial(t, s, 3), wireDial(t, s, 3)
	admin.want("ACL SETUSER app on >p +@all ~weibo:* &news &olds", "+OK")
	admin.want("ACL SETUSER temp on nopass +@all ~*", "+OK")
	w.want("AUTH app p", "+OK")
	w.want("ACL WHOAMI", `"app"`)
	gone.want("AUTH temp x", "+OK")
	for _, c := range []*wireClient{deaf, hears} {
		c.want("AUTH app p", "+OK")
	}
	deaf.send("SUBSCRIBE olds")
	deaf.read()
	hears.send("SUBSCRIBE news")
	hears.read()
	w.want("INCR 1.cntcm", ":1")
	if line := admin.do("CLIENT LIST").String(); strings.Count(line, "user=app") != 3 || strings.Count(line, "user=temp") != 1 {
		t.Errorf("CLIENT LIST: %s", line)
	}
	admin.want("ACL SETUSER app -incr resetchannels &news", "+OK")
	w.want("INCR 1.cntcm", "-NOPERM User app has no permissions to run the 'incr' command")
	deaf.ended()
	admin.want("PUBLISH news x", ":1")
	if got := hears.read().String(); !strings.Contains(got, "message") {
		t.Errorf("who may hear got %s", got)
	}
	monitors := wireDial(t, s, 2)
	monitors.want("AUTH app p", "+OK")
	monitors.want("MONITOR", "+OK")
	admin.want("ACL SETUSER app -monitor", "+OK")
	for {
		if _, err := monitors.r.ReadByte(); err != nil {
			break
		}
	}
	tracks := wireDial(t, s, 3)
	tracks.want("AUTH app p", "+OK")
	tracks.want("CLIENT TRACKING ON BCAST PREFIX weibo:", "+OK")
	admin.want("ACL SETUSER app resetkeys ~weibo:*", "+OK") // as before
	tracks.want("PING", "+PONG")
	admin.want("ACL SETUSER app resetkeys %W~weibo:* ~*.cntcm", "+OK")
	tracks.ended()
	admin.want("ACL SETUSER app off", "+OK") // connected clients stay connected
	w.want("GET 1.cntcm", `"1"`)
	w.want("AUTH app p", "-WRONGPASS invalid username-password pair or user is disabled.")
	w.want("ACL WHOAMI", `"app"`)
	admin.want("ACL DELUSER temp nobody", ":1")
	gone.ended()
	// A client sees its end before it has left the list.
	until(t, "those that were closed are gone", func() bool { return strings.Count(admin.do("CLIENT LIST").String(), "user=app") == 2 })
	admin.want("CLIENT KILL USER app", ":2")
	w.ended()
	admin.want("ACL USERS", `["app" "default"]`)
	admin.want("ACL SETUSER admin on nopass +@all", "+OK")
	admin.want("AUTH admin x", "+OK")
	admin.want("ACL DELUSER admin", ":1") // itself
	admin.ended()
}

// TestUsersChangeUnderLoad: users are changed, removed and read again while others are busy as them. What was answered
// before a change holds no longer than what was under way: whoever sends behind it is refused.
func TestUsersChangeUnderLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, []byte("user app on nopass +@all ~weibo:* &*\nuser other on nopass +@all ~*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := wireServe(t, func(c *config.Config) { c.ACLFile = file })
	admin := wireDial(t, s, 2)
	var done atomic.Bool
	var busy sync.WaitGroup
	var changed atomic.Int64
	for i := range 4 {
		busy.Go(func() {
			for n := 0; !done.Load(); n++ {
				conn, err := net.Dial("unix", s.config.Get().UnixSocket)
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.SetDeadline(time.Now().Add(patience))
				r := bufio.NewReader(conn)
				user := [...]string{"app", "other"}[(i+n)%2]
				for _, text := range []string{"AUTH " + user + " x", "INCR 1.cntcm", "MGET 1.cntcm 1.cntrn", "MULTI", "INCR 2.cntcm", "EXEC", "CLIENT LIST", "SUBSCRIBE a", "UNSUBSCRIBE", "INCR 1.cntcm"} {
					if _, err := conn.Write(resptest.Append(nil, strings.Fields(text)...)); err != nil {
						break
					}
					v, err := resptest.Read(r, 2)
					if err != nil {
						break // it was sent away
					}
					if v.Kind == ':' {
						changed.Add(1)
					}
				}
				conn.Close()
			}
		})
	}
	until(t, "all are busy", func() bool { return changed.Load() > 20 })
	for range 30 {
		for _, command := range []string{"ACL SETUSER app -incr", "ACL DELUSER other", "ACL LOAD", "ACL SETUSER other resetchannels", "ACL SETUSER app +incr", "ACL LOAD"} {
			if got := admin.do(command).String(); got != "+OK" && got != ":1" && got != ":0" {
				t.Errorf("%s: %s", command, got)
			}
		}
	}
	n := changed.Load()
	until(t, "they go on", func() bool { return changed.Load() > n+20 })
	w := wireDial(t, s, 2)
	w.want("AUTH app x", "+OK")
	for range 100 { // a change is in force when it is answered
		admin.want("ACL SETUSER app -incr", "+OK")
		w.want("INCR 3.cntcm", "-NOPERM User app has no permissions to run the 'incr' command")
		admin.want("ACL SETUSER app +incr", "+OK")
		if got := w.do("INCR 3.cntcm").String(); got[0] != ':' {
			t.Fatalf("got %s", got)
		}
	}
	done.Store(true)
	busy.Wait()
}

// TestTransactionRights: rights are asked when a command is queued, and again when it is executed.
func TestTransactionRights(t *testing.T) {
	s := wireServe(t, nil)
	admin, w := wireDial(t, s, 2), wireDial(t, s, 2)
	admin.want("ACL SETUSER app on nopass +@all ~weibo:*", "+OK")
	w.want("AUTH app x", "+OK")
	w.want("MULTI", "+OK")
	w.want("INCR 1.cntcm", "+QUEUED")
	w.want("INCR x", "-NOPERM No permissions to access a key")
	w.want("EXEC", "-EXECABORT Transaction discarded because of previous errors.")
	for _, exec := range []string{"EXEC", "EXEC IDMP p 1"} {
		w.want("MULTI", "+OK")
		w.want("INCR 1.cntcm", "+QUEUED")
		w.want("INCR 1.cntrn", "+QUEUED")
		admin.want("ACL SETUSER app resetkeys ~*.cntcm", "+OK")
		const later = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. " +
			"This command is no longer allowed for the following reason: no permission to touch the specified keys"
		if exec == "EXEC" {
			w.want(exec, "[:1 -"+later+"]")
		} else { // it is made once, and its reply is kept: all or nothing
			w.want(exec, "-EXECABORT Transaction discarded because of: "+later)
		}
		admin.want("ACL SETUSER app ~weibo:*", "+OK")
	}
	w.want("MGET 1.cntcm 1.cntrn", `["1" "0"]`)
	if log := admin.do("ACL LOG").String(); strings.Count(log, `"multi"`) < 2 || !strings.Contains(log, `"1.cntrn"`) {
		t.Errorf("ACL LOG: %s", log)
	}
}

// TestWrongPasswords: from the fourth on a connection waits a second for each, and nobody else does.
func TestWrongPasswords(t *testing.T) {
	t.Parallel()
	s := wireServe(t, func(c *config.Config) { c.RequirePass = "right" })
	w, other := wireDial(t, s, 2), wireDial(t, s, 2)
	other.want("AUTH right", "+OK")
	for range freeFailures {
		w.want("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.")
	}
	began := time.Now()
	w.send("AUTH right")
	for range 100 {
		other.want("PING", "+PONG") // also where both are of one loop
	}
	if got := w.read().String(); got != "+OK" || time.Since(began) < failurePause {
		t.Errorf("got %s after %s, want OK after %s", got, time.Since(began), failurePause)
	}
	w.want("MULTI", "+OK") // a success forgave the failures before
	w.want("AUTH wrong", "+QUEUED")
	for range freeFailures - 1 {
		w.want("HELLO 2 AUTH default wrong", "+QUEUED")
	}
	w.want("AUTH right", "+QUEUED")
	began = time.Now()
	w.send("EXEC") // which waits before it holds the store
	for range 100 {
		other.want("FLUSHALL", "+OK")
	}
	if got := w.read().String(); strings.Count(got, "WRONGPASS") != freeFailures || !strings.HasSuffix(got, " +OK]") || time.Since(began) < failurePause {
		t.Errorf("guesses in a transaction: got %s after %s, want OK at the end, after %s", got, time.Since(began), failurePause)
	}
	if log := other.do("ACL LOG").String(); !strings.Contains(log, `"auth"`) || strings.Contains(log, "wrong") || strings.Contains(log, "right") {
		t.Errorf("ACL LOG: %s", log)
	}
}

// TestOpenToAll: a connection that had to say who it is needs not, once that is so; and a new password is asked of new
// ones.
func TestOpenToAll(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.RequirePass = "p" })
	w, admin := wireDial(t, s, 2), wireDial(t, s, 2)
	w.want("PING", "-NOAUTH Authentication required.")
	admin.want("AUTH p", "+OK")
	admin.want("ACL SETUSER default nopass", "+OK")
	w.want("PING", "+PONG")
	w.want("AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	admin.want("CONFIG SET requirepass q", "+OK")
	w.want("PING", "+PONG")
	wireDial(t, s, 2).want("PING", "-NOAUTH Authentication required.")
	w.want("RESET", "+RESET")
	w.want("PING", "-NOAUTH Authentication required.")
	admin.want("ACL SETUSER default off", "+OK")
	w.want("AUTH q", "-WRONGPASS invalid username-password pair or user is disabled.")
	admin.want("ACL SETUSER app on >a -@all +get ~*", "+OK")
	w.want("HELLO 2 AUTH app b", "-WRONGPASS invalid username-password pair or user is disabled.")
	w.want("AUTH app a", "+OK")
	w.want("PING", "-NOPERM User app has no permissions to run the 'ping' command")
	w.want("QUIT", "+OK")
}

// TestDisabledCommands: they are not there, for nobody, and rules may name them.
func TestDisabledCommands(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.DisableCommand = []string{"FLUSHALL", "config|set", "debug"} })
	w := wireDial(t, s, 2)
	w.want("FLUSHALL", "-ERR unknown command 'FLUSHALL', with args beginning with: ")
	w.want("CONFIG SET maxclients 5", "-ERR unknown subcommand 'SET'. Try CONFIG HELP.")
	w.want("CONFIG GET port", `["port" "0"]`)
	w.want("COMMAND INFO flushall", "[nil]")
	w.want("ACL SETUSER a +flushall -config|set", "+OK")
	for names, want := range map[string]string{"nosuch": `got "nosuch"`, "config|nosuch": `got "config|nosuch"`} {
		conf := s.config.Get()
		conf.DisableCommand = []string{names}
		if _, err := New(conf, s.log, s.level); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", names, err)
		}
	}
}

// TestUsersInFiles: an aclfile is read and written, users of the configuration file are written by CONFIG REWRITE.
func TestUsersInFiles(t *testing.T) {
	dir := t.TempDir()
	file, conf := filepath.Join(dir, "users.acl"), filepath.Join(dir, "counterd.conf")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "user app on >p +get ~*\n")
	s := wireServe(t, func(c *config.Config) { c.ACLFile = file })
	admin, w := wireDial(t, s, 2), wireDial(t, s, 2)
	w.want("AUTH app p", "+OK")
	w.want("GET 1.cntcm", "nil")
	write(file, "user app on >p +nosuch ~*\nuser b on\nusr c\n")
	if got := admin.do("ACL LOAD").String(); !strings.Contains(got, file+":1: Error in applying operation '+nosuch'") || !strings.Contains(got, file+":3: ") {
		t.Errorf("ACL LOAD of a bad file: %s", got)
	}
	w.want("GET 1.cntcm", "nil")
	write(file, "user other on nopass +get ~*\nuser default on nopass ~* &* +@all\n")
	admin.want("ACL LOAD", "+OK")
	w.ended()
	admin.want("ACL SETUSER other >q", "+OK")
	admin.want("ACL SAVE", "+OK")
	admin.want("ACL LOAD", "+OK")
	if text, err := os.ReadFile(file); err != nil || strings.Join(s.users.Lines(), "\n")+"\n" != string(text) || strings.Contains(string(text), ">q") {
		t.Errorf("%s %v", text, err)
	}

	write(conf, "# users\nuser app on >p +get ~*\nport 0\nuser b off\n")
	s = wireServe(t, func(c *config.Config) { c.ConfigFile, c.Users = conf, []string{"app on >p +get ~*", "b off"} })
	admin = wireDial(t, s, 2)
	admin.want("ACL SETUSER b on", "+OK")
	admin.want("CONFIG REWRITE", "+OK")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(string(text), "\n"); lines[0] != "# users" || !strings.HasPrefix(lines[1], "user app on sanitize-payload #") || !strings.HasPrefix(lines[2], "user b on ") ||
		!strings.HasPrefix(lines[3], "user default on nopass ") || strings.Count(string(text), "user ") != 3 {
		t.Errorf("rewritten:\n%s", text)
	}
	bad := s.config.Get()
	bad.ACLFile = file
	if _, err := New(bad, s.log, s.level); err == nil || !strings.Contains(err.Error(), "aclfile and user: got both") {
		t.Errorf("users at two places: %v", err)
	}
}

// TestPageUser gives a user the rights of the example in docs/operate/security.md, and empties nothing by it. A command that changes posts
// which it does not name is dangerous.
func TestPageUser(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operate/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, found := strings.Cut(string(page), "`ACL SETUSER app on >password ")
	rules, _, ended := strings.Cut(rules, "`")
	if !found || !ended {
		t.Fatal("the page has no example of a user")
	}
	s := wireServe(t, nil)
	admin, app := wireDial(t, s, 2), wireDial(t, s, 2)
	admin.want("ACL SETUSER app on >password "+rules, "+OK")
	app.want("AUTH app password", "+OK")
	app.want("MSET 1.cntcm 5 2.cntrn 7", "+OK")
	app.want("COUNTER.COUNT weibo", ":2")
	for _, command := range []string{"COUNTER.UPDATE weibo DEL", "COUNTER.UPDATE weibo SET comment 0", "FLUSHALL", "DROP COUNTER weibo", "KEYS *", "ADD COLUMN weibo x hint=8"} {
		if got := app.do(command).String(); !strings.HasPrefix(got, "-NOPERM") {
			t.Errorf("%s: got %s, want NOPERM", command, got)
		}
	}
	app.want("MGET 1.cntcm 2.cntrn", `["5" "7"]`)
	named := map[string]string{"counter.mset": "it names its posts", "idmp|fence": "it changes no posts", "counter.cursor|set": "it changes no posts", "counter.cursor|del": "it changes no posts", "function|flush": "it changes nothing"}
	s.commands.Each(func(cmd *row) {
		dangerous := slices.Contains(cmd.Access().Categories, "@dangerous")
		if _, ok := named[cmd.Name]; cmd.Flags&command.Write != 0 && cmd.First == 0 && !dangerous && !ok {
			t.Errorf("%s changes posts that it does not name, and is not in @dangerous", cmd.Name)
		}
	})
}

// TestRelativeACLFile: a relative aclfile is one of the data directory, for the start, ACL LOAD and ACL SAVE.
func TestRelativeACLFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users.acl")
	if err := os.WriteFile(file, []byte("user a on nopass +get\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := wireDial(t, wireServe(t, func(c *config.Config) { c.Dir, c.ACLFile = dir, "users.acl" }), 2)
	c.want("ACL USERS", `["a" "default"]`)
	c.want("CONFIG GET aclfile", `["aclfile" "users.acl"]`)
	c.want("ACL SETUSER b on", "+OK")
	c.want("ACL SAVE", "+OK")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "user b ") {
		t.Errorf("saved %q, %v", text, err)
	}
	c.want("ACL LOAD", "+OK")
}

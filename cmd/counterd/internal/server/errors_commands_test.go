package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// provokeByArguments: errors of a command by itself.
func provokeByArguments(p provoker) {
	s := wireServe(p.T, nil)
	w := wireDial(p, s, 2)
	for _, set := range []string{"SET 1.cntcm 5", "SET 1.cntrn 7", "SET 2.cntcm 4294967295"} {
		w.want(set, "+OK")
	}
	long := strings.Repeat("x", 2000)
	for _, c := range [][2]string{
		{"NOSUCH a", "ERR unknown command '"}, {"CONFIG NOSUCH", "ERR unknown subcommand '"}, {"GET", "ERR wrong number of arguments for '"},
		{"ACL CAT nonsense", "ERR Unknown category '"}, {"ACL CAT a b", "ERR unknown subcommand or wrong number of arguments for 'CAT'"},
		{"COMMAND GETKEYS nosuch x", "ERR Invalid command specified"}, {"COMMAND GETKEYS PING x", "ERR The command has no key arguments"},
		{"COMMAND GETKEYS GET a b", "ERR Invalid number of arguments specified for command"},
		{"COUNTER.MGET nosuch 1", "ERR no counter 'nosuch'"}, {"COUNTER.MGET weibo 1 x", "ERR 'x' is not a mid"},
		{"COUNTER.MGET weibo 1 COLUMNS" + strings.Repeat(" repost", 65), "ERR COUNTER.MGET: got 65 columns behind COLUMNS, want at most 64"},
		{"COUNTER.MINCRBY 1.cntcm 1 2.cntcm", "ERR wrong number of arguments for 'counter.mincrby'"},
		{"COUNTER.MINCRBY 1.cntcm 1 1 1", items.ErrWrongType}, {"COUNTER.MINCRBY 1.cntcm 1 1.cntrn x", items.ErrNotInteger},
		{"COUNTER.MSET weibo 1 2", "ERR COUNTER.MSET: got 2 arguments for posts"}, {"COUNTER.MSET weibo 1 2 3 COLUMNS repost repost", "ERR COUNTER.MSET: column 'repost' is named twice"},
		{"COUNTER.DEMOTE weibo x", "ERR 'x' is not a mid"}, {"COUNTER.DEMOTE nosuch 1", "ERR "}, {"COUNTER.PROMOTE nosuch 1", "ERR "},
		{"COUNTER.BLOCKS nosuch", "ERR no counter 'nosuch'"}, {"COUNTER.DIGEST nosuch", "ERR no counter 'nosuch'"},
		{"COUNTER.DIGEST weibo PARTS 0", "ERR PARTS: want 1.."}, {"COUNTER.DIGEST weibo 5 1", "ERR want a range of mids"},
		{"HSET 1 comment 8 nosuch 1", "ERR no column 'nosuch'"}, {"HSET 1 comment 8 repost", "ERR wrong number of arguments for 'hset'"},
		{"HSET 1 comment 8 repost x", items.ErrNotInteger}, {"HSET 1 comment 8 repost 4294967296", items.ErrNotInteger},
		{"HSETNX 1 nosuch 1", "ERR no column 'nosuch'"}, {"HINCRBY 1 nosuch 1", "ERR no column 'nosuch'"}, {"HINCRBY 1 comment x", items.ErrNotInteger},
		{"HINCRBY 2 comment 1", items.ErrOverflow}, {"HSET 1.cntcm comment 1", items.ErrWrongType}, {"HSCAN 1 x", "ERR invalid cursor"},
		{"HSCAN 1 0 MATCH " + long, "ERR a pattern has at most "},
		{"SCAN x", "ERR invalid cursor"}, {"SCAN 0 MATCH " + long, "ERR a pattern has at most "}, {"SCAN 0 COUNT x", items.ErrNotInteger},
		{"SET 1.cntcm x", items.ErrNotInteger}, {"SET 1.cntcm 4294967296", items.ErrNotInteger}, {"SET 1.cntcm 1 NX XX", items.ErrSyntax},
		{"SET 1.cntcm 1 EX 10", "ERR counters do not expire: "}, {"SET 1 5 XX", items.ErrWrongType}, {"SETNX 3.cntcm x", items.ErrNotInteger},
		{"GETSET 1.cntcm x", items.ErrNotInteger}, {"GETDEL 1", items.ErrWrongType}, {"MSET 1.cntcm 1 2.cntcm", "ERR wrong number of arguments for 'mset'"},
		{"MSET 1.cntcm 1 3.cntcm x", items.ErrNotInteger}, {"MSET 3.cntcm 1 1 1", items.ErrWrongType}, {"MSET 1.cntcm 1 post:1:likes 1", "ERR no counter for key '"},
		{"INCR 1", items.ErrWrongType}, {"INCR post:123:likes", "ERR no counter for key '"}, {"INCR 2.cntcm", items.ErrOverflow}, {"DECR 3.cntcm", items.ErrOverflow},
		{"INCRBY 1.cntcm 99999999999", items.ErrOverflow}, {"INCRBY 1.cntcm 1.5", items.ErrNotInteger}, {"DECRBY 1.cntcm 6", items.ErrOverflow},
		{"DECRBY 1.cntcm -9223372036854775808", "ERR decrement would overflow"}, {"EXPIRE 1.cntcm 10", "ERR counters do not expire"},
		{"INCREX 1.cntcm EX 5", "ERR counters do not expire: INCREX takes "}, {"INCREX 1.cntcm BYFLOAT 1", "ERR counters are whole numbers: INCREX takes "},
		{"INCREX 1.cntcm LBOUND 2 UBOUND 1", "ERR LBOUND can't be greater than UBOUND"}, {"INCREX 1.cntcm ENX", "ERR ENX flag requires an expiration"},
		{"COUNTER.HOT weibo COUNT x", "ERR COUNT: want 1 to 1024"},
		{"OBJECT IDLETIME 1.cntcm", "ERR idle times are not tracked"}, {"OBJECT FREQ 1.cntcm", "ERR An LFU maxmemory policy is not selected"},
		{"ADD COLUMN weibo x", "ERR "}, {"DROP COUNTER nosuch", "ERR "}, {"FLUSHALL NOW", items.ErrSyntax},
		{"CLUSTER INFO", "ERR This instance has cluster support disabled"}, {"SHUTDOWN ABORT", "ERR No shutdown in progress."},
		{"LATENCY GRAPH x", "ERR No samples available for event 'x'"}, {"SLOWLOG GET 1 2", "ERR wrong number of arguments for 'slowlog|get'"},
		{"SLOWLOG GET -2", "ERR count should be greater than or equal to -1"}, {"PING a b", "ERR wrong number of arguments for 'ping'"},
		{"SELECT 1", "ERR DB index is out of range"}, {"SELECT x", items.ErrNotInteger}, {"HELLO x", "ERR Protocol version is not an integer"},
		{"HELLO 9", "NOPROTO "}, {"HELLO 2 X", "ERR Syntax error in HELLO option 'X'"}, {"AUTH x", "ERR AUTH <password> called without any password"},
		{"AUTH nobody x", "WRONGPASS "}, {"CLIENT LIST ID x", "ERR Invalid client ID"}, {"CLIENT SETINFO x y", "ERR Unrecognized option 'x'"},
		{"CLIENT CACHING YES", "ERR CLIENT CACHING can be called only when"}, {"CLIENT TRACKING ON REDIRECT 77777", "ERR The client ID you want redirect to does not exist"},
		{"CLIENT TRACKING ON PREFIX a", "ERR PREFIX option requires BCAST mode to be enabled"}, {"CLIENT TRACKING ON BCAST OPTIN", "ERR OPTIN and OPTOUT are not compatible with BCAST"},
		{"CLIENT TRACKING ON OPTIN OPTOUT", "ERR You can't specify both OPTIN mode and OPTOUT mode"}, {"CLIENT TRACKING ON BCAST PREFIX a PREFIX ab", "ERR Prefix 'a' overlaps with another"},
		{"CLIENT KILL 1.2.3.4:5", "ERR No such client"}, {"CLIENT UNBLOCK 1 a b", "ERR wrong number of arguments for 'client|unblock'"},
		{"CLIENT UNBLOCK 1 X", "ERR CLIENT UNBLOCK reason should be"}, {"CLIENT LIST TYPE x", "ERR Unknown client type 'x'"},
		{"CLIENT KILL ID 0", "ERR client-id should be greater than 0"}, {"CLIENT KILL USER x", "ERR No such user 'x'"},
		{"CLIENT KILL MAXAGE x", "ERR maxage is not an integer"}, {"CLIENT KILL MAXAGE 0", "ERR maxage should be greater than 0"},
		{"CLIENT PAUSE 10 NONE", "ERR CLIENT PAUSE mode must be WRITE or ALL"}, {"CLIENT PAUSE 10 ALL x", "ERR unknown subcommand or wrong number of arguments for 'PAUSE'"},
		{"CLIENT PAUSE x", "ERR timeout is not an integer or out of range"}, {"CLIENT PAUSE -1", "ERR timeout is negative"},
		{"CONFIG SET hz 1 hz 2", "ERR CONFIG SET failed (possibly related to argument 'hz') - duplicate parameter"}, {"CONFIG SET nosuch 1", "ERR "},
		{"CONFIG SET maxmemory 100 loglevel nosuch", "ERR CONFIG SET failed"}, {"CONFIG REWRITE", "ERR The server is running without a config file"},
		{"EXEC", "ERR EXEC without MULTI"}, {"DISCARD", "ERR DISCARD without MULTI"},
		{"SUBSCRIBE " + long, "ERR names of channels and patterns have at most "}, {"PUBSUB CHANNELS a b", items.ErrSyntax},
		{"FAILOVER ABORT", "ERR No failover in progress."}, {"FAILOVER TIMEOUT 0", "ERR FAILOVER timeout must be greater than 0"},
		{"REPLICAOF h x", "ERR Invalid master port"}, {"REPLICAOF " + long + " 1", "ERR Invalid master host"}, {"REPLICAOF h 1", items.ErrMemoryOnly}, {"REPLICAOF h 0", "ERR Invalid master host or port: "},
		{"WAIT x 1", items.ErrNotInteger}, {"WAIT 1 x", "ERR timeout is not an integer or out of range"}, {"WAITAOF 2 0 0", "ERR value is out of range, value must between 0 and 1"},
		{"WAITAOF 0 -1 0", "ERR value is out of range, must be positive"}, {"WAITAOF 1 0 0", "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."},
		{"SAVE", items.ErrMemoryOnly}, {"BGSAVE", items.ErrMemoryOnly}, {"BGSAVE NOW", items.ErrSyntax}, {"SHUTDOWN SAVE", items.ErrMemoryOnly},
		{"SYNC", items.ErrMemoryOnly}, {"PSYNC ? -1", "ERR this is counterd: a Redis server cannot replicate from it"},
		{"REPLCONF a", items.ErrSyntax}, {"REPLCONF last-frames a 1", "ERR this node does not wait for a primary with a whole log that it cannot open"}, {"REPLCONF nosuch 1", "ERR unrecognized REPLCONF option"}, {"REPLCONF listening-port x", "ERR value is not an integer"},
		{"REPLCONF ip-address a,b", "ERR REPLCONF ip-address provided by replica instance is invalid"},
		{"REPLCONF process " + long, "ERR REPLCONF process is longer than 128 bytes"}, {"REPLCONF fetch hot x", "ERR no snapshot was announced: send PSYNC before"}, {"REPLCONF verify cold x", "ERR no snapshot was announced: send PSYNC before"},
	} {
		conn := wireDial(p, s, 2)
		p.refused(s, conn, c[0], c[1])
		conn.conn.Close()
	}
	for i := range 51 { // 51,000 posts have 102,000 numbers
		args := []string{"MSET"}
		for k := range 1000 {
			args = append(args, fmt.Sprintf("%d.cntcm", 1000+i*1000+k), "1")
		}
		if got := w.sendArgs(args...); got != "+OK" {
			p.Fatal(got)
		}
	}
	p.refused(s, wireDial(p, s, 2), "KEYS *.*", "ERR KEYS examines at most ")
	c := wireDial(p, s, 2)
	c.want("MULTI", "+OK")
	c.want("KEYS x", "+QUEUED")
	p.heard(c.do("EXEC").List[0].String(), "ERR KEYS in a transaction")
}

// provokeByConversation: errors of a command at its place in a conversation.
func provokeByConversation(p provoker) {
	s := wireServe(p.T, func(c *config.Config) { c.ConfigFile = filepath.Join(p.TempDir(), "no", "such", "file") })
	w := wireDial(p, s, 2)
	w.want("SET 1.cntcm 5", "+OK")
	start := func(commands ...string) *wireClient {
		c := wireDial(p, s, 2)
		for _, command := range commands {
			if v := c.do(command); v.Kind == '-' {
				p.Fatalf("%s: %s", command, v)
			}
		}
		return c
	}
	p.refused(s, start("MULTI"), "MULTI", "ERR MULTI calls can not be nested")
	p.refused(s, start("MULTI"), "SUBSCRIBE a", "ERR Command not allowed inside a transaction")
	p.refused(s, start("MULTI"), "WATCH 1.cntcm", "ERR WATCH inside MULTI is not allowed")
	p.refused(s, start("SUBSCRIBE a"), "INCR 1.cntcm", "ERR Can't execute 'incr': ")
	p.refused(s, start("SUBSCRIBE a"), "EXEC", "EXECABORT Transaction discarded because of: Can't execute 'exec': ")
	p.refused(s, w, "CONFIG REWRITE", "ERR Rewriting config file: ")

	p.refused(s, start("CLIENT TRACKING ON OPTIN"), "CLIENT TRACKING ON OPTOUT", "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking")
	p.refused(s, start("CLIENT TRACKING ON OPTIN"), "CLIENT CACHING NO", "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	p.refused(s, start("CLIENT TRACKING ON OPTOUT"), "CLIENT CACHING YES", "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	p.refused(s, start("CLIENT TRACKING ON BCAST"), "CLIENT TRACKING ON", "ERR You can't switch BCAST mode on/off before disabling tracking")
	p.refused(s, start("CLIENT TRACKING ON BCAST PREFIX a"), "CLIENT TRACKING ON BCAST PREFIX ab", "ERR Prefix 'ab' overlaps with an existing prefix 'a'")
	id := fmt.Sprint(" REDIRECT ", w.do("CLIENT ID").N)
	p.refused(s, w, "CLIENT TRACKING ON"+id+id, "ERR A client can only redirect to a single other client")

	c := start("MULTI", "INCR 1.cntcm")
	p.refused(s, c, "NOSUCH", "ERR unknown command")
	p.refused(s, c, "EXEC", "EXECABORT Transaction discarded because of previous errors.")
	c = start("MULTI", "INCR 1.cntcm")
	p.refused(s, c, "EXEC 1", "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec'")

	c = start("MULTI", "INCR 1.cntcm")
	p.unchanged(s, "a transaction that is too large", func() {
		echo := strings.Repeat("x", 1<<20-1)
		reply := "+QUEUED"
		for i := 0; reply == "+QUEUED" && i < 17; i++ {
			reply = c.sendArgs("ECHO", echo)
		}
		p.heard(reply, "ERR transaction is larger than 16 MiB")
		p.heard(c.do("EXEC").String(), "EXECABORT ")
	})
	c = start()
	p.unchanged(s, "WATCH of too much", func() {
		args := []string{"WATCH"}
		for i := range 5000 {
			args = append(args, fmt.Sprintf("%d.cntcm", i))
		}
		p.heard(c.sendArgs(args...), "ERR too many keys are watched")
	})
	if connections, items := s.watches.Len(); connections != 0 || items != 0 {
		p.Errorf("%d connections watch %d items after a WATCH that was refused", connections, items)
	}
	p.unchanged(s, "CLIENT SETNAME", func() { p.heard(c.sendArgs("CLIENT", "SETNAME", "a b"), "ERR Client names cannot contain ") })
	p.unchanged(s, "CLIENT SETINFO", func() { p.heard(c.sendArgs("CLIENT", "SETINFO", "LIB-NAME", "a b"), "ERR LIB-NAME cannot contain ") })
	p.unchanged(s, "what is no command", func() {
		_, _ = io.WriteString(c.conn, "INCR 1.cntcm\r\n*1\r\n$-5\r\n*2\r\n$4\r\nINCR\r\n$7\r\n1.cntcm\r\n")
		c.read()
		p.heard(c.read().String(), "ERR Protocol error")
		c.ended()
		w.want("DECR 1.cntcm", ":5")
	})
}

// provokeAdmission: errors about the right to connect and the rights of users.
func provokeAdmission(p provoker) {
	s := wireServe(p.T, func(c *config.Config) { c.MaxClients, c.RequirePass = 1, "secret" })
	w := wireDial(p, s, 2)
	p.refused(s, w, "INCR 1.cntcm", "NOAUTH Authentication required.")
	p.refused(s, w, "CONFIG NOSUCH", "NOAUTH Authentication required.")
	p.refused(s, w, "EXEC", "EXECABORT Transaction discarded because of: NOAUTH ")
	p.refused(s, w, "HELLO 3", "NOAUTH HELLO must be called")
	p.refused(s, w, "AUTH wrong", "WRONGPASS ")
	p.refused(s, w, "HELLO 3 AUTH default wrong", "WRONGPASS ")
	for _, hello := range []string{"HELLO 3 AUTH default secret SETNAME a\x01", "HELLO 3 SETNAME a\x01 AUTH default secret"} {
		p.refused(s, w, hello, "ERR Client names cannot contain ")
		w.want("PING", "-NOAUTH Authentication required.") // and its user has no right to be here
	}
	p.refused(s, w, "HELLO 3 AUTH default secret SETNAME me X", "ERR Syntax error in HELLO option 'X'")
	w.want("PING", "-NOAUTH Authentication required.")
	w.want("AUTH secret", "+OK")
	w.want("INCR 1.cntcm", ":1")
	second, err := net.Dial("unix", s.config.Get().UnixSocket)
	if err != nil {
		p.Fatal(err)
	}
	defer second.Close()
	_ = second.SetDeadline(time.Now().Add(patience))
	p.unchanged(s, "a connection too many", func() {
		v, err := resptest.Read(bufio.NewReader(second), 2)
		if err != nil {
			p.Fatal(err)
		}
		if p.heard(v.String(), "ERR max number of clients reached") != errclass.Transient {
			p.Error("who came too late is not told to come again")
		}
	})

}

// provokeUsers: errors about rights of users, and invalid rules.
func provokeUsers(p provoker) {
	s := wireServe(p.T, nil)
	admin, w := wireDial(p, s, 2), wireDial(p, s, 2)
	admin.want("ACL SETUSER few on nopass ~*.cntcm &news +@all -del", "+OK")
	w.want("AUTH few x", "+OK")
	p.refused(s, w, "DEL 1", "NOPERM User few has no permissions to run the 'del' command")
	p.refused(s, w, "INCR 1.cntrn", "NOPERM No permissions to access a key")
	p.refused(s, w, "FLUSHALL", "NOPERM No permissions to access a key")
	p.refused(s, w, "PUBLISH olds x", "NOPERM No permissions to access a channel")
	w.want("MULTI", "+OK")
	w.want("INCR 1.cntcm", `+QUEUED`)
	w.want("PUBLISH news x", `+QUEUED`)
	w.want("GET 1.cntcm", `+QUEUED`)
	admin.want("ACL SETUSER few resetkeys resetchannels -get", "+OK")
	p.unchanged(s, "EXEC", func() {
		for _, v := range w.do("EXEC").List {
			p.heard(v.String(), "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. ")
		}
	})
	for _, c := range [][2]string{
		{"ACL SETUSER a nosense", "ERR Error in ACL SETUSER modifier 'n...': Syntax error"}, {"ACL SETUSER a (+get", "ERR Unmatched parenthesis in acl selector"},
		{"ACL SETUSER a +nosuch", "ERR Error in ACL SETUSER modifier '+nosuch': Unknown command"}, {"ACL SETUSER 'a on", "ERR a user name cannot begin with a quote"},
		{"ACL DELUSER default", "ERR The 'default' user cannot be removed"}, {"ACL DRYRUN nobody GET 1", "ERR User 'nobody' not found"},
		{"ACL DRYRUN few NOSUCH", "ERR Command 'NOSUCH' not found"}, {"ACL DRYRUN few GET", "ERR wrong number of arguments for 'get' command"},
		{"ACL LOG 1 2", "ERR wrong number of arguments for 'acl|log' command"}, {"ACL LOG x", items.ErrNotInteger},
		{"ACL GENPASS 1 2", "ERR wrong number of arguments for 'acl|genpass' command"}, {"ACL GENPASS x", items.ErrNotInteger},
		{"ACL GENPASS 4097", "ERR ACL GENPASS argument must be the number of bits"}, {"ACL LOAD", acl.ErrNoFile}, {"ACL SAVE", acl.ErrNoFile},
	} {
		p.refused(s, admin, c[0], c[1])
	}
	dir := p.TempDir()
	file := filepath.Join(dir, "gone", "users.acl")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("user a on\nuser b >secret nosense\n"), 0o600)); err != nil {
		p.Fatal(err)
	}
	conf := s.config.Get()
	conf.ACLFile = file
	if _, err := New(conf, slog.New(slog.DiscardHandler), new(slog.LevelVar)); err == nil || !strings.Contains(err.Error(), file+":2: ") || strings.Contains(err.Error(), "secret") {
		p.Errorf("a file with a fault at the start: %v", err)
	}
	if err := os.WriteFile(file, []byte("user a on\n"), 0o600); err != nil {
		p.Fatal(err)
	}
	s = wireServe(p.T, func(c *config.Config) { c.ACLFile = file })
	admin = wireDial(p, s, 2)
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		p.Fatal(err)
	}
	p.refused(s, admin, "ACL LOAD", "ERR Error loading ACLs, opening file '")
	p.refused(s, admin, "ACL SAVE", "ERR There was an error trying to save the ACLs.")
}

// provokeNumbered: commands with a number that are not made, and repeats that cannot be answered.
func provokeNumbered(p provoker) {
	s, _ := faultyServe(p, counter.Options{})
	c := wireDial(p, s, 2)
	c.want("INCR 1.cntcm IDMP p 1", ":1")
	c.want("INCR 1.cntcm IDMP p 1", ":1")
	for _, e := range [][2]string{
		{"INCRBY 1.cntcm 2 IDMP p 1", "IDMPMISMATCH "}, {"INCR 1.cntcm IDMP " + strings.Repeat("p", 33) + " 1", "ERR IDMP: want a producer"},
		{"INCR 1.cntcm IDMP p x", "ERR IDMP: want a sequence number"}, {"INCR 1.cntcm IDMP p 2 EPOCH x", "ERR IDMP: want an epoch"},
		{"INCR nosuch IDMP p 2", "ERR no counter for key"}, {"DECRBY 1.cntcm 2 IDMP p 2", items.ErrOverflow},
	} {
		p.refused(s, c, e[0], e[1])
	}
	c.want("INCR 1.cntcm IDMP p 2", ":2") // a refused command takes no number

	c.want("MULTI", "+OK")
	p.refused(s, c, "INCR 1.cntcm IDMP p 4", "ERR IDMP: in a transaction EXEC takes the number")
	c.want("DISCARD", "+OK")
	c.want("MULTI", "+OK")
	c.want("PING", "+QUEUED")
	p.refused(s, c, "EXEC IDMP p 5", "EXECABORT Transaction discarded because of: IDMP: a numbered transaction accepts commands on posts only")
	c.do("DISCARD")

	// More changes than one frame of the log is sure to hold, of keys that there are not.
	c.want("MULTI", "+OK")
	c.want("DEL 1.cntcm", "+QUEUED")
	for range 3 {
		if got := c.sendArgs(append([]string{"DEL"}, slices.Repeat([]string{"5"}, 50_000)...)...); got != "+QUEUED" {
			p.Fatal(got)
		}
	}
	p.refused(s, c, "EXEC IDMP p 6", "EXECABORT Transaction discarded because of: IDMP: a numbered transaction makes changes of at most")
	c.want("GET 1.cntcm", `"2"`)

	exec := func() string {
		c.want("MULTI", "+OK")
		get := []string{"COUNTER.MGET", "weibo"}
		for i := range 500 {
			get = append(get, fmt.Sprint(4000+i))
		}
		for range 40 {
			if got := c.sendArgs(get...); got != "+QUEUED" {
				p.Fatal(got)
			}
		}
		c.want("INCR 3.cntcm", "+QUEUED")
		return c.do("EXEC IDMP long 1").String()
	}
	for i := range 500 {
		c.want(fmt.Sprintf("SET %d.cntcm 1000000", 4000+i), "+OK")
	}
	if got := exec(); strings.HasPrefix(got, "-") {
		p.Fatal(got)
	}
	p.unchanged(s, "a repeat", func() {
		if p.heard(exec(), "IDMPEXPIRED the change was made; its reply") != errclass.InDoubt {
			p.Error("what was made is not in doubt")
		}
	})
	for i := range 700 { // far from each other: fewer are remembered
		c.want(fmt.Sprintf("INCR 1.cntcm IDMP p %d", 10+1000*i), fmt.Sprintf(":%d", 3+i))
	}
	p.unchanged(s, "a number that is too old", func() {
		if p.heard(c.do("INCR 1.cntcm IDMP p 1").String(), "IDMPEXPIRED") != errclass.InDoubt {
			p.Error("what an earlier try may have made is not in doubt")
		}
	})
	c.want("IDMP FENCE p", ":1")
	p.refused(s, c, "INCR 1.cntcm IDMP p 999999", "IDMPFENCED")
	c.want("CLIENT IDMP q 18446744073709551615", "+OK")
	c.want("INCR 1.cntcm", ":703")
	p.refused(s, c, "INCR 1.cntcm", "ERR IDMP: the sequence numbers are used up")
	c.want("CLIENT IDMP OFF", "+OK")
	c.want("CONFIG SET idmp-max-producers 3", "+OK")
	p.refused(s, c, "INCR 1.cntcm IDMP another 1", "IDMPFULL")
	c.want("CONFIG SET idmp-max-producers 100", "+OK")
	c.want("INCR 1.cntcm IDMP another 1", ":704")
}

// provokeReaders: the port for reads.
func provokeReaders(p provoker) {
	s := wireServe(p.T, func(c *config.Config) { c.ReadonlyPort = freeport.Take(p) })
	wireDial(p, s, 2).want("SET 1.cntcm 5", "+OK")
	c := readerDial(p, s, 2)
	for _, change := range changes {
		if class, _ := errclass.Of(readerRefuses); class != errclass.Permanent {
			p.Error("a change that this port never takes may be sent again")
		}
		p.refused(s, c, change, readerRefuses[1:])
	}
	for _, command := range []string{"CONFIG GET port", "PUBLISH a b", "SAVE", "REPLICAOF NO ONE"} {
		p.refused(s, c, command, "NOPERM This port is for reads only: '")
	}
}

// provokeQueries: conditions that are none.
func provokeQueries(p provoker) {
	s := wireServe(p.T, nil)
	c := wireDial(p, s, 2)
	c.want("SET 1.cntcm 5", "+OK")
	for _, query := range []string{"COUNTER.FIND nosuch", "COUNTER.FIND weibo MID", "COUNTER.FIND weibo WHERE nosuch = 1", "COUNTER.FIND weibo LIMIT 99999999", "COUNTER.FIND weibo CURSOR x",
		"COUNTER.TOP weibo comment x", "COUNTER.SUM weibo nosuch", "COUNTER.UPDATE weibo WHERE comment = 5", "COUNTER.UPDATE weibo SET nosuch 1", "COUNTER.UPDATE weibo SET comment 99999999999",
		"COUNTER.UPDATE weibo DEL RETURNING NEW", "COUNTER.UPDATE weibo SET comment 7 LIMIT x"} {
		p.refused(s, c, query, "ERR ")
	}
	for mid := range counter.MaxGathered + 1 { // more than one change may have
		if err := s.Store().Set(fmt.Sprintf("%d.cntcm", mid), 1); err != nil {
			p.Fatal(err)
		}
	}
	p.refused(s, c, "COUNTER.UPDATE weibo SET comment 7 IDMP p 1", "ERR more than 10000 posts match the conditions")
	c.want("MULTI", "+OK")
	p.refused(s, c, "COUNTER.UPDATE weibo SET comment 7", "ERR ")
}

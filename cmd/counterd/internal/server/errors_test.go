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
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/node"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/persist/vfs"
)

// provoker provokes errors, and remembers what was said.
type provoker struct {
	*testing.T
	said *[]string
}

// heard checks that a reply is an error that begins with want, and of a class.
func (p provoker) heard(reply, want string) errclass.Class {
	p.Helper()
	class, ok := errclass.Of(reply)
	if !ok || !strings.HasPrefix(reply, "-"+want) {
		p.Errorf("got %s (of a class: %v), want -%s", reply, ok, want)
	}
	*p.said = append(*p.said, strings.TrimPrefix(reply, "-"))
	return class
}

// values are all values of a store, and its schema, as a text.
func values(t testing.TB, s *counter.Store) string {
	t.Helper()
	text := s.Schema().String()
	for _, def := range s.Schema().Counters() {
		sums, err := s.Admin().Digests(def.Name, 0, 1<<63, 1)
		if err != nil {
			t.Fatal(err)
		}
		text += def.Name + " " + sums[0].String() + "\n"
	}
	return text
}

// unchanged calls do, which must not change a value of the server's store.
func (p provoker) unchanged(s *Server, what string, do func()) {
	p.Helper()
	before := values(p, s.Store())
	do()
	if after := values(p, s.Store()); after != before {
		p.Errorf("%s was refused and changed something:\n%s%s", what, before, after)
	}
}

// refused sends a command, its words parted by blanks, that must be answered by an error of class Permanent or
// Transient, and change nothing.
func (p provoker) refused(s *Server, c *wireClient, command, want string) {
	p.Helper()
	p.unchanged(s, command, func() {
		p.Helper()
		if p.heard(c.do(command).String(), want) == errclass.InDoubt {
			p.Errorf("%s: %s is no refusal", command, want)
		}
	})
}

// unreachable are errors that no connection of this test can be answered.
var unreachable = []string{
	"ERR the log is streamed on this connection already", // one that carries the log may send REPLCONF only
	"ERR there is no snapshot and the log begins at ",    // no store opens so
	"DENIED counterd is running in protected mode: there is no password and this connection does not come from the machine itself. ", // package front's test
	"ERR IDMP: a command with a number changes at most ",                                                                             // 139,000 keys: more than a command has arguments
	"LOADING the server, or the connection, ends",                                                                                    // who would read it has gone
	"IDMPEXPIRED the change was made; what it was answered is kept in a form that this version does not know",
	"ERR this port speaks TLS alone: connect by TLS (redis-cli --tls, rediss://), or to another port", // package front's test
	"WRONGPASS a user's name and password are wanted, those of AUTH",                                  // of HTTP: package web's test
	"NOPERM this user may not run ",
}

// TestErrors provokes every error that the server's code can send, with the fault injected that it tells of: it has a
// class, and where that is a refusal, no value of the store is another one afterwards. An error that is in the source
// and was not provoked is a fault of this test.
func TestErrors(t *testing.T) {
	var said []string
	ran := 0
	parts := []struct {
		name string
		run  func(provoker)
	}{
		{"arguments", provokeByArguments}, {"conversation", provokeByConversation}, {"admission", provokeAdmission}, {"loading", provokeLoading},
		{"disk", provokeDisk}, {"snapshots", provokeSnapshots}, {"uncertain", provokeUncertain}, {"cold", provokeCold}, {"memory", provokeMemory},
		{"wait", provokeWait}, {"roles", provokeRoles}, {"failover", provokeFailover}, {"sentinel", provokeSentinel}, {"replicas", provokeReplicas},
		{"numbered", provokeNumbered}, {"readers", provokeReaders}, {"cluster", provokeCluster}, {"forward", provokeForward}, {"joined", provokeJoined}, {"queries", provokeQueries}, {"users", provokeUsers},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			part.run(provoker{t, &said})
			ran++
		})
	}
	literals := errorLiterals(t)
	if ran < len(parts) {
		return
	}
	for _, l := range literals {
		named := strings.HasPrefix(l.where, "../nodes/cluster/") // of a Standing, whose texts are passed on as they are
		for _, text := range said {
			if reason, ok := strings.CutPrefix(text, "EXECABORT Transaction discarded because of: "); ok && strings.HasPrefix("ERR "+reason, l.text) {
				named = true
			}
			named = named || strings.HasPrefix(text, l.text)
		}
		if !named && !slices.Contains(unreachable, l.text) {
			t.Errorf("%s: %q was not provoked", l.where, l.text)
		}
	}
}

// provokeByArguments: what is wrong with a command by itself.
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
		{"REPLCONF a", items.ErrSyntax}, {"REPLCONF nosuch 1", "ERR unrecognized REPLCONF option"}, {"REPLCONF listening-port x", "ERR value is not an integer"},
		{"REPLCONF ip-address a,b", "ERR REPLCONF ip-address provided by replica instance is invalid"},
		{"REPLCONF process " + long, "ERR REPLCONF process is longer than 128 bytes"}, {"REPLCONF fetch hot x", "ERR no snapshot was announced: send PSYNC before"},
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
	p.refused(s, wireDial(p, s, 2), "KEYS *.*", "ERR KEYS looks at ")
	c := wireDial(p, s, 2)
	c.want("MULTI", "+OK")
	c.want("KEYS x", "+QUEUED")
	p.heard(c.do("EXEC").List[0].String(), "ERR KEYS in a transaction")
}

// provokeByConversation: what is wrong with a command where it stands.
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

// provokeAdmission: who may connect, and who may do what.
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
		w.want("PING", "-NOAUTH Authentication required.") // and it is none who may be here
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

// provokeUsers: what users may not do, and what they cannot be.
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
		{"ACL SETUSER a +nosuch", "ERR Error in ACL SETUSER modifier '+nosuch': Unknown command"}, {"ACL SETUSER 'a on", "ERR a user's name does not begin with a quote"},
		{"ACL DELUSER default", "ERR The 'default' user cannot be removed"}, {"ACL DRYRUN nobody GET 1", "ERR User 'nobody' not found"},
		{"ACL DRYRUN few NOSUCH", "ERR Command 'NOSUCH' not found"}, {"ACL DRYRUN few GET", "ERR wrong number of arguments for 'get' command"},
		{"ACL LOG 1 2", "ERR wrong number of arguments for 'acl|log' command"}, {"ACL LOG x", items.ErrNotInteger},
		{"ACL GENPASS 1 2", "ERR wrong number of arguments for 'acl|genpass' command"}, {"ACL GENPASS x", items.ErrNotInteger},
		{"ACL GENPASS 4097", "ERR ACL GENPASS argument must be the number of bits"}, {"ACL LOAD", errNoACLFile}, {"ACL SAVE", errNoACLFile},
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

// provokeLoading: while there is no store, and while one is exchanged for another.
func provokeLoading(p provoker) {
	a := newReplNode(p.T).start("")
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	before := values(p, a.srv.Store())
	if err := a.srv.node.Reopen(func(string) error {
		c := a.dial()
		for _, command := range []string{"INCR 1.cntcm", "MSET 1.cntcm 1 2.cntcm 1", "FLUSHALL", "SAVE", "ADD COUNTER x"} {
			p.heard(c.do(command).String(), items.ErrLoading)
		}
		p.heard(c.do("REPLCONF listening-port 1").String(), items.ErrLoading)
		return nil
	}); err != nil {
		p.Fatal(err)
	}
	if after := values(p, a.srv.Store()); after != before {
		p.Errorf("values were\n%s and are\n%s", before, after)
	}
	w.want("INCR 1.cntcm", ":6")

	// One that is being closed is as good as none.
	s := wireServe(p.T, nil)
	c, first := wireDial(p, s, 2), s.Store()
	c.want("SET 1.cntcm 5", "+OK")
	second, err := counter.Open("", counter.Options{})
	if err == nil {
		err = second.Close()
	}
	if err != nil {
		p.Fatal(err)
	}
	before = values(p, first)
	s.current.Store(second)
	for _, command := range []string{"INCR 1.cntcm", "GET 1.cntcm", "SCAN 0", "DBSIZE", "FLUSHALL", "ADD COUNTER x", "COUNTER.DIGEST weibo"} {
		if p.heard(c.do(command).String(), "") != errclass.Transient {
			p.Errorf("%s of a store that was closed is not told to be sent again", command)
		}
	}
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntcm", "+QUEUED")
	p.heard(c.do("EXEC").String(), items.ErrLoading)
	s.current.Store(first)
	if after := values(p, first); after != before {
		p.Errorf("values were\n%s and are\n%s", before, after)
	}
	c.want("INCR 1.cntcm", ":6")
}

// faultyServe starts a server on a disk whose faults the test makes.
func faultyServe(p provoker, options counter.Options) (*Server, *vfs.Faulty) {
	faulty := vfs.NewFaulty(vfs.OS())
	options.FS, options.SnapshotGrowth = faulty, -1
	s := wireServeStore(p.T, p.TempDir(), options, nil)
	p.Cleanup(faulty.Clear)
	return s, faulty
}

// changes are commands that change a post, one of each kind.
var changes = []string{"INCR 1.cntcm", "DECR 1.cntcm", "SET 1.cntcm 9", "SETNX 9.cntcm 1", "GETSET 1.cntcm 9", "GETDEL 1.cntcm", "MSET 1.cntcm 9 9.cntcm 9", "HSET 1 comment 9 repost 9",
	"HSETNX 9 comment 1", "HINCRBY 1 comment 1", "HDEL 1 comment", "DEL 1", "DEL 1.cntcm", "UNLINK 1 2", "FLUSHALL", "ADD COUNTER x", "DROP COLUMN weibo comment"}

// provokeDisk: a disk that takes no log. The change that meets the fault is in doubt, what comes behind it is refused.
func provokeDisk(p provoker) {
	s, faulty := faultyServe(p, counter.Options{})
	c := wireDial(p, s, 2)
	for _, set := range []string{"SET 1.cntcm 5", "SET 1.cntrn 5", "SET 2.cntcm 5"} {
		c.want(set, "+OK")
	}
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
	n := 5
	until(p.T, "changes are refused", func() bool {
		reply := c.do("INCR 1.cntcm").String()
		if strings.HasPrefix(reply, "-MISCONF ") {
			return true
		}
		n++
		return p.heard(reply, "UNCERTAIN ") != errclass.InDoubt // fails above
	})
	for _, change := range changes {
		p.refused(s, c, change, "MISCONF Errors writing to the AOF file: ")
	}
	p.refused(s, c, "COUNTER.MINCRBY 1.cntcm 1 9.cntcm 1", "MISCONF ")
	c.want("MULTI", "+OK")
	c.want("GET 1.cntcm", "+QUEUED")
	c.want("INCR 1.cntcm", "+QUEUED")
	p.refused(s, c, "EXEC", "EXECABORT Transaction discarded because of: MISCONF ")
	c.want("GET 2.cntcm", `"5"`)
	if class := p.heard(c.do("WAIT 0 1").String(), "UNCERTAIN "); class != errclass.InDoubt { // changes before it are not safe
		p.Errorf("WAIT: %v", class)
	}
	p.heard(c.do("WAITAOF 1 0 1").String(), "UNCERTAIN ")
	p.heard(c.do("WAITAOF 0 0 1").String(), "UNCERTAIN ")
	faulty.Clear()
	until(p.T, "the same command is taken", func() bool { return c.do("INCR 1.cntcm").String() == fmt.Sprintf(":%d", n+1) })
}

// provokeUncertain: every change that the log does not take after it was made is answered by UNCERTAIN, and stays.
func provokeUncertain(p provoker) {
	for _, change := range append([]string{"MULTI", "COUNTER.MINCRBY 1.cntcm 1 9.cntcm 1"}, changes...) {
		s, faulty := faultyServe(p, counter.Options{AppendFsync: counter.SyncAlways})
		c := wireDial(p, s, 2)
		for _, set := range []string{"SET 1.cntcm 5", "SET 1.cntrn 5", "SET 2.cntcm 5"} {
			c.want(set, "+OK")
		}
		if change == "MULTI" {
			c.want("MULTI", "+OK")
			c.want("INCR 1.cntcm", "+QUEUED")
			c.want("GET 1.cntcm", "+QUEUED")
			change = "EXEC"
		}
		before := values(p, s.Store())
		faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
		if p.heard(c.do(change).String(), "UNCERTAIN ") != errclass.InDoubt {
			p.Errorf("%s is not in doubt", change)
		}
		if after := values(p, s.Store()); after == before {
			p.Errorf("%s: UNCERTAIN, and nothing was changed", change)
		}
		faulty.Clear()
		until(p.T, "changes are taken", func() bool { return c.do("SET 7.cntrn 1").String() == "+OK" })
	}
}

// provokeSnapshots: snapshots that fail, or are being made.
func provokeSnapshots(p provoker) {
	s, faulty := faultyServe(p, counter.Options{})
	c := wireDial(p, s, 2)
	c.want("SET 1.cntcm 5", "+OK")
	faulty.Inject(vfs.Rule{Ops: vfs.OpRename, Glob: "MANIFEST-*", Every: 1, Err: syscall.EIO})
	p.refused(s, c, "SAVE", "ERR ")
	p.refused(s, c, "SHUTDOWN SAVE", "ERR Errors trying to SHUTDOWN. Check logs.")
	faulty.Clear()
	c.want("SAVE", "+OK")

	waiting, gate := new(atomic.Int64), new(atomic.Pointer[chan struct{}])
	s = wireServeStore(p.T, p.TempDir(), counter.Options{FS: gatedFS{vfs.OS(), waiting, gate}, SnapshotGrowth: -1, AppendFsync: counter.SyncNo}, nil)
	c = wireDial(p, s, 2)
	c.want("SET 1.cntcm 5", "+OK")
	hold := make(chan struct{})
	gate.Store(&hold)
	defer func() {
		gate.Store(nil)
		close(hold)
	}()
	c.want("BGSAVE", "+Background saving started")
	until(p.T, "a snapshot is being made", func() bool { return s.Store().Admin().Snapshots().Running && waiting.Load() > 0 })
	p.refused(s, c, "BGSAVE", "ERR Background save already in progress")
	p.refused(s, c, "SAVE", "ERR Background save already in progress")
	p.refused(s, c, "BGREWRITEAOF", "ERR Background append only file rewriting already in progress")
}

// provokeCold: a cold file that cannot be read.
func provokeCold(p provoker) {
	dir, options := p.TempDir(), counter.Options{BlockItems: 64, HashSeed: 1, SnapshotGrowth: -1}
	store, err := counter.Open(dir, options)
	if err == nil {
		err = store.AlterScript(wireSchema)
	}
	for i := 0; i < 1000 && err == nil; i++ {
		err = store.Set(fmt.Sprintf("%d.cntcm", i), 5)
	}
	if err == nil {
		err = store.Admin().Demote("weibo", 1)
	}
	if err == nil {
		err = store.Snapshot()
	}
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		p.Fatal(err)
	}
	faulty := vfs.NewFaulty(vfs.OS())
	faulty.Inject(vfs.Rule{Ops: vfs.OpRead, Glob: "*.cold", Every: 1, Err: syscall.EIO})
	options.FS = faulty
	s := wireServeStore(p.T, dir, options, nil)
	p.Cleanup(faulty.Clear)
	c := wireDial(p, s, 2)
	end := s.Store().Replication().Position()
	for _, command := range []string{"INCR 1.cntcm", "GET 1.cntcm", "HINCRBY 2 comment 1", "GETDEL 1.cntcm", "SET 1.cntcm 7 XX", "HGETALL 1", "SCAN 0",
		"HMGET 1 comment nosuch repost", "HVALS 1", "EXISTS 1 5000", "COUNTER.DRAIN 1.cntcm 2.cntcm", "HDEL 1 comment", "COUNTER.PROMOTE weibo 1", "COUNTER.DIGEST weibo"} {
		p.heard(c.do(command).String(), "IOERR ")
	}
	for _, command := range []string{"COUNTER.MGET weibo 1", "MGET 1.cntcm 5000.cntcm", "COUNTER.MINCRBY 1.cntcm 1"} {
		p.heard(c.do(command).List[0].String(), "IOERR ")
	}
	if now := s.Store().Replication().Position(); now != end {
		p.Errorf("what was refused is %d bytes of the log", now-end)
	}
	c.want("INCR 999.cntcm", ":6")
}

// provokeMemory: maxmemory is passed and cold ranges cannot be written.
func provokeMemory(p provoker) {
	racetest.Skip(p.T, "it fills memory, which takes ten times as long")
	s, faulty := faultyServe(p, counter.Options{BlockItems: 1 << 16})
	var script strings.Builder
	script.WriteString("add counter wide\n")
	for i := range 64 { // 512 bytes a post
		fmt.Fprintf(&script, "add column wide c%d hint=63 max=63\n", i)
	}
	if err := s.Store().AlterScript(script.String()); err != nil {
		p.Fatal(err)
	}
	c := wireDial(p, s, 2)
	c.want("SET 1.cntcm 5", "+OK")
	faulty.Inject(vfs.Rule{Ops: vfs.OpRename, Glob: "*.cold", Every: 1, Err: syscall.ENOSPC})
	// What settling cannot make smaller: Memory() may count a block twice meanwhile, and less once it has settled.
	wide, b := s.Store().Schema().Counter("wide"), s.Store().NewBatch()
	all := make([]int16, len(wide.Columns))
	for i := range all {
		all[i] = int16(i)
	}
	const posts, each = 150_000, 1000
	for mid := uint64(0); mid < posts; mid += each {
		if err := b.Begin(); err != nil {
			p.Fatal(err)
		}
		shape := b.Shape(all, each)
		for i := range uint64(each) {
			values := b.SetRow(wide, mid+i, shape)
			for k := range values {
				values[k] = 1<<62 + mid
			}
		}
		b.Run()
		b.End()
		if err := b.Commit(); err != nil {
			p.Fatal(err)
		}
		b.Reset()
	}
	multi := wireDial(p, s, 2)
	multi.want("MULTI", "+OK")
	multi.want("SET 9000.cntcm 1", "+QUEUED")
	c.want("CONFIG SET maxmemory 8mb", "+OK") // and 48 MiB more before changes are refused
	full := func() bool { return strings.Contains(c.do("INFO tiers").Text, "memory_refusing_writes:1") }
	until(p.T, "memory is full", func() bool { return s.Store().Crowded() || full() })
	if p.heard(multi.do("EXEC").List[0].String(), "OOM command not allowed: "); s.Store().Crowded() {
		p.Error("EXEC did not wait for room")
	}
	end := s.Store().Replication().Position() // to sum up so much takes seconds
	for _, command := range []string{"INCR 9000.cntcm", "SET 9000.cntcm 1", "MSET 1.cntcm 1 9000.cntcm 1", "HSET 9000 comment 1", "HSETNX 9000 comment 1"} {
		p.heard(c.do(command).String(), "OOM command not allowed: ")
	}
	if now := s.Store().Replication().Position(); now != end {
		p.Errorf("what was refused is %d bytes of the log", now-end)
	}
	c.want("EXISTS 9000", ":0")
	c.want("INCR 1.cntcm", ":6") // there is room for that
	faulty.Clear()
	until(p.T, "the same command is taken", func() bool { return c.do("INCR 9000.cntcm").String() == ":1" })
}

// provokeWait: WAIT that is ended, by a client and by the end of the role.
func provokeWait(p provoker) {
	a := newReplNode(p.T).start("")
	b := newReplNode(p.T).start(a.addr())
	until(p.T, "the replica follows", func() bool { return b.info("master_link_status") == "up" && a.dial().do("WAIT 1 100").N == 1 })
	w := a.dial()
	id := w.do("CLIENT ID").N
	w.send("WAIT 5 0")
	untilBlocked(p.T, a.srv, 1)
	p.unchanged(a.srv, "WAIT", func() {
		a.dial().want(fmt.Sprintf("CLIENT UNBLOCK %d ERROR", id), ":1")
		p.heard(w.read().String(), "UNBLOCKED client unblocked via CLIENT UNBLOCK")
		w.send("WAIT 5 0")
		untilBlocked(p.T, a.srv, 1)
		a.dial().want("FAILOVER", "+OK")
		p.heard(w.read().String(), "UNBLOCKED force unblock from blocking operation")
	})
	until(p.T, "the roles are exchanged", func() bool {
		return b.info("role") == "master" && a.info("master_link_status") == "up" && a.info("master_failover_state") == node.PhaseNone
	})
	r := a.dial()
	p.refused(a.srv, r, "WAIT 1 1", "ERR WAIT cannot be used with replica instances.")
	p.refused(a.srv, r, "WAITAOF 0 1 1", "ERR WAITAOF cannot be used with replica instances.")
	p.refused(a.srv, r, "FAILOVER", "ERR FAILOVER is not valid when server is a replica.")
	for _, change := range changes {
		p.refused(a.srv, r, change, items.ErrReadOnly)
	}
	r.want("MULTI", "+OK")
	p.refused(a.srv, r, "INCR 1.cntcm", items.ErrReadOnly)
	r.want("DISCARD", "+OK")
}

// provokeRoles: a replica without its primary, and a primary without replicas.
func provokeRoles(p provoker) {
	a := newReplNode(p.T).start("")
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	b := newReplNode(p.T).start(a.addr())
	until(p.T, "the replica follows", func() bool { return b.info("master_link_status") == "up" && b.dial().do("GET 1.cntcm").Text == "5" })
	w.want("MULTI", "+OK")
	w.want("INCR 1.cntcm", "+QUEUED")
	a.dial().want("CONFIG SET min-replicas-to-write 2", "+OK")
	p.refused(a.srv, w, "EXEC", "EXECABORT Transaction discarded because of: NOREPLICAS ")
	for _, change := range changes {
		p.refused(a.srv, w, change, "NOREPLICAS Not enough good replicas to write.")
	}
	w.want("CONFIG SET min-replicas-to-write 0", "+OK")
	w.want("INCR 1.cntcm", ":6")
	a.stop()
	until(p.T, "the link is down", func() bool { return b.info("master_link_status") == "down" })
	peer, r := b.dial(), b.dial()
	peer.want("REPLCONF listening-port 7 version counterd capa counterd1", "+OK")
	p.refused(b.srv, peer, "PSYNC ? -1", "NOMASTERLINK Can't SYNC while not connected")
	r.want("CONFIG SET replica-serve-stale-data no", "+OK")
	p.refused(b.srv, r, "GET 1.cntcm", "MASTERDOWN Link with MASTER is down")
	a.start("")
	until(p.T, "the same command is taken", func() bool { return r.do("GET 1.cntcm").String() == `"6"` })
}

// provokeFailover: FAILOVER, and what is refused while it is under way.
func provokeFailover(p provoker) {
	a := newReplNode(p.T).start("")
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	p.refused(a.srv, w, "FAILOVER", "ERR FAILOVER requires connected replicas.")
	nobody, err := net.Listen("tcp", "127.0.0.1:0") // takes connections once it is asked to
	if err != nil {
		p.Fatal(err)
	}
	defer nobody.Close()
	port := nobody.Addr().(*net.TCPAddr).Port
	to := fmt.Sprintf("TO 127.0.0.1 %d", port)
	copying := a.dial()
	copying.want("REPLCONF listening-port 7 ip-address 127.0.0.1 version counterd capa counterd1", "+OK")
	copying.send("PSYNC ? -1")
	until(p.T, "a replica copies", func() bool { return strings.Contains(a.dial().do("INFO replication").Text, "port=7,") })
	deafReplica(p.T, a, port)
	p.refused(a.srv, w, "FAILOVER TO 127.0.0.1 7", "ERR FAILOVER target replica is not online.")
	p.refused(a.srv, w, "FAILOVER TO 127.0.0.1 1", "ERR FAILOVER target HOST and PORT is not a replica.")
	p.refused(a.srv, w, "FAILOVER "+to+" FORCE", "ERR FAILOVER with force option requires both")
	w.want("INCR 1.cntcm", ":6") // the replica lacks it
	w.want("FAILOVER", "+OK")
	p.refused(a.srv, w, "FAILOVER", "ERR FAILOVER already in progress.")
	p.refused(a.srv, w, "REPLICAOF NO ONE", "ERR REPLICAOF not allowed while failing over.")
	w.want("FAILOVER ABORT", "+OK")
	until(p.T, "no failover", func() bool { return a.info("master_failover_state") == node.PhaseNone })
	w.want("FAILOVER "+to+" FORCE TIMEOUT 50", "+OK")
	conn, err := nobody.Accept()
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "*3\r\n" { // the role was given away before
		p.Fatalf("the target was told %q %v", line, err)
	}
	for _, change := range changes {
		p.refused(a.srv, w, change, items.ErrReadOnly)
	}
	w.want("FAILOVER ABORT", "+OK")
	until(p.T, "the same command is taken", func() bool { return w.do("INCR 1.cntcm").String() == ":7" })
}

// provokeSentinel: a primary that Sentinel watched, and one that it has replaced.
func provokeSentinel(p provoker) {
	a := newReplNode(p.T).start("")
	sentinel := a.dial()
	sentinel.want("CLIENT SETNAME sentinel-0123-cmd", "+OK")
	says := func(port, epoch int) {
		sentinel.want(fmt.Sprintf("PUBLISH __sentinel__:hello 127.0.0.1,26379,one,%d,mymaster,127.0.0.1,%d,%d", epoch, port, epoch), ":0")
	}
	says(a.port, 1)
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	says(1, 2)
	w = a.dial()
	for _, change := range changes {
		p.refused(a.srv, w, change, "READONLY Sentinel has named another node the primary")
	}
	w.want("REPLICAOF NO ONE", "+OK")
	w.want("INCR 1.cntcm", ":6")
	a.stop()
	a.start("")
	w = a.dial()
	for _, change := range changes {
		p.refused(a.srv, w, change, "READONLY this node was watched by Sentinel")
	}
	w.want("REPLICAOF NO ONE", "+OK")
	w.want("INCR 1.cntcm", ":7")
}

// provokeReplicas: what replicas are refused, and tools that behave like one.
func provokeReplicas(p provoker) {
	a := newReplNode(p.T).start("")
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	dial := func() *wireClient {
		c := a.dial()
		c.want("REPLCONF listening-port 7 version counterd capa counterd1", "+OK")
		return c
	}
	words := func(text string) string { return strangerWords(a.srv.Store()).Replace(text) }

	// The log, to who says that he is one.
	c := dial()
	if got := c.sendArgs("REPLCONF", "history", words("<past>")); got != "+OK" {
		p.Fatal(got)
	}
	p.refused(a.srv, c, words("PSYNC <id> 99999999"), "DIVERGED ")
	b := newReplNode(p.T).start(a.addr())
	until(p.T, "the replica follows", func() bool { return b.info("master_link_status") == "up" && b.srv.Store().Replication().Position() > 0 })
	c = b.dial()
	c.want("REPLCONF listening-port 7 version counterd capa counterd1", "+OK")
	theirs := strangerWords(b.srv.Store())
	if got := c.sendArgs("REPLCONF", "history", theirs.Replace("<past>")); got != "+OK" {
		p.Fatal(got)
	}
	p.refused(b.srv, c, theirs.Replace("PSYNC <id> 99999999"), "NOTYET ")
	b.stop()
	c = dial()
	c.want("CLIENT REPLY ON", "+OK")
	for _, command := range []string{"SYNC", "PSYNC ? -1"} {
		c := dial()
		c.proto = 3
		c.do("HELLO 3")
		c.do("SUBSCRIBE a")
		p.refused(a.srv, c, command, "ERR "+command[:strings.Index(command+" ", " ")]+" needs a connection of its own")
	}
	p.unchanged(a.srv, "a change by a replica", func() {
		c := deafReplica(p.T, a, 8)
		c.send("INCR 1.cntcm")
		for {
			line, err := c.r.ReadString('\n')
			if err != nil {
				p.Fatal(err)
			}
			if i := strings.Index(line, "-ERR "); i >= 0 {
				p.heard(strings.TrimSpace(line[i:]), "ERR this connection carries the log to a replica: only REPLCONF is allowed")
				return
			}
		}
	})
	mem := wireServe(p.T, nil)
	c = wireDial(p, mem, 2)
	c.want("REPLCONF version counterd", "+OK")
	p.refused(mem, c, "PSYNC ? -1", "ERR data is kept in memory only (appendonly no): there is no log to replicate")
	p.refused(mem, wireDial(p, mem, 2), "PSYNC ? -1", "ERR this is counterd: a Redis server cannot replicate from it")

	// Files of a snapshot.
	for i := range 1000 {
		w.want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
	}
	w.want("COUNTER.DEMOTE weibo 1", "+OK")
	w.want("SAVE", "+OK")
	announced := func() *wireClient {
		c := dial()
		c.send("PSYNC ? -1")
		line, err := c.r.ReadString('\n')
		f := strings.Fields(line)
		if err != nil || len(f) < 5 {
			p.Fatalf("PSYNC: %q %v", line, err)
		}
		for _, size := range f[3:] {
			k, _ := strconv.Atoi(size)
			if _, err := c.r.Discard(k + 2); err != nil {
				p.Fatal(err)
			}
		}
		return c
	}
	p.refused(a.srv, announced(), "REPLCONF fetch hot nosuch", "ERR the snapshot has no file \"nosuch\"")
	p.refused(a.srv, announced(), "REPLCONF listening-port 8", "ERR REPLCONF options come before PSYNC")
	c = announced()
	for _, tier := range []string{"cold", "hot"} {
		files, _ := filepath.Glob(filepath.Join(a.dir, map[string]string{"cold": "cold/*.cold", "hot": "rdb/*.hot"}[tier]))
		if len(files) == 0 {
			p.Fatalf("no %s files", tier)
		}
		for _, path := range files {
			if err := os.Remove(path); err != nil {
				p.Fatal(err)
			}
		}
		p.heard(c.do("REPLCONF fetch "+tier+" "+filepath.Base(files[0])).String(), map[string]string{"cold": "LOST ", "hot": "ERR an image is damaged"}[tier])
	}
	w.want("GET 999.cntcm", `"5"`)

	// A store that took another's place.
	a = newReplNode(p.T).start("")
	a.dial().want("SAVE", "+OK")
	c = announced()
	if err := a.srv.node.Reopen(func(string) error { return nil }); err != nil {
		p.Fatal(err)
	}
	p.heard(c.do("PSYNC ? 0").String(), "ERR the snapshot that was announced is no more")
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
	c.want("INCR 1.cntcm IDMP p 2", ":2") // what is refused takes no number

	c.want("MULTI", "+OK")
	p.refused(s, c, "INCR 1.cntcm IDMP p 4", "ERR IDMP: in a transaction EXEC takes the number")
	c.want("DISCARD", "+OK")
	c.want("MULTI", "+OK")
	c.want("PING", "+QUEUED")
	p.refused(s, c, "EXEC IDMP p 5", "EXECABORT Transaction discarded because of: IDMP: a transaction with a number has commands on items only")
	c.do("DISCARD")

	// More changes than one frame of the log is sure to hold, of keys that there are not.
	c.want("MULTI", "+OK")
	c.want("DEL 1.cntcm", "+QUEUED")
	for range 3 {
		if got := c.sendArgs(append([]string{"DEL"}, slices.Repeat([]string{"5"}, 50_000)...)...); got != "+QUEUED" {
			p.Fatal(got)
		}
	}
	p.refused(s, c, "EXEC IDMP p 6", "EXECABORT Transaction discarded because of: IDMP: a transaction with a number makes at most")
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
		if p.heard(exec(), "IDMPEXPIRED the change was made; its reply was longer") != errclass.InDoubt {
			p.Error("what was made is not in doubt")
		}
	})
	for i := range 200 {
		c.want(fmt.Sprintf("INCR 1.cntcm IDMP p %d", 10+i), fmt.Sprintf(":%d", 3+i))
	}
	p.unchanged(s, "a number that is too old", func() {
		if p.heard(c.do("INCR 1.cntcm IDMP p 1").String(), "IDMPEXPIRED") != errclass.InDoubt {
			p.Error("what an earlier try may have made is not in doubt")
		}
	})
	c.want("IDMP FENCE p", ":1")
	p.refused(s, c, "INCR 1.cntcm IDMP p 999", "IDMPFENCED")
	c.want("CLIENT IDMP q 18446744073709551615", "+OK")
	c.want("INCR 1.cntcm", ":203")
	p.refused(s, c, "INCR 1.cntcm", "ERR IDMP: the sequence numbers are used up")
	c.want("CLIENT IDMP OFF", "+OK")
	c.want("CONFIG SET idmp-max-producers 3", "+OK")
	p.refused(s, c, "INCR 1.cntcm IDMP another 1", "IDMPFULL")
	c.want("CONFIG SET idmp-max-producers 100", "+OK")
	c.want("INCR 1.cntcm IDMP another 1", ":204")
}

// provokeReaders: the port for reads.
func provokeReaders(p provoker) {
	s := wireServe(p.T, func(c *config.Config) { c.ReadonlyPort = freePort(p) })
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
	p.refused(s, c, "COUNTER.UPDATE weibo SET comment 7 IDMP p 1", "ERR more than 10000 items meet the conditions")
	c.want("MULTI", "+OK")
	p.refused(s, c, "COUNTER.UPDATE weibo SET comment 7", "ERR ")
}

package protocol

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/testkit/freeport"
)

// sentinelRights and replicaRights are the least that docs/operate/security.md names: Sentinel's are those that Redis documents.
const (
	sentinelRights = "-@all allchannels +multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info +client|setname +client|kill +script|kill"
	replicaRights  = "-@all +psync +replconf +ping +failover +replicaof"
)

// usersFile writes an aclfile.
func usersFile(t testing.TB, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUsersSentinel lets stock Sentinels, with a user of their own, watch nodes whose default user is off and that follow
// each other by another: a planned failover, and one as the primary is killed. A client with a third goes on.
func TestUsersSentinel(t *testing.T) {
	path, ok := harness.Tool(t, "redis-sentinel")
	if !ok {
		return
	}
	t.Parallel() // it waits most of the time
	users := []string{"user default off", "user repl on >r " + replicaRights, "user sentinel on >s " + sentinelRights, "user app on >a -@all +@read +@write +@connection +info +role +wait ~*"}
	schema := filepath.Join(t.TempDir(), "schema")
	if err := os.WriteFile(schema, []byte("add counter weibo\nadd column weibo n hint=16 max=63 suffix=n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := make([]*harness.Server, 3)
	for i := range nodes {
		args := []string{"--aclfile", usersFile(t, users...), "--masteruser", "repl", "--masterauth", "r", "--schema", schema}
		if i > 0 {
			args = append(args, "--replicaof", fmt.Sprintf("127.0.0.1 %d", nodes[0].Port))
		}
		nodes[i] = harness.StartAt(t, freeport.Take(t), t.TempDir(), args...)
	}
	role := func(s *harness.Server) (role, primary string) {
		c, err := harness.DialTimeout("tcp", s.Addr, time.Second)
		if err != nil {
			return "", ""
		}
		defer c.Close()
		if v, err := c.TryDo("AUTH", "app", "a"); err != nil || v.Raw != "+OK\r\n" {
			return "", ""
		}
		v, err := c.TryDo("ROLE")
		if err != nil || len(v.List) == 0 {
			return "", ""
		}
		if role = v.List[0].Text; role == "slave" && len(v.List) > 3 && v.List[3].Text == "connected" {
			primary = strconv.FormatInt(v.List[2].N, 10)
		}
		return role, primary
	}
	follow := func(leader *harness.Server, others ...*harness.Server) {
		t.Helper()
		for _, s := range others {
			harness.Eventually(t, time.Minute, "a replica follows", func() bool {
				_, primary := role(s)
				return primary == strconv.Itoa(leader.Port)
			})
		}
	}
	follow(nodes[0], nodes[1:]...)
	sentinels, logs := harness.StartSentinels(t, path, nodes[0].Port, "sentinel auth-user mymaster sentinel", "sentinel auth-pass mymaster s")
	for _, log := range logs {
		harness.Eventually(t, time.Minute, "each Sentinel knows both replicas and both fellows", func() bool {
			return strings.Count(log.String(), "+slave ") == 2 && strings.Count(log.String(), "+sentinel ") == 2
		})
	}
	ctx := t.Context()
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: sentinels, Username: "app", Password: "a", MaxRetries: -1,
		DialTimeout: time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: time.Second, PoolSize: 4})
	defer client.Close()
	add := func() error {
		conn := client.Conn()
		defer conn.Close()
		if err := conn.Incr(ctx, "1.n").Err(); err != nil {
			return err
		}
		if n, err := conn.Wait(ctx, 1, 3*time.Second).Result(); err != nil || n < 1 {
			return fmt.Errorf("WAIT: %d %v", n, err)
		}
		return nil
	}
	harness.Eventually(t, time.Minute, "the first change", func() bool { return add() == nil })
	leader := func(but *harness.Server) *harness.Server {
		t.Helper()
		var found *harness.Server
		harness.Eventually(t, time.Minute, "another node leads", func() bool {
			for _, s := range nodes {
				if r, _ := role(s); s != but && r == "master" {
					found = s
				}
			}
			return found != nil
		})
		return found
	}
	asked, err := harness.DialTimeout("tcp", sentinels[0], time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	harness.Eventually(t, time.Minute, "Sentinel takes the order of a failover", func() bool {
		v, err := asked.TryDo("SENTINEL", "FAILOVER", "mymaster")
		return err == nil && v.Raw == "+OK\r\n"
	})
	second := leader(nodes[0])
	follow(second, nodes[0])
	harness.Eventually(t, time.Minute, "a change at the second primary", func() bool { return add() == nil })
	for _, log := range logs { // or they would not agree on the next
		harness.Eventually(t, time.Minute, "each Sentinel has heard of the second primary", func() bool {
			return strings.Contains(log.String(), "+switch-master mymaster 127.0.0.1 "+strconv.Itoa(nodes[0].Port)) || strings.Contains(log.String(), "+config-update-from")
		})
	}
	second.Kill()
	third := leader(second)
	harness.Eventually(t, time.Minute, "a change at the third primary", func() bool { return add() == nil })
	if v, err := client.Get(ctx, "1.n").Int64(); err != nil || v < 3 {
		t.Errorf("got %d %v, want at least 3", v, err)
	}
	for _, s := range nodes {
		if s != second && s != third {
			follow(third, s)
		}
	}
}

// TestUsersClients: redis-cli and go-redis as users, what each may do, and where passwords cannot be seen.
func TestUsersClients(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	s := harness.Start(t, "--requirepass", secret, "--masterauth="+secret+"2", "--slowlog-log-slower-than", "0", "--loglevel", "debug",
		"--user", "app on >"+secret+"3 -@all +@read +incr +select|0 +multi +exec ~weibo:* ~*.cntcm &news", "--user", "reader on >"+secret+"4 -@all +get +mget %R~*.cntrn")
	admin := s.Dial(t)
	admin.Want("+OK\r\n", "AUTH", secret)
	harness.Eventually(t, harness.StartTimeout, "data is loaded", func() bool { return admin.Do("PING").Raw == "+PONG\r\n" })
	harness.SeedSchema(t, admin)
	monitor := s.Dial(t)
	monitor.Want("+OK\r\n", "AUTH", secret)
	monitor.Want("+OK\r\n", "MONITOR")
	s.Dial(t).Do("HELLO", "2", "AUTH", "default", secret)
	admin.Want("+OK\r\n", "ACL", "SETUSER", "temp", "on", ">"+secret+"5", "<"+secret+"5")
	admin.Do("ACL", "SETUSER", "temp", "<"+secret+"6", secret+"7")
	admin.Do("AUTH", "temp", secret+"8")
	admin.Do("CONFIG", "SET", "masterauth", secret+"9")
	ctx := t.Context()
	for _, protocol := range []int{2, 3} {
		as := func(user, pass string) *redis.Client {
			c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: protocol, Username: user, Password: pass, MaxRetries: -1,
				DialTimeout: harness.IoTimeout, ReadTimeout: harness.IoTimeout, WriteTimeout: harness.IoTimeout})
			t.Cleanup(func() { c.Close() })
			return c
		}
		app, reader, nobody := as("app", secret+"3"), as("reader", secret+"4"), as("app", secret)
		refused := func(what string, err error, text string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("RESP%d: %s: got %v, want %s", protocol, what, err, text)
			}
		}
		if n, err := app.Incr(ctx, "1.cntcm").Result(); err != nil || n != int64(protocol-1) {
			t.Errorf("RESP%d: INCR: %d %v", protocol, n, err)
		}
		pipe := app.TxPipeline()
		pipe.Get(ctx, "weibo:1.cntrn")
		pipe.Get(ctx, "1.cntcm")
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			t.Errorf("RESP%d: a transaction: %v", protocol, err)
		}
		pipe = app.TxPipeline()
		pipe.Get(ctx, "1.cntcm")
		pipe.Incr(ctx, "other.cntxx")
		_, err := pipe.Exec(ctx)
		refused("a transaction with a strange key", err, "EXECABORT Transaction discarded because of previous errors.")
		_, err = reader.MGet(ctx, "1.cntrn", "2.cntrn").Result()
		if err != nil {
			t.Errorf("RESP%d: MGET: %v", protocol, err)
		}
		refused("INCR of a reader", reader.Incr(ctx, "1.cntrn").Err(), "NOPERM User reader has no permissions to run the 'incr' command")
		refused("GET of another column", reader.Get(ctx, "1.cntcm").Err(), "NOPERM No permissions to access a key")
		refused("FLUSHALL", app.FlushAll(ctx).Err(), "NOPERM User app has no permissions to run the 'flushall' command")
		refused("SCAN", reader.Scan(ctx, 0, "", 10).Err(), "NOPERM")
		refused("a wrong password", nobody.Get(ctx, "1.cntcm").Err(), "WRONGPASS")
	}
	if _, ok := harness.Tool(t, "redis-cli"); ok {
		if got := s.Cli(t, "", "--user", "app", "--pass", secret+"3", "--no-auth-warning", "GET", "1.cntcm"); got != "2\n" {
			t.Errorf("redis-cli: %q", got)
		}
		if got := s.Cli(t, "", "--user", "reader", "--pass", secret+"4", "--no-auth-warning", "DEL", "1"); !strings.HasPrefix(got, "NOPERM ") {
			t.Errorf("redis-cli: %q", got)
		}
	}
	admin.Do("ECHO", "the end of what is monitored")
	seen := ""
	for !strings.Contains(seen, "the end of what is monitored") {
		v, err := monitor.TryReply()
		if err != nil {
			t.Fatal(err)
		}
		seen += v.Raw
	}
	if !strings.Contains(seen, `"HELLO" "2" "AUTH" "(redacted)" "(redacted)"`) {
		t.Errorf("MONITOR shows no HELLO with AUTH:\n%s", seen)
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{"MONITOR": seen, "the list of processes": string(line), "the log": s.Log.String()}
	for _, command := range []string{"INFO everything", "SLOWLOG GET 128", "CLIENT LIST", "ACL LIST", "ACL LOG 128", "ACL GETUSER app", "COMMAND DOCS auth", "LATENCY LATEST"} {
		shown[command] = admin.Do(strings.Fields(command)...).Raw
	}
	for what, text := range shown {
		if strings.Contains(text, secret) {
			t.Errorf("a password is in %s:\n%.2000s", what, text)
		}
	}
}

// TestUsersHostile lets loose on a server with 10,000 users: guesses of passwords, patterns and keys that explode, users
// with all that one may have, refusals without end.
func TestUsersHostile(t *testing.T) {
	t.Parallel()
	lines := []string{"user default on nopass ~* &* +@all", "user bad on >x -@all +get +incr +multi +exec ~" + strings.Repeat("*a", 500) + "b ~weibo:*.cntrn"}
	for i := range 10_000 {
		lines = append(lines, fmt.Sprintf("user app%d on #%064x -@all +@read +@write -del ~app%d:* ~*.cnt%d", i, i, i, i))
	}
	// ACL LOAD has the old and the new table of 10,000 users at the same time, and the collector may let the heap become twice as large.
	attackWithin(t, 192<<20, []string{"--aclfile", usersFile(t, lines...)}, func(t *testing.T, s *harness.Server) {
		var wg sync.WaitGroup
		var errs atomic.Pointer[error]
		each := func(n int, f func(c *harness.Conn) error) {
			for range n {
				wg.Go(func() {
					c, err := harness.DialTimeout("tcp", s.Addr, harness.IoTimeout)
					if err == nil {
						defer c.Close()
						err = f(c)
					}
					if err != nil {
						errs.Store(&err)
					}
				})
			}
		}
		each(50, func(c *harness.Conn) error { // the fourth guess of each is not waited for
			for range 4 {
				if err := c.TryWrite([]byte("*3\r\n$4\r\nAUTH\r\n$3\r\nbad\r\n$1\r\ny\r\n")); err != nil {
					return err
				}
			}
			for range 3 {
				if v, err := c.TryReply(); err != nil || !strings.HasPrefix(v.Raw, "-WRONGPASS ") {
					return fmt.Errorf("a wrong password: %q %v", v.Raw, err)
				}
			}
			return nil
		})
		each(4, func(c *harness.Conn) error {
			if v, err := c.TryDo("AUTH", "bad", "x"); err != nil || v.Raw != "+OK\r\n" {
				return fmt.Errorf("AUTH: %q %v", v.Raw, err)
			}
			keys := []string{strings.Repeat("a", 256), strings.Repeat("a", 1<<20), strings.Repeat("0", 200_000) + "1.cntcm", "weibo:" + strings.Repeat("0", 4000) + "1.cntcm",
				"{weibo:1}.cntcm", "x\r\ny", "", "weibo:1.cntrn\x00"}
			for i := range 400 {
				v, err := c.TryDo("GET", keys[i%len(keys)])
				if err != nil || !strings.HasPrefix(v.Raw, "-NOPERM No permissions to access a key") {
					return fmt.Errorf("GET of %.20q: %q %v", keys[i%len(keys)], v.Raw, err)
				}
			}
			if v, err := c.TryDo("INCR", strings.Repeat("0", 4000)+"7.cntrn"); err != nil || v.Kind != ':' {
				return fmt.Errorf("INCR of what it may change: %q %v", v.Raw, err)
			}
			return nil
		})
		each(1, func(c *harness.Conn) error {
			words := []string{"ACL", "SETUSER", "huge"}
			for i := range 60_000 {
				words = append(words, fmt.Sprintf("~k%d*", i))
			}
			if v, err := c.TryDo(words...); err != nil || !strings.HasPrefix(v.Raw, "-ERR Error in ACL SETUSER modifier") {
				return fmt.Errorf("60,000 patterns: %.100q %v", v.Raw, err)
			}
			for range harness.Scaled(6) {
				if v, err := c.TryDo("ACL", "LIST"); err != nil || len(v.List) != 10_002 {
					return fmt.Errorf("ACL LIST: %d users, %v", len(v.List), err)
				}
				if v, err := c.TryDo("ACL", "LOAD"); err != nil || v.Raw != "+OK\r\n" {
					return fmt.Errorf("ACL LOAD: %.100q %v", v.Raw, err)
				}
			}
			return nil
		})
		wg.Wait()
		if err := errs.Load(); err != nil {
			t.Error(*err)
		}
	})
}

// TestUsersOpenFiles: what holds passwords and can be read by everybody keeps a server from starting, with words.
func TestUsersOpenFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--aclfile", write("open.acl", "user a on >x\n", 0o644)}, "open.acl"},
		{[]string{"--config", write("open.conf", "requirepass secret\n", 0o644)}, "open.conf"},
		{[]string{"--config", write("users.conf", "user a on >secret ~*\n", 0o604)}, "users.conf"},
		{[]string{"--requirepass-file", write("open.pass", "secret\n", 0o644)}, "open.pass"},
		{[]string{"--requirepass-file", write("empty.pass", "\n", 0o600)}, "is empty"},
		{[]string{"--aclfile", write("bad.acl", "user a on\nuser b >secret +nosuch\n", 0o600)}, "bad.acl:2: "},
		{[]string{"--config", write("renamed.conf", "rename-command CONFIG HIDDEN\n", 0o600)}, "disables it"},
		{[]string{"--disable-command", "flushal"}, `"flushal"`},
		{[]string{"--tls-port", "1", "--tls-auth-clients", "no", "--tls-cert-file", "nowhere.crt", "--tls-key-file", "nowhere.key"}, "tls-cert-file: open nowhere.crt"},
	} {
		out, status := harness.RunCounterd(t, append(c.args, "--check-config")...)
		if status == 0 || !strings.Contains(out, c.want) || strings.Contains(out, "secret") {
			t.Errorf("%s: status %d\n%s\nwant an end that says %s", c.args, status, out, c.want)
		}
	}
	s := harness.Start(t, "--requirepass-file", write("good.pass", "secret\n", 0o640), "--config", write("plain.conf", "rename-command FLUSHALL \"\"\nmaxclients 100\n", 0o644))
	c := s.Dial(t)
	c.Want("-NOAUTH Authentication required.\r\n", "PING")
	c.Want("+OK\r\n", "AUTH", "secret")
	c.Want("-ERR unknown command 'FLUSHALL', with args beginning with: \r\n", "FLUSHALL")
	c.Want("+OK\r\n", "CONFIG", "REWRITE")
	if text, err := os.ReadFile(filepath.Join(dir, "plain.conf")); err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("rewritten: %v\n%s", err, text)
	}
}

package migration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// TestImportSnapshot brings the numbers of a redis-server over by its dump.rdb, by the snapshot that it sends, and back
// into a third by what export writes; a file without its end brings nothing.
func TestImportSnapshot(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	r, ok := harness.StartRedis(t)
	if !ok {
		return
	}
	m := moved{}
	fillShapes(t, rng, redisClient(t, r), 1500, m)
	r.Dial(t).Save()
	dump := filepath.Join(r.Dir, "dump.rdb")
	rules := append([]string{"--verify", "values"}, everyShape...)

	s := importTarget(t)
	harness.WantCtl(t, 0, append([]string{"import", dump, "--to", s.Addr}, rules...), "verified: all")
	m.want(t, "dump.rdb", s)

	other := importTarget(t)
	file, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(t.TempDir(), "torn.rdb")
	if err := os.WriteFile(torn, file[:len(file)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	harness.WantCtl(t, 1, append([]string{"import", torn, "--to", other.Addr}, rules...), "the file is not whole", "nothing was imported")
	other.Dial(t).Want(":0\r\n", "DBSIZE")
	harness.WantCtl(t, 0, append([]string{"import", "redis://" + r.Addr, "--snapshot", "--to", other.Addr}, rules...), "'s snapshot into", "verified: all")
	m.want(t, "--snapshot", other)

	back := importTarget(t)
	path := filepath.Join(t.TempDir(), "weibo.csv.zst")
	harness.WantCtl(t, 0, []string{"export", s.Addr, "weibo", "--out", path}, "verified")
	harness.WantCtl(t, 0, []string{"import", path, "--to", back.Addr}, "verified")
	harness.WantCtl(t, 0, []string{"diff", s.Addr, "--with", back.Addr}, "no differences")

	old, _ := harness.StartRedis(t) // and to a Redis again
	commands := filepath.Join(t.TempDir(), "back.resp")
	way := []string{"--map", "p:{mid}:c#c=weibo.comment", "--map", "p:{mid}:c#r=weibo.repost", "--map", "{mid:36}=weibo.attitude"}
	harness.WantCtl(t, 0, append([]string{"export", s.Addr, "--out", commands}, way...), "verified")
	text, err := os.ReadFile(commands)
	if err != nil {
		t.Fatal(err)
	}
	if told := old.Cli(t, string(text), "--pipe"); !strings.Contains(told, "errors: 0") {
		t.Error(told)
	}
	again := importTarget(t)
	harness.WantCtl(t, 0, append([]string{"import", "redis://" + old.Addr, "--to", again.Addr}, way...), "verified")
	harness.WantCtl(t, 0, []string{"diff", s.Addr, "--with", again.Addr}, "no differences")
}

// followed is a redis-server that is written to and followed by a counterd, through a counterctl that may be killed.
type followed struct {
	t      testing.TB
	rng    *rand.Rand
	redis  *harness.Server
	writer *harness.Conn
	target *harness.Server
	state  string
	tool   *exec.Cmd
	log    *harness.LogBuffer
}

const followedPosts = 60

// args are those of counterctl.
func (f *followed) args(more ...string) []string {
	return append([]string{"import", "redis://" + f.redis.Addr, "--to", f.target.Addr, "--follow", "--state", f.state, "--map", "post:{mid}:likes=weibo.attitude",
		"--map", "p:{mid}:c#comments=weibo.comment", "--map", "reposts#{mid}=weibo.repost"}, more...)
}

// start starts the tool.
func (f *followed) start(more ...string) {
	path, err := programs.Path("counterctl")
	if err != nil {
		f.t.Fatal(err)
	}
	f.tool = exec.Command(path, f.args(more...)...)
	f.tool.Stdout, f.tool.Stderr = f.log, f.log
	f.tool.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := f.tool.Start(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *followed) killTool() {
	_ = f.tool.Process.Kill()
	_ = f.tool.Wait()
}

// startSource starts the redis-server, which keeps what it was told.
func (f *followed) startSource(path string, port int, dir string) {
	f.redis = harness.LaunchAt(f.t, "redis-server", path, port, dir, []string{"--save", "", "--appendonly", "yes", "--databases", "2", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0",
		"--repl-diskless-sync", []string{"yes", "no"}[f.rng.IntN(2)], "--repl-backlog-size", "16mb"})
	f.writer = f.redis.Dial(f.t)
}

// killSource kills the redis-server and starts it again in its place: with another history.
func (f *followed) killSource() {
	path, port, dir := f.redis.Cmd.Path, f.redis.Port, f.redis.Dir
	f.redis.Kill()
	f.startSource(path, port, dir)
}

// killTarget kills the counterd and starts it again in its place.
func (f *followed) killTarget() {
	port, dir := f.target.Port, f.target.Dir
	f.target.Kill()
	f.target = harness.StartAt(f.t, port, dir)
}

// write sends commands of all kinds.
func (f *followed) write(n int) {
	f.t.Helper()
	var text strings.Builder
	replies := 0
	add := func(format string, args ...any) {
		fmt.Fprintf(&text, format+"\r\n", args...)
		replies++
	}
	post := func() int { return 1 + f.rng.IntN(followedPosts) }
	for range n {
		mid := post()
		switch v := f.rng.IntN(1000); f.rng.IntN(24) {
		case 0, 1, 2, 3, 4:
			add("INCR post:%d:likes", mid)
		case 5:
			add("INCRBY post:%d:likes %d", mid, v-200)
		case 6, 7:
			add("HINCRBY p:%d:c comments %d", mid, v)
		case 8, 9:
			add("HINCRBY reposts %d %d", mid, v)
		case 10:
			add("SET post:%d:likes %d", mid, v)
		case 11:
			add("DEL post:%d:likes p:%d:c", mid, post())
		case 12:
			add("HDEL reposts %d x", mid)
		case 13:
			add("APPEND post:%d:likes 1", mid)
			add("SET post:%d:likes 5", mid) // it may have grown too large to be added to
		case 14:
			add("RENAME post:%d:likes post:%d:likes", mid, post())
		case 15:
			add("SET post:%d:likes abc", mid)
		case 16:
			add("SET post:%d:likes 5 PX %d", mid, 1+v/10)
		case 17:
			add("MULTI")
			add("INCR post:%d:likes", mid)
			add("HSET p:%d:c comments 3 title x", mid)
			add("EXEC")
		case 18:
			add("MSET post:%d:likes 7 x y post:%d:likes 9", mid, post())
		case 19:
			add(`EVAL "redis.call('incr',KEYS[1]); redis.call('hincrby',KEYS[2],'comments',2)" 2 post:%d:likes p:%d:c`, mid, mid)
		case 20:
			add("SELECT 1")
			add("INCR post:%d:likes", mid)
			add("SELECT 0")
		case 21:
			add("HSET reposts %d %s", mid, []string{"5", "x", "-3"}[v%3])
		case 22:
			add("LPUSH list%d %d", mid, v)
		case 23:
			if v < 20 {
				add("FLUSHDB")
			} else {
				add("GETDEL post:%d:likes", mid)
			}
		}
	}
	f.writer.Write(text.String())
	for range replies {
		f.writer.Reply()
	}
}

// compare compares all numbers that a column can hold, and returns how many there were.
func (f *followed) compare() (same int) {
	f.t.Helper()
	source, target := f.redis.Dial(f.t), f.target.Dial(f.t)
	for mid := 1; mid <= followedPosts; mid++ {
		for _, pair := range [][2][]string{{{"GET", fmt.Sprintf("post:%d:likes", mid)}, {"GET", fmt.Sprintf("%d.cntan", mid)}},
			{{"HGET", fmt.Sprintf("p:%d:c", mid), "comments"}, {"GET", fmt.Sprintf("%d.cntcm", mid)}}, {{"HGET", "reposts", strconv.Itoa(mid)}, {"GET", fmt.Sprintf("%d.cntrn", mid)}}} {
			want, got := source.Do(pair[0]...), target.Do(pair[1]...)
			number, err := strconv.ParseUint(want.Text, 10, 32)
			if err != nil && !want.Null {
				continue // it is no number, or none that the column can hold
			}
			if has, err := strconv.ParseUint(got.Text, 10, 63); has != number || err != nil && !got.Null {
				f.t.Errorf("%v: the source has %q, the target %q", pair[0], want.Raw, got.Raw)
				continue
			}
			same++
		}
	}
	return same
}

// mayExpire finds the database that is followed in INFO keyspace, if it has keys that will expire. The other one never has such.
var mayExpire = regexp.MustCompile(`db0:keys=\d+,expires=[1-9]`)

// TestFollow writes to a redis-server at random while a counterd is kept up with it, and kills the tool, the target and
// the link between them. In the end every number is the source's.
func TestFollow(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	path, ok := harness.Tool(t, "redis-server")
	if !ok {
		return
	}
	f := &followed{t: t, rng: rng, state: filepath.Join(t.TempDir(), "state"), log: new(harness.LogBuffer)}
	f.startSource(path, freeport.Take(t), t.TempDir())
	f.target = harness.StartAt(t, freeport.Take(t), t.TempDir(), "--schema", "../../weibo.schema")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("counterctl:\n%s", f.log)
		}
	})
	f.write(300)
	f.start()
	for range harness.Scaled(12) {
		f.write(300)
		switch f.rng.IntN(8) {
		case 0, 1:
			f.killTool()
			f.write(100)
			f.start()
		case 2:
			f.killTarget()
		case 3:
			f.writer.Do("CLIENT", "KILL", "TYPE", "replica")
		case 4:
			f.writer.Want("+OK\r\n", "DEBUG", "CHANGE-REPL-ID") // a new history: all must be copied again
			f.writer.Do("CLIENT", "KILL", "TYPE", "replica")
		case 5:
			f.killSource()
		}
		time.Sleep(time.Duration(f.rng.IntN(120)) * time.Millisecond) // so that kills come at all moments
	}
	f.killTool()
	for deadline := time.Now().Add(harness.StartTimeout); mayExpire.MatchString(f.writer.Do("INFO", "keyspace").Text); {
		if time.Now().After(deadline) { // a key that is over and not yet deleted is nil at the source alone
			t.Fatal("keys do not expire")
		}
		time.Sleep(10 * time.Millisecond)
	}
	out, status := harness.Counterctl(t, f.args("--until-caught-up")...)
	unfit := strings.Contains(out, "keys hold what their columns cannot")
	if !strings.Contains(out, "the target is what the source was") || (status != 0) != unfit {
		t.Errorf("exit status %d\n%s", status, out)
	}
	if same := f.compare(); same < followedPosts {
		t.Errorf("only %d numbers were compared", same)
	}
}

// TestFollowRefuses are jobs that would do harm.
func TestFollowRefuses(t *testing.T) {
	t.Parallel()
	r, ok := harness.StartRedis(t, "--requirepass", "secret", "--repl-diskless-sync-delay", "0")
	if !ok {
		return
	}
	c := r.Dial(t)
	c.Want("+OK\r\n", "AUTH", "secret")
	c.Want("+OK\r\n", "SET", "post:5:likes", "7")
	s := importTarget(t)
	s.Dial(t).Want(":1\r\n", "INCR", "9.cntan")
	state := filepath.Join(t.TempDir(), "state")
	args := func(url string, more ...string) []string {
		return append([]string{"import", url, "--to", s.Addr, "--follow", "--state", state, "--map", "post:{mid}:likes=weibo.attitude", "--until-caught-up"}, more...)
	}
	harness.WantCtl(t, 1, args("redis://"+r.Addr), "NOAUTH")
	harness.WantCtl(t, 1, args("redis://:wrong@"+r.Addr), "WRONGPASS")
	if node, _ := harness.StartRedis(t, "--cluster-enabled", "yes"); node != nil {
		harness.WantCtl(t, 1, args("redis://"+node.Addr, "--state", state+"2"), "a node of a cluster")
	}
	good := "redis://:secret@" + r.Addr
	harness.WantCtl(t, 1, args(good), "the target already has 1 numbers in the columns", "--overwrite")
	s.Dial(t).Want("$1\r\n1\r\n", "GET", "9.cntan")
	out := harness.WantCtl(t, 0, args(good, "--overwrite"), "copied 1 keys", "the target is what the source was")
	if strings.Contains(out, "secret") {
		t.Errorf("the password is told:\n%s", out)
	}
	s.Dial(t).Want("*2\r\n$1\r\n7\r\n$1\r\n0\r\n", "MGET", "5.cntan", "9.cntan")
	c.Want(":8\r\n", "INCR", "post:5:likes")
	harness.WantCtl(t, 0, args(good), "following from offset", "0 copies") // it goes on
	s.Dial(t).Want("$1\r\n8\r\n", "GET", "5.cntan")
	// A user with no more than docs/operate/migrate.md says may follow.
	c.Want("+OK\r\n", append([]string{"ACL", "SETUSER", "mover", "on", ">pw", "~post:*"}, strings.Fields("+psync +replconf +ping +info +select +multi +exec +get +hget +hmget +zscore +zmscore")...)...)
	c.Want(":2\r\n", "APPEND", "post:5:likes", "1")
	harness.WantCtl(t, 0, args("redis://mover:pw@"+r.Addr), "following from offset", "1 keys were read again after APPEND")
	s.Dial(t).Want("$2\r\n81\r\n", "GET", "5.cntan")
	harness.WantCtl(t, 1, args(good, "--map", "p:{mid}:c#comments=weibo.comment"), "belongs to another job")
	harness.WantCtl(t, 2, []string{"import", good, "--to", s.Addr, "--follow", "--map", "post:{mid}:likes=weibo.attitude"}, "--state")
}

// TestFollowTargetLost puts an empty server in the target's place while the copy is loaded, and between it and the first
// change: all is copied again.
func TestFollowTargetLost(t *testing.T) {
	t.Parallel()
	r, ok := harness.StartRedis(t, "--repl-diskless-sync-delay", "0")
	if !ok {
		return
	}
	const posts = 1000 // the first 512 are one command, and at 100 a second the others come 5 s behind them
	fill := []string{"MSET"}
	for mid := range posts {
		fill = append(fill, fmt.Sprintf("post:%d:likes", mid+1), "7")
	}
	r.Dial(t).Want("+OK\r\n", fill...)
	f := &followed{t: t, redis: r, state: filepath.Join(t.TempDir(), "state"), log: new(harness.LogBuffer)}
	f.target = importTarget(t)
	replace := func() {
		f.target.Kill()
		f.target = harness.StartAt(t, f.target.Port, t.TempDir(), "--schema", "../../weibo.schema")
	}
	check := func(when, out string) {
		t.Helper()
		if sum := f.target.Dial(t).Do("COUNTER.SUM", "weibo", "attitude").Text; sum != strconv.Itoa(7*posts) || !strings.Contains(out, "copying everything again") {
			t.Errorf("%s: the sum is %s, want %d\n%s", when, sum, 7*posts, out)
		}
	}
	f.start("--until-caught-up", "--rate", "100")
	c := f.target.Dial(t)
	for deadline := time.Now().Add(harness.StartTimeout); string(c.Do("DBSIZE").Raw) == ":0\r\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no posts come:\n%s", f.log)
		}
	}
	replace()
	if err := f.tool.Wait(); err != nil {
		t.Errorf("while the copy is loaded: %v", err)
	}
	check("while the copy is loaded", f.log.String())
	replace()
	check("after the copy", harness.WantCtl(t, 0, f.args("--until-caught-up"), "the target is what the source was", "1 copies"))
}

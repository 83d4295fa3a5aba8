package migration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/tlstest"
	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/testkit/freeport"
)

// moved is what posts of the counter weibo should be: comment, repost, attitude.
type moved map[uint64][3]int64

const (
	comment = iota
	repost
	attitude
)

func (m moved) set(mid uint64, column int, v int64) {
	row := m[mid]
	row[column] = v
	m[mid] = row
}

// want compares the server with the model.
func (m moved) want(t testing.TB, what string, s *harness.Server) {
	t.Helper()
	rows := map[string]string{}
	for mid, row := range m {
		var b strings.Builder
		b.WriteString("*6\r\n")
		for i, name := range []string{"comment", "repost", "attitude"} {
			v := strconv.FormatInt(row[i], 10)
			fmt.Fprintf(&b, "$%d\r\n%s\r\n$%d\r\n%s\r\n", len(name), name, len(v), v)
		}
		rows[fmt.Sprintf("weibo:%d", mid)] = b.String()
	}
	harness.SameContents(t, what, harness.Contents(t, s, "weibo"), rows)
}

// target starts a counterd with the example schema, on its own port or on a given one.
func importTarget(t testing.TB, args ...string) *harness.Server {
	t.Helper()
	return harness.Start(t, append([]string{"--schema", "../../weibo.schema"}, args...)...)
}

// redisClient is a client of a redis-server.
func redisClient(t testing.TB, s *harness.Server) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: 20, DisableIdentity: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// pipelined runs what f queues.
func pipelined(t testing.TB, c *redis.Client, f func(p redis.Pipeliner)) {
	t.Helper()
	p := c.Pipeline()
	f(p)
	if _, err := p.Exec(context.Background()); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}

// everyShape are rules for keys of every shape; fillShapes writes such keys.
var everyShape = []string{"--overlap", "--map", "post:{mid}:likes=weibo.attitude", "--map", "p:{mid}:c#comments=weibo.comment", "--map", "p:{mid}:c#reposts=weibo.cntrn",
	"--map", "likes#{mid}=weibo.attitude", "--map", "bucket:{mid/1000}#{mid%1000}=weibo.attitude", "--map", "z@{mid:36}=weibo.repost",
	"--map", "packed:{{mid}}=weibo(comment|repost|attitude)", "--map", "bin:{mid}=weibo[comment:u24,repost:u32le,...]", "--map", `json:{mid}=weibo{"n":comment,r:repost}`}

// fillShapes writes numbers of n posts in every shape, each shape with mids of its own.
func fillShapes(t testing.TB, rng *rand.Rand, c *redis.Client, n int, m moved) {
	ctx := context.Background()
	value := func() int64 { return int64(rng.ExpFloat64() * 50) }
	for from := 0; from < n; from += 1000 {
		pipelined(t, c, func(p redis.Pipeliner) {
			for range min(1000, n-from) {
				kind := rng.IntN(8)
				mid, a, b, d := uint64(rng.IntN(1_000_000))*8+uint64(kind), value(), value(), value()
				if kind == 3 { // buckets
					mid = uint64(rng.IntN(20))*1000 + uint64(rng.IntN(125))*8 + 3
				}
				switch kind {
				case 0:
					p.Set(ctx, fmt.Sprintf("post:%d:likes", mid), a, 0)
					m.set(mid, attitude, a)
				case 1:
					p.HSet(ctx, fmt.Sprintf("p:%d:c", mid), "comments", a, "title", "x", "reposts", b)
					m[mid] = [3]int64{a, b, 0}
				case 2:
					p.HSet(ctx, "likes", fmt.Sprint(mid), a)
					m.set(mid, attitude, a)
				case 3:
					p.HSet(ctx, fmt.Sprintf("bucket:%d", mid/1000), fmt.Sprint(mid%1000), a)
					m.set(mid, attitude, a)
				case 4:
					p.ZAdd(ctx, "z", redis.Z{Score: float64(a), Member: strconv.FormatUint(mid, 36)})
					m.set(mid, repost, a)
				case 5:
					p.Set(ctx, fmt.Sprintf("packed:{%d}", mid), fmt.Sprintf("%d|%d|%d", a, b, d), 0)
					m[mid] = [3]int64{a, b, d}
				case 6:
					key := fmt.Sprintf("bin:%d", mid)
					p.Set(ctx, key, []byte{byte(a >> 16), byte(a >> 8), byte(a), byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)}, 0)
					m[mid] = [3]int64{a, b, 0}
				case 7:
					p.Set(ctx, fmt.Sprintf("json:%d", mid), fmt.Sprintf(`{"r":"%d","t":{"n":1},"n":%d}`, b, a), 0)
					m[mid] = [3]int64{a, b, 0}
				}
			}
		})
	}
}

// TestImport moves random numbers in every shape, exactly; a second run changes nothing, one after changes catches up.
func TestImport(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	src, ok := harness.StartRedis(t)
	if !ok {
		return
	}
	c, s, m := redisClient(t, src), importTarget(t), moved{}
	fillShapes(t, rng, c, harness.Scaled(20_000), m)
	args := append([]string{"import", "redis://" + src.Addr, "--to", s.Addr}, everyShape...)

	harness.WantCtl(t, 0, append(args, "--dry-run", "--limit", "100"), "nothing was written", "  ->  weibo.")
	moved{}.want(t, "after a dry run", s)
	harness.WantCtl(t, 0, args, " keys read", "verified: number and sum of each column's values are those that were read")
	m.want(t, "after the import", s)
	harness.WantCtl(t, 0, append(args, "--verify", "values"), "verified: all ")
	m.want(t, "after a second import", s)
	fillShapes(t, rng, c, harness.Scaled(3000), m)
	if err := c.Set(context.Background(), "post:7:likes", "many", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(context.Background(), "other", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	harness.WantCtl(t, 1, args, "skipped: 1: no rule for the key", "    other", "skipped: 1: not a whole number", "    post:7:likes = many")
	m.want(t, "after an import of what changed", s)
}

// TestImportDryCreate: --dry-run with --create shows what would be added and written, and does neither.
func TestImportDryCreate(t *testing.T) {
	t.Parallel()
	from, to := harness.StartAt(t, freeport.Take(t), t.TempDir(), "--schema", "../../weibo.schema"), harness.Start(t)
	c := from.Dial(t)
	c.Do("SET", "7.cntcm", "5")
	out := harness.WantCtl(t, 0, []string{"import", "redis://" + from.Addr, "--to", to.Addr, "--map", "{mid}#comment=photo.views", "--create", "--dry-run"}, "dry run")
	for _, want := range []string{"would be added to " + to.Addr, "ADD COUNTER photo\n", "ADD COLUMN photo views hint=8 max=32\n", "photo.views       1 "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if got := to.Dial(t).Do("SCHEMA"); len(got.List) != 0 {
		t.Errorf("a dry run made %+v", got.List)
	}
}

// TestImportWaits: a target that does not run yet is waited for at the first contact, too, as --wait says.
func TestImportWaits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "posts.tsv")
	if err := os.WriteFile(file, []byte("mid\tcomment\n7\t5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := harness.LowPort(t, rand.New(rand.NewPCG(rand.Uint64(), 0)))
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	harness.WantCtl(t, 1, []string{"import", file, "--to", addr, "--wait", "0s"}, addr+": connection refused\n")
	i := startImport(t, "import", file, "--to", addr, "--wait", "1m")
	harness.Eventually(t, harness.StartTimeout, "the import to wait", func() bool { return strings.Contains(i.out.String(), "waiting for the target") })
	s := harness.StartAt(t, port, t.TempDir(), "--schema", "../../weibo.schema")
	if err := i.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, i.out.String())
	}
	if got := s.Dial(t).Do("GET", "7.cntcm"); got.Text != "5" {
		t.Errorf("got %+v", got)
	}
}

// TestImportWhileChanging: the source is written to all the time. What is read meanwhile is a number that it had; an import
// after that has all of them.
func TestImportWhileChanging(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	src, ok := harness.StartRedis(t)
	if !ok {
		return
	}
	c, s := redisClient(t, src), importTarget(t)
	mids := harness.Scaled(20_000)
	stop, ended := make(chan struct{}), make(chan struct{})
	last := map[uint64]int64{}
	go func() {
		defer close(ended)
		for round := int64(1); ; round++ {
			p := c.Pipeline()
			for range 500 {
				mid := uint64(rng.IntN(mids))
				p.Set(context.Background(), fmt.Sprintf("post:%d:likes", mid), round, 0) // rises
				last[mid] = round
			}
			if _, err := p.Exec(context.Background()); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond): // others need the processor too
			}
		}
	}()
	args := []string{"import", "redis://" + src.Addr, "--to", s.Addr, "--map", "post:{mid}:likes=weibo.attitude"}
	var before map[string]string
	for round := range 3 {
		if out, status := harness.Counterctl(t, append(args, "--verify", "none")...); status != 0 {
			t.Error(out)
		}
		after := harness.Contents(t, s, "weibo")
		for key := range before {
			if _, ok := after[key]; !ok {
				t.Fatalf("round %d: %s is gone", round, key)
			}
		}
		before = after
	}
	added := importTarget(t)
	harness.WantCtl(t, 1, []string{"import", "redis://" + src.Addr, "--to", added.Addr, "--map", "post:{mid}:likes=weibo.attitude", "--add", "--resume", filepath.Join(t.TempDir(), "state")},
		"NOT verified: the source was changed while it was read")
	close(stop)
	<-ended
	m := moved{}
	for mid, v := range last {
		m.set(mid, attitude, v)
	}
	harness.WantCtl(t, 0, args, "verified: ")
	m.want(t, "when the source stands still", s)
}

// TestImportHostile: keys and values that no counter has, much larger than any, and servers that refuse.
func TestImportHostile(t *testing.T) {
	t.Parallel()
	src, ok := harness.StartRedis(t, "--proto-max-bulk-len", "64mb")
	if !ok {
		return
	}
	c, s, m, ctx := redisClient(t, src), importTarget(t), moved{}, context.Background()
	fields := harness.Scaled(60_000)
	for from := 0; from < fields; from += 5000 {
		pipelined(t, c, func(p redis.Pipeliner) {
			for i := from; i < min(from+5000, fields); i++ {
				p.HSet(ctx, "likes", strconv.Itoa(i), i%1000)
				m.set(uint64(i), attitude, int64(i%1000))
			}
		})
	}
	huge := strings.Repeat("x", 20<<20)
	pipelined(t, c, func(p redis.Pipeliner) {
		p.Set(ctx, "post:\x00\xff\r\n:likes", 1, 0)
		p.Set(ctx, "post:"+strings.Repeat("1", 5000)+":likes", 1, 0)
		p.Set(ctx, "post:99999999999999999999:likes", 1, 0)
		p.Set(ctx, "post:1:likes", huge, 0)
		p.Set(ctx, "post:2:likes", "-3", 0)
		p.Set(ctx, "post:3:likes", "4294967296", 0)
		p.Set(ctx, "post:4:likes", "", 0)
		p.LPush(ctx, "post:5:likes", "1")
		p.Set(ctx, "post:6000000:likes", "6", 0)
		p.HSet(ctx, "p:7000000:c", "comments", "7", "reposts", huge)
		p.HSet(ctx, "p:8000000:c", "comments", "8", "reposts", "9")
		p.HSet(ctx, "p:9000000:c", "title", "8")
		p.HSet(ctx, "bucket:1", "1000", "8", huge, "9")
	})
	m.set(6000000, attitude, 6)
	m[8000000] = [3]int64{8, 9, 0}
	args := append([]string{"import", "redis://" + src.Addr, "--to", s.Addr}, everyShape...)
	out := harness.WantCtl(t, 1, args, "skipped: 2: no rule for the key", "skipped: 1: id out of range", "skipped: 1: another type than the rule's", "post:5:likes = list", "post:1:likes = xxxx",
		"skipped: 2: not a whole number", "skipped: 1: below 0", "skipped: 1: more than the column holds", "p:7000000:c = \"a value of over 16 MiB\"", "bucket:1 = \"a value of over 16 MiB\"")
	if len(out) > 20_000 {
		t.Errorf("%d bytes were printed", len(out))
	}
	m.want(t, "beside what maps", s)

	replica := harness.Start(t, "--replicaof", s.Addr[:strings.IndexByte(s.Addr, ':')]+" "+strconv.Itoa(s.Port))
	harness.WaitUntil(t, "the replica has the schema", func() bool {
		cr := replica.Dial(t)
		defer cr.Close()
		return strings.Contains(cr.Do("SCHEMA").Raw, "attitude")
	})
	for want, args := range map[string][]string{
		"READONLY":                      {"--to", replica.Addr, "--wait", "1ms"},
		"connection refused":            {"--to", "127.0.0.1:1", "--wait", "1ms"},
		"has no weibo.likes":            {"--to", s.Addr, "--map", "x:{mid}=weibo.likes"},
		"ADD COLUMN weibo likes hint=8": {"--to", s.Addr, "--map", "x:{mid}=weibo.likes"},
		"a key may fit rule":            {"--to", s.Addr, "--map", "post:{mid:16}:likes=weibo.repost"},
	} {
		out, status := harness.Counterctl(t, append(append([]string{"import", "redis://" + src.Addr}, args...), everyShape...)...)
		if status == 0 || !strings.Contains(out, want) {
			t.Errorf("%q: status %d: %s", args, status, out)
		}
	}
	harness.WantCtl(t, 2, []string{"import", "redis://" + src.Addr, "--to", s.Addr, "--map", "x:{mid}=weibo.repost", "--map", "y:{mid}=weibo.repost"}, "write the same column")
}

// TestImportCluster: all masters of a cluster are read, whichever node is named.
func TestImportCluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var nodes []*harness.Server
	for i := range 3 {
		n, ok := harness.StartRedis(t, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--cluster-port", strconv.Itoa(freeport.Take(t)))
		if !ok {
			return
		}
		nodes = append(nodes, n)
		c := redisClient(t, n)
		if err := c.ClusterAddSlotsRange(ctx, i*5462, min((i+1)*5462, 16384)-1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes[1:] {
		bus := n.Cmd.Args[len(n.Cmd.Args)-1]
		if err := redisClient(t, nodes[0]).Do(ctx, "CLUSTER", "MEET", "127.0.0.1", n.Port, bus).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		harness.WaitUntil(t, "the cluster is one", func() bool {
			info, err := redisClient(t, n).ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[1].Addr}, DisableIdentity: true})
	defer c.Close()
	m := moved{}
	p := c.Pipeline()
	for i := range 3000 {
		mid := uint64(i * 7)
		p.Set(ctx, fmt.Sprintf("post:%d:likes", mid), i, 0)
		p.HSet(ctx, fmt.Sprintf("p:{%d}:c", mid), "comments", i+1, "reposts", i+2)
		m[mid] = [3]int64{int64(i + 1), int64(i + 2), int64(i)}
	}
	if _, err := p.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes[1:] {
		s := importTarget(t)
		harness.WantCtl(t, 0, []string{"import", "redis://" + n.Addr, "--to", s.Addr, "--map", "post:{mid}:likes=weibo.attitude", "--map", "p:{{mid}}:c#comments=weibo.comment",
			"--map", "p:{{mid}}:c#reposts=weibo.repost", "--resume", filepath.Join(t.TempDir(), "state")}, "(a cluster of 3 masters)", "6,000 keys read", "verified: ")
		m.want(t, "from a cluster", s)
	}
}

// TestImportPassword: of the source and of the target, neither is shown.
func TestImportPassword(t *testing.T) {
	src, ok := harness.StartRedis(t, "--requirepass", "sourcesecret")
	if !ok {
		return
	}
	s := importTarget(t, "--requirepass", "targetsecret")
	c := redis.NewClient(&redis.Options{Addr: src.Addr, Password: "sourcesecret"})
	defer c.Close()
	if err := c.Set(t.Context(), "n:5", 6, 0).Err(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("COUNTERD_PASS", "targetsecret")
	rule := []string{"--to", s.Addr, "--map", "n:{mid}=weibo.repost"}
	harness.WantCtl(t, 1, append([]string{"import", "redis://" + src.Addr}, rule...), "NOAUTH")
	out := harness.WantCtl(t, 1, append([]string{"import", "redis://:wrongsecret@" + src.Addr}, rule...), "WRONGPASS")
	out += harness.WantCtl(t, 2, append([]string{"import", "redis://:wrongsecret@" + src.Addr + "/x/y"}, rule...), "SOURCE: ")
	if strings.Contains(out, "wrongsecret") {
		t.Errorf("the password is shown: %s", out)
	}
	harness.WantCtl(t, 0, append([]string{"import", "redis://:sourcesecret@" + src.Addr}, rule...), "verified")
	t.Setenv("SOURCE_PASS", "sourcesecret")
	harness.WantCtl(t, 0, append([]string{"import", "redis://" + src.Addr}, rule...), "verified")
}

// TestImportTLS: from a source by TLS to a target by TLS that asks for certificates, each as a user with just the rights
// that docs/operate/migrate.md names.
func TestImportTLS(t *testing.T) {
	ca := tlstest.NewCA(t)
	pair, own := ca.Pair("localhost"), ca.Pair("importer")
	certs := []string{"--tls-cert-file", pair.CertFile, "--tls-key-file", pair.KeyFile, "--tls-ca-cert-file", ca.File, "--tls-port"}
	sourcePort, targetPort := strconv.Itoa(freeport.Take(t)), strconv.Itoa(freeport.Take(t))
	src, ok := harness.StartRedis(t, append(certs, sourcePort, "--tls-auth-clients", "no")...)
	if !ok {
		return
	}
	s := importTarget(t, append(certs, targetPort, "--tls-auth-clients", "yes")...)
	c := redisClient(t, src)
	pipelined(t, c, func(p redis.Pipeliner) {
		p.Do(t.Context(), "ACL", "SETUSER", "mover", "on", ">sourcesecret", "~*", "+@read", "+info", "+select", "+cluster|slots")
		p.Set(t.Context(), "n:5", 6, 0)
		p.HSet(t.Context(), "h", "7", 8)
		p.Set(t.Context(), "n:h", "x", 0)
	})
	cs := s.Dial(t)
	cs.Want("+OK\r\n", "ACL", "SETUSER", "mover", "on", ">targetsecret", "~*", "+mset", "+counter.mincrby", "+counter.count", "+counter.sum", "+counter.mget", "+schema", "+idmp")
	cs.Close()
	t.Setenv("COUNTERD_PASS", "targetsecret")
	t.Setenv("SOURCE_PASS", "sourcesecret")
	rules := []string{"--map", "n:{mid}=weibo.repost", "--map", "h#{mid}=weibo.attitude"}
	target := append([]string{"--to", "localhost:" + targetPort, "--tls", "--cacert", ca.File, "--cert", own.CertFile, "--key", own.KeyFile, "--user", "mover"}, rules...)
	url := "rediss://mover@localhost:" + sourcePort
	harness.WantCtl(t, 1, append([]string{"import", url}, target...), "certificate")
	harness.WantCtl(t, 0, append([]string{"import", url, "--source-cacert", ca.File}, target...), "verified: ")
	harness.WantCtl(t, 0, append([]string{"import", url, "--source-cacert", ca.File, "--add", "--resume", filepath.Join(t.TempDir(), "state")}, target...), "verified: ")
	moved{5: {0, 12, 0}, 7: {0, 0, 16}}.want(t, "by TLS", s)
	harness.WantCtl(t, 1, []string{"import", url, "--source-cacert", ca.File, "--to", s.Addr, "--user", "mover", "--map", "x:{mid}=weibo.likes", "--create"}, "NOPERM")
	harness.WantCtl(t, 2, append([]string{"import", "redis://" + src.Addr, "--source-cacert", ca.File}, target...), "--source-cacert is for TLS: want --source-tls too")
}

package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestCommandTableAsRedis compares all that COMMAND says of the commands that both servers have: arity, flags, keys,
// categories, tips and key specifications, of subcommands too.
func TestCommandTableAsRedis(t *testing.T) {
	redis, ok := harness.StartRedis(t)
	if !ok {
		return
	}
	fields := []string{"name", "arity", "flags", "first", "last", "step", "cats", "tips", "keys"}
	var read func(entries []resptest.Value, into map[string][]resptest.Value)
	read = func(entries []resptest.Value, into map[string][]resptest.Value) {
		for _, e := range entries {
			into[e.List[0].Text] = e.List
			read(e.List[9].List, into)
		}
	}
	table := func(s *harness.Server) map[string][]resptest.Value {
		all := map[string][]resptest.Value{}
		read(s.Dial(t).Do("COMMAND").List, all)
		return all
	}
	theirs, ours := table(redis), table(harness.Start(t))
	shared := 0
	for name, our := range ours {
		their := theirs[name]
		if their == nil {
			continue
		}
		shared++
		for i, field := range fields {
			a, b := their[i].Raw, our[i].Raw
			if field == "flags" || field == "cats" || field == "tips" { // sets
				a, b = sorted(their[i]), sorted(our[i])
			}
			if newer := newerTips[name]; field == "tips" && newer != nil {
				a = strings.Join(newer, "")
			}
			if a == b {
				continue
			}
			t.Errorf("%s, %s:\n got %q\nwant %q", name, field, b, a)
		}
	}
	if shared < 100 {
		t.Errorf("got %d commands that both have", shared)
	}
}

// newerTips are tips that Redis 7.4 has and the installed Redis 7.0 lacks, in order, as they are on the wire. Clients of clusters act on
// them: go-redis returned an error for RANDOMKEY, whose replies of several shards it had no rule for.
var newerTips = func() map[string][]string {
	tips := map[string][]string{
		"randomkey":     {"request_policy:all_shards", "response_policy:special", "nondeterministic_output"},
		"scan":          {"request_policy:special", "response_policy:special", "nondeterministic_output"},
		"latency|reset": {"request_policy:all_nodes", "response_policy:agg_sum"},
	}
	for _, name := range []string{"config|resetstat", "config|rewrite", "acl|setuser", "acl|deluser", "acl|save", "client|setname"} {
		tips[name] = []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	}
	for _, list := range tips {
		for i, tip := range list {
			list[i] = fmt.Sprintf("$%d\r\n%s\r\n", len(tip), tip)
		}
		slices.Sort(list)
	}
	return tips
}()

// sorted are the raw elements of a set in order.
func sorted(v resptest.Value) string {
	var raw []string
	for _, e := range v.List {
		raw = append(raw, e.Raw)
	}
	slices.Sort(raw)
	return strings.Join(raw, "")
}

// TestErrorStatistics compares how many errors of which kind, and failed and rejected calls of which command, both
// servers counted behind a script of errors that are known when a command is read, when it has run, in pipelines and in
// transactions.
func TestErrorStatistics(t *testing.T) {
	redis, ok := harness.StartRedis(t)
	if !ok {
		return
	}
	ours := harness.Start(t)
	harness.RunScript(t, ours.Dial(t), harness.SchemaScript+harness.PlainScript)
	stats := func(s *harness.Server) string {
		c := s.Dial(t)
		for _, line := range []string{"HSET h:1 a 1 b 2 c 3", "SET n:1 9223372036854775807", "CONFIG RESETSTAT"} {
			c.Do(strings.Fields(line)...)
		}
		var batch []byte
		n := 0
		script := []string{"GET h:1", "INCR n:1", "INCRBY n:1 5", "INCRBY n:1 x", "GET h:1", "STRLEN h:1", "GETSET h:1 5", "SET h:1 5 GET", "HINCRBY h:1 a 9223372036854775807", "HINCRBY h:1 a x",
			"DECRBY n:1 -9223372036854775808", "GETDEL h:1", "INCR h:1", "MSET n:1", "MSET n:1 1 n:2", "GET", "NOSUCH", "EXEC", "MULTI", "INCR h:1", "GET h:1", "GET", "EXEC", "MULTI",
			"INCR h:1", "GET n:1", "EXEC", "OBJECT FREQ n:1", "SET n:1 5 XX NX", "SCAN x", "SCAN 0 COUNT 0", "CONFIG SET nosuch 1", "CLIENT NOSUCH", "SELECT 1x", "HSCAN h:1 x", "GET n:1"}
		for _, line := range script {
			batch = resptest.Append(batch, strings.Fields(line)...)
			n++
		}
		c.Write(string(batch))
		for range n {
			c.Reply()
		}
		var lines []string
		for _, section := range []string{"errorstats", "commandstats"} {
			for line := range strings.Lines(c.Do("INFO", section).Text) {
				line = strings.TrimSpace(line)
				name, rest, _ := strings.Cut(line, ":")
				switch _, counts, failed := strings.Cut(rest, ",rejected_calls="); {
				case strings.HasPrefix(name, "errorstat_"):
					lines = append(lines, line)
				case failed && counts != "0,failed_calls=0":
					lines = append(lines, name+" rejected,failed="+counts)
				}
			}
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	if a, b := stats(redis), stats(ours); a != b {
		t.Errorf("got\n%s\nwant\n%s", b, a)
	}
}

// TestWaitIsNoWork: the time that WAIT waits is in no statistics of work, and its limits of the slow log are those of
// EXEC.
func TestWaitIsNoWork(t *testing.T) {
	redis, ok := harness.StartRedis(t)
	if !ok {
		return
	}
	for _, s := range []*harness.Server{redis, harness.Start(t)} {
		c := s.Dial(t)
		c.Do("CONFIG", "SET", "slowlog-log-slower-than", "90000")
		c.Do("CONFIG", "RESETSTAT")
		c.Want(":0\r\n", "WAIT", "1", "100")
		if v := c.Do("SLOWLOG", "GET"); len(v.List) != 0 {
			t.Errorf("%s: got %q in the slow log, want nothing", s.Name, v.Raw)
		}
		c.Do("CONFIG", "SET", "slowlog-log-slower-than", "0")
		c.Do("SLOWLOG", "RESET")
		c.Do("MULTI")
		c.Do("PING")
		c.Do("EXEC")
		if v := c.Do("SLOWLOG", "GET"); strings.Contains(strings.ToLower(v.Raw), "$4\r\nexec\r\n") {
			t.Errorf("%s: got %q in the slow log, want no EXEC", s.Name, v.Raw)
		}
	}
}

// TestReplicaOfRedis: a replica that is pointed at a Redis says what is wrong.
func TestReplicaOfRedis(t *testing.T) {
	redis, ok := harness.StartRedis(t)
	if !ok {
		return
	}
	c := harness.Start(t).Dial(t)
	c.Want("+OK\r\n", "REPLICAOF", "127.0.0.1", strconv.Itoa(redis.Port))
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(c.Do("INFO", "replication").Text, "the primary is no counterd, maybe a Redis"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(c.Do("INFO", "replication").Text)
		}
	}
}

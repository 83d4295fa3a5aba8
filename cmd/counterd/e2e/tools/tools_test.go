package tools

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// handshakes are what clients and tools send when they connect, as recorded from them, and what each must be answered:
// a regular expression over the first bytes. Where a client checks more than that, a test below does.
var handshakes = []struct{ client, script string }{
	{"redis-py 8", `
		HELLO 3 => ^%7
		CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip => ^-ERR
		CLIENT SETINFO LIB-NAME redis-py => ^\+OK
		CLIENT SETINFO LIB-VER 8.0.0 => ^\+OK
		INCRBY 1.cntcm 1 => ^:\d`},
	{"go-redis 9", `
		hello 3 => ^%7
		client maint_notifications on moving-endpoint-type internal-ip => ^-ERR
		client setinfo LIB-NAME go-redis => ^\+OK
		client setinfo LIB-VER 9.23.0 => ^\+OK`},
	{"rueidis", `
		HELLO 3 => ^%7
		CLIENT TRACKING ON OPTIN => ^\+OK
		CLIENT SETINFO LIB-NAME rueidis => ^\+OK
		CLUSTER SLOTS => (?i)^-ERR .*cluster
		PING => ^\+PONG`},
	{"ioredis 6", `
		hello 3 => ^%7
		client SETINFO LIB-NAME ioredis => ^\+OK
		info => (?s)loading:0\r\n`},
	{"node-redis 6", `
		HELLO 3 => ^%7
		CLIENT SETINFO LIB-VER 6.0.0 => ^\+OK
		CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none => ^-ERR`},
	{"jedis", `
		CLIENT SETNAME app => ^\+OK
		CLIENT SETINFO LIB-NAME jedis => ^\+OK
		READONLY => ^-ERR This instance has cluster support disabled|^-ERR unknown command
		SELECT 0 => ^\+OK`},
	{"lettuce", `
		HELLO 3 SETNAME app => ^%7
		CLIENT SETINFO lib-name Lettuce => ^\+OK
		PING => ^\+PONG
		CLUSTER NODES => ^-ERR`},
	{"StackExchange.Redis", `
		HELLO 3 => ^%7
		CLIENT SETNAME host => ^\+OK
		CLIENT ID => ^:\d
		CONFIG GET timeout => ^(%1|\*2)\r\n\$7\r\ntimeout
		CONFIG GET slave-read-only => ^[%*]
		CONFIG GET replica-read-only => ^[%*]
		CONFIG GET databases => databases\r\n\$1\r\n1\r\n$
		SENTINEL MASTERS => ^-ERR
		INFO replication => (?s)role:master\r\n
		INFO server => (?s)redis_version:[67]
		CLUSTER NODES => ^-ERR
		GET __Booksleeve_TieBreak => ^(_|\$-1)\r\n$
		ECHO 0123456789abcdef => ^\$16\r\n0123456789abcdef\r\n$`},
	{"phpredis", `
		SELECT 0 => ^\+OK
		ECHO phpredis-pool-1 => ^\$15\r\nphpredis-pool-1\r\n$`},
	{"memtier_benchmark", `
		SELECT 0 => ^\+OK\r\n$
		HELLO 2 => ^\*14\r\n
		INCR 000000000001.cntrn => ^:\d`},
	{"redis-benchmark", `
		CONFIG GET save => ^\*2\r\n\$4\r\nsave\r\n\$
		CONFIG GET appendonly => ^\*2\r\n\$10\r\nappendonly\r\n\$`},
	{"redis_exporter", `
		CLIENT SETNAME redis_exporter => ^\+OK
		INFO ALL => ^[$=]
		CONFIG GET * => (?s)^\*.*databases\r\n\$1\r\n1\r\n
		LATENCY LATEST => ^\*
		LATENCY HISTOGRAM => ^\*
		SLOWLOG LEN => ^:\d
		SLOWLOG GET 1 => ^\*
		COMMAND INFO COMMANDLOG => ^(\*1\r\n\*-1|\*1\r\n\$-1|-)`},
	{"RedisInsight", `
		INFO => ^\$
		SENTINEL MASTERS => ^-
		CLUSTER INFO => ^-
		MODULE LIST => ^\*0
		CONFIG GET databases => ^\*2
		DBSIZE => ^:
		SCAN 0 MATCH * COUNT 10000 TYPE string => ^\*2
		TYPE 1.cntcm => ^\+string
		TTL 1.cntcm => ^:-1
		MEMORY USAGE 1.cntcm SAMPLES 0 => ^:[1-9]
		STRLEN 1.cntcm => ^:[1-9]`},
	{"Grafana", `
		PING => ^\+PONG
		CLIENT LIST => ^\$\d+\r\nid=\d+ addr=
		SLOWLOG GET 10 => ^\*
		MEMORY USAGE 1.cntcm => ^:[1-9]`},
	{"operator", `
		TIME => ^\*2\r\n\$10\r\n
		CLIENT INFO => ^\$\d+\r\nid=\d+ addr=
		CLIENT GETNAME => ^\$
		CLIENT NO-EVICT ON => ^\+OK
		CLIENT NO-TOUCH ON => ^\+OK
		CLIENT KILL TYPE pubsub => ^:0
		COMMAND COUNT => ^:\d\d
		COMMAND LIST => ^\*\d\d
		CONFIG RESETSTAT => ^\+OK
		CONFIG SET slowlog-log-slower-than 20000 => ^\+OK
		CONFIG GET slowlog-log-slower-than => 20000\r\n$
		SLOWLOG RESET => ^\+OK
		COUNTER.BLOCKS => ^[$*]
		SCHEMA => (?s)add counter weibo
		RESET => ^\+RESET`},
}

// TestHandshakes plays what clients and tools send.
func TestHandshakes(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	c.Want(":1\r\n", "INCR", "1.cntcm")
	for _, h := range handshakes {
		t.Run(h.client, func(t *testing.T) {
			c := s.Dial(t)
			for line := range strings.Lines(strings.TrimSpace(h.script)) {
				request, want, _ := strings.Cut(strings.TrimSpace(line), " => ")
				if v := c.Do(strings.Fields(request)...); !regexp.MustCompile(want).MatchString(v.Raw) {
					t.Errorf("%s\n got %.300q\nwant %s", request, v.Raw, want)
				}
			}
		})
	}
}

// infoFields are what tools read of INFO, by the section they look into.
var infoFields = map[string]string{
	"Server":       "redis_version redis_mode os arch_bits process_id run_id tcp_port uptime_in_seconds uptime_in_days",
	"Clients":      "connected_clients maxclients blocked_clients",
	"Memory":       "used_memory used_memory_rss mem_fragmentation_ratio maxmemory",
	"Persistence":  "loading rdb_bgsave_in_progress aof_enabled aof_rewrite_in_progress",
	"Stats":        "total_connections_received total_commands_processed instantaneous_ops_per_sec rejected_connections total_net_input_bytes total_net_output_bytes expired_keys evicted_keys keyspace_hits keyspace_misses",
	"Replication":  "role connected_slaves master_replid master_repl_offset",
	"CPU":          "used_cpu_sys used_cpu_user",
	"Commandstats": "cmdstat_incr",
	"Cluster":      "cluster_enabled",
	"Keyspace":     "db0",
}

// TestInfo checks the fields of INFO and the forms that parsers rely on.
func TestInfo(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	c.Want(":1\r\n", "INCR", "1.cntcm")
	all := c.Do("INFO", "EVERYTHING").Text
	if strings.Contains(strings.ReplaceAll(all, "\r\n", ""), "\n") {
		t.Error("INFO has lines that do not end in CR LF")
	}
	for section, fields := range infoFields {
		_, text, found := strings.Cut("\r\n"+all, "\r\n# "+section+"\r\n")
		if !found {
			t.Errorf("INFO has no section %s", section)
			continue
		}
		text, _, _ = strings.Cut(text, "\r\n# ")
		for field := range strings.FieldsSeq(fields) {
			if !strings.Contains("\r\n"+text, "\r\n"+field+":") {
				t.Errorf("INFO section %s has no field %s", section, field)
			}
		}
		// Asked for alone a section comes alone, whatever the case of its name.
		alone := c.Do("INFO", strings.ToLower(section)).Text
		if !strings.HasPrefix(alone, "# "+section+"\r\n") || strings.Count(alone, "# ") != 1 {
			t.Errorf("INFO %s answered %.100q", strings.ToLower(section), alone)
		}
	}
	for _, want := range []string{`\r\nrun_id:[0-9a-f]{40}\r\n`, `\r\ndb0:keys=1,expires=0,avg_ttl=0`, `\r\ncluster_enabled:0\r\n`,
		`\r\nrole:master\r\n`, `\r\ncmdstat_incr:calls=\d+,usec=\d+,usec_per_call=[0-9.]+,rejected_calls=\d+,failed_calls=\d+`} {
		if !regexp.MustCompile(want).MatchString(all) {
			t.Errorf("INFO does not match %s", want)
		}
	}
	if v := c.Do("INFO", "nosuch"); v.Kind != '$' || v.Text != "" {
		t.Errorf("INFO of an unknown section answered %.100q", v.Raw)
	}
}

// mustCommands are what clients and tools cannot do without, and our own.
const mustCommands = "ping echo quit hello auth select client command info config get set mget mset incr incrby decr decrby del unlink " +
	"exists type strlen ttl pttl scan dbsize multi exec discard watch unwatch setnx getset getdel flushall hget hmget hgetall hset hincrby " +
	"hexists hlen hkeys hvals hdel reset time memory slowlog latency cluster add drop schema counter.mget counter.mincrby counter.blocks"

// TestCommandTable checks the shapes that clients parse COMMAND by.
func TestCommandTable(t *testing.T) {
	s := harness.Start(t)
	for _, resp := range []string{"2", "3"} {
		c := s.Dial(t)
		c.Do("HELLO", resp)
		table := c.Do("COMMAND")
		var names []string
		for _, e := range table.List {
			if len(e.List) != 10 || e.List[0].Kind != '$' || e.List[1].Kind != ':' || e.List[3].Kind != ':' || e.List[4].Kind != ':' || e.List[5].Kind != ':' {
				t.Fatalf("RESP%s: an entry of COMMAND is %q", resp, e.Raw)
			}
			for _, flag := range e.List[2].List {
				if flag.Kind != '+' {
					t.Errorf("%s: flag %q, want simple strings", e.List[0].Text, flag.Raw)
				}
			}
			if e.List[0].Text != strings.ToLower(e.List[0].Text) {
				t.Errorf("name %s is not in lower case", e.List[0].Text)
			}
			names = append(names, e.List[0].Text)
		}
		for name := range strings.FieldsSeq(mustCommands) {
			if !slices.Contains(names, name) {
				t.Errorf("RESP%s: COMMAND does not list %s", resp, name)
			}
		}
		if n, err := c.Do("COMMAND", "COUNT").Int(); err != nil || int(n) != len(names) {
			t.Errorf("COMMAND COUNT is %d, %v; COMMAND lists %d", n, err, len(names))
		}
		docs := c.Do("COMMAND", "DOCS")
		if docs.Kind != map[string]byte{"2": '*', "3": '%'}[resp] || len(docs.List) != 2*len(names) {
			t.Errorf("RESP%s: COMMAND DOCS has type %c and %d elements, want two for each of %d commands", resp, docs.Kind, len(docs.List), len(names))
		}
		for i := 0; i+1 < len(docs.List); i += 2 {
			checkDocs(t, docs.List[i].Text, docs.List[i+1])
		}
		if one := c.Do("COMMAND", "DOCS", "GET", "nosuch"); len(one.List) != 2 || one.List[0].Text != "get" {
			t.Errorf("COMMAND DOCS GET nosuch answered %.200q", one.Raw)
		}
		info := c.Do("COMMAND", "INFO", "GET", "nosuch")
		if len(info.List) != 2 || len(info.List[0].List) != 10 || !info.List[1].Null {
			t.Errorf("COMMAND INFO GET nosuch answered %.200q", info.Raw)
		}
	}
}

// checkDocs checks one entry of COMMAND DOCS: what is text must be bulk strings, flags must be simple strings, or
// redis-cli aborts.
func checkDocs(t *testing.T, name string, doc resptest.Value) {
	t.Helper()
	summary := false
	for i := 0; i+1 < len(doc.List); i += 2 {
		key, v := doc.List[i], doc.List[i+1]
		if key.Kind != '$' {
			t.Errorf("COMMAND DOCS %s: key %q is no bulk string", name, key.Raw)
		}
		switch key.Text {
		case "summary":
			summary = v.Kind == '$' && v.Text != ""
		case "since", "group", "name", "type", "token":
			if v.Kind != '$' {
				t.Errorf("COMMAND DOCS %s: %s is %q, want a bulk string", name, key.Text, v.Raw)
			}
		case "flags":
			for _, flag := range v.List {
				if flag.Kind != '+' {
					t.Errorf("COMMAND DOCS %s: flag %q, want a simple string", name, flag.Raw)
				}
			}
		case "arguments":
			for _, argument := range v.List {
				checkArgument(t, name, argument)
			}
		}
	}
	if !summary {
		t.Errorf("COMMAND DOCS %s: no summary", name)
	}
}

func checkArgument(t *testing.T, name string, argument resptest.Value) {
	t.Helper()
	for i := 0; i+1 < len(argument.List); i += 2 {
		key, v := argument.List[i], argument.List[i+1]
		switch key.Text {
		case "name", "type", "token", "summary", "since", "display_text", "value":
			if v.Kind != '$' {
				t.Errorf("COMMAND DOCS %s: argument's %s is %q, want a bulk string", name, key.Text, v.Raw)
			}
		case "flags":
			for _, flag := range v.List {
				if flag.Kind != '+' {
					t.Errorf("COMMAND DOCS %s: argument's flag %q, want a simple string", name, flag.Raw)
				}
			}
		case "arguments":
			for _, a := range v.List {
				checkArgument(t, name, a)
			}
		}
	}
}

// TestHello checks the reply that every RESP3 client parses: seven pairs in Redis' order, keys as bulk strings.
func TestHello(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	for _, want := range []struct {
		proto string
		kind  byte
	}{{"2", '*'}, {"3", '%'}, {"2", '*'}} {
		v := c.Do("HELLO", want.proto)
		var keys []string
		for i := 0; i+1 < len(v.List); i += 2 {
			if v.List[i].Kind != '$' {
				t.Errorf("key %q is no bulk string", v.List[i].Raw)
			}
			keys = append(keys, v.List[i].Text)
		}
		if order := strings.Join(keys, " "); v.Kind != want.kind || order != "server version proto id mode role modules" {
			t.Fatalf("HELLO %s answered %q", want.proto, v.Raw)
		}
		if v.List[1].Raw != harness.BulkOf("redis") || v.List[3].Kind != '$' || v.List[5].Raw != ":"+want.proto+"\r\n" || v.List[7].Kind != ':' ||
			v.List[9].Raw != harness.BulkOf("standalone") || v.List[11].Raw != harness.BulkOf("master") || v.List[13].Raw != "*0\r\n" {
			t.Errorf("HELLO %s answered %q", want.proto, v.Raw)
		}
	}
}

package observability

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/counterd/counterd/internal/testkit/freeport"
)

// scrape reads /metrics of a server: values by `name{label="value",...}`, of histograms their counts.
func scrape(t testing.TB, addr string) map[string]float64 {
	t.Helper()
	all, err := tryScrape(addr)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func tryScrape(addr string) (map[string]float64, error) {
	client := http.Client{Timeout: harness.IoTimeout}
	resp, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return nil, fmt.Errorf("/metrics: %s", resp.Status)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, err
	}
	all := make(map[string]float64)
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			series := name
			if labels != nil {
				series += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.Histogram != nil:
				all[series] = float64(m.Histogram.GetSampleCount())
			case m.Counter != nil:
				all[series] = m.Counter.GetValue()
			default:
				all[series] = m.Gauge.GetValue()
			}
		}
	}
	return all, nil
}

// TestMetrics scrapes a primary and its replica all the time while clients write, the role is handed over, and a node
// starts again. Each scrape is whole, counters never fall, and in the end there is what was done, as INFO has it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	web := make([]string, 2)
	for i := range web {
		web[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Take(t)))
	}
	primary := harness.Start(t, "--metrics-addr", web[0])
	c := primary.Dial(t)
	harness.SeedSchema(t, c)
	replica := harness.Start(t, "--metrics-addr", web[1], "--replicaof", fmt.Sprintf("127.0.0.1 %d", primary.Port))

	stop := make(chan struct{})
	var scrapers sync.WaitGroup
	ended := sync.OnceFunc(func() {
		close(stop)
		scrapers.Wait()
	})
	t.Cleanup(ended) // before the servers go
	for _, addr := range web {
		scrapers.Go(func() {
			before := make(map[string]float64)
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				now, err := tryScrape(addr)
				if err != nil {
					t.Errorf("a scrape of %s: %v", addr, err)
					return
				}
				for series, was := range before {
					if counts := strings.HasPrefix(series, "counterd_") && strings.Contains(series, "_total"); counts && now[series] < was {
						t.Errorf("%s fell from %v to %v", series, was, now[series])
					}
				}
				before = now
			}
		})
	}
	const writers, each = 4, 500
	var writing sync.WaitGroup
	for w := range writers {
		conn := primary.Dial(t)
		writing.Go(func() {
			for i := range each {
				if v, err := conn.TryDo("INCR", fmt.Sprintf("%d.cntcm", w*each+i)); err != nil || !strings.HasPrefix(v.Raw, ":") {
					t.Errorf("INCR: %q %v", v.Raw, err)
					return
				}
			}
		})
	}
	writing.Wait()
	const posts = writers * each
	var got map[string]float64
	harness.Eventually(t, 2*time.Minute, "all posts are shown", func() bool { // blocks are not counted at each scrape
		got = scrape(t, web[0])
		return got[`counterd_posts{counter="weibo",tier="hot"}`] == posts
	})
	for series, want := range map[string]float64{`counterd_commands_total{command="incr"}`: writers * each, `counterd_command_duration_seconds{command="incr"}`: writers * each,
		`counterd_commands_failed_total{command="incr"}`: 0, `counterd_role{role="primary"}`: 1} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
	info := c.Do("INFO", "everything").Raw
	for series, field := range map[string]string{`counterd_posts{counter="weibo",tier="hot"}`: "hot_items", "counterd_log_end_bytes": "log_position",
		`counterd_commands_total{command="incr"}`: `cmdstat_incr:calls`, "counterd_max_clients": "maxclients", "counterd_error_replies_total{class=\"permanent\",error=\"ERR\"}": ""} {
		want := "0"
		if field != "" {
			m := regexp.MustCompile(`(?m)^` + field + `[:=](\d+)`).FindStringSubmatch(info)
			if m == nil {
				t.Fatalf("INFO has no %s", field)
			}
			want = m[1]
		}
		if v := strconv.FormatFloat(got[series], 'f', -1, 64); v != want {
			t.Errorf("%s is %s, and INFO says %s", series, v, want)
		}
	}
	lag := fmt.Sprintf(`counterd_replica_lag_bytes{replica="127.0.0.1:%d"}`, replica.Port)
	harness.Eventually(t, 2*time.Minute, "the replica has everything", func() bool {
		p, r := scrape(t, web[0]), scrape(t, web[1])
		behind, there := p[lag]
		return there && behind == 0 && r["counterd_link_up"] == 1 && r["counterd_link_lag_bytes"] == 0 && r[`counterd_posts{counter="weibo",tier="hot"}`] == posts
	})
	c.Want("+OK\r\n", "FAILOVER")
	harness.Eventually(t, 2*time.Minute, "the roles are changed", func() bool {
		p, r := scrape(t, web[0]), scrape(t, web[1])
		return p[`counterd_role{role="replica"}`] == 1 && p["counterd_link_up"] == 1 && r[`counterd_role{role="primary"}`] == 1 && r["counterd_failover_in_progress"] == 0
	})
	ended()

	replica.Stop()
	again := harness.Spawn(t, replica.Dir, "--metrics-addr", web[1])
	harness.Eventually(t, 2*time.Minute, "it serves again", func() bool {
		all, err := tryScrape(web[1])
		if err != nil {
			return false // it does not listen yet
		}
		_, there := all[`counterd_posts{counter="weibo",tier="hot"}`]
		if loading := all["counterd_loading"] == 1; loading == there {
			t.Errorf("loading is %v, and posts are there: %v", loading, there)
		}
		return there
	})
	if n := scrape(t, web[1])[`counterd_posts{counter="weibo",tier="hot"}`]; n != posts {
		t.Errorf("behind a start there are %v posts, want %v", n, posts)
	}
	resp, err := http.Get("http://" + web[1] + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 200 || string(body) != "ok\n" {
		t.Errorf("/healthz: %d %q", resp.StatusCode, body)
	}
	again.Stop()
}

// TestExporter reads what redis_exporter asks for by its rules: a field that does not fit them is left out of its page
// without a word.
func TestExporter(t *testing.T) {
	t.Parallel()
	primary := harness.Start(t)
	c := primary.Dial(t)
	harness.SeedSchema(t, c)
	replica := harness.Start(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", primary.Port))
	c.Want(":1\r\n", "INCR", "1.cntcm")
	c.Do("COUNTER.MGET", "weibo", "1")
	c.Do("INCR", "1.nothing")
	harness.Eventually(t, 2*time.Minute, "the replica is online", func() bool { return strings.Contains(c.Do("INFO", "replication").Raw, "state=online") })

	read := func(s *harness.Server) map[string]string {
		fields, section := make(map[string]string), ""
		numbers := func(key, value string, least int) {
			parts := strings.Split(value, ",")
			if len(parts) < least {
				t.Errorf("%s:%s: %d values, want %d", key, value, len(parts), least)
			}
			for _, p := range parts {
				_, v, ok := strings.Cut(p, "=")
				if _, err := strconv.ParseFloat(v, 64); !ok || err != nil {
					t.Errorf("%s:%s: %q is no number", key, value, p)
				}
			}
		}
		conn := s.Dial(t)
		_, text, _ := strings.Cut(conn.Do("INFO", "ALL").Raw, "\r\n")
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			if name, ok := strings.CutPrefix(line, "# "); ok {
				section = name
				continue
			}
			key, value, ok := strings.Cut(line, ":")
			if !ok {
				continue
			}
			fields[key] = value
			switch section {
			case "Commandstats":
				numbers(key, value, 5)
			case "Latencystats":
				numbers(key, value, 3)
			case "Errorstats":
				numbers(key, value, 1)
			case "Keyspace":
				numbers(key, value, 3)
			}
		}
		for _, section := range []string{"Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Commandstats", "Latencystats", "Errorstats", "Keyspace"} {
			if !strings.Contains(text, "# "+section+"\r\n") {
				t.Errorf("INFO ALL has no section %s", section)
			}
		}
		return fields
	}
	numeric := func(who string, fields map[string]string, names string) {
		for name := range strings.FieldsSeq(names) {
			v := strings.NewReplacer("ok", "1", "err", "0", "up", "1", "down", "0").Replace(fields[name])
			if _, err := strconv.ParseFloat(v, 64); err != nil {
				t.Errorf("INFO of the %s has %s:%s, want a number", who, name, fields[name])
			}
		}
	}
	// What its dashboards show, and what it maps of what is here.
	const both = `uptime_in_seconds process_id connected_clients blocked_clients maxclients used_memory used_memory_rss used_memory_peak used_memory_dataset
		mem_fragmentation_ratio maxmemory total_system_memory total_commands_processed total_connections_received rejected_connections keyspace_hits keyspace_misses
		total_net_input_bytes total_net_output_bytes expired_keys evicted_keys total_error_replies instantaneous_ops_per_sec loading rdb_changes_since_last_save
		rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_status rdb_last_bgsave_time_sec aof_enabled aof_rewrite_in_progress aof_last_bgrewrite_status
		aof_last_write_status aof_current_size aof_base_size connected_slaves master_repl_offset repl_backlog_size sync_full sync_partial_ok sync_partial_err
		used_cpu_sys used_cpu_user latest_fork_usec pubsub_channels pubsub_patterns storage_provider_read_hits storage_provider_read_misses cluster_enabled`
	of := read(primary)
	numeric("primary", of, strings.Replace(both, "rdb_changes_since_last_save", "", 1))
	if slave := of["slave0"]; !regexp.MustCompile(fmt.Sprintf(`^ip=127\.0\.0\.1,port=%d,state=online,offset=\d+,lag=\d+$`, replica.Port)).MatchString(slave) {
		t.Errorf("slave0:%s", slave)
	}
	if !strings.HasPrefix(of["db0"], "keys=1,expires=0,avg_ttl=0") || of["cmdstat_incr"] == "" || of["errorstat_ERR"] == "" || of["latency_percentiles_usec_incr"] == "" {
		t.Errorf("db0:%s cmdstat_incr:%s errorstat_ERR:%s", of["db0"], of["cmdstat_incr"], of["errorstat_ERR"])
	}
	of = read(replica)
	numeric("replica", of, strings.Replace(both, "rdb_changes_since_last_save", "", 1)+
		" master_port master_link_status master_last_io_seconds_ago master_sync_in_progress slave_repl_offset slave_priority slave_read_only")
	if of["master_host"] != "127.0.0.1" || of["role"] != "slave" {
		t.Errorf("the replica is %s of %q", of["role"], of["master_host"])
	}

	histogram := c.Do("LATENCY", "HISTOGRAM").List
	if len(histogram) == 0 || len(histogram)%2 != 0 {
		t.Fatalf("LATENCY HISTOGRAM has %d elements", len(histogram))
	}
	for i := 0; i < len(histogram); i += 2 {
		of := histogram[i+1].List
		if len(of) != 4 || of[0].Text != "calls" || of[2].Text != "histogram_usec" || len(of[3].List)%2 != 0 || len(of[3].List) == 0 {
			t.Errorf("LATENCY HISTOGRAM of %s: %v", histogram[i].Text, of)
			continue
		}
		if last := of[3].List[len(of[3].List)-1]; last.Raw != of[1].Raw {
			t.Errorf("LATENCY HISTOGRAM of %s counts %q of %q calls", histogram[i].Text, last.Raw, of[1].Raw)
		}
	}
	settings := c.Do("CONFIG", "GET", "*").List
	config := make(map[string]string)
	for i := 0; i+1 < len(settings); i += 2 {
		config[settings[i].Text] = settings[i+1].Text
	}
	for _, name := range []string{"maxmemory", "maxclients", "databases"} {
		if _, err := strconv.ParseUint(config[name], 10, 64); err != nil {
			t.Errorf("CONFIG GET %s: %q, want a number", name, config[name])
		}
	}
	if n := len(strings.Fields(config["client-output-buffer-limit"])); n != 12 {
		t.Errorf("client-output-buffer-limit has %d words, want 4 of each of 3 classes", n)
	}
}

// TestLogJSON: with log-format json each line of the log is an object with time, level and msg, also of a start that
// fails, and in neither form any password that clients, files or primaries name is in it.
func TestLogJSON(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		const secret = "hunter2-secret"
		s := harness.Start(t, "--log-format", format, "--loglevel", "debug", "--requirepass", secret+"-0", "--masterauth", secret+"-1", "--masteruser", secret+"-2",
			"--metrics-addr", "127.0.0.1:0")
		c := s.Dial(t)
		c.Do("AUTH", secret+"-3")
		c.Do("HELLO", "3", "AUTH", "default", secret+"-4")
		c.Do("AUTH", "default", secret+"-0")
		harness.Eventually(t, 2*time.Minute, "data is loaded", func() bool { return strings.Contains(c.Do("INFO", "persistence").Raw, "\nloading:0\r\n") })
		c.Do("CONFIG", "SET", "masterauth", secret+"-5")
		c.Do("CONFIG", "SET", "requirepas", secret+"-6")
		c.Do("ACL", "SETUSER", "ann", "on", ">"+secret+"-7", "+@all", "~*")
		c.Do("ACL", "SETUSER", "ann", ">"+secret+"-8", "nonsense")
		if v := c.Do("REPLICAOF", "127.0.0.1", "1"); v.Raw != "+OK\r\n" { // where nobody is
			t.Fatalf("REPLICAOF: %q", v.Raw)
		}
		harness.Eventually(t, 2*time.Minute, "the link is down", func() bool { return strings.Contains(s.Log.String(), "replication link to the primary is down") })
		c.Do("REPLICAOF", "NO", "ONE")
		c.Do("SHUTDOWN", "SAVE", secret+"-9")
		s.Stop()
		text := s.Log.String()
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s: a password is in the log: %q", format, text[max(0, i-200):min(len(text), i+40)])
		}
		if format != "json" {
			continue
		}
		lines := 0
		for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); lines++ {
			wantJSON(t, in.Text())
		}
		if lines < 5 {
			t.Errorf("the log has %d lines:\n%s", lines, text)
		}
	}
	out, status := harness.RunCounterd(t, "--log-format", "json", "--port", strconv.Itoa(freeport.Take(t)), "--schema", "/nothing/here")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		wantJSON(t, line)
	}
	if last := wantJSON(t, lines[len(lines)-1]); status != 1 || last["level"] != "ERROR" || !strings.Contains(fmt.Sprint(last["error"]), "/nothing/here") {
		t.Errorf("a start that fails: status %d\n%s", status, out)
	}
}

// wantJSON reads a line of the log.
func wantJSON(t testing.TB, line string) map[string]any {
	t.Helper()
	var of map[string]any
	if err := json.Unmarshal([]byte(line), &of); err != nil {
		t.Errorf("%q: %v", line, err)
		return nil
	}
	if _, err := time.Parse(time.RFC3339, fmt.Sprint(of["time"])); err != nil || of["msg"] == "" || of["msg"] == nil || !strings.Contains("DEBUG INFO WARN ERROR", fmt.Sprint(of["level"])) {
		t.Errorf("%q: want a time, a level and a msg (%v)", line, err)
	}
	return of
}

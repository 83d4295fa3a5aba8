package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
)

// infoFields reads INFO strictly: headers, CRLF, name:value. Fields are "section/name" and "name".
func infoFields(t *testing.T, text string) (fields map[string]string, sections []string) {
	t.Helper()
	fields = make(map[string]string)
	section := ""
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\r\n"), "\r\n") {
		if strings.ContainsAny(line, "\r\n") {
			t.Fatalf("line %q", line)
		}
		if title, ok := strings.CutPrefix(line, "# "); ok {
			section = strings.ToLower(title)
			sections = append(sections, title)
			continue
		}
		if line == "" {
			section = ""
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || section == "" || fields[section+"/"+name] != "" {
			t.Fatalf("line %q in section %q", line, section)
		}
		fields[name], fields[section+"/"+name] = value, value
	}
	return fields, sections
}

func TestInfoSections(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	const standard = "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace Tiers Idmp Feed Counterd"
	const all = "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats Cluster Keyspace Tiers Idmp Feed Counterd"
	for args, want := range map[string]string{
		"": standard, " default": standard, " all": all, " EVERYTHING": all, " server": "Server", " keyspace nosuch CPU": "CPU Keyspace",
		" commandstats default": strings.Replace(standard, "Errorstats", "Commandstats Errorstats", 1),
	} {
		v := c.do("INFO" + args)
		if _, got := infoFields(t, v.Text); strings.Join(got, " ") != want {
			t.Errorf("INFO%s: sections %v, want %s", args, got, want)
		}
	}
	if v := wireDial(t, s, 3).do("INFO server"); v.Kind != '=' {
		t.Errorf("RESP3: %v", v)
	}
	c.want("MULTI", "+OK")
	c.want("INFO", "+QUEUED")
	c.want("MEMORY STATS", "+QUEUED")
	infoFields(t, c.do("EXEC").List[0].Text)
}

func TestInfoFields(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	for i := range 10 {
		c.do(fmt.Sprintf("INCR %d.cntrn", i))
	}
	c.do("GET 1.cntrn")
	c.do("GET 100.cntrn")
	c.do("NOSUCH")
	c.do("SET 1.cntrn abc")
	c.do("CONFIG FOO")
	text := c.do("INFO everything").Text
	f, _ := infoFields(t, text)
	for name, want := range map[string]string{
		"redis_version": Version, "counterd_version": ServerVersion, "redis_mode": "standalone", "run_id": s.runID, "tcp_port": "0",
		"connected_clients": "1", "blocked_clients": "0", "maxclients": "10000", "maxmemory": "0", "maxmemory_policy": "noeviction",
		"loading": "0", "rdb_bgsave_in_progress": "0", "aof_enabled": "0", "aof_rewrite_in_progress": "0", "durability": "none", "aof_last_write_status": "ok",
		"total_connections_received": "1", "keyspace_hits": "1", "expired_keys": "0", "evicted_keys": "0", "total_error_replies": "3",
		"role": "master", "connected_slaves": "0", "master_replid": s.runID, "master_repl_offset": "0", "cluster_enabled": "0",
		"db0": "keys=10,expires=0,avg_ttl=0", "counters": "1", "columns": "2", "items": "10", "blocks": "1", "overflow_values": "0", "panics_total": "0",
		"errorstat_ERR": "count=3",
	} {
		if f[name] != want {
			t.Errorf("%s is %q, want %q", name, f[name], want)
		}
	}
	for _, name := range []string{"process_id", "used_memory", "used_memory_rss", "used_memory_peak", "total_commands_processed", "total_net_input_bytes",
		"total_net_output_bytes", "rdb_last_save_time", "block_bytes", "server_time_usec"} {
		if n, err := strconv.ParseInt(f[name], 10, 64); err != nil || n <= 0 {
			t.Errorf("%s is %q, want a number above 0", name, f[name])
		}
	}
	for _, name := range []string{"uptime_in_seconds", "instantaneous_ops_per_sec", "latest_fork_usec", "rejected_connections", "keyspace_misses"} {
		if _, err := strconv.ParseInt(f[name], 10, 64); err != nil {
			t.Errorf("%s is %q, want a number", name, f[name])
		}
	}
	for _, name := range []string{"mem_fragmentation_ratio", "used_cpu_sys", "used_cpu_user", "bytes_per_item", "instantaneous_input_kbps"} {
		if n, err := strconv.ParseFloat(f[name], 64); err != nil || n < 0 {
			t.Errorf("%s is %q, want a number", name, f[name])
		}
	}
	for name, want := range map[string]string{"cmdstat_incr": "calls=10,", "cmdstat_get": "calls=2,"} {
		if !strings.HasPrefix(f[name], want) {
			t.Errorf("%s is %q, want %s", name, f[name], want)
		}
	}
	if _, there := f["cmdstat_config"]; there || !strings.HasSuffix(f["cmdstat_set"], "rejected_calls=0,failed_calls=1") {
		t.Errorf("cmdstat_config is %s (of a subcommand that does not exist), cmdstat_set %s", f["cmdstat_config"], f["cmdstat_set"])
	}
	if !strings.HasPrefix(f["latency_percentiles_usec_incr"], "p50=") {
		t.Errorf("latency_percentiles_usec_incr is %q", f["latency_percentiles_usec_incr"])
	}
	if len(s.runID) != 40 || strings.Index(text, "\r\nrole:") > strings.Index(text, "\r\nconnected_slaves:") {
		t.Error("run_id has not 40 digits, or role is not first")
	}
	// redis-cli --stat takes the first place where these stand.
	for _, name := range []string{"used_memory:", "connected_clients:", "blocked_clients:", "total_commands_processed:", "loading:0"} {
		short := strings.TrimRight(name, ":0")
		if strings.Index(text, short) != strings.Index(text, name) {
			t.Errorf("%q stands before %q", short, name)
		}
	}
	c.want("CONFIG RESETSTAT", "+OK")
	f, _ = infoFields(t, c.do("INFO everything").Text)
	if f["cmdstat_incr"] != "" || f["keyspace_hits"] != "0" || f["errorstat_ERR"] != "" || f["total_commands_processed"] != "1" {
		t.Errorf("after RESETSTAT: %v", f)
	}
}

// TestSampler: the sampler is given the server's totals, and CONFIG RESETSTAT does not make a rate of them.
func TestSampler(t *testing.T) {
	s := wireServe(t, nil)
	s.sample()
	s.commands.Find([]byte("get")).Account(0, 1000, time.Millisecond)
	s.sample()
	if ops := s.sampler.Rates().Commands; ops <= 0 {
		t.Errorf("%v operations a second after 1000", ops)
	}
	s.commands.Each((*row).ResetStats)
	s.sample()
	if ops := s.sampler.Rates().Commands; ops != 0 {
		t.Errorf("%v operations a second after RESETSTAT", ops)
	}
}

// TestPersistenceCommands runs SAVE and its kin on a store that has a directory.
func TestPersistenceCommands(t *testing.T) {
	store, err := counter.Open(t.TempDir(), counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AlterScript(wireSchema); err != nil {
		t.Fatal(err)
	}
	s := wireServe(t, nil)
	empty := s.store()
	s.current.Store(store)
	t.Cleanup(func() {
		s.current.Store(empty)
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c := wireDial(t, s, 2)
	c.want("SET 1.cntrn 5", "+OK")
	c.save()
	f, _ := infoFields(t, c.do("INFO persistence").Text)
	if f["rdb_saves"] != "1" || f["aof_enabled"] != "1" || f["durability"] != "appendfsync everysec" || f["rdb_last_bgsave_status"] != "ok" || f["snapshot_blocks"] != "1" {
		t.Errorf("%v", f)
	}
	if n := c.do("LASTSAVE").N; n < s.started.Unix() {
		t.Errorf("LASTSAVE %d is before the start", n)
	}
	c.want("BGSAVE", "+Background saving started")
	for f["rdb_saves"] != "2" {
		f, _ = infoFields(t, c.do("INFO persistence").Text)
	}
	c.want("MULTI", "+OK")
	c.want("SAVE", "-ERR Command not allowed inside a transaction")
}

// TestInfoForDashboards: fields of Redis that dashboards use are there and move.
func TestInfoForDashboards(t *testing.T) {
	s := wireServe(t, nil)
	c, sub, watch := wireDial(t, s, 2), wireDial(t, s, 2), wireDial(t, s, 2)
	number := func(name string) int {
		t.Helper()
		n, err := strconv.Atoi(infoField(t, c, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return n
	}
	if number("used_memory_startup") <= 0 {
		t.Error("used_memory_startup is 0")
	}
	reads, writes, changes := number("total_reads_processed"), number("total_writes_processed"), number("rdb_changes_since_last_save")
	sub.want("SUBSCRIBE news", `["subscribe" "news" :1]`)
	watch.want("WATCH 1.cntrn 2.cntrn", "+OK")
	c.want("INCR 1.cntrn", ":1")
	c.want("MSET 1.cntrn 2 2.cntrn 3", "+OK")
	if got := number("rdb_changes_since_last_save"); got != changes+2 {
		t.Errorf("rdb_changes_since_last_save:%d, want %d", got, changes+2)
	}
	if r, w := number("total_reads_processed"), number("total_writes_processed"); r < reads+4 || w < writes+4 {
		t.Errorf("%d reads and %d writes behind %d and %d", r, w, reads, writes)
	}
	if p, w := number("pubsub_clients"), number("watching_clients"); p != 1 || w != 1 {
		t.Errorf("pubsub_clients:%d and watching_clients:%d, want 1", p, w)
	}
}

// Scenario: a scrape and INFO show the same, of a primary, a replica and a server that loads.

package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
)

// scraped is what /metrics shows: values by `name{label="value",...}`, of histograms their counts and sums.
func scraped(t testing.TB, s *Server) map[string]float64 {
	t.Helper()
	status, body := webGet(t, s, "/metrics", "")
	if status != 200 {
		t.Fatalf("/metrics: %d %s", status, body)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			suffix := ""
			if labels != nil {
				suffix = "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.Histogram != nil:
				all[name+"_count"+suffix] = float64(m.Histogram.GetSampleCount())
				all[name+"_sum"+suffix] = m.Histogram.GetSampleSum()
			case m.Counter != nil:
				all[name+suffix] = m.Counter.GetValue()
			case m.Gauge != nil:
				all[name+suffix] = m.Gauge.GetValue()
			}
		}
	}
	return all
}

// TestMetrics: what INFO and Prometheus tell is the same.
func TestMetrics(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{BlockItems: 64, SnapshotGrowth: -1}, func(c *config.Config) {
		withWeb(c)
		c.SlowlogSlower, c.RequirePass = 0, "secret" // which Prometheus is not asked for
	})
	c := wireDial(t, s, 2)
	c.want("AUTH secret", "+OK")
	for i := range 1000 {
		c.want(fmt.Sprintf("SET %d.cntcm %d", i*100, i), "+OK")
	}
	c.want("COUNTER.DEMOTE weibo 5", "+OK")
	c.want("INCR 5.cntcm", ":1")
	c.save()
	c.do("INCR 5.nothing")
	c.do("GET")
	c.do("NOSUCHCOMMAND")
	c.do("INCRBY 5.cntcm 1 IDMP me 1")
	c.do("INCRBY 5.cntcm 1 IDMP me 1")
	c.do("SUBSCRIBE news")
	c = wireDial(t, s, 2)
	c.want("AUTH secret", "+OK")
	text := c.do("INFO everything").Text
	got := scraped(t, s)
	info := func(field string) (v float64) {
		t.Helper()
		m := regexp.MustCompile(`(?m)(?:^|,)` + field + `[:=]([0-9.]+)`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("INFO has no %s", field)
		}
		if _, err := fmt.Sscan(m[1], &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for series, want := range map[string]float64{
		`counterd_build_info{version="` + ServerVersion + `"}`: 1,
		`counterd_loading`:                                            info("loading"),
		`counterd_connected_clients`:                                  info("connected_clients"),
		`counterd_max_clients`:                                        info("maxclients"),
		`counterd_connections_accepted_total`:                         info("total_connections_received"),
		`counterd_commands_total{command="set"}`:                      1000,
		`counterd_command_duration_seconds_count{command="set"}`:      1000,
		`counterd_commands_total{command="save"}`:                     1,
		`counterd_commands_failed_total{command="incr"}`:              1,
		`counterd_commands_rejected_total{command="get"}`:             1,
		`counterd_error_replies_total{class="permanent",error="ERR"}`: 3,
		`counterd_error_replies_total{class="transient",error="OOM"}`: 0,
		`counterd_posts{counter="weibo",tier="hot"}`:                  info("hot_items"),
		`counterd_posts{counter="weibo",tier="cold"}`:                 info("cold_items"),
		`counterd_blocks{counter="weibo",tier="hot"}`:                 info("hot_blocks"),
		`counterd_blocks{counter="weibo",tier="cold"}`:                1,
		`counterd_hot_bytes{counter="weibo"}`:                         info("hot_bytes"),
		`counterd_cold_file_bytes{counter="weibo"}`:                   info("cold_bytes"),
		`counterd_cold_index_bytes{counter="weibo"}`:                  info("cold_index_bytes"),
		`counterd_overlay_posts{counter="weibo"}`:                     1,
		`counterd_overlay_blocks{counter="weibo"}`:                    1,
		`counterd_overlay_bytes{counter="weibo"}`:                     info("overlay_bytes"),
		`counterd_tier_changes_total{change="demote"}`:                1,
		`counterd_cold_reads_total{cache="miss"}`:                     info("misses"),
		`counterd_page_cache_limit_bytes`:                             info("cache_limit"),
		`counterd_snapshots_total`:                                    1,
		`counterd_snapshot_last_ok`:                                   1,
		`counterd_snapshot_size_bytes`:                                info("snapshot_bytes"),
		`counterd_log_end_bytes`:                                      info("log_position"),
		`counterd_log_retained_bytes`:                                 info("log_bytes"),
		`counterd_log_disk_bytes`:                                     info("log_disk_bytes"),
		`counterd_log_write_size_bytes_sum`:                           info("log_written_bytes"),
		`counterd_log_write_size_bytes_count`:                         info("log_writes"),
		`counterd_disk_ready`:                                         1,
		`counterd_role{role="primary"}`:                               1,
		`counterd_role{role="replica"}`:                               0,
		`counterd_replicas{state="online"}`:                           0,
		`counterd_idmp_producers`:                                     1,
		`counterd_idmp_answers_total{answer="repeat"}`:                1,
		`counterd_idmp_max_producers`:                                 info("idmp_max_producers"),
		`counterd_pubsub_channels`:                                    1,
		`counterd_max_clients_memory_bytes`:                           256 << 20,
		`counterd_panics_total`:                                       0,
	} {
		if n, ok := got[series]; !ok || n != want {
			t.Errorf("%s: got %v (%v), want %v", series, n, ok, want)
		}
	}
	for series, least := range map[string]float64{
		"counterd_log_fsync_duration_seconds_count": 1, "counterd_slow_commands_total": 1000, "counterd_memory_used_bytes": 1000,
		"counterd_snapshot_last_success_timestamp_seconds": float64(time.Now().Add(-time.Hour).Unix()), "counterd_network_receive_bytes_total": 1000,
		`counterd_tier_change_seconds_total{change="demote"}`: 1e-9, `counterd_command_duration_seconds_sum{command="set"}`: 1e-9, "go_goroutines": 1,
	} {
		if n, ok := got[series]; !ok || n < least {
			t.Errorf("%s: got %v (%v), want %v at least", series, n, ok, least)
		}
	}
	if _, ok := got["counterd_link_up"]; ok {
		t.Error("a primary has a link")
	}
}

// TestMetricsOfNodes: a primary shows its replica, the replica its link, and a server that loads says so alone.
func TestMetricsOfNodes(t *testing.T) {
	primary := newReplNode(t)
	primary.change = withWeb
	primary.start("")
	if err := primary.srv.store().Set("1.cntcm", 1); err != nil {
		t.Fatal(err)
	}
	replica := newReplNode(t)
	replica.change = withWeb
	replica.start(primary.addr())
	name := fmt.Sprintf(`{replica="127.0.0.1:%d"}`, replica.port)
	until(t, "the replica follows", func() bool {
		p, r := scraped(t, primary.srv), scraped(t, replica.srv)
		lag, named := p["counterd_replica_lag_bytes"+name]
		return p[`counterd_replicas{state="online"}`] == 1 && named && lag == 0 && r["counterd_link_up"] == 1 && r[`counterd_role{role="replica"}`] == 1 &&
			r["counterd_link_lag_bytes"] == 0 && r[`counterd_posts{counter="weibo",tier="hot"}`] == 1
	})
	p, r := scraped(t, primary.srv), scraped(t, replica.srv)
	if kept := p["counterd_replica_log_kept_bytes"+name]; kept != p["counterd_log_end_bytes"]-p["counterd_log_first_bytes"] {
		t.Errorf("%v bytes of log are kept for the replica, which has all", kept)
	}
	if silent, ok := r["counterd_link_silent_seconds"]; !ok || silent < 0 {
		t.Errorf("the link was silent for %v s (%v)", silent, ok)
	}
	primary.stop()
	until(t, "the replica lost its link", func() bool {
		r := scraped(t, replica.srv)
		return r["counterd_link_up"] == 0 && r["counterd_link_down_seconds"] > 0
	})
	replica.srv.progress.beginLoading()
	if r := scraped(t, replica.srv); r["counterd_loading"] != 1 {
		t.Errorf("while loading: %v", r["counterd_loading"])
	} else if _, ok := r["counterd_link_up"]; ok {
		t.Error("while loading there is a link")
	}
	replica.srv.progress.endLoading()
}

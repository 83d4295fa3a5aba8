package server

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/counter"
)

// infoText collects the lines of INFO. Tools look for "\r\n", and for "# Name" before the lines of a section.
type infoText struct{ strings.Builder }

func (t *infoText) field(name string, value any) { fmt.Fprintf(t, "%s:%v\r\n", name, value) }

// bytes writes a size twice, as a number and for people.
func (t *infoText) bytes(name string, n int64) {
	t.field(name, n)
	t.field(name+"_human", human(n))
}

// human is n bytes as Redis writes it, 1.50M.
func human(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + "B"
	}
	f, unit := float64(n), 0
	for f >= 1024 && unit < 5 {
		f, unit = f/1024, unit+1
	}
	return strconv.FormatFloat(f, 'f', 2, 64) + "BKMGTP"[unit:unit+1]
}

// infoSection is one section of INFO.
type infoSection struct {
	title string
	asked bool // shown only when asked for, or with ALL
	write func(c *call, t *infoText)
}

// infoSections in the order of Redis.
var infoSections = []infoSection{
	{"Server", false, infoServer}, {"Clients", false, infoClients}, {"Memory", false, infoMemory}, {"Persistence", false, infoPersistence},
	{"Stats", false, infoStats}, {"Replication", false, func(c *call, t *infoText) { c.srv.node.Info(t.field) }}, {"CPU", false, infoCPU}, {"Modules", false, func(*call, *infoText) {}},
	{"Commandstats", true, infoCommandStats}, {"Errorstats", false, infoErrorStats}, {"Latencystats", true, infoLatencyStats},
	{"Cluster", false, infoCluster},
	{"Keyspace", false, infoKeyspace}, {"Tiers", false, infoTiers}, {"Idmp", false, infoIdmp}, {"Counterd", false, infoCounterd},
}

// runInfo: INFO [section ...]. Sections that are unknown are left out.
func runInfo(c *call, args [][]byte) {
	all, standard := false, len(args) == 1
	wanted := make(map[string]bool)
	for _, a := range args[1:] {
		switch name := strings.ToLower(string(a)); name {
		case "all", "everything":
			all = true
		case "default":
			standard = true
		default:
			wanted[name] = true
		}
	}
	var t infoText
	for _, s := range infoSections {
		if !all && (!standard || s.asked) && !wanted[strings.ToLower(s.title)] {
			continue
		}
		if t.Len() > 0 {
			t.WriteString("\r\n")
		}
		t.WriteString("# " + s.title + "\r\n")
		s.write(c, &t)
	}
	c.Out.Text(t.String())
}

func infoServer(c *call, t *infoText) {
	s := c.srv
	conf := s.config.Get()
	executable, _ := os.Executable() // empty if unknown
	up := int64(time.Since(s.started) / time.Second)
	t.field("redis_version", Version)
	t.field("counterd_version", ServerVersion)
	t.field("redis_git_sha1", "00000000")
	t.field("redis_git_dirty", 0)
	t.field("redis_build_id", "0")
	t.field("redis_mode", c.mode())
	t.field("os", runtime.GOOS+" "+runtime.GOARCH)
	t.field("arch_bits", strconv.IntSize)
	t.field("multiplexing_api", "go")
	t.field("go_version", runtime.Version())
	t.field("process_id", os.Getpid())
	t.field("process_supervised", "no")
	t.field("run_id", s.runID)
	t.field("tcp_port", cmp.Or(conf.Port, conf.TLS.Port)) // as in Redis
	t.field("readonly_port", conf.ReadonlyPort)
	t.field("server_time_usec", time.Now().UnixMicro())
	t.field("uptime_in_seconds", up)
	t.field("uptime_in_days", up/86400)
	t.field("hz", 1)
	t.field("configured_hz", 1)
	t.field("executable", executable)
	t.field("config_file", conf.ConfigFile)
	t.field("io_threads_active", 0)
}

func infoClients(c *call, t *infoText) {
	c.session.Handler().Publish()
	input, output, readers, subscribers := 0, 0, 0, 0
	list := c.srv.connected()
	for _, other := range list {
		other.info.mu.Lock()
		input = max(input, other.info.state.queryBuf+other.info.state.queryGap)
		output = max(output, other.info.state.outSize)
		other.info.mu.Unlock()
		if other.readonly {
			readers++
		}
		if other.subs.Count() > 0 {
			subscribers++
		}
	}
	t.field("connected_clients", len(list))
	t.field("cluster_connections", 0)
	t.field("maxclients", c.srv.config.Get().MaxClients)
	t.field("readonly_clients", readers)
	t.field("readonly_maxclients", c.srv.config.Get().ReadonlyClients)
	t.field("client_recent_max_input_buffer", input)
	t.field("client_recent_max_output_buffer", output)
	t.field("blocked_clients", c.srv.front.Blocked())
	t.field("tracking_clients", c.srv.tracking.Figures().Clients)
	t.field("pubsub_clients", subscribers)
	watching, _ := c.srv.watches.Len()
	t.field("watching_clients", watching)
	t.field("clients_in_timeout_table", 0)
}

func infoMemory(c *call, t *infoText) {
	m := c.srv.memory()
	percent := func(part, whole int64) string { return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(max(1, whole))) }
	t.bytes("used_memory", m.Used)
	t.bytes("used_memory_rss", m.RSS)
	t.bytes("used_memory_peak", m.Peak)
	t.field("used_memory_peak_perc", percent(m.Used, m.Peak))
	t.field("used_memory_overhead", m.Heap)
	t.field("used_memory_startup", c.srv.startupMemory)
	t.field("used_memory_dataset", m.Items)
	t.field("used_memory_dataset_perc", percent(m.Items, m.Used))
	if total := stats.SystemMemory(); total > 0 {
		t.bytes("total_system_memory", total)
	}
	t.bytes("maxmemory", int64(c.srv.config.Get().MaxMemory))
	t.field("maxmemory_policy", "noeviction")
	t.field("mem_fragmentation_ratio", fmt.Sprintf("%.2f", float64(m.RSS)/float64(max(1, m.Used))))
	t.field("mem_fragmentation_bytes", m.RSS-m.Used)
	t.field("mem_not_counted_for_evict", 0)
	t.field("mem_replication_backlog", 0)
	t.field("mem_clients_slaves", 0)
	t.field("mem_clients_normal", c.srv.front.Held())
	t.field("mem_clients_pubsub", c.srv.pubsub.Unread())
	t.field("mem_aof_buffer", 0)
	t.field("mem_allocator", "go+mmap")
	t.field("active_defrag_running", 0)
	t.field("lazyfree_pending_objects", 0)
}

func infoStats(c *call, t *infoText) {
	s := &c.srv.stats
	rate := c.srv.sampler.Rates()
	t.field("total_connections_received", s.Connections.Load())
	t.field("total_commands_processed", c.srv.commands.Calls())
	t.field("instantaneous_ops_per_sec", int64(rate.Commands+0.5))
	t.field("total_net_input_bytes", s.InBytes.Load())
	t.field("total_net_output_bytes", s.OutBytes.Load())
	t.field("instantaneous_input_kbps", fmt.Sprintf("%.2f", rate.InBytes/1024))
	t.field("instantaneous_output_kbps", fmt.Sprintf("%.2f", rate.OutBytes/1024))
	t.field("rejected_connections", s.Rejected.Load())
	t.field("tls_failed_handshakes", s.FailedHandshakes.Load())
	t.field("sync_full", c.srv.node.Peers().Full.Load())
	t.field("sync_partial_ok", c.srv.node.Peers().PartialOK.Load())
	t.field("sync_partial_err", c.srv.node.Peers().PartialErr.Load())
	t.field("expired_keys", 0)
	t.field("evicted_keys", 0)
	t.field("evicted_clients", s.EvictedClients.Load())
	t.field("client_output_buffer_limit_disconnections", s.SlowSubscribers.Load())
	t.field("keyspace_hits", s.Hits.Load())
	t.field("keyspace_misses", s.Misses.Load())
	t.field("pubsub_channels", c.srv.pubsub.Len(pubsub.Channel))
	t.field("pubsub_patterns", c.srv.pubsub.Len(pubsub.Pattern))
	t.field("pubsubshard_channels", c.srv.pubsub.Len(pubsub.Shard))
	f := c.srv.tracking.Figures()
	t.field("tracking_total_keys", f.Items)
	t.field("tracking_total_items", f.Keys)
	t.field("tracking_total_prefixes", f.Prefixes)
	t.field("latest_fork_usec", 0)
	t.field("total_forks", 0)
	t.field("total_error_replies", s.ErrorReplies.Load())
	t.field("protocol_errors", s.ProtocolErrors.Load())
	t.field("total_reads_processed", s.Reads.Load())
	t.field("total_writes_processed", s.Writes.Load())
	denied := &c.srv.denials.Denied
	t.field("acl_access_denied_auth", denied[acl.DeniedAuth].Load())
	t.field("acl_access_denied_cmd", denied[acl.DeniedCommand].Load())
	t.field("acl_access_denied_key", denied[acl.DeniedKey].Load())
	t.field("acl_access_denied_channel", denied[acl.DeniedChannel].Load())
}

func infoCPU(_ *call, t *infoText) {
	self, children := stats.UsedCPU()
	t.field("used_cpu_sys", fmt.Sprintf("%.6f", self.System.Seconds()))
	t.field("used_cpu_user", fmt.Sprintf("%.6f", self.User.Seconds()))
	t.field("used_cpu_sys_children", fmt.Sprintf("%.6f", children.System.Seconds()))
	t.field("used_cpu_user_children", fmt.Sprintf("%.6f", children.User.Seconds()))
}

func infoCommandStats(c *call, t *infoText) {
	c.srv.commands.Each(func(cmd *row) {
		calls, usec, rejected, failed := cmd.Calls(), cmd.Nanos()/1000, cmd.Rejected.Load(), cmd.Failed.Load()
		if calls+rejected+failed == 0 {
			return
		}
		t.field("cmdstat_"+cmd.Name, fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			calls, usec, float64(cmd.Nanos())/1000/float64(max(1, calls)), rejected, failed))
	})
}

func infoErrorStats(c *call, t *infoText) {
	safe := strings.NewReplacer(":", "_", "#", "_", "\r", "_", "\n", "_", "=", "_")
	for _, e := range c.srv.stats.Errors() {
		t.field("errorstat_"+safe.Replace(e.Word), fmt.Sprintf("count=%d", e.N))
	}
}

// infoLatencyStats gives bounds of the percentiles in microseconds, with three decimals as Redis gives them.
func infoLatencyStats(c *call, t *infoText) {
	c.srv.commands.Each(func(cmd *row) {
		if cmd.Calls() > 0 {
			times := cmd.Times()
			us := func(p float64) float64 { return float64(times.Percentile(p)) / float64(time.Microsecond) }
			t.field("latency_percentiles_usec_"+cmd.Name, fmt.Sprintf("p50=%.3f,p99=%.3f,p99.9=%.3f", us(0.5), us(0.99), us(0.999)))
		}
	})
}

// infoTiers tells where posts are: in memory, or in cold files with their changes in overlays.
func infoTiers(c *call, t *infoText) {
	var st counter.TierStats
	c.figures(func(b *counter.Batch) { st = b.Tiers() })
	t.field("hot_items", st.HotItems)
	t.field("hot_blocks", st.HotBlocks)
	t.field("hot_bytes", st.HotBytes)
	t.field("cold_items", st.ColdItems)
	t.field("cold_blocks", st.ColdBlocks)
	t.field("cold_bytes", st.ColdBytes)
	t.field("cold_index_bytes", st.IndexBytes)
	t.field("overlay_items", st.OverlayItems)
	t.field("overlay_bytes", st.OverlayBytes)
	t.field("hits", st.Cache.Hits)
	t.field("misses", st.Cache.Misses)
	t.field("page_reads", st.Cache.PageReads)
	t.field("cache_bytes", st.Cache.Bytes)
	t.field("cache_limit", st.Cache.Limit)
	t.field("demotions", st.Demotions)
	t.field("promotions", st.Promotions)
	t.field("rewrites", st.Rewrites)
	t.field("tier_failures", st.Failed)
	t.field("write_amplification", fmt.Sprintf("%.2f", float64(st.Written)/float64(max(1, st.Fresh))))
	t.field("cold_read_errors", st.ReadErrors)
	t.field("cold_files_unusable", st.Broken)
	t.field("scrubbed_files", st.Scrubs)
	t.field("scrub_errors", st.ScrubErrors)
	refusing, scrubbing := 0, 0
	if st.Full {
		refusing = 1
	}
	if st.Scrubbing {
		scrubbing = 1
	}
	t.field("scrub_in_progress", scrubbing)
	t.field("memory_refusing_writes", refusing)
	t.field("memory_refusals", st.Refused)
	t.field("storage_provider_read_hits", st.Cache.Hits)
	t.field("storage_provider_read_misses", st.Cache.Misses)
}

func infoKeyspace(c *call, t *infoText) {
	items := 0
	c.figures(func(b *counter.Batch) { items = b.Items() })
	if items > 0 {
		t.field("db0", fmt.Sprintf("keys=%d,expires=0,avg_ttl=0", items))
	}
}

// blockTotals sums over all blocks.
type blockTotals struct {
	counters, columns, items, blocks, overflows int
	bytes                                       int64
}

func (c *call) blockTotals() (n blockTotals) {
	c.figures(func(b *counter.Batch) {
		for _, def := range b.Schema().Counters() {
			n.counters++
			n.columns += len(def.Columns)
		}
		b.Blocks(func(i counter.BlockInfo) bool {
			n.blocks++
			n.items += i.Items
			n.overflows += i.Overflows
			n.bytes += int64(i.Bytes)
			return true
		})
	})
	return n
}

// perItem is bytes for each item, 0 without items.
func (n *blockTotals) perItem() float64 {
	if n.items == 0 {
		return 0
	}
	return float64(n.bytes) / float64(n.items)
}

func infoCounterd(c *call, t *infoText) {
	n := c.blockTotals()
	t.field("counters", n.counters)
	t.field("columns", n.columns)
	t.field("items", n.items)
	t.field("blocks", n.blocks)
	t.field("block_bytes", n.bytes)
	t.field("bytes_per_item", fmt.Sprintf("%.2f", n.perItem()))
	t.field("overflow_values", n.overflows)
	t.field("panics_total", c.srv.stats.Panics.Load())
}

package facts

import (
	"os"
	"runtime"
	"strconv"
	"time"
)

// fixed is a field of INFO that always has the same value: tools for Redis expect it.
func fixed(name, value, help string) Fact {
	return Fact{Info: name, Redis: true, Help: help, read: func(*State) Value { return Text(value) }}
}

// executable is the path of the program, empty if it is not known.
var executable = func() string { path, _ := os.Executable(); return path }()

// processRows are about the process itself.
var processRows = in("Server", PartProcess,
	Fact{Info: "redis_version", Help: "Version of Redis whose commands and replies clients can expect.", read: func(s *State) Value { return Text(s.Process.RedisVersion) }},
	Fact{Info: "counterd_version", Metric: "build_info", Type: Gauge, Labels: []string{"version"}, Help: "Version of counterd. The metric is always 1 and has the version as a label.",
		read:   func(s *State) Value { return Text(s.Process.Version) },
		series: func(s *State, add func(v Value, labels ...string)) { add(Int(1), s.Process.Version) }},
	fixed("redis_git_sha1", "00000000", "Always 00000000."),
	fixed("redis_git_dirty", "0", "Always 0."),
	fixed("redis_build_id", "0", "Always 0."),
	Fact{Info: "redis_mode", Help: "standalone, or cluster for a node of a cluster.", read: func(s *State) Value { return Text(s.Process.Mode) }},
	Fact{Info: "os", Help: "Operating system and processor architecture.", read: func(*State) Value { return Text(runtime.GOOS + " " + runtime.GOARCH) }},
	Fact{Info: "arch_bits", Help: "Bits of a machine word.", read: func(*State) Value { return Int(strconv.IntSize) }},
	fixed("multiplexing_api", "go", "Always go."),
	Fact{Info: "go_version", Help: "Version of Go that compiled the program.", read: func(*State) Value { return Text(runtime.Version()) }},
	Fact{Info: "process_id", Help: "Process id.", read: func(*State) Value { return Int(os.Getpid()) }},
	fixed("process_supervised", "no", "Always no."),
	Fact{Info: "run_id", JSON: "run", Help: "Random id of this process, 40 hexadecimal digits.", read: func(s *State) Value { return Text(s.Process.RunID) }},
	Fact{Info: "tcp_port", Help: "Port for clients: the TLS port if there is no other.", read: func(s *State) Value { return Int(s.Process.Port) }},
	Fact{Info: "readonly_port", Help: "Port for clients that only read; 0 if there is none.", read: func(s *State) Value { return Int(s.Process.ReadonlyPort) }},
	Fact{Info: "server_time_usec", Unit: "µs since 1970", Help: "Time of the server's clock.", read: func(*State) Value { return Int(time.Now().UnixMicro()) }},
	Fact{Info: "uptime_in_seconds", Help: "Time since the server started.", read: func(s *State) Value { return Span(time.Since(s.Process.Started)) }},
	Fact{Info: "uptime_in_days", Unit: "days", Help: "The same in whole days.", read: func(s *State) Value { return Int(int64(time.Since(s.Process.Started) / (24 * time.Hour))) }},
	fixed("hz", "1", "Always 1."),
	fixed("configured_hz", "1", "Always 1."),
	Fact{Info: "executable", Help: "Path of the program.", read: func(*State) Value { return Text(executable) }},
	Fact{Info: "config_file", Help: "Path of the configuration file; empty if there is none.", read: func(s *State) Value { return Text(s.Process.ConfigFile) }},
	fixed("io_threads_active", "0", "Always 0."),
	Fact{Metric: "tls_certificate_expiry_timestamp_seconds", Type: Gauge, JSON: "certificate", Help: "Time at which the TLS certificate of this node expires; absent without TLS.",
		read: func(s *State) Value { return known(!s.Process.Certificate.IsZero(), Moment(s.Process.Certificate)) }},
	Fact{JSON: "role", Help: "primary or replica.", read: func(s *State) Value { return Text(s.Role) }},
)

// clientRows are about connections.
var clientRows = join(
	in("Clients", PartClients,
		Fact{Info: "connected_clients", Metric: "connected_clients", Type: Gauge, JSON: "clients.connected",
			Help: "Open connections, including replicas and clients of the port for reads.", read: func(s *State) Value { return Int(s.Clients.Connected) }},
		fixed("cluster_connections", "0", "Always 0: there is no cluster bus."),
		Fact{Info: "maxclients", Metric: "max_clients", Type: Gauge, JSON: "clients.max",
			Help: "Setting maxclients: the maximum number of connections, not counting those of the port for reads.", read: func(s *State) Value { return Int(s.Clients.Max) }},
		Fact{Info: "readonly_clients", Metric: "readonly_clients", Type: Gauge, JSON: "clients.readers",
			Help: "Open connections of the port for reads.", read: func(s *State) Value { return Int(s.Clients.Readers) }},
		Fact{Info: "readonly_maxclients", Metric: "max_readonly_clients", Type: Gauge, JSON: "clients.readersMax",
			Help: "Setting readonly-maxclients: the maximum number of connections of the port for reads.", read: func(s *State) Value { return Int(s.Clients.ReadersMax) }}),
	in("Clients", PartConnections,
		Fact{Info: "client_recent_max_input_buffer", Unit: "bytes", Help: "Size of the largest input buffer of a connection.", read: func(s *State) Value { return Int(s.Connections.InputMax) }},
		Fact{Info: "client_recent_max_output_buffer", Unit: "bytes", Help: "Size of the largest output buffer of a connection.", read: func(s *State) Value { return Int(s.Connections.OutputMax) }}),
	in("Clients", PartClients,
		Fact{Info: "blocked_clients", Metric: "blocked_clients", Type: Gauge, JSON: "clients.blocked",
			Help: "Connections that wait inside a command: WAIT, WAITAOF, or a pause.", read: func(s *State) Value { return Int(s.Clients.Blocked) }}),
	in("Clients", PartPubsub,
		Fact{Info: "tracking_clients", Metric: "tracking_clients", Type: Gauge,
			Help: "Connections that use CLIENT TRACKING: they cache values and receive invalidations.", read: func(s *State) Value { return Int(s.Tracking.Clients) }}),
	in("Clients", PartConnections,
		Fact{Info: "pubsub_clients", JSON: "clients.subscribers", Help: "Connections with at least one subscription.", read: func(s *State) Value { return Int(s.Connections.Subscribers) }}),
	in("Clients", PartClients,
		Fact{Info: "watching_clients", Help: "Connections that watch keys.", read: func(s *State) Value { return Int(s.Clients.Watching) }},
		fixed("clients_in_timeout_table", "0", "Always 0."),
		Fact{Metric: "clients_memory_bytes", Type: Gauge, JSON: "clients.held", Help: "Memory of connection buffers and of messages that subscribers have not read yet.",
			read: func(s *State) Value { return Int(s.Clients.Buffered + s.Clients.Unread) }},
		Fact{Metric: "max_clients_memory_bytes", Type: Gauge, JSON: "clients.heldMax", Help: "Setting maxmemory-clients: the limit of clients_memory_bytes; 0 means no limit.",
			read: func(s *State) Value { return Int(s.Clients.HeldMax) }}),
)

// memoryRows are about the memory of the process.
var memoryRows = join(
	in("Memory", PartMemory,
		Fact{Info: "used_memory", Human: true, Metric: "memory_used_bytes", Type: Gauge, Unit: "bytes", Help: "Memory of posts and of objects in the Go heap.", read: func(s *State) Value { return Int(s.Memory.Used) }},
		Fact{Info: "used_memory_rss", Human: true, JSON: "memory.rss", Unit: "bytes", Help: "Resident memory of the process, as the system counts it.", read: func(s *State) Value { return Int(s.Memory.RSS) }},
		Fact{Info: "used_memory_peak", Human: true, Metric: "memory_peak_bytes", Type: Gauge, Unit: "bytes", Help: "The highest used_memory that was measured.", read: func(s *State) Value { return Int(s.Memory.Peak) }},
		Fact{Info: "used_memory_peak_perc", Unit: "percent", Help: "used_memory as a share of used_memory_peak.", read: func(s *State) Value { return percent(s.Memory.Used, s.Memory.Peak) }},
		Fact{Info: "used_memory_overhead", JSON: "memory.heap", Unit: "bytes", Help: "Objects in the Go heap.", read: func(s *State) Value { return Int(s.Memory.Heap) }},
		Fact{Info: "used_memory_startup", Unit: "bytes", Help: "used_memory when the server had started.", read: func(s *State) Value { return Int(s.Limits.Startup) }},
		Fact{Info: "used_memory_dataset", Unit: "bytes", Help: "Memory of posts.", read: func(s *State) Value { return Int(s.Memory.Items) }},
		Fact{Info: "used_memory_dataset_perc", Unit: "percent", Help: "used_memory_dataset as a share of used_memory.", read: func(s *State) Value { return percent(s.Memory.Items, s.Memory.Used) }},
		Fact{Info: "total_system_memory", Human: true, JSON: "memory.system", Unit: "bytes", Help: "Memory of the machine; absent if it is not known.",
			read: func(s *State) Value { return known(s.Limits.System > 0, Int(s.Limits.System)) }},
		Fact{Info: "maxmemory", Human: true, Metric: "maxmemory_bytes", Type: Gauge, JSON: "memory.limit", Unit: "bytes",
			Help: "Setting maxmemory: above it, the oldest ranges of posts are moved to files; 0 means no limit.", read: func(s *State) Value { return Int(s.Limits.MaxMemory) }},
		fixed("maxmemory_policy", "noeviction", "Always noeviction: posts are moved to files and never dropped."),
		Fact{Info: "mem_fragmentation_ratio", Unit: "ratio", Help: "used_memory_rss divided by used_memory.", read: func(s *State) Value { return Decimal(float64(s.Memory.RSS)/float64(max(1, s.Memory.Used)), 2) }},
		Fact{Info: "mem_fragmentation_bytes", Unit: "bytes", Help: "used_memory_rss minus used_memory.", read: func(s *State) Value { return Int(s.Memory.RSS - s.Memory.Used) }},
		fixed("mem_not_counted_for_evict", "0", "Always 0."),
		fixed("mem_replication_backlog", "0", "Always 0: replicas are sent the log."),
		fixed("mem_clients_slaves", "0", "Always 0: replicas are sent the log.")),
	in("Memory", PartClients,
		Fact{Info: "mem_clients_normal", Unit: "bytes", Help: "Memory of connection buffers.", read: func(s *State) Value { return Int(s.Clients.Buffered) }},
		Fact{Info: "mem_clients_pubsub", Unit: "bytes", Help: "Memory of messages that subscribers have not read yet.", read: func(s *State) Value { return Int(s.Clients.Unread) }}),
	in("Memory", PartProcess,
		fixed("mem_aof_buffer", "0", "Always 0."),
		fixed("mem_allocator", "go+mmap", "Always go+mmap: the Go heap, and mapped memory for posts."),
		fixed("active_defrag_running", "0", "Always 0."),
		fixed("lazyfree_pending_objects", "0", "Always 0.")),
)

// percent is part as a share of whole, as Redis shows it.
func percent(part, whole int64) Value {
	return Text(strconv.FormatFloat(100*float64(part)/float64(max(1, whole)), 'f', 2, 64) + "%")
}

// trafficRows are about what connections do.
var trafficRows = join(
	in("Stats", PartClients,
		Fact{Info: "total_connections_received", Metric: "connections_accepted_total", Type: Counter, Help: "Connections that were accepted.", read: func(s *State) Value { return Int(s.Clients.Accepted) }},
		Fact{Info: "total_commands_processed", Help: "Commands that were executed, including each command of a pipeline or transaction.", read: func(s *State) Value { return Int(s.Traffic.Commands) }},
		Fact{Info: "instantaneous_ops_per_sec", Unit: "per second", Help: "Commands per second, in the last second.", read: func(s *State) Value { return Int(int64(s.Traffic.Rates.Commands + 0.5)) }},
		Fact{Info: "total_net_input_bytes", Metric: "network_receive_bytes_total", Type: Counter, Unit: "bytes", Help: "Bytes received from clients.", read: func(s *State) Value { return Int(s.Traffic.InBytes) }},
		Fact{Info: "total_net_output_bytes", Metric: "network_transmit_bytes_total", Type: Counter, Unit: "bytes", Help: "Bytes sent to clients.", read: func(s *State) Value { return Int(s.Traffic.OutBytes) }},
		Fact{Info: "instantaneous_input_kbps", Unit: "KiB per second", Help: "Bytes received per second, in the last second.", read: func(s *State) Value { return Decimal(s.Traffic.Rates.InBytes/1024, 2) }},
		Fact{Info: "instantaneous_output_kbps", Unit: "KiB per second", Help: "Bytes sent per second, in the last second.", read: func(s *State) Value { return Decimal(s.Traffic.Rates.OutBytes/1024, 2) }},
		Fact{Info: "rejected_connections", Metric: "connections_rejected_total", Type: Counter, JSON: "clients.rejected",
			Help: "Connections that were refused: maxclients, protected mode, or too few file descriptors.", read: func(s *State) Value { return Int(s.Clients.Rejected) }},
		Fact{Info: "tls_failed_handshakes", Metric: "tls_handshake_failures_total", Type: Counter, Help: "Connections that were closed because their TLS handshake failed or took too long.",
			read: func(s *State) Value { return Int(s.Clients.FailedHandshakes) }}),
	of("Stats", PartClients, true,
		Fact{Info: "sync_full", Metric: "replica_syncs_total", Type: Counter, Labels: []string{"kind"}, Label: "full", Help: "Replicas that began with a full copy.", read: func(s *State) Value { return Int(s.Traffic.Syncs) }},
		Fact{Info: "sync_partial_ok", Metric: "replica_syncs_total", Type: Counter, Labels: []string{"kind"}, Label: "partial", Help: "Replicas that continued where they had stopped.", read: func(s *State) Value { return Int(s.Traffic.Partial) }},
		Fact{Info: "sync_partial_err", Metric: "replica_syncs_total", Type: Counter, Labels: []string{"kind"}, Label: "refused", Help: "Replicas that asked to continue and could not.", read: func(s *State) Value { return Int(s.Traffic.Refused) }}),
	in("Stats", PartClients,
		fixed("expired_keys", "0", "Always 0: posts do not expire."),
		fixed("evicted_keys", "0", "Always 0: posts are not evicted."),
		Fact{Info: "evicted_clients", Metric: "clients_evicted_total", Type: Counter, JSON: "clients.evicted", Help: "Connections that were closed because of maxmemory-clients.", read: func(s *State) Value { return Int(s.Clients.Evicted) }},
		Fact{Info: "client_output_buffer_limit_disconnections", Metric: "subscribers_disconnected_total", Type: Counter, Help: "Subscribers that were closed because of client-output-buffer-limit: they did not read fast enough.",
			read: func(s *State) Value { return Int(s.Clients.Overflowed) }},
		Fact{Info: "keyspace_hits", Metric: "post_hits_total", Type: Counter, Help: "Operations on posts that exist.", read: func(s *State) Value { return Int(s.Traffic.Hits) }},
		Fact{Info: "keyspace_misses", Metric: "post_misses_total", Type: Counter, Help: "Operations on posts that do not exist.", read: func(s *State) Value { return Int(s.Traffic.Misses) }}),
	in("Stats", PartPubsub,
		Fact{Info: "pubsub_channels", Metric: "pubsub_channels", Type: Gauge, Help: "Channels with at least one subscriber.", read: func(s *State) Value { return Int(s.Pubsub.Channels) }},
		Fact{Info: "pubsub_patterns", Metric: "pubsub_patterns", Type: Gauge, Help: "Channel patterns with at least one subscriber.", read: func(s *State) Value { return Int(s.Pubsub.Patterns) }},
		Fact{Info: "pubsubshard_channels", Metric: "pubsub_shard_channels", Type: Gauge, Help: "Shard channels with at least one subscriber.", read: func(s *State) Value { return Int(s.Pubsub.Shards) }},
		Fact{Info: "tracking_total_keys", Metric: "tracking_items", Type: Gauge, Help: "Posts whose changes are reported to tracking clients; tracking-table-max-keys limits them.", read: func(s *State) Value { return Int(s.Tracking.Items) }},
		Fact{Info: "tracking_total_items", Help: "Pairs of a tracking client and a post whose changes are reported to it.", read: func(s *State) Value { return Int(s.Tracking.Keys) }},
		Fact{Info: "tracking_total_prefixes", Metric: "tracking_prefixes", Type: Gauge, Help: "Key prefixes that tracking clients follow in broadcasting mode.", read: func(s *State) Value { return Int(s.Tracking.Prefixes) }}),
	in("Stats", PartClients,
		fixed("latest_fork_usec", "0", "Always 0: the server does not fork."),
		fixed("total_forks", "0", "Always 0: the server does not fork."),
		Fact{Info: "total_error_replies", Help: "Error replies.", read: func(s *State) Value { return Int(s.Traffic.ErrorReplies) }},
		Fact{Info: "protocol_errors", Metric: "protocol_errors_total", Type: Counter, Help: "Inputs that were not a valid command of the protocol.", read: func(s *State) Value { return Int(s.Clients.ProtocolErrors) }},
		Fact{Info: "total_reads_processed", Help: "Reads from connections that returned data.", read: func(s *State) Value { return Int(s.Traffic.Reads) }},
		Fact{Info: "total_writes_processed", Help: "Writes to connections.", read: func(s *State) Value { return Int(s.Traffic.Writes) }},
		denied("auth", "Wrong user names or passwords.", func(d *Denied) int64 { return d.Auth }),
		denied("cmd", "Commands that the user has no right to run.", func(d *Denied) int64 { return d.Command }),
		denied("key", "Commands on keys that the user has no right to.", func(d *Denied) int64 { return d.Key }),
		denied("channel", "Commands on channels that the user has no right to.", func(d *Denied) int64 { return d.Channel }),
		Fact{Metric: "slowlog_length", Type: Gauge, Help: "Entries in the slow log.", read: func(s *State) Value { return Int(s.Slow.Len) }},
		Fact{Metric: "slow_commands_total", Type: Counter, Help: "Commands, or batches of them, that took longer than slowlog-log-slower-than.", read: func(s *State) Value { return Int(s.Slow.Total) }}),
	in("CPU", PartCPU,
		Fact{Info: "used_cpu_sys", Unit: "seconds", Help: "Processor time that the process spent in the kernel.", read: func(s *State) Value { return Decimal(s.CPU.System.Seconds(), 6) }},
		Fact{Info: "used_cpu_user", Unit: "seconds", Help: "Processor time that the process spent outside of the kernel.", read: func(s *State) Value { return Decimal(s.CPU.User.Seconds(), 6) }},
		Fact{Info: "used_cpu_sys_children", Unit: "seconds", Help: "The same of child processes that have ended, in the kernel.", read: func(s *State) Value { return Decimal(s.Waited.System.Seconds(), 6) }},
		Fact{Info: "used_cpu_user_children", Unit: "seconds", Help: "The same of child processes that have ended, outside of the kernel.", read: func(s *State) Value { return Decimal(s.Waited.User.Seconds(), 6) }}),
)

// denied is a row of refusals by ACL.
func denied(reason, help string, of func(d *Denied) int64) Fact {
	label := reason
	if label == "cmd" {
		label = "command"
	}
	return Fact{Info: "acl_access_denied_" + reason, Metric: "acl_denied_total", Type: Counter, Labels: []string{"reason"}, Label: label, Help: help,
		read: func(s *State) Value { return Int(of(&s.Denied)) }}
}

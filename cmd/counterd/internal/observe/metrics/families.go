package metrics

import (
	"slices"
	"strings"

	"github.com/counterd/counterd/internal/errclass"
)

// families is the table, in the order of README.md.
var families = slices.Concat(serverFamilies, storeFamilies, nodeFamilies, clusterFamilies)

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// serverFamilies are of commands, connections and the process.
var serverFamilies = []family{
	{kind: gauge, name: "build_info", help: "1, with the version as a label.", labels: []string{"version"},
		many: func(f *Figures, add add) { add(1, f.Version) }},
	{kind: gauge, name: "loading", help: "1 while data is loaded, at the start or as a replica takes a copy: clients are answered LOADING.",
		one: func(f *Figures) float64 { return truth(f.Loading.Active) }},
	{kind: gauge, name: "loading_done_bytes", help: "Bytes of data that were loaded so far; 0 when it is done.",
		one: func(f *Figures) float64 {
			if !f.Loading.Active {
				return 0
			}
			return float64(f.Loading.Done)
		}},
	{kind: gauge, name: "loading_size_bytes", help: "Bytes of data that are to be loaded; 0 when it is done.",
		one: func(f *Figures) float64 {
			if !f.Loading.Active {
				return 0
			}
			return float64(f.Loading.Total)
		}},

	{kind: counts, name: "commands_total", help: "Commands that were executed, each one of a pipeline or a transaction.", labels: []string{"command"},
		many: func(f *Figures, add add) {
			for i := range f.Commands {
				add(float64(f.Commands[i].Calls), f.Commands[i].Name)
			}
		}},
	{kind: histogram, name: "command_duration_seconds", labels: []string{"command"},
		help: "Time to execute a command, without waiting for its turn, for the disk or for the network. Commands that are executed together have equal shares of their time.",
		times: func(f *Figures, add func(b Buckets, labels ...string)) {
			for i := range f.Commands {
				add(f.Commands[i].Times, f.Commands[i].Name)
			}
		}},
	{kind: counts, name: "commands_rejected_total", help: "Commands that were refused before they ran: wrong arguments, no rights, LOADING, READONLY.", labels: []string{"command"},
		many: func(f *Figures, add add) {
			for i := range f.Commands {
				add(float64(f.Commands[i].Rejected), f.Commands[i].Name)
			}
		}},
	{kind: counts, name: "commands_failed_total", help: "Commands that ran and were answered by an error.", labels: []string{"command"},
		many: func(f *Figures, add add) {
			for i := range f.Commands {
				add(float64(f.Commands[i].Failed), f.Commands[i].Name)
			}
		}},
	{kind: counts, name: "error_replies_total", labels: []string{"class", "error"},
		help: "Error replies by their first word. class: permanent (refused), transient (refused, may be sent again), in_doubt (may have been made).", many: errorReplies},
	{kind: counts, name: "acl_denied_total", help: "Refusals by ACL. reason: auth, a wrong password; command, key or channel, a right that the user has not.", labels: []string{"reason"},
		many: func(f *Figures, add add) {
			add(float64(f.Denied.Auth), "auth")
			add(float64(f.Denied.Command), "command")
			add(float64(f.Denied.Key), "key")
			add(float64(f.Denied.Channel), "channel")
		}},
	{kind: gauge, name: "tls_certificate_expiry_timestamp_seconds", help: "When the certificate that this node shows ends, in unix time; absent without TLS.",
		many: func(f *Figures, add add) {
			if !f.CertificateUntil.IsZero() {
				add(unix(f.CertificateUntil))
			}
		}},
	{kind: gauge, name: "slowlog_length", help: "Entries that SLOWLOG has.", one: func(f *Figures) float64 { return float64(f.Slow.Len) }},
	{kind: counts, name: "slow_commands_total", help: "Commands, or batches of them, that took longer than slowlog-log-slower-than.",
		one: func(f *Figures) float64 { return float64(f.Slow.Total) }},
	{kind: counts, name: "panics_total", help: "Panics in commands or HTTP requests: each closed one connection. They are in the log.",
		one: func(f *Figures) float64 { return float64(f.Clients.Panics) }},

	{kind: gauge, name: "connected_clients", help: "Connections, replicas and the port for reads included.", one: func(f *Figures) float64 { return float64(f.Clients.Connected) }},
	{kind: gauge, name: "readonly_clients", help: "Of them, those to readonly-port.", one: func(f *Figures) float64 { return float64(f.Clients.Readonly) }},
	{kind: gauge, name: "max_clients", help: "maxclients: connections at most, without those to readonly-port.", one: func(f *Figures) float64 { return float64(f.Clients.Max) }},
	{kind: gauge, name: "max_readonly_clients", help: "readonly-maxclients: connections to readonly-port at most.", one: func(f *Figures) float64 { return float64(f.Clients.ReadonlyMax) }},
	{kind: gauge, name: "blocked_clients", help: "Connections that wait in a command: WAIT, WAITAOF, a pause.", one: func(f *Figures) float64 { return float64(f.Clients.Blocked) }},
	{kind: counts, name: "connections_accepted_total", help: "Connections that were let in.", one: func(f *Figures) float64 { return float64(f.Clients.Accepted) }},
	{kind: counts, name: "connections_rejected_total", help: "Connections that were refused: maxclients, protected mode, too few descriptors.",
		one: func(f *Figures) float64 { return float64(f.Clients.Refused) }},
	{kind: counts, name: "clients_evicted_total", help: "Connections that maxmemory-clients closed.", one: func(f *Figures) float64 { return float64(f.Clients.Evicted) }},
	{kind: counts, name: "subscribers_disconnected_total", help: "Subscribers that client-output-buffer-limit closed, as they did not read.",
		one: func(f *Figures) float64 { return float64(f.Clients.Overflowed) }},
	{kind: counts, name: "protocol_errors_total", help: "What came and was no command.", one: func(f *Figures) float64 { return float64(f.Clients.ProtocolErrors) }},
	{kind: counts, name: "tls_handshake_failures_total", help: "Connections that were closed as their handshake of TLS failed, or took too long.",
		one: func(f *Figures) float64 { return float64(f.Clients.FailedHandshakes) }},
	{kind: counts, name: "network_receive_bytes_total", help: "Bytes that clients sent.", one: func(f *Figures) float64 { return float64(f.Traffic.InBytes) }},
	{kind: counts, name: "network_transmit_bytes_total", help: "Bytes that clients were sent.", one: func(f *Figures) float64 { return float64(f.Traffic.OutBytes) }},
	{kind: counts, name: "post_hits_total", help: "Operations on posts that were there.", one: func(f *Figures) float64 { return float64(f.Traffic.Hits) }},
	{kind: counts, name: "post_misses_total", help: "Operations on posts that were not there.", one: func(f *Figures) float64 { return float64(f.Traffic.Misses) }},
	{kind: gauge, name: "pubsub_channels", help: "Channels that somebody is subscribed to.", one: func(f *Figures) float64 { return float64(f.Pubsub.Channels) }},
	{kind: gauge, name: "pubsub_patterns", help: "Patterns that somebody is subscribed to.", one: func(f *Figures) float64 { return float64(f.Pubsub.Patterns) }},

	{kind: gauge, name: "pubsub_shard_channels", help: "Shard channels that somebody is subscribed to.", one: func(f *Figures) float64 { return float64(f.Pubsub.Shards) }},
	{kind: gauge, name: "tracking_clients", help: "Connections with CLIENT TRACKING: they keep what they read, and are told of changes.",
		one: func(f *Figures) float64 { return float64(f.Tracking.Clients) }},
	{kind: gauge, name: "tracking_items", help: "Posts whose changes they are to be told of; tracking-table-max-keys bounds them.",
		one: func(f *Figures) float64 { return float64(f.Tracking.Items) }},
	{kind: gauge, name: "tracking_prefixes", help: "Prefixes of keys that they are told of all changes of (BCAST).", one: func(f *Figures) float64 { return float64(f.Tracking.Prefixes) }},

	{kind: gauge, name: "memory_used_bytes", help: "Memory of posts and of Go's heap: used_memory of INFO.", one: func(f *Figures) float64 { return float64(f.Memory.Used) }},
	{kind: gauge, name: "memory_peak_bytes", help: "The most that memory_used_bytes was seen to be.", one: func(f *Figures) float64 { return float64(f.Memory.Peak) }},
	{kind: gauge, name: "clients_memory_bytes", help: "Memory in buffers of connections, and of messages that subscribers have not read.",
		one: func(f *Figures) float64 { return float64(f.Clients.HeldBytes + f.Clients.UnreadBytes) }},
	{kind: gauge, name: "max_clients_memory_bytes", help: "maxmemory-clients: what clients_memory_bytes is kept below; 0 is no limit.",
		one: func(f *Figures) float64 { return float64(f.Clients.MaxBytes) }},
}

// classes are those of package errclass as labels.
var classes = map[errclass.Class]string{errclass.Permanent: "permanent", errclass.Transient: "transient", errclass.InDoubt: "in_doubt"}

// codes are the first words of all errors that a server sends, each once.
var codes = func() (list []errclass.Row) {
	for _, row := range errclass.Table() {
		word, _, rest := strings.Cut(row.Code, " ")
		if !rest {
			list = append(list, errclass.Row{Code: word, Class: row.Class})
		}
	}
	return list
}()

// errorReplies names all errors that a server sends, so that the first of each is seen to come. Another first word may
// be a client's, and is none of them.
func errorReplies(f *Figures, add add) {
	all := int64(0)
	counted := make(map[string]int64, len(f.Errors))
	for _, e := range f.Errors {
		counted[e.Word] = e.N
		all += e.N
	}
	for i := range codes {
		n := counted[codes[i].Code]
		add(float64(n), classes[codes[i].Class], codes[i].Code)
		all -= n
	}
	add(float64(all), classes[errclass.Permanent], "other")
}

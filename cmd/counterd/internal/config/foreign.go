package config

import (
	"slices"
	"strings"
)

// foreign are settings of redis.conf that counterd does not have and can start without: counterd lacks the feature
// that they tune, or always behaves in that way. nil accepts every value, a list only values that describe
// counterd's behaviour. A setting that others rely on, such as include, is in no list: a server that ignored it
// would not run as the file describes.
var foreign = map[string][]string{
	// always so
	"notify-keyspace-events": {""},
	"aof-load-truncated":     {"yes"},
	"appendfilename":         nil, // the data directory has names of its own
	"appenddirname":          nil,
	"dbfilename":             nil,
	"activedefrag":           {"no"},
}

func init() {
	// counterd lacks the feature
	for name := range strings.FieldsSeq(`
		daemonize supervised pidfile logfile syslog-enabled syslog-ident syslog-facility crash-log-enabled crash-memcheck-enabled
		always-show-logo set-proc-title proc-title-template locale-collate oom-score-adj oom-score-adj-values disable-thp
		server-cpulist bio-cpulist aof-rewrite-cpulist bgsave-cpulist ignore-warnings shutdown-timeout shutdown-on-sigint shutdown-on-sigterm
		tcp-backlog socket-mark-id bind-source-addr io-threads io-threads-do-reads hz dynamic-hz
		enable-protected-configs enable-debug-command enable-module-command
		stop-writes-on-bgsave-error rdbcompression rdbchecksum rdb-del-sync-files rdb-save-incremental-fsync sanitize-dump-payload
		no-appendfsync-on-rewrite auto-aof-rewrite-percentage aof-rewrite-incremental-fsync aof-use-rdb-preamble aof-timestamp-enabled
		repl-diskless-sync repl-diskless-sync-delay repl-diskless-sync-max-replicas repl-diskless-sync-period repl-diskless-load repl-disable-tcp-nodelay
		repl-backlog-size repl-backlog-ttl repl-ping-replica-period repl-ping-slave-period replica-ignore-maxmemory replica-ignore-disk-write-errors
		maxmemory-samples maxmemory-eviction-tenacity lfu-log-factor lfu-decay-time active-expire-effort
		lazyfree-lazy-eviction lazyfree-lazy-expire lazyfree-lazy-server-del lazyfree-lazy-user-del lazyfree-lazy-user-flush replica-lazy-flush
		latency-monitor-threshold latency-tracking latency-tracking-info-percentiles lua-time-limit busy-reply-threshold
		client-query-buffer-limit proto-max-bulk-len hash-max-listpack-entries hash-max-listpack-value hash-max-ziplist-entries hash-max-ziplist-value
		list-max-listpack-size list-max-ziplist-size list-compress-depth set-max-intset-entries set-max-listpack-entries set-max-listpack-value
		zset-max-listpack-entries zset-max-listpack-value zset-max-ziplist-entries zset-max-ziplist-value hll-sparse-max-bytes
		stream-node-max-bytes stream-node-max-entries activerehashing jemalloc-bg-thread
		active-defrag-ignore-bytes active-defrag-threshold-lower active-defrag-threshold-upper active-defrag-cycle-min active-defrag-cycle-max
		active-defrag-max-scan-fields cluster-config-file cluster-port cluster-announce-bus-port cluster-replica-no-failover
		cluster-migration-barrier cluster-allow-replica-migration cluster-link-sendbuf-limit cluster-preferred-endpoint-type cluster-announce-hostname
		tls-dh-params-file tls-session-cache-size tls-session-cache-timeout`) {
		foreign[name] = nil
	}
}

// passedOver tells whether a setting that counterd has not may be passed over, and otherwise which values may.
func passedOver(name, value string) (ok bool, values []string) {
	values, known := foreign[name]
	if p := find(name); p != nil && p.flag == nil { // a constant
		if known = true; !p.lax {
			values = []string{p.get(nil)}
		}
	}
	return known && (values == nil || slices.Contains(values, strings.ToLower(value))), values
}

package config

// Rows about data: where and how it is kept, numbered commands, and reports of the server.

var persistenceSettings = []setting{
	{name: "dir", arg: "PATH", kind: text(func(c *Config) *string { return &c.Dir }),
		usage: "Data directory. The server creates it if it does not exist."},
	{name: "schema", arg: "PATH", kind: text(func(c *Config) *string { return &c.SchemaFile }), once: true,
		usage:  "Schema script to run at startup. Lines that describe existing counters and columns change nothing.",
		detail: "A replica ignores it and takes the schema of its primary. It cannot be set with `cluster-enabled yes`: there, send the lines to any node."},
	{name: "appendonly", kind: yesNo(func(c *Config) *bool { return &c.AppendOnly }),
		usage:  "Keep data on disk. no keeps it in memory only: it is lost when the process ends.",
		detail: "In a configuration file, `appendonly no` must come with `save \"\"`, because Redis would otherwise keep the data by snapshots. The server refuses `appendonly no` if `dir` contains data."},
	{name: "appendfsync", arg: "always|everysec|no", kind: valued("always, everysec or no", text(func(c *Config) *string { return &c.AppendFsync })), live: true,
		usage:  "When to sync the log to disk: before each reply (always), once a second (everysec), or when the kernel does it (no).",
		detail: "A crash of the process loses no acknowledged change with any of these. A power failure loses nothing with `always`, about one second of changes with `everysec`, and what the kernel had not yet written with `no`."},
	{name: "auto-aof-rewrite-min-size", arg: "BYTES", unit: "bytes", kind: valued("0 or 1mb to 1024tb", bytes(func(c *Config) *uint64 { return &c.AOFRewriteMin })),
		usage:  "Log growth since the last snapshot at which the server makes a new snapshot. 0 disables automatic snapshots.",
		detail: "If the last snapshot is larger than this value, the log must grow by the size of that snapshot. Log behind the newest snapshot makes a start longer: about 45 MB of it are replayed in a second."},
	{name: "aof-retain", arg: "BYTES", unit: "bytes", kind: bytes(func(c *Config) *uint64 { return &c.AOFRetain }), live: true,
		usage: "Disk space for log segments that recovery no longer needs, for example 10gb. Replicas that were away resume from them, and restores can go back as far as they reach."},
	{name: "feed-retain", arg: "BYTES", unit: "bytes", kind: bytes(func(c *Config) *uint64 { return &c.FeedRetain }), live: true,
		usage:  "Disk space for log segments that named cursors of the feed of changes still need. A cursor that falls further behind loses its log.",
		detail: "The default keeps one hour of 20,000 increments a second, and with `aof-compress yes` several times that. When the disk is almost full, the server drops this log first: see `COUNTER.CURSOR`."},
	{name: "aof-compress", kind: yesNo(func(c *Config) *bool { return &c.AOFCompress }), live: true,
		usage: "Compress the log segments of aof-retain and feed-retain in the background. The same space then holds 2 to 18 times as much log."},
}

var memorySettings = []setting{
	{name: "maxmemory", arg: "BYTES", unit: "bytes", kind: valued("0 or 8mb to 1024tb", bytes(func(c *Config) *uint64 { return &c.MaxMemory })), live: true,
		usage:  "Memory for posts, for example 4gb. Above it, the oldest ranges of posts move to cold files on disk; all commands still work on them. 0 means no limit.",
		detail: "Needs `appendonly yes`. The process uses at most 64 MiB more, apart from connection buffers above 16 MiB. If the disk cannot take ranges fast enough, changes wait for a second and are then refused with `OOM`."},
}

var numberedSettings = []setting{
	{name: "idmp-max-producers", arg: "N", unit: "producers", kind: integer(func(c *Config) *int { return &c.IdmpMaxProducers }, 1, 1<<20), live: true,
		usage:  "Maximum number of producers of numbered commands (IDMP) that the server remembers.",
		detail: "Links between the nodes of a cluster have 1,024 places beside these. Values above 1047552 count as 1047552, so that these places remain."},
	{name: "idmp-max-memory", arg: "BYTES", unit: "bytes", kind: bytesIn(func(c *Config) *uint64 { return &c.IdmpMaxMemory }, 1<<20, 1<<40), live: true,
		usage:  "Memory for the numbers and results of all producers, for example 64mb.",
		detail: "A producer takes 0.3 to 12 KB, 1.9 KB with 10,000 numbers in a row. When the memory is used up, producers that have been idle for 10 minutes lose all results but the last: a repeat of an older number then answers `IDMPEXPIRED`, and does not count twice."},
	{name: "idmp-min-idle", arg: "N", unit: "seconds", kind: integer(func(c *Config) *int { return &c.IdmpMinIdle }, 1, 1<<31-1), live: true,
		usage:  "Idle time after which the server may forget a producer to make room for a new one.",
		detail: "While the server is down, a producer is not idle. If no producer has been idle for this long, a new producer is refused with `IDMPFULL`. A repeat within this time never counts twice."},
}

var observeSettings = []setting{
	{name: "loglevel", arg: "LEVEL", kind: choice(func(c *Config) *string { return &c.LogLevel }, "debug", "verbose", "notice", "warning"), live: true,
		usage: "Least severe messages to log: debug, verbose, notice or warning. verbose and notice are the same level."},
	{name: "log-format", arg: "text|json", kind: choice(func(c *Config) *string { return &c.LogFormat }, LogText, LogJSON),
		usage: "Format of the log on standard error: text, or json with one object per line."},
	{name: "slowlog-log-slower-than", arg: "N", unit: "microseconds", kind: integer64(func(c *Config) *int64 { return &c.SlowlogSlower }, -1, 1<<62), live: true,
		usage: "Execution time above which SLOWLOG records a command. 0 records every command, -1 none."},
	{name: "slowlog-max-len", arg: "N", unit: "entries", kind: integer(func(c *Config) *int { return &c.SlowlogMaxLen }, 0, 1<<20), live: true,
		usage: "Maximum number of entries of SLOWLOG."},
	{name: "metrics-addr", arg: "[HOST]:PORT", kind: text(func(c *Config) *string { return &c.MetricsAddr }),
		usage:  "Address of the HTTP endpoint: the console at /, /metrics for Prometheus, and health checks. The host defaults to 127.0.0.1. Empty disables it.",
		detail: "Paths for health checks are `/livez`, `/readyz`, `/writable` and `/healthz`: see [Monitoring](../operate/monitoring.md)."},
	{name: "metrics-tls", kind: yesNo(func(c *Config) *bool { return &c.TLS.Metrics }),
		usage: "Serve metrics-addr over HTTPS with the certificate of tls-cert-file. tls-auth-clients decides whether clients must present a certificate."},
	{name: "mid-time", arg: "none|weibo|snowflake", kind: choice(func(c *Config) *string { return &c.MidTime }, "none", "weibo", "snowflake"), live: true,
		usage: "How post ids encode the time of the post, so that the console can show dates."},
}

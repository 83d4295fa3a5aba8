package config

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/counterd/counterd/counter"
)

// Config is how a node is set up. Names and meanings are redis.conf's where they mean the same.
type Config struct {
	Bind             []string // addresses to listen on
	Port             int      // 0 = no TCP
	ReadonlyPort     int      // of a listener for reads only, 0 = none
	UnixSocket       string   // path, empty = none
	UnixSocketPerm   uint32
	Dir              string
	SchemaFile       string
	RequirePass      string
	ProtectedMode    bool // without a password, serve the loopback interface only
	MaxClients       int
	ReadonlyClients  int          // as MaxClients, for the port for reads
	MaxMemoryClients ClientsLimit // memory limit of all connections together
	Timeout          int          // seconds until an idle client is closed, 0 = never
	TCPKeepalive     int          // seconds, 0 = off
	LogLevel         string
	LogFormat        string // LogText or LogJSON
	SlowlogSlower    int64  // microseconds, -1 = off
	SlowlogMaxLen    int
	AppendOnly       bool   // data is kept on disk
	AppendFsync      string // always, everysec or no
	AOFRetain        uint64 // bytes on disk of log kept beyond what recovery needs
	FeedRetain       uint64 // bytes on disk of log kept for cursors of the feed
	AOFCompress      bool
	MaxMemory        uint64 // bytes that posts may take in memory, 0 = no limit; posts above it go to cold files
	IdmpMaxProducers int    // producers whose numbers are remembered
	IdmpMaxMemory    uint64 // bytes that this may take
	IdmpMinIdle      int    // seconds that a producer keeps its place for, unused
	OutputLimits     OutputLimits
	TrackingMaxKeys  int    // of CLIENT TRACKING, 0 = no limit
	ConfigFile       string // path, empty = none
	Replication
	Web
	ACL
	TLS           TLS
	Cluster       Cluster
	AOFRewriteMin uint64 // bytes of log growth at which a snapshot is made, 0 = never
}

// Default is the configuration without flags.
func Default() Config {
	return Config{
		Bind: []string{"127.0.0.1"}, Port: 6379, UnixSocketPerm: 0o700, Dir: "counterd-data", ProtectedMode: true, MaxClients: 10000, ReadonlyClients: 10000,
		TCPKeepalive: 300, LogLevel: "notice", LogFormat: LogText, SlowlogSlower: 10000, SlowlogMaxLen: 128,
		AppendOnly: true, AppendFsync: "everysec", AOFRewriteMin: 64 << 20, AOFRetain: 256 << 20, FeedRetain: 1 << 30, AOFCompress: true, Web: Web{MidTime: "none"},
		Replication: defaultReplication(), TLS: defaultTLS(), Cluster: defaultCluster(), ACL: defaultACL(), OutputLimits: defaultOutputLimits(), TrackingMaxKeys: 1_000_000,
		MaxMemoryClients: ClientsLimit{Bytes: DefaultClientsLimit},
		IdmpMaxProducers: 1 << 20, IdmpMaxMemory: 256 << 20, IdmpMinIdle: 86400,
	}
}

// maxPassword is the longest password, in bytes, as of Redis.
const maxPassword = 512

// levels maps redis.conf's levels.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "verbose": slog.LevelInfo, "notice": slog.LevelInfo, "warning": slog.LevelWarn,
}

// Forms of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// Level is the lowest level that is logged.
func (c *Config) Level() slog.Level { return levels[c.LogLevel] }

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	for i := range settings {
		if row := &settings[i]; row.check != nil {
			if err := row.check(c); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", row.name, err))
			}
		}
	}
	c.TLS.validate(&errs)
	errs = append(errs, c.ports()...)
	c.Replication.validate(&errs)
	c.ACL.validate(&errs)
	if len(c.RequirePass) > maxPassword {
		errs = append(errs, fmt.Errorf("requirepass: got %d bytes, want %d at most", len(c.RequirePass), maxPassword))
	}
	c.validateCluster(&errs)
	c.Web.validate(&c.TLS, &errs)
	if c.ReplicaOf != "" && !c.AppendOnly {
		errs = append(errs, errors.New("replicaof: a replica needs a log: want appendonly yes"))
	}
	if _, err := c.StoreOptions(); err != nil {
		errs = append(errs, err)
	}
	if c.Port == 0 && c.TLS.Port == 0 && c.UnixSocket == "" {
		errs = append(errs, errors.New("port is 0, and neither tls-port nor unixsocket is set: no client could connect"))
	}
	return errors.Join(errs...)
}

// StoreOptions are the options of the store that follow from the configuration.
func (c *Config) StoreOptions() (o counter.Options, err error) {
	if o.AppendFsync, err = counter.ParseSyncPolicy(c.AppendFsync); err != nil {
		return o, err
	}
	o.RetainBytes, o.FeedRetainBytes, o.CompressLog = c.AOFRetain, c.FeedRetain, c.AOFCompress
	o.Producers = c.Producers()
	o.Elected, o.SlotGroups = c.Cluster.Enabled, c.Cluster.Enabled
	if c.MaxMemory > 1<<50 || c.MaxMemory > 0 && (c.MaxMemory < counter.MinMaxMemory || !c.AppendOnly) {
		return o, fmt.Errorf("maxmemory: got %d, want 0 or %d..%d, and appendonly yes: what does not fit goes to files",
			c.MaxMemory, counter.MinMaxMemory, uint64(1)<<50)
	}
	o.MaxMemory = int64(c.MaxMemory)
	switch {
	case c.AOFRewriteMin == 0:
		o.SnapshotGrowth = -1
	case c.AOFRewriteMin < 1<<20 || c.AOFRewriteMin > 1<<50:
		return o, fmt.Errorf("auto-aof-rewrite-min-size: got %d, want 0 or %d..%d", c.AOFRewriteMin, 1<<20, 1<<50)
	default:
		o.SnapshotGrowth = int64(c.AOFRewriteMin)
	}
	return o, nil
}

// Producers are the limits of the memory of numbered commands.
func (c *Config) Producers() counter.ProducerLimits {
	return counter.ProducerLimits{Producers: c.IdmpMaxProducers, Bytes: int64(c.IdmpMaxMemory), MinIdle: int64(c.IdmpMinIdle)}
}

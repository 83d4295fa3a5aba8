package server

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/counterd/counterd/counter"
)

// Config is how a server is set up. Names and meanings are redis.conf's where they mean the same.
type Config struct {
	Bind             []string // addresses to listen on
	Port             int      // 0 = no TCP
	UnixSocket       string   // path, empty = none
	UnixSocketPerm   uint32
	Dir              string
	SchemaFile       string
	RequirePass      string
	ProtectedMode    bool // without a password, serve the loopback interface only
	MaxClients       int
	MaxMemoryClients ClientsLimit // what connections may hold together
	Timeout          int          // seconds until an idle client is closed, 0 = never
	TCPKeepalive     int          // seconds, 0 = off
	LogLevel         string
	SlowlogSlower    int64 // microseconds, -1 = off
	SlowlogMaxLen    int
	AppendOnly       bool   // data is kept on disk
	AppendFsync      string // always, everysec or no
	AOFRetain        uint64 // bytes of log kept beyond what recovery needs
	MaxMemory        uint64 // bytes that posts may take in memory, 0 = no limit; what is above goes to cold files
	OutputLimits     OutputLimits
	ConfigFile       string // path, empty = none
	Replication
	AOFRewriteMin uint64 // bytes of log growth at which a snapshot is made, 0 = never
}

// DefaultConfig is the configuration without flags.
func DefaultConfig() Config {
	return Config{
		Bind: []string{"127.0.0.1"}, Port: 6379, UnixSocketPerm: 0o700, Dir: "counterd-data", ProtectedMode: true, MaxClients: 10000,
		TCPKeepalive: 300, LogLevel: "notice", SlowlogSlower: 10000, SlowlogMaxLen: 128,
		AppendOnly: true, AppendFsync: "everysec", AOFRewriteMin: 64 << 20, AOFRetain: 256 << 20,
		Replication: defaultReplication(), OutputLimits: defaultOutputLimits(),
		MaxMemoryClients: ClientsLimit{Bytes: defaultClientsLimit},
	}
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	check := func(name string, got, least, most int64) {
		if got < least || got > most {
			errs = append(errs, fmt.Errorf("%s: got %d, want %d..%d", name, got, least, most))
		}
	}
	check("port", int64(c.Port), 0, 65535)
	check("maxclients", int64(c.MaxClients), 1, 1<<20)
	check("timeout", int64(c.Timeout), 0, 1<<31-1)
	check("tcp-keepalive", int64(c.TCPKeepalive), 0, 1<<31-1)
	check("slowlog-log-slower-than", c.SlowlogSlower, -1, 1<<62)
	check("slowlog-max-len", int64(c.SlowlogMaxLen), 0, 1<<20)
	if _, ok := logLevels[c.LogLevel]; !ok {
		errs = append(errs, fmt.Errorf("loglevel: got %q, want debug, verbose, notice or warning", c.LogLevel))
	}
	c.Replication.validate(check, &errs)
	if c.ReplicaOf != "" && !c.AppendOnly {
		errs = append(errs, errors.New("replicaof: a replica needs a log: want appendonly yes"))
	}
	if _, err := c.StoreOptions(); err != nil {
		errs = append(errs, err)
	}
	if c.Port == 0 && c.UnixSocket == "" {
		errs = append(errs, errors.New("port is 0 and there is no unixsocket: nobody could connect"))
	}
	return errors.Join(errs...)
}

// StoreOptions are the options of the store that follow from the configuration.
func (c *Config) StoreOptions() (o counter.Options, err error) {
	if o.AppendFsync, err = counter.ParseSyncPolicy(c.AppendFsync); err != nil {
		return o, err
	}
	o.RetainBytes = c.AOFRetain
	if c.MaxMemory > 1<<50 || c.MaxMemory > 0 && (c.MaxMemory < counter.MinMaxMemory || !c.AppendOnly) {
		return o, fmt.Errorf("maxmemory: got %d, want 0 or %d..%d, and appendonly yes: what does not fit goes to files", c.MaxMemory, counter.MinMaxMemory, uint64(1)<<50)
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

// parameter is one line of CONFIG GET.
type parameter struct {
	name string
	get  func(*Config) string
	set  func(*Config, string) error // nil: fixed at start
	// secret values are shown by CONFIG GET alone.
	secret bool
}

func intParameter(name string, field func(*Config) *int, settable bool) parameter {
	p := parameter{name: name, get: func(c *Config) string { return strconv.Itoa(*field(c)) }}
	if settable {
		p.set = func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil {
				return errors.New("argument couldn't be parsed into an integer")
			}
			*field(c) = n
			return nil
		}
	}
	return p
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// parameters are all that CONFIG knows, sorted by name. Tools ask for some that have one possible answer here: databases, save,
// appendonly and the like.
var parameters = []parameter{
	{name: "client-output-buffer-limit", get: func(c *Config) string { return c.OutputLimits.String() }, set: func(c *Config, v string) error { return c.OutputLimits.Set(v) }},
	{name: "aof-retain", get: func(c *Config) string { return strconv.FormatUint(c.AOFRetain, 10) }, set: func(c *Config, v string) (err error) {
		c.AOFRetain, err = ParseBytes(v)
		return err
	}},
	{name: "appendfsync", get: func(c *Config) string { return c.AppendFsync }, set: func(c *Config, v string) error { c.AppendFsync = v; return nil }},
	{name: "appendonly", get: func(c *Config) string { return yesNo(c.AppendOnly) }},
	{name: "auto-aof-rewrite-min-size", get: func(c *Config) string { return strconv.FormatUint(c.AOFRewriteMin, 10) }},
	{name: "bind", get: func(c *Config) string { return strings.Join(c.Bind, " ") }},
	{name: "databases", get: func(*Config) string { return "1" }},
	{name: "dir", get: func(c *Config) string { return c.Dir }},
	{name: "loglevel", get: func(c *Config) string { return c.LogLevel }, set: func(c *Config, v string) error { c.LogLevel = v; return nil }},
	intParameter("maxclients", func(c *Config) *int { return &c.MaxClients }, true),
	{name: "maxmemory", get: func(c *Config) string { return strconv.FormatUint(c.MaxMemory, 10) }, set: func(c *Config, v string) (err error) {
		c.MaxMemory, err = ParseBytes(v)
		return err
	}},
	{name: "maxmemory-clients", get: func(c *Config) string { return c.MaxMemoryClients.String() }, set: func(c *Config, v string) error { return c.MaxMemoryClients.Set(v) }},
	{name: "maxmemory-policy", get: func(*Config) string { return "noeviction" }},
	intParameter("port", func(c *Config) *int { return &c.Port }, false),
	{name: "protected-mode", get: func(c *Config) string { return yesNo(c.ProtectedMode) }, set: func(c *Config, v string) error {
		if v != "yes" && v != "no" {
			return errors.New("argument must be 'yes' or 'no'")
		}
		c.ProtectedMode = v == "yes"
		return nil
	}},
	{name: "requirepass", get: func(c *Config) string { return c.RequirePass }, set: func(c *Config, v string) error { c.RequirePass = v; return nil }, secret: true},
	{name: "save", get: func(*Config) string { return "" }},
	{name: "schema", get: func(c *Config) string { return c.SchemaFile }},
	{name: "slowlog-log-slower-than", get: func(c *Config) string { return strconv.FormatInt(c.SlowlogSlower, 10) }, set: func(c *Config, v string) (err error) {
		if c.SlowlogSlower, err = strconv.ParseInt(v, 10, 64); err != nil {
			return errors.New("argument couldn't be parsed into an integer")
		}
		return nil
	}},
	intParameter("slowlog-max-len", func(c *Config) *int { return &c.SlowlogMaxLen }, true),
	intParameter("tcp-keepalive", func(c *Config) *int { return &c.TCPKeepalive }, true),
	intParameter("timeout", func(c *Config) *int { return &c.Timeout }, true),
	{name: "unixsocket", get: func(c *Config) string { return c.UnixSocket }},
}

func init() {
	parameters = append(parameters, replicationParameters()...)
	slices.SortFunc(parameters, func(a, b parameter) int { return strings.Compare(a.name, b.name) })
}

// liveConfig is the configuration in force. Readers take a copy.
type liveConfig struct {
	mu sync.Mutex
	c  Config
}

func (l *liveConfig) get() Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c
}

// set changes parameters given as name, value, name, value: all or none. The error names the parameter.
func (l *liveConfig) set(pairs []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.c
	for i := 0; i < len(pairs); i += 2 {
		p := findParameter(pairs[i])
		switch {
		case p == nil:
			return configError("Unknown option or number of arguments for CONFIG SET - '" + pairs[i] + "'")
		case p.set == nil:
			return configError("CONFIG SET failed (possibly related to argument '" + pairs[i] + "') - can't set immutable config")
		}
		err := p.set(&next, pairs[i+1])
		if err == nil {
			err = next.Validate()
		}
		if err != nil {
			return configError("CONFIG SET failed (possibly related to argument '" + pairs[i] + "') - " + err.Error())
		}
	}
	l.c = next
	return nil
}

// configError is what CONFIG SET answers, in Redis's words.
type configError string

func (e configError) Error() string { return string(e) }

func findParameter(name string) *parameter {
	for i := range parameters {
		if strings.EqualFold(parameters[i].name, name) {
			return &parameters[i]
		}
	}
	return nil
}

package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// setting is one row: everything there is to know of a setting.
type setting struct {
	name  string
	usage string // of the flag; empty: there is none
	kind
	live   bool // CONFIG SET may change it; the others are fixed at the start
	secret bool // only CONFIG GET shows it
	words  bool // of several words, which stand in a file without quotes
	role   bool // names the primary: a file has the line only where there is one
	once   bool // only a person writes it in a file
	lax    bool // a file may say what it wants: of a constant that has no meaning here
}

// settings are all, in the order in which --help shows them.
var settings = []setting{
	{name: "bind", kind: list(func(c *Config) *[]string { return &c.Bind }), words: true,
		usage: "addresses to listen on, separated by commas; * or 0.0.0.0 is all of IPv4, ::* or :: all of IPv6, a leading - lets a missing one pass"},
	{name: "port", kind: integer(func(c *Config) *int { return &c.Port }),
		usage: "TCP port, 0 for none"},
	{name: "readonly-port", kind: integer(func(c *Config) *int { return &c.ReadonlyPort }),
		usage: "TCP port for reads only, on the same addresses, 0 for none"},
	{name: "tls-port", kind: integer(func(c *Config) *int { return &c.TLS.Port }),
		usage: "TCP port for TLS alone, on the same addresses, 0 for none; --port 0 leaves only this one"},
	{name: "tls-readonly-port", kind: integer(func(c *Config) *int { return &c.TLS.ReadonlyPort }),
		usage: "the same for reads only"},
	{name: "tls-cert-file", kind: text(func(c *Config) *string { return &c.TLS.CertFile }), live: true,
		usage: "certificate of this node, PEM, with those between it and the CA's behind it. SIGHUP reads all files anew"},
	{name: "tls-key-file", kind: text(func(c *Config) *string { return &c.TLS.KeyFile }), live: true,
		usage: "its private key, PEM; others must not be able to read it"},
	{name: "tls-key-file-pass", kind: text(func(c *Config) *string { return &c.TLS.KeyFilePass }), live: true, secret: true,
		usage: "password of that file, if it has one"},
	{name: "tls-client-cert-file", kind: text(func(c *Config) *string { return &c.TLS.ClientCertFile }), live: true,
		usage: "certificate that is shown to other nodes; --tls-cert-file unless given"},
	{name: "tls-client-key-file", kind: text(func(c *Config) *string { return &c.TLS.ClientKeyFile }), live: true,
		usage: "its private key"},
	{name: "tls-client-key-file-pass", kind: text(func(c *Config) *string { return &c.TLS.ClientKeyFilePass }), live: true, secret: true,
		usage: "password of that file"},
	{name: "tls-ca-cert-file", kind: text(func(c *Config) *string { return &c.TLS.CACertFile }), live: true,
		usage: "certificates of those who are believed, for clients and for other nodes"},
	{name: "tls-ca-cert-dir", kind: text(func(c *Config) *string { return &c.TLS.CACertDir }), live: true,
		usage: "directory with such files"},
	{name: "tls-auth-clients", kind: text(func(c *Config) *string { return &c.TLS.AuthClients }), live: true,
		usage: "whether a client must show a certificate: yes, no, or optional"},
	{name: "tls-replication", kind: yesNo(func(c *Config) *bool { return &c.TLS.Replication }), live: true,
		usage: "whether links to a primary and other nodes are TLS"},
	{name: "tls-protocols", kind: text(func(c *Config) *string { return &c.TLS.Protocols }), live: true,
		usage: "\"TLSv1.2 TLSv1.3\", or one of them; both unless given"},
	{name: "tls-ciphers", kind: text(func(c *Config) *string { return &c.TLS.Ciphers }), live: true,
		usage: "ciphers of TLSv1.2 by OpenSSL's names, parted by colons; all that are safe unless given"},
	{name: "tls-ciphersuites", kind: text(func(c *Config) *string { return &c.TLS.CipherSuites }), live: true,
		usage: "ciphers of TLSv1.3: all three, which cannot be parted"},
	{name: "tls-prefer-server-ciphers", kind: yesNo(func(c *Config) *bool { return &c.TLS.PreferServerCiphers }), live: true,
		usage: "taken for the sake of redis.conf: the server always chooses"},
	{name: "tls-session-caching", kind: yesNo(func(c *Config) *bool { return &c.TLS.SessionCaching }), live: true,
		usage: "whether a client that was here may come back by a shorter handshake"},
	{name: "unixsocket", kind: text(func(c *Config) *string { return &c.UnixSocket }),
		usage: "path of a unix socket to listen on too"},
	{name: "unixsocketperm", kind: permissions(func(c *Config) *uint32 { return &c.UnixSocketPerm }),
		usage: "its permissions"},
	{name: "metrics-addr", kind: text(func(c *Config) *string { return &c.MetricsAddr }),
		usage: "[host]:port for HTTP: /metrics for Prometheus, /healthz, and a page at /; without a host 127.0.0.1. Empty for none"},
	{name: "metrics-tls", kind: yesNo(func(c *Config) *bool { return &c.TLS.Metrics }),
		usage: "HTTPS there, with the certificate of tls-cert-file; tls-auth-clients says who must show one"},
	{name: "mid-time", kind: text(func(c *Config) *string { return &c.MidTime }), live: true,
		usage: "how post ids carry the time of the post, for the dates on the console: none, weibo or snowflake"},
	{name: "schema", kind: text(func(c *Config) *string { return &c.SchemaFile }), once: true,
		usage: "schema script to run at start"},
	{name: "dir", kind: text(func(c *Config) *string { return &c.Dir }),
		usage: "data directory; it is made if it is not there"},
	{name: "appendonly", kind: yesNo(func(c *Config) *bool { return &c.AppendOnly }),
		usage: "keep data on disk; no: in memory only"},
	{name: "appendfsync", kind: text(func(c *Config) *string { return &c.AppendFsync }), live: true,
		usage: "when the log is synced: always (before each reply), everysec or no"},
	{name: "maxmemory", kind: bytes(func(c *Config) *uint64 { return &c.MaxMemory }), live: true,
		usage: "what posts may take in memory, e.g. 4gb; the oldest above it go to files. 0 for no limit"},
	{name: "aof-retain", kind: bytes(func(c *Config) *uint64 { return &c.AOFRetain }), live: true,
		usage: "log kept beyond what recovery needs, in bytes on disk, e.g. 10gb: for replicas that come back"},
	{name: "aof-compress", kind: yesNo(func(c *Config) *bool { return &c.AOFCompress }), live: true,
		usage: "whether log that is kept so is compressed, in the background: two to eighteen times as much in as many bytes"},
	{name: "auto-aof-rewrite-min-size", kind: bytes(func(c *Config) *uint64 { return &c.AOFRewriteMin }),
		usage: "log growth at which a snapshot is made by itself, 0 for never"},
	{name: "requirepass", kind: text(func(c *Config) *string { return &c.RequirePass }), live: true, secret: true,
		usage: "password that clients must give"},
	{name: "requirepass-file", kind: text(func(c *Config) *string { return &c.RequirePassFile }),
		usage: "file that the password stands in, which only its owner and group can read"},
	{name: "aclfile", kind: text(func(c *Config) *string { return &c.ACLFile }),
		usage: "file of users, relative to dir: lines of a name and rules, as of Redis; ACL LOAD and ACL SAVE read and write it"},
	{name: "user", kind: lines(func(c *Config) *[]string { return &c.Users }),
		usage: "a user without such a file, \"name rule rule ...\"; may be given several times"},
	{name: "acllog-max-len", kind: integer(func(c *Config) *int { return &c.ACLLogMaxLen }), live: true,
		usage: "refusals that ACL LOG keeps"},
	{name: "acl-pubsub-default", kind: text(func(c *Config) *string { return &c.ACLPubsubDefault }), live: true,
		usage: "channels that a new user may use: resetchannels (none) or allchannels"},
	{name: "disable-command", kind: list(func(c *Config) *[]string { return &c.DisableCommand }), words: true,
		usage: "commands that are not there for anybody, e.g. flushall,config|set"},
	{name: "protected-mode", kind: yesNo(func(c *Config) *bool { return &c.ProtectedMode }), live: true,
		usage: "without a password, serve this machine only"},
	{name: "maxclients", kind: integer(func(c *Config) *int { return &c.MaxClients }), live: true,
		usage: "connections at most"},
	{name: "readonly-maxclients", kind: integer(func(c *Config) *int { return &c.ReadonlyClients }), live: true,
		usage: "connections to --readonly-port at most; they do not count for maxclients"},
	{name: "maxmemory-clients", kind: syntax(func(c *Config) pflag.Value { return &c.MaxMemoryClients }), live: true,
		usage: "what all connections may hold in buffers together, e.g. 64mb or 5% of maxmemory; above it the largest are closed. 0 for no limit"},
	{name: "client-output-buffer-limit", kind: syntax(func(c *Config) pflag.Value { return &c.OutputLimits }), live: true, words: true,
		usage: "what subscribers may leave unread, e.g. \"pubsub 32mb 8mb 60\": at once, and for so many seconds"},
	{name: "tracking-table-max-keys", kind: integer(func(c *Config) *int { return &c.TrackingMaxKeys }), live: true,
		usage: "keys that are remembered for caches of clients (CLIENT TRACKING) at most, one that two have read counted twice; 0 for no limit"},
	{name: "idmp-max-producers", kind: integer(func(c *Config) *int { return &c.IdmpMaxProducers }), live: true,
		usage: "producers of numbered commands (IDMP) that are remembered at most"},
	{name: "idmp-max-memory", kind: bytes(func(c *Config) *uint64 { return &c.IdmpMaxMemory }), live: true,
		usage: "what is remembered of all of them may take, e.g. 64mb"},
	{name: "idmp-min-idle", kind: integer(func(c *Config) *int { return &c.IdmpMinIdle }), live: true,
		usage: "seconds after which one that was not used gives its place to a new one"},
	{name: "timeout", kind: integer(func(c *Config) *int { return &c.Timeout }), live: true,
		usage: "seconds until an idle connection is closed, 0 for never"},
	{name: "tcp-keepalive", kind: integer(func(c *Config) *int { return &c.TCPKeepalive }), live: true,
		usage: "seconds between keepalive probes, 0 for none"},
	{name: "loglevel", kind: text(func(c *Config) *string { return &c.LogLevel }), live: true,
		usage: "debug, verbose, notice or warning"},
	{name: "log-format", kind: text(func(c *Config) *string { return &c.LogFormat }),
		usage: "form of the log, which goes to standard error: text or json, an object a line"},
	{name: "slowlog-log-slower-than", kind: integer64(func(c *Config) *int64 { return &c.SlowlogSlower }), live: true,
		usage: "microseconds above which a command enters SLOWLOG, -1 for none"},
	{name: "slowlog-max-len", kind: integer(func(c *Config) *int { return &c.SlowlogMaxLen }), live: true,
		usage: "entries that SLOWLOG keeps"},
	{name: "replicaof", kind: text(func(c *Config) *string { return &c.ReplicaOf }), words: true, role: true,
		usage: "primary to follow, \"host port\"; empty: this is a primary"},
	{name: "masterauth", kind: text(func(c *Config) *string { return &c.MasterAuth }), live: true, secret: true,
		usage: "password for the primary"},
	{name: "masterauth-file", kind: text(func(c *Config) *string { return &c.MasterAuthFile }),
		usage: "file that the password for the primary stands in"},
	{name: "masteruser", kind: text(func(c *Config) *string { return &c.MasterUser }), live: true, secret: true,
		usage: "user name for the primary"},
	{name: "replica-priority", kind: integer(func(c *Config) *int { return &c.ReplicaPriority }), live: true,
		usage: "Sentinel makes the replica with the lowest a primary; 0 is never"},
	{name: "replica-announce-ip", kind: text(func(c *Config) *string { return &c.AnnounceIP }), live: true,
		usage: "address that others are told to reach this replica at"},
	{name: "replica-announce-port", kind: integer(func(c *Config) *int { return &c.AnnouncePort }), live: true,
		usage: "port for that, 0 for --port"},
	{name: "replica-announced", kind: yesNo(func(c *Config) *bool { return &c.Announced }), live: true,
		usage: "whether Sentinel tells clients of this replica"},
	{name: "replica-serve-stale-data", kind: yesNo(func(c *Config) *bool { return &c.ServeStale }), live: true,
		usage: "whether a replica answers reads while it has no link to its primary"},
	{name: "min-replicas-to-write", kind: integer(func(c *Config) *int { return &c.MinReplicas }), live: true,
		usage: "replicas that must follow for changes to be taken"},
	{name: "min-replicas-max-lag", kind: integer(func(c *Config) *int { return &c.MinReplicasMaxLag }), live: true,
		usage: "seconds since its last word after which a replica does not count"},
	{name: "repl-timeout", kind: integer(func(c *Config) *int { return &c.ReplTimeout }), live: true,
		usage: "seconds of silence after which a replication link is cut"},

	{name: "cluster-enabled", kind: yesNo(func(c *Config) *bool { return &c.Cluster.Enabled }),
		usage: "be a node of a cluster: it joins as a free one, and counterctl cluster gives it its part"},
	{name: "cluster-name", kind: text(func(c *Config) *string { return &c.Cluster.Name }),
		usage: "name of the cluster: its keys in etcd stand below /counterd/NAME/"},
	{name: "cluster-etcd", kind: list(func(c *Config) *[]string { return &c.Cluster.Etcd }), words: true,
		usage: "URLs of etcd's members, as http://HOST:2379, separated by commas"},
	{name: "cluster-etcd-user", kind: text(func(c *Config) *string { return &c.Cluster.EtcdUser }),
		usage: "user name for etcd, if it asks for one"},
	{name: "cluster-etcd-password-file", kind: text(func(c *Config) *string { return &c.Cluster.EtcdPasswordFile }),
		usage: "file that the password for etcd stands in, which only its owner and group can read"},
	{name: "cluster-etcd-cacert", kind: text(func(c *Config) *string { return &c.Cluster.EtcdCACert }),
		usage: "certificates that etcd's are to be signed by, PEM; the system's unless given"},
	{name: "cluster-etcd-cert", kind: text(func(c *Config) *string { return &c.Cluster.EtcdCert }),
		usage: "certificate that is shown to etcd, PEM"},
	{name: "cluster-etcd-key", kind: text(func(c *Config) *string { return &c.Cluster.EtcdKey }),
		usage: "its private key"},
	{name: "cluster-node-timeout", kind: integer(func(c *Config) *int { return &c.Cluster.NodeTimeout }),
		usage: "milliseconds of silence after which a node is taken for gone, and another takes over; 2000 at least"},
	{name: "cluster-announce-ip", kind: text(func(c *Config) *string { return &c.Cluster.AnnounceHost }),
		usage: "address or host name that clients and other nodes are told; the first of bind that is one, else that by which this machine reaches etcd"},
	{name: "cluster-announce-port", kind: integer(func(c *Config) *int { return &c.Cluster.AnnouncePort }),
		usage: "port for that, 0 for --port"},
	{name: "cluster-announce-tls-port", kind: integer(func(c *Config) *int { return &c.Cluster.AnnounceTLSPort }),
		usage: "port for TLS for that, 0 for --tls-port"},
	{name: "cluster-zone", kind: text(func(c *Config) *string { return &c.Cluster.Zone }),
		usage: "rack or zone of this node: nodes of one shard are spread over them"},
	{name: "forward-port", kind: integer(func(c *Config) *int { return &c.Cluster.ForwardPort }),
		usage: "port for clients that know of no cluster, on the same addresses: all posts can be read and changed there; 0 for none"},
	{name: "tls-forward-port", kind: integer(func(c *Config) *int { return &c.Cluster.TLSForwardPort }),
		usage: "the same by TLS"},

	// What has one possible value here. Tools ask for it.
	{name: "databases", kind: constant("1"), lax: true},
	{name: "maxmemory-policy", kind: constant("noeviction")},
	{name: "replica-read-only", kind: constant("yes")},
	{name: "save", kind: constant(""), lax: true},
	{name: "tls-cluster", kind: constant("no")},
}

// parameter is a setting under one of its names.
type parameter struct {
	name string // with "slave" too
	*setting
}

// parameters are all that CONFIG knows, sorted by name.
var parameters = allParameters()

func allParameters() []parameter {
	var all []parameter
	for i := range settings {
		s := &settings[i]
		if s.get == nil {
			continue
		}
		all = append(all, parameter{s.name, s})
		if old := strings.NewReplacer("replicas", "slaves", "replica", "slave").Replace(s.name); old != s.name {
			all = append(all, parameter{old, s})
		}
	}
	slices.SortFunc(all, func(a, b parameter) int { return strings.Compare(a.name, b.name) })
	return all
}

// modern gives a setting's present name.
func modern(name string) string {
	return strings.NewReplacer("slaves", "replicas", "slave", "replica").Replace(name)
}

// find returns what CONFIG knows by a name in any case, nil if nothing.
func find(name string) *parameter {
	for i := range parameters {
		if strings.EqualFold(parameters[i].name, name) {
			return &parameters[i]
		}
	}
	return nil
}

// Each calls f with what CONFIG GET answers, sorted by name.
func (c *Config) Each(f func(name, value string)) {
	for _, p := range parameters {
		f(p.name, p.get(c))
	}
}

// Secret tells whether the value given to a setting must not be shown. A name that is misspelt may have been meant for
// one of these.
func Secret(name string) bool {
	p := find(name)
	return p == nil || p.secret
}

// SecretFlag tells whether what stands behind a flag, or in such a line of a file, must not be shown.
func SecretFlag(name string) bool {
	p := find(name)
	return name == "user" || p != nil && p.secret
}

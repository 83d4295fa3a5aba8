package server

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/repl"
)

// Replication is the part of the configuration about primaries and replicas.
type Replication struct {
	ReplicaOf         string // "host port" of the primary, empty = this is one
	MasterAuth        string // password for the primary
	MasterUser        string
	ReplicaPriority   int    // Sentinel prefers lower; 0 = never a primary
	AnnounceIP        string // that the primary and Sentinel are told
	AnnouncePort      int    // 0 = port
	Announced         bool   // Sentinel tells clients of this replica
	ServeStale        bool   // a replica without its primary answers reads
	MinReplicas       int    // that must follow for changes to be taken
	MinReplicasMaxLag int    // seconds
	ReplTimeout       int    // seconds of silence until a link is cut
}

func defaultReplication() Replication {
	return Replication{ReplicaPriority: 100, Announced: true, ServeStale: true, MinReplicasMaxLag: 10, ReplTimeout: 60}
}

func (r *Replication) validate(check func(name string, got, least, most int64), errs *[]error) {
	check("replica-priority", int64(r.ReplicaPriority), 0, 1<<31-1)
	check("replica-announce-port", int64(r.AnnouncePort), 0, 65535)
	check("min-replicas-to-write", int64(r.MinReplicas), 0, 1<<20)
	check("min-replicas-max-lag", int64(r.MinReplicasMaxLag), 0, 1<<31-1)
	check("repl-timeout", int64(r.ReplTimeout), 1, 1<<31-1)
	if _, err := parsePrimary(r.ReplicaOf); err != nil {
		*errs = append(*errs, err)
	}
	if r.AnnounceIP != "" && strings.ContainsAny(r.AnnounceIP, " \r\n,=") {
		*errs = append(*errs, fmt.Errorf("replica-announce-ip: got %q, want an address or a host's name", r.AnnounceIP))
	}
}

// parsePrimary reads "host port", "host:port", or nothing.
func parsePrimary(s string) (a repl.Address, err error) {
	fields := strings.Fields(s)
	switch len(fields) {
	case 0:
		return a, nil
	case 1:
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			return a, fmt.Errorf("replicaof: got %q, want host and port", s)
		}
		fields = []string{host, port}
	}
	if len(fields) == 2 && strings.EqualFold(fields[0], "no") && strings.EqualFold(fields[1], "one") {
		return a, nil
	}
	port, err := strconv.Atoi(fields[1])
	if len(fields) != 2 || err != nil || port < 1 || port > 65535 {
		return a, fmt.Errorf("replicaof: got %q, want host and port", s)
	}
	return repl.Address{Host: fields[0], Port: port}, nil
}

func boolParameter(name string, field func(*Config) *bool) parameter {
	return parameter{name: name, get: func(c *Config) string { return yesNo(*field(c)) }, set: func(c *Config, v string) error {
		if v != "yes" && v != "no" {
			return errors.New("argument must be 'yes' or 'no'")
		}
		*field(c) = v == "yes"
		return nil
	}}
}

func textParameter(name string, field func(*Config) *string) parameter {
	return parameter{name: name, get: func(c *Config) string { return *field(c) }, set: func(c *Config, v string) error { *field(c) = v; return nil }}
}

func secretParameter(name string, field func(*Config) *string) parameter {
	p := textParameter(name, field)
	p.secret = true
	return p
}

// replicationParameters are what CONFIG knows about replication, the old names with slave too.
func replicationParameters() []parameter {
	list := []parameter{
		{name: "replicaof", get: func(c *Config) string { return c.ReplicaOf }},
		secretParameter("masterauth", func(c *Config) *string { return &c.MasterAuth }),
		secretParameter("masteruser", func(c *Config) *string { return &c.MasterUser }),
		intParameter("replica-priority", func(c *Config) *int { return &c.ReplicaPriority }, true),
		textParameter("replica-announce-ip", func(c *Config) *string { return &c.AnnounceIP }),
		intParameter("replica-announce-port", func(c *Config) *int { return &c.AnnouncePort }, true),
		boolParameter("replica-announced", func(c *Config) *bool { return &c.Announced }),
		boolParameter("replica-serve-stale-data", func(c *Config) *bool { return &c.ServeStale }),
		{name: "replica-read-only", get: func(*Config) string { return "yes" }},
		intParameter("min-replicas-to-write", func(c *Config) *int { return &c.MinReplicas }, true),
		intParameter("min-replicas-max-lag", func(c *Config) *int { return &c.MinReplicasMaxLag }, true),
	}
	for _, p := range list {
		old := p
		if old.name = strings.NewReplacer("replicas", "slaves", "replica", "slave").Replace(p.name); old.name != p.name {
			list = append(list, old)
		}
	}
	return append(list, intParameter("repl-timeout", func(c *Config) *int { return &c.ReplTimeout }, true))
}

// replicationSettings are what the node wants to know.
func (s *Server) replicationSettings() repl.Settings {
	c := s.config.get()
	return repl.Settings{MasterAuth: c.MasterAuth, MasterUser: c.MasterUser, Port: c.Port, AnnounceIP: c.AnnounceIP, AnnouncePort: c.AnnouncePort,
		Timeout: time.Duration(c.ReplTimeout) * time.Second}
}

// setReplicaOf notes the primary, for CONFIG GET and REWRITE.
func (l *liveConfig) setReplicaOf(a repl.Address) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c.ReplicaOf = ""
	if a != (repl.Address{}) {
		l.c.ReplicaOf = a.Host + " " + strconv.Itoa(a.Port)
	}
}

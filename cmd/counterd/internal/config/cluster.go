package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// Cluster is the part of the configuration about being a node of a cluster.
type Cluster struct {
	Enabled bool
	Name    string
	Etcd    []string // URLs of etcd's members

	EtcdUser, EtcdPasswordFile    string // empty = etcd asks for none
	EtcdCACert, EtcdCert, EtcdKey string // PEM files, for https
	NodeTimeout                   int    // milliseconds after which a silent node is taken for gone
	AnnounceHost                  string // that clients and other nodes are told; empty = the address that etcd is reached from
	AnnouncePort, AnnounceTLSPort int    // 0 = port, tls-port
	Zone                          string // rack or zone
	ForwardPort, TLSForwardPort   int    // of listeners for clients that know of no cluster, 0 = none
}

func defaultCluster() Cluster { return Cluster{NodeTimeout: 6000} }

// Timeout is NodeTimeout.
func (c *Cluster) Timeout() time.Duration { return time.Duration(c.NodeTimeout) * time.Millisecond }

// Bounds of the node timeout: etcd grants no lease below two seconds or so, and an operator who would wait a day
// does not want a failover.
const (
	minNodeTimeout = 2000
	maxNodeTimeout = 24 * 3600 * 1000
)

// nameChars are those of a cluster's name, which is part of keys in etcd.
const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

func (c *Config) validateCluster(errs *[]error) {
	l := &c.Cluster
	wrong := func(format string, args ...any) { *errs = append(*errs, fmt.Errorf(format, args...)) }
	// Other nodes refuse a map of the cluster that has such a host, so it must never be written to etcd.
	if len(l.AnnounceHost) > 255 || strings.ContainsFunc(l.AnnounceHost, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(",=@", r) }) {
		wrong("cluster-announce-ip: got %.300q, want an address or a host's name", l.AnnounceHost)
	}
	if strings.ContainsFunc(l.Zone, unicode.IsControl) {
		wrong("cluster-zone: got %.300q, want no control characters", l.Zone)
	}
	if (l.EtcdCert == "") != (l.EtcdKey == "") {
		wrong("cluster-etcd-cert and cluster-etcd-key: got one, want both or none")
	}
	if (l.EtcdUser == "") != (l.EtcdPasswordFile == "") {
		wrong("cluster-etcd-user and cluster-etcd-password-file: got one, want both or none")
	}
	if !l.Enabled {
		if l.ForwardPort != 0 || l.TLSForwardPort != 0 {
			*errs = append(*errs, errors.New("forward-port and tls-forward-port need cluster-enabled yes: only a node of a cluster forwards commands"))
		}
		return
	}
	if l.Name == "" || len(l.Name) > 100 || strings.Trim(l.Name, nameChars) != "" {
		wrong("cluster-name: got %q, want 1 to 100 letters, digits, dots, - and _", l.Name)
	}
	if len(l.Etcd) == 0 {
		wrong("cluster-enabled yes needs cluster-etcd: where etcd is, as http://HOST:2379")
	}
	for _, e := range l.Etcd {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			wrong("cluster-etcd: got %q, want a URL as http://HOST:2379", e)
		}
	}
	if c.ReplicaOf != "" {
		wrong("replicaof: got %q with cluster-enabled yes: the cluster decides which primary a node follows", c.ReplicaOf)
	}
	if c.HealFrom != "" {
		wrong("heal-from: got %q with cluster-enabled yes: the nodes of a cluster heal from each other", c.HealFrom)
	}
	if c.SchemaFile != "" {
		wrong("schema: got %q with cluster-enabled yes: the schema belongs to the cluster, send its lines to any node", c.SchemaFile)
	}
	if !c.AppendOnly {
		wrong("cluster-enabled yes needs appendonly yes: a shard replicates its log")
	}
	if c.Port == 0 && c.TLS.Port == 0 {
		wrong("cluster-enabled yes needs port or tls-port: other nodes could not connect")
	}
	if c.MinReplicas != 0 {
		wrong("min-replicas-to-write: got %d with cluster-enabled yes: use counterctl cluster create --min-insync, or cluster set", c.MinReplicas)
	}
}

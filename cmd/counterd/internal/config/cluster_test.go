package config

import (
	"strings"
	"testing"
)

func TestCluster(t *testing.T) {
	good := Default()
	good.Cluster.Enabled, good.Cluster.Name, good.Cluster.Etcd = true, "weibo", []string{"http://127.0.0.1:2379", "https://etcd-2:2379"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(c *Config)
		want   string // in the error
	}{
		"no name":           {func(c *Config) { c.Cluster.Name = "" }, "cluster-name"},
		"a path":            {func(c *Config) { c.Cluster.Name = "a/b" }, "cluster-name"},
		"no etcd":           {func(c *Config) { c.Cluster.Etcd = nil }, "cluster-etcd"},
		"no URL":            {func(c *Config) { c.Cluster.Etcd = []string{"127.0.0.1:2379"} }, "cluster-etcd"},
		"a primary":         {func(c *Config) { c.ReplicaOf = "host 6379" }, "replicaof"},
		"a schema":          {func(c *Config) { c.SchemaFile = "weibo.schema" }, "schema"},
		"in memory":         {func(c *Config) { c.AppendOnly = false }, "appendonly"},
		"no port":           {func(c *Config) { c.Port, c.UnixSocket = 0, "/tmp/socket" }, "tls-port"},
		"too short":         {func(c *Config) { c.Cluster.NodeTimeout = 1999 }, "cluster-node-timeout"},
		"half a key":        {func(c *Config) { c.Cluster.EtcdCert = "cert.pem" }, "cluster-etcd-key"},
		"no password":       {func(c *Config) { c.Cluster.EtcdUser = "root" }, "cluster-etcd-password-file"},
		"min-replicas":      {func(c *Config) { c.MinReplicas = 1 }, "min-replicas-to-write"},
		"taken port":        {func(c *Config) { c.Cluster.ForwardPort = c.Port }, "forward-port"},
		"forward to nobody": {func(c *Config) { c.Cluster.Enabled, c.Cluster.ForwardPort = false, 7000 }, "forward-port"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			c.change(&bad)
			if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error of %s", err, c.want)
			}
		})
	}
}

// TestAnnounced: a node refuses to write an address to etcd that other nodes would refuse to read.
func TestAnnounced(t *testing.T) {
	for host, want := range map[string]bool{"10.0.0.1": true, "fe80::1": true, "node1.example": true, "a b": false, "a@b": false, "a,b": false, "a=b": false, "a\tb": false,
		"a\x1b[2J": false, "é": false, strings.Repeat("a", 256): false} {
		c := Default()
		c.Cluster.AnnounceHost = host
		if err := c.Validate(); (err == nil) != want {
			t.Errorf("cluster-announce-ip %.40q: %v", host, err)
		}
	}
	for zone, want := range map[string]bool{"": true, "rack 7": true, "Zürich": true, "a\x1b[2J": false, "a\nb": false} {
		c := Default()
		c.Cluster.Zone = zone
		if err := c.Validate(); (err == nil) != want {
			t.Errorf("cluster-zone %q: %v", zone, err)
		}
	}
}

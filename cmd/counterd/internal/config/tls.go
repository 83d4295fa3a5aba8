package config

import (
	"errors"
	"fmt"
)

// TLS is the part of the configuration about encrypted connections. It can be compared: equal values name the same
// files, whatever their present content.
type TLS struct {
	Port         int // of a listener that speaks TLS alone, 0 = none
	ReadonlyPort int // of one for reads only, 0 = none

	CertFile, KeyFile             string // of this node, PEM
	KeyFilePass                   string // of KeyFile, empty = it is not encrypted
	ClientCertFile, ClientKeyFile string // the certificate of this node as a client; empty = CertFile and KeyFile
	ClientKeyFilePass             string
	CACertFile, CACertDir         string // the trusted authorities

	AuthClients string // whether clients must show a certificate: yes, no, or optional
	Replication bool   // links to other nodes are TLS
	Metrics     bool   // metrics-addr uses TLS

	Protocols           string // "TLSv1.2 TLSv1.3" or one of them; empty = both
	Ciphers             string // of TLSv1.2, names of OpenSSL's parted by colons; empty = all that are safe
	CipherSuites        string // of TLSv1.3
	PreferServerCiphers bool
	SessionCaching      bool // a client that was here may come back by a shorter handshake
}

func defaultTLS() TLS { return TLS{AuthClients: "yes", SessionCaching: true} }

// On tells whether any connection is TLS.
func (t *TLS) On() bool { return t.Port != 0 || t.ReadonlyPort != 0 || t.Replication || t.Metrics }

// Given tells whether there are files to be read.
func (t *TLS) Given() bool {
	return t.CertFile != "" || t.KeyFile != "" || t.CACertFile != "" || t.CACertDir != ""
}

// validate reports invalid settings without reading the files.
func (t *TLS) validate(errs *[]error) {
	if !t.On() {
		return
	}
	if t.CertFile == "" || t.KeyFile == "" {
		*errs = append(*errs, errors.New("tls-port, tls-replication and metrics-tls need tls-cert-file and tls-key-file"))
	}
	if t.CACertFile == "" && t.CACertDir == "" && (t.AuthClients != "no" || t.Replication) {
		*errs = append(*errs, errors.New("tls-replication, and tls-auth-clients yes (the default) or optional, need tls-ca-cert-file or tls-ca-cert-dir to verify certificates"))
	}
	if (t.ClientCertFile == "") != (t.ClientKeyFile == "") {
		*errs = append(*errs, errors.New("tls-client-cert-file and tls-client-key-file: got one, want both or none"))
	}
}

// ports reports ports that were given twice.
func (c *Config) ports() (errs []error) {
	taken := make(map[int]string)
	for _, p := range []struct {
		name string
		port int
	}{{"port", c.Port}, {"readonly-port", c.ReadonlyPort}, {"tls-port", c.TLS.Port}, {"tls-readonly-port", c.TLS.ReadonlyPort},
		{"forward-port", c.Cluster.ForwardPort}, {"tls-forward-port", c.Cluster.TLSForwardPort}} {
		if p.port == 0 {
			continue
		}
		if other, twice := taken[p.port]; twice {
			errs = append(errs, fmt.Errorf("%s: got %d, which is the port of %s, too: want another one", p.name, p.port, other))
			continue
		}
		taken[p.port] = p.name
	}
	return errs
}

// Listening is the port that others are told to reach this node at: nodes with tls-replication reach each other by TLS.
func (c *Config) Listening() int {
	if c.TLS.Port != 0 && (c.TLS.Replication || c.Port == 0) {
		return c.TLS.Port
	}
	return c.Port
}

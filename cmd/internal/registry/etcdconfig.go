package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/counterd/counterd/cmd/internal/secretfile"
)

// EtcdConfig has the addresses and credentials for etcd, version 3.4 and newer.
type EtcdConfig struct {
	Endpoints []string // URLs, http://HOST:PORT or https://, all of one scheme

	User         string // empty: etcd has no users
	Password     string // or
	PasswordFile string // whose first line it is

	CACert, Cert, Key string // PEM files, for https: empty: the system's; none. A new Cert and Key are read for each connection
	Insecure          bool   // believe any certificate
}

// CheckName returns an error for an invalid cluster name, which is part of its
// keys.
func CheckName(name string) error {
	ok := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
	}
	if name == "" || len(name) > 100 || strings.ContainsFunc(name, func(r rune) bool { return !ok(r) }) {
		return fmt.Errorf("got cluster name %.200q, want 1 to 100 letters, digits, dots, - and _", name)
	}
	return nil
}

// TLS is how the connections are made; nil: by plain http.
func TLS(conf EtcdConfig) (*tls.Config, error) {
	if len(conf.Endpoints) == 0 {
		return nil, errors.New("got no etcd URL, want URLs such as http://HOST:2379")
	}
	scheme := ""
	for _, e := range conf.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("got etcd %.200q, want a URL as http://HOST:2379", e)
		}
		if scheme != "" && scheme != u.Scheme {
			return nil, fmt.Errorf("got etcd %.200q, want all of them with http or all with https", e)
		}
		scheme = u.Scheme
	}
	if scheme == "http" {
		if conf.CACert != "" || conf.Cert != "" || conf.Key != "" || conf.Insecure {
			return nil, errors.New("got certificates for etcd with http URLs, want https URLs")
		}
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: conf.Insecure}
	if conf.CACert != "" {
		text, err := os.ReadFile(conf.CACert)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", conf.CACert)
		}
	}
	if conf.Cert == "" && conf.Key == "" {
		return c, nil
	}
	load := func() (*tls.Certificate, error) {
		cert, err := os.ReadFile(conf.Cert)
		if err != nil {
			return nil, err
		}
		key, err := secretfile.Read(conf.Key)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", conf.Cert, conf.Key, err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return c, nil
}

func (conf *EtcdConfig) password() (string, error) {
	password := conf.Password
	if conf.PasswordFile != "" {
		text, err := secretfile.Read(conf.PasswordFile)
		if err != nil {
			return "", err
		}
		password, _, _ = strings.Cut(string(text), "\n")
		password = strings.TrimSuffix(password, "\r")
	}
	if (conf.User == "") != (password == "") {
		return "", errors.New("got a user or a password for etcd, want both or none")
	}
	return password, nil
}

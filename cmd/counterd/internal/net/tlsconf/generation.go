package tlsconf

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// generation is the files as they were read at one time. It never changes.
type generation struct {
	server  *tls.Config // nil: there is no certificate
	client  *tls.Config // nil: there is nobody to believe
	subject string
	until   time.Time // when the certificate ends
}

// read makes the generation that a configuration names.
func read(c config.TLS) (*generation, error) {
	if !c.On() && !c.Given() {
		return new(generation), nil
	}
	g := new(generation)
	base := &tls.Config{MinVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true} // replies are read when they are whole
	if err := speech(base, c); err != nil {
		return nil, err
	}
	cas, err := readCAs(c)
	if err != nil {
		return nil, err
	}
	var own, shown tls.Certificate
	if c.CertFile != "" || c.KeyFile != "" {
		if own, err = readPair("tls-cert-file", c.CertFile, "tls-key-file", c.KeyFile, c.KeyFilePass); err != nil {
			return nil, err
		}
		g.subject, g.until = own.Leaf.Subject.String(), own.Leaf.NotAfter
		if g.server, err = serverOf(base, c, own, cas); err != nil {
			return nil, err
		}
	}
	shown = own
	if c.ClientCertFile != "" || c.ClientKeyFile != "" {
		if shown, err = readPair("tls-client-cert-file", c.ClientCertFile, "tls-client-key-file", c.ClientKeyFile, c.ClientKeyFilePass); err != nil {
			return nil, err
		}
	}
	if cas != nil {
		g.client = clientOf(base, shown, cas)
	}
	return g, nil
}

func serverOf(base *tls.Config, c config.TLS, own tls.Certificate, cas *x509.CertPool) (*tls.Config, error) {
	s := base.Clone()
	s.Certificates = []tls.Certificate{own}
	s.ClientCAs = cas
	switch {
	case c.AuthClients == "no":
	case cas == nil:
		return nil, errors.New("tls-auth-clients: cannot verify clients, because neither tls-ca-cert-file nor tls-ca-cert-dir is set")
	case c.AuthClients == "optional":
		s.ClientAuth = tls.VerifyClientCertIfGiven
	default:
		s.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.SessionTicketsDisabled = !c.SessionCaching
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	s.SetSessionTicketKeys([][32]byte{key})
	return s, nil
}

// clientOf checks the other side itself: a chain to one of the CAs, of a certificate for servers.
func clientOf(base *tls.Config, shown tls.Certificate, cas *x509.CertPool) *tls.Config {
	c := base.Clone()
	if shown.Certificate != nil {
		c.Certificates = []tls.Certificate{shown}
	}
	c.RootCAs = cas
	c.InsecureSkipVerify = true // but for what follows; there is no other way to leave out the name
	c.VerifyConnection = func(s tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: cas, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		for _, between := range s.PeerCertificates[1:] { // a server shows one at least
			o.Intermediates.AddCert(between)
		}
		_, err := s.PeerCertificates[0].Verify(o)
		if err != nil {
			return fmt.Errorf("the certificate of %q: %w", s.PeerCertificates[0].Subject, err)
		}
		return nil
	}
	return c
}

// maxCAs bounds a file of certificates, in bytes: the list that browsers have is 230 KB.
const maxCAs = 16 << 20

// readCAs reads whom to believe; nil: nobody was named.
func readCAs(c config.TLS) (*x509.CertPool, error) {
	if c.CACertFile == "" && c.CACertDir == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if c.CACertFile != "" {
		n, err := addCAs(pool, c.CACertFile)
		if err == nil && n == 0 {
			err = fmt.Errorf("%s holds no certificate in PEM", c.CACertFile)
		}
		if err != nil {
			return nil, fmt.Errorf("tls-ca-cert-file: %w", err)
		}
	}
	if c.CACertDir == "" {
		return pool, nil
	}
	entries, err := os.ReadDir(c.CACertDir)
	if err != nil {
		return nil, fmt.Errorf("tls-ca-cert-dir: %w", err)
	}
	found := 0
	for _, e := range entries {
		path := filepath.Join(c.CACertDir, e.Name())
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() { // a link to nothing; a directory
			continue
		}
		n := 0
		if err == nil {
			n, err = addCAs(pool, path)
		}
		if err != nil {
			return nil, fmt.Errorf("tls-ca-cert-dir: %w", err)
		}
		found += n
	}
	if found == 0 {
		return nil, fmt.Errorf("tls-ca-cert-dir: no file of %s holds a certificate in PEM", c.CACertDir)
	}
	return pool, nil
}

// addCAs adds the certificates of a file, and tells how many there were. Text that is no PEM is passed
// over.
func addCAs(pool *x509.CertPool, path string) (n int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if info.Size() > maxCAs {
		return 0, fmt.Errorf("%s: got %d bytes, want at most %d", path, info.Size(), maxCAs)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for data = bytes.TrimSpace(data); ; n++ {
		var block *pem.Block
		for block, data = pem.Decode(data); block != nil && block.Type != "CERTIFICATE"; {
			block, data = pem.Decode(data)
		}
		if block == nil {
			return n, nil
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return n, fmt.Errorf("%s: %w", path, err)
		}
		pool.AddCert(cert)
	}
}

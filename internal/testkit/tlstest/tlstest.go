// Package tlstest makes certificates for tests.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA signs certificates. Its files lie in a directory of the test.
type CA struct {
	File string // its certificate
	Pool *x509.CertPool

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

// Pair is a certificate and its key.
type Pair struct {
	CertFile, KeyFile string
	Certificate       tls.Certificate
}

// NewCA makes a CA.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{t: t, dir: t.TempDir(), Pool: x509.NewCertPool()}
	ca.key = newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.Pool.AddCert(ca.cert)
	ca.File = ca.write("ca.crt", "CERTIFICATE", der)
	return ca
}

// Pair makes a certificate of a name, for localhost and 127.0.0.1, for servers and clients, in files named after it.
func (ca *CA) Pair(name string) Pair {
	ca.t.Helper()
	return ca.Signed(name, func(*x509.Certificate) {})
}

// Signed is Pair of a certificate that change has changed.
func (ca *CA) Signed(name string, change func(*x509.Certificate)) Pair {
	ca.t.Helper()
	key := newKey(ca.t)
	ca.last++
	template := &x509.Certificate{SerialNumber: big.NewInt(1 + ca.last), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage: x509.KeyUsageDigitalSignature, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	p := Pair{CertFile: ca.write(name+".crt", "CERTIFICATE", der), KeyFile: ca.write(name+".key", "PRIVATE KEY", plain)}
	if p.Certificate, err = tls.LoadX509KeyPair(p.CertFile, p.KeyFile); err != nil {
		ca.t.Fatal(err)
	}
	return p
}

// Client is a configuration that believes the CA and shows the certificates given.
func (ca *CA) Client(shown ...Pair) *tls.Config {
	c := &tls.Config{RootCAs: ca.Pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	for _, p := range shown {
		c.Certificates = append(c.Certificates, p.Certificate)
	}
	return c
}

func (ca *CA) write(name, kind string, der []byte) string {
	ca.t.Helper()
	path := filepath.Join(ca.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		ca.t.Fatal(err)
	}
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

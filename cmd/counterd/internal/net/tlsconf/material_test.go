package tlsconf

import (
	"crypto"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/youmark/pkcs8"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/internal/secretfile"
	"github.com/counterd/counterd/internal/testkit/tlstest"
)

func settings(ca *tlstest.CA, own tlstest.Pair) config.TLS {
	c := config.Default().TLS
	c.Port, c.CertFile, c.KeyFile, c.CACertFile = 1, own.CertFile, own.KeyFile, ca.File
	return c
}

// shake makes a handshake and sends a byte each way; both ends' errors.
func shake(t *testing.T, server, client *tls.Config) (got tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a pipe has no buffer: both sides of TLS write at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
		s := tls.Server(conn, server)
		b := make([]byte, 1)
		if _, err = s.Read(b); err == nil {
			_, err = s.Write(b)
		}
		done <- err
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
	c := tls.Client(conn, client)
	b := []byte{7}
	if _, clientErr = c.Write(b); clientErr == nil {
		_, clientErr = c.Read(b)
	}
	got = c.ConnectionState()
	conn.Close()
	return got, <-done, clientErr
}

// TestAuthClients: which clients are let in, by tls-auth-clients.
func TestAuthClients(t *testing.T) {
	ca, strangers := tlstest.NewCA(t), tlstest.NewCA(t)
	own, friend, stranger := ca.Pair("node"), ca.Pair("friend"), strangers.Pair("stranger")
	old := ca.Signed("old", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	forServers := ca.Signed("servers", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	for _, c := range []struct {
		auth  string
		shown []tlstest.Pair
		in    bool
	}{
		{"yes", []tlstest.Pair{friend}, true}, {"yes", nil, false}, {"yes", []tlstest.Pair{stranger}, false}, {"yes", []tlstest.Pair{old}, false},
		{"yes", []tlstest.Pair{forServers}, false}, {"optional", nil, true}, {"optional", []tlstest.Pair{friend}, true}, {"optional", []tlstest.Pair{old}, false},
		{"no", nil, true}, {"no", []tlstest.Pair{stranger}, true},
	} {
		s := settings(ca, own)
		s.AuthClients = c.auth
		m, err := Load(s)
		if err != nil {
			t.Fatal(err)
		}
		client := ca.Client(c.shown...)
		if len(c.shown) > 0 { // whatever the server says it would believe
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.shown[0].Certificate, nil }
		}
		_, serverErr, clientErr := shake(t, m.Server(), client)
		if in := serverErr == nil && clientErr == nil; in != c.in {
			t.Errorf("%s, %d certificates shown: in %v, want %v (%v, %v)", c.auth, len(c.shown), in, c.in, serverErr, clientErr)
		}
	}
}

// TestClientChecksTheServer: a link goes to nobody but those that the CA has signed, whatever their name.
func TestClientChecksTheServer(t *testing.T) {
	ca, strangers := tlstest.NewCA(t), tlstest.NewCA(t)
	own := ca.Pair("node")
	m, err := Load(settings(ca, own))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := ca.Signed("elsewhere", func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = []string{"other.example"}, nil })
	forClients := ca.Signed("clients", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	old := ca.Signed("old", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	for name, c := range map[string]struct {
		pair tlstest.Pair
		ok   bool
	}{
		"ours": {own, true}, "another name": {elsewhere, true}, "for clients": {forClients, false}, "old": {old, false}, "a stranger": {strangers.Pair("stranger"), false},
	} {
		client, err := m.Client("primary.example")
		if err != nil {
			t.Fatal(err)
		}
		asked := ""
		server := &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			asked = h.ServerName
			return &c.pair.Certificate, nil
		}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool}
		_, serverErr, clientErr := shake(t, server, client)
		if ok := serverErr == nil && clientErr == nil; ok != c.ok || asked != "primary.example" {
			t.Errorf("%s: %v, want %v (%v, %v); asked for %q", name, ok, c.ok, serverErr, clientErr, asked)
		}
	}
	if client, err := m.Client("10.0.0.1"); err != nil || client.ServerName != "" {
		t.Errorf("an address is no name to ask for: %v, %v", client, err)
	}
}

// TestReload: a handshake uses the configuration in force when it begins; files that are wrong change nothing.
func TestReload(t *testing.T) {
	ca := tlstest.NewCA(t)
	first, second := ca.Pair("first"), ca.Pair("second")
	c := settings(ca, first)
	c.AuthClients = "no"
	m, err := Load(c)
	if err != nil {
		t.Fatal(err)
	}
	server := m.Server()
	shown := func() string {
		t.Helper()
		state, serverErr, clientErr := shake(t, server, ca.Client())
		if serverErr != nil || clientErr != nil {
			t.Fatal(serverErr, clientErr)
		}
		return state.PeerCertificates[0].Subject.CommonName
	}
	if got := shown(); got != "first" {
		t.Errorf("got %s", got)
	}
	copyFile(t, second.CertFile, first.CertFile) // half of an exchange of files
	if err := m.Reload(c); err == nil || !strings.Contains(err.Error(), "private key does not match") {
		t.Errorf("a certificate of another key: %v", err)
	}
	if got := shown(); got != "first" {
		t.Errorf("after a failed reload: got %s", got)
	}
	copyFile(t, second.KeyFile, first.KeyFile)
	if err := m.Reload(c); err != nil {
		t.Error(err)
	}
	if got := shown(); got != "second" {
		t.Errorf("after a reload: got %s", got)
	}
	if subject, until := m.Certificate(); subject != "CN=second" || time.Until(until) < time.Minute {
		t.Errorf("got %q, %v", subject, until)
	}
}

// TestResumption: a client may come back by a shorter handshake, but not past a reload: the CA that had signed its
// certificate may be believed no more.
func TestResumption(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ca, next := tlstest.NewCA(t), tlstest.NewCA(t)
		c := settings(ca, ca.Pair("node"))
		m, err := Load(c)
		if err != nil {
			t.Fatal(err)
		}
		client := ca.Client(ca.Pair("client"))
		client.ClientSessionCache, client.MaxVersion = tls.NewLRUClientSessionCache(1), version
		for i, want := range []bool{false, true} {
			if state, serverErr, clientErr := shake(t, m.Server(), client); serverErr != nil || clientErr != nil || state.DidResume != want {
				t.Errorf("%s, handshake %d: resumed %v, want %v (%v, %v)", tls.VersionName(version), i, state.DidResume, want, serverErr, clientErr)
			}
		}
		c.CACertFile = next.File
		if err := m.Reload(c); err != nil {
			t.Fatal(err)
		}
		if _, serverErr, _ := shake(t, m.Server(), client); serverErr == nil {
			t.Errorf("%s: a client of the CA before came in", tls.VersionName(version))
		}
		c.CACertFile, c.SessionCaching = ca.File, false
		if err := m.Reload(c); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if state, serverErr, clientErr := shake(t, m.Server(), client); serverErr != nil || clientErr != nil || state.DidResume {
				t.Errorf("%s, without caching: resumed %v (%v, %v)", tls.VersionName(version), state.DidResume, serverErr, clientErr)
			}
		}
	}
}

// TestWrongFiles: errors name their setting.
func TestWrongFiles(t *testing.T) {
	ca := tlstest.NewCA(t)
	own, other := ca.Pair("node"), ca.Pair("other")
	empty, open := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "open.key")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	copyFile(t, own.KeyFile, open)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*config.TLS){
		"tls-cert-file: open /none":                  func(c *config.TLS) { c.CertFile = "/none" },
		"tls-key-file: open /none":                   func(c *config.TLS) { c.KeyFile = "/none" },
		"tls-key-file: got none":                     func(c *config.TLS) { c.KeyFile = "" },
		"tls-cert-file: got none":                    func(c *config.TLS) { c.CertFile = "" },
		"private key does not match":                 func(c *config.TLS) { c.KeyFile = other.KeyFile },
		"failed to find any PEM data":                func(c *config.TLS) { c.CertFile = empty },
		"chmod o= " + open:                           func(c *config.TLS) { c.KeyFile = open },
		"tls-ca-cert-file: stat /none":               func(c *config.TLS) { c.CACertFile = "/none" },
		"holds no certificate in PEM":                func(c *config.TLS) { c.CACertFile = empty },
		"tls-ca-cert-dir: open /none":                func(c *config.TLS) { c.CACertDir = "/none" },
		"tls-ca-cert-dir: no file of":                func(c *config.TLS) { c.CACertDir = filepath.Dir(empty) },
		"tls-auth-clients: cannot verify clients":    func(c *config.TLS) { c.CACertFile = "" },
		"tls-client-key-file: open /none":            func(c *config.TLS) { c.ClientCertFile, c.ClientKeyFile = own.CertFile, "/none" },
		`tls-protocols: got "TLSv1.1"`:               func(c *config.TLS) { c.Protocols = "TLSv1.1 TLSv1.2" },
		`tls-ciphers: got "AES128-SHA"`:              func(c *config.TLS) { c.Ciphers = "AES128-SHA" },
		"which leaves no cipher suite":               func(c *config.TLS) { c.Ciphers = "!MEDIUM" },
		"tls-ciphersuites: ":                         func(c *config.TLS) { c.CipherSuites = "TLS_CHACHA20_POLY1305_SHA256" },
		"TLS_AES_256_GCM_SHA384 is missing in \"TLS": func(c *config.TLS) { c.CipherSuites = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256" },
	} {
		c := settings(ca, own)
		change(&c)
		if _, err := Load(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	c := settings(ca, own)
	c.KeyFile = open
	if _, err := Load(c); !errors.Is(err, secretfile.ErrOpenToOthers) {
		t.Errorf("a key that all can read: %v", err)
	}
	m, err := Load(config.Default().TLS)
	if err != nil {
		t.Fatal(err)
	}
	if _, serverErr, _ := shake(t, m.Server(), ca.Client()); !errors.Is(serverErr, ErrOff) {
		t.Errorf("without a certificate: %v", serverErr)
	}
	if _, err := m.Client("x"); !errors.Is(err, ErrOff) {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestCADir: every file of the directory counts that holds certificates.
func TestCADir(t *testing.T) {
	ca, other := tlstest.NewCA(t), tlstest.NewCA(t)
	dir := t.TempDir()
	copyFile(t, ca.File, filepath.Join(dir, "a.pem"))
	copyFile(t, other.File, filepath.Join(dir, "0f3b1ad7.0"))
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "README"), []byte("none here"), 0o600), os.Mkdir(filepath.Join(dir, "sub"), 0o700),
		os.Symlink("nowhere", filepath.Join(dir, "dangling"))); err != nil {
		t.Fatal(err)
	}
	c := settings(ca, ca.Pair("node"))
	c.CACertFile, c.CACertDir = "", dir
	m, err := Load(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []*tlstest.CA{ca, other} {
		if _, serverErr, clientErr := shake(t, m.Server(), ca.Client(from.Pair("client"))); serverErr != nil || clientErr != nil {
			t.Error(serverErr, clientErr)
		}
	}
}

// TestSpeech: connections use the configured versions and ciphers.
func TestSpeech(t *testing.T) {
	ca := tlstest.NewCA(t)
	own := ca.Pair("node")
	for _, c := range []struct {
		protocols, ciphers string
		version, suite     uint16 // 0: any
	}{
		{"", "", tls.VersionTLS13, 0}, {"TLSv1.2", "", tls.VersionTLS12, 0}, {"tlsv1.3 tlsv1.2", "DEFAULT:!MEDIUM", tls.VersionTLS13, 0},
		{"TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384", tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384},
		{"TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305:!aNULL", tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256},
	} {
		s := settings(ca, own)
		s.AuthClients, s.Protocols, s.Ciphers = "no", c.protocols, c.ciphers
		s.CipherSuites = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"
		m, err := Load(s)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		state, serverErr, clientErr := shake(t, m.Server(), ca.Client())
		if serverErr != nil || clientErr != nil || state.Version != c.version || c.suite != 0 && state.CipherSuite != c.suite {
			t.Errorf("%+v: got %s, %s (%v, %v)", c, tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite), serverErr, clientErr)
		}
	}
	s := settings(ca, own)
	s.AuthClients, s.Protocols = "no", "TLSv1.3"
	m, err := Load(s)
	if err != nil {
		t.Fatal(err)
	}
	client := ca.Client()
	client.MaxVersion = tls.VersionTLS12
	if _, serverErr, clientErr := shake(t, m.Server(), client); serverErr == nil || clientErr == nil {
		t.Error("TLS 1.2 was spoken, and only 1.3 is allowed")
	}
}

// TestKeyPassByChance: RFC 1421 has no checksum, and one wrong password of 256 decrypts to a valid padding. It is reported as a
// wrong password nevertheless.
func TestKeyPassByChance(t *testing.T) {
	plain, err := os.ReadFile(tlstest.NewCA(t).Pair("node").KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(plain)
	//lint:ignore SA1019 what files of old have
	old, err := x509.EncryptPEMBlock(strings.NewReader(strings.Repeat("seed", 100)), "PRIVATE KEY", block.Bytes, []byte("secret"), x509.PEMCipherAES256)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(old)
	for i := range 3000 {
		if _, err := decrypted(text, fmt.Sprint("wrong", i)); err != errPassWrong {
			t.Fatalf("password wrong%d: got %v, want %v", i, err, errPassWrong)
		}
	}
}

// TestKeyPass: keys with a password, in both of OpenSSL's ways.
func TestKeyPass(t *testing.T) {
	ca := tlstest.NewCA(t)
	own := ca.Pair("node")
	plain, err := os.ReadFile(own.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(plain)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	modern, err := pkcs8.MarshalPrivateKey(key, []byte("secret"), nil)
	if err != nil {
		t.Fatal(err)
	}
	//lint:ignore SA1019 what files of old have
	old, err := x509.EncryptPEMBlock(strings.NewReader(strings.Repeat("seed", 100)), "PRIVATE KEY", block.Bytes, []byte("secret"), x509.PEMCipherAES256)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"modern": {Type: "ENCRYPTED PRIVATE KEY", Bytes: modern}, "old": old} {
		c := settings(ca, own)
		c.KeyFile = filepath.Join(t.TempDir(), "node.key")
		if err := os.WriteFile(c.KeyFile, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		for pass, want := range map[string]error{"secret": nil, "": errPassWanted, "swordfish": errPassWrong} {
			c.KeyFilePass = pass
			m, err := Load(c)
			if !errors.Is(err, want) || pass != "" && err != nil && strings.Contains(err.Error(), pass) {
				t.Errorf("%s, password %q: got %v, want %v", name, pass, err, want)
			}
			if err == nil {
				if _, serverErr, clientErr := shake(t, m.Server(), ca.Client(own)); serverErr != nil || clientErr != nil {
					t.Error(name, serverErr, clientErr)
				}
			}
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzDecrypted: whatever a key's file holds, reading it is an error and no more.
func FuzzDecrypted(f *testing.F) {
	f.Add([]byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"), "x")
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END PRIVATE KEY-----\n"), "x")
	whole, err := pkcs8.MarshalPrivateKey(ed25519.NewKeyFromSeed(make([]byte, 32)), []byte("x"), &pkcs8.Opts{Cipher: pkcs8.AES256CBC,
		KDFOpts: pkcs8.PBKDF2Opts{SaltSize: 8, IterationCount: 1, HMACHash: crypto.SHA256}})
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range []int{len(whole), len(whole) - 1, len(whole) / 2} {
		f.Add(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: whole[:n]}), "x")
	}
	f.Fuzz(func(_ *testing.T, text []byte, pass string) { _, _ = decrypted(text, pass) })
}

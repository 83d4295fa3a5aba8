package clients

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The matrix: what each client library does with a counterd, in both versions of the protocol where it speaks them, in
// the clear and as a user over TLS. The table in docs/reference/clients.md is made of it.

// steps are what every client does: numbers, whole posts, a pipeline, a transaction, publish and subscribe, going on
// when its connections were cut, and what it makes of an error.
var steps = []string{"values", "posts", "pipeline", "transaction", "pubsub", "reconnect", "refused"}

// target is a server as a client is told of it.
type target struct {
	host       string
	port       int
	user, pass string // empty: none
	ca         string // a file; empty: no TLS
	proto      int    // version of the protocol
}

func (to target) addr() string { return net.JoinHostPort(to.host, strconv.Itoa(to.port)) }

// tls is what a Go client is given.
func (to target) tls(t *testing.T) *tls.Config {
	t.Helper()
	if to.ca == "" {
		return nil
	}
	text, err := os.ReadFile(to.ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: pool, ServerName: to.host}
}

// client is a row of the matrix.
type client struct {
	name   string
	protos []int
	tls    bool
	more   map[int][]string // steps beyond those of all, by protocol
	// run goes through the steps and returns those it has done. ok is false where the library is not here.
	run func(t *testing.T, to target) (done []string, ok bool)
}

var matrix = []client{
	{"go-redis", []int{2, 3}, true, nil, goRedis},
	{"rueidis", []int{2, 3}, true, map[int][]string{3: {"cache"}}, rueidisSteps},
	{"redigo", []int{2}, true, nil, redigo},
	{"redis-py", []int{2}, true, nil, script("scripts/client.py", python)},
	{"ioredis", []int{2, 3}, true, nil, script("scripts/ioredis.js", node("ioredis"))},
	{"node-redis", []int{2, 3}, true, map[int][]string{3: {"cache"}}, script("scripts/node-redis.js", node("redis"))},
	{"phpredis", []int{2}, true, nil, script("scripts/client.php", php)},
	{"hiredis", []int{2}, false, nil, script("scripts/client.c", hiredis)},
}

func TestMatrix(t *testing.T) {
	ca, cert, key := certificates(t)
	for _, c := range matrix {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, proto := range c.protos {
				for _, secure := range []bool{false, true} {
					if secure && !c.tls {
						continue
					}
					to := target{host: "127.0.0.1", proto: proto}
					if secure {
						to.port = freePort(t)
						addr := start(t, "--tls-port", strconv.Itoa(to.port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "no")
						to.ca, to.user, to.pass = ca, "app", "secret word"
						admin(t, addr, "ACL", "SETUSER", to.user, "on", ">"+to.pass, "~*", "&*", "+@all", "-@dangerous", "+client|kill", "+info")
					} else {
						_, port, _ := net.SplitHostPort(start(t))
						to.port, _ = strconv.Atoi(port)
					}
					done, ok := c.run(t, to)
					if !ok {
						return
					}
					done = slices.DeleteFunc(done, func(step string) bool { return step == "login" })
					want := append(slices.Clone(steps), c.more[proto]...)
					slices.Sort(want)
					slices.Sort(done)
					if !slices.Equal(done, want) {
						t.Errorf("RESP%d, TLS and a user %v: done %v, want %v", proto, secure, done, want)
					}
				}
			}
		})
	}
}

// TestMatrixTable: docs/reference/clients.md says of each client what is tested here.
func TestMatrixTable(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/reference/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range matrix {
		protocol := "RESP2"
		if slices.Contains(c.protos, 3) {
			protocol = "RESP2, RESP3"
		}
		if secure := map[bool]string{true: "yes", false: "no"}[c.tls]; !strings.Contains(string(text), "| "+c.name+" | "+protocol+" | "+secure+" |") {
			t.Errorf("the page has no row %q, %s, TLS and users %s", c.name, protocol, secure)
		}
	}
}

// script runs the steps in another language. with finds what runs a file there, or says why nothing does.
func script(path string, with func(t *testing.T, path string) ([]string, error)) func(*testing.T, target) ([]string, bool) {
	return func(t *testing.T, to target) (done []string, ok bool) {
		command, err := with(t, path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "LEFT OUT: %s: %v\n", t.Name(), err)
			return nil, false
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "HOST="+to.host, "PORT="+strconv.Itoa(to.port), "USERNAME="+to.user, "PASSWORD="+to.pass, "CA="+to.ca, "PROTO="+strconv.Itoa(to.proto))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("RESP%d, TLS %v: %v\n%s", to.proto, to.ca != "", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if step, ok := strings.CutPrefix(strings.TrimSpace(line), "ok "); ok {
				done = append(done, step)
			}
		}
		return done, true
	}
}

func python(_ *testing.T, path string) ([]string, error) {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import redis").Run() == nil {
			return []string{name, path}, nil
		}
	}
	return nil, errors.New("no python3 finds redis (apt-get install python3-redis)")
}

// node finds a package of npm: NODE_PATH names where they are, or node_modules is here.
func node(name string) func(*testing.T, string) ([]string, error) {
	return func(_ *testing.T, path string) ([]string, error) {
		if exec.Command("node", "-e", "require('"+name+"')").Run() != nil {
			return nil, fmt.Errorf("node does not find %s (npm install --no-save %s in %s)", name, name, "cmd/counterd/e2e/clients")
		}
		return []string{"node", path}, nil
	}
}

func php(_ *testing.T, path string) ([]string, error) {
	if exec.Command("php", "-r", "exit(class_exists('Redis') && function_exists('pcntl_fork') ? 0 : 1);").Run() != nil {
		return nil, errors.New("no php finds Redis (apt-get install php-cli php-redis)")
	}
	return []string{"php", path}, nil
}

func hiredis(t *testing.T, path string) ([]string, error) {
	binary := filepath.Join(t.TempDir(), "client")
	if out, err := exec.Command("cc", "-o", binary, path, "-lhiredis").CombinedOutput(); err != nil {
		if strings.Contains(string(out), "error: ") && !strings.Contains(string(out), "hiredis/hiredis.h") {
			t.Errorf("%s", out)
		}
		return nil, errors.New("cc does not find hiredis (apt-get install libhiredis-dev)")
	}
	return []string{binary}, nil
}

// certificates makes an authority and a certificate for 127.0.0.1, as files.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	issue := func(serial int64, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = own
		}
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(serial), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &own.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return own, der
	}
	root := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	signer, der := issue(1, root, root, nil)
	ca = write("ca.pem", "CERTIFICATE", der)
	own, der := issue(2, &x509.Certificate{Subject: pkix.Name{CommonName: "counterd"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, root, signer)
	text, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return ca, write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", text)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

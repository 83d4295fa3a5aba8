package connect

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/secretfile"
	"github.com/counterd/counterd/internal/testkit/tlstest"
	"github.com/counterd/counterd/internal/wire"
)

func options(t *testing.T, addr string, args ...string) (wire.Options, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f := AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f.Options(addr)
}

func TestPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pass")
	if err := os.WriteFile(file, []byte("of the file\r\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDISCLI_AUTH", "of redis-cli")
	check := func(want string, args ...string) {
		t.Helper()
		if o, err := options(t, "h:1", args...); err != nil || o.Password != want {
			t.Errorf("%q: got %q, %v, want %q", args, o.Password, err, want)
		}
	}
	check("of redis-cli")
	t.Setenv("COUNTERD_PASS", "of counterd")
	check("of counterd")
	check("of the file", "--pass-file", file)
	check("of the flag", "--pass", "of the flag", "--user", "eve")
	check("", "--pass", "")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := options(t, "h:1", "--pass-file", file); !errors.Is(err, secretfile.ErrOpenToOthers) {
		t.Errorf("a file that all can read: %v", err)
	}
}

func TestMisuse(t *testing.T) {
	ca := tlstest.NewCA(t)
	p := ca.Pair("client")
	for want, args := range map[string][]string{
		"--cacert is for TLS":           {"--cacert", ca.File},
		"--insecure is for TLS":         {"--insecure"},
		"got --pass and --pass-file":    {"--pass", "x", "--pass-file", "y"},
		"want a password too":           {"--user", "eve"},
		"got one, want both":            {"--tls", "--cert", p.CertFile},
		"--cacert: open /none":          {"--tls", "--cacert", "/none"},
		"holds no certificate":          {"--tls", "--cacert", p.KeyFile},
		"--cert " + ca.File + ", --key": {"--tls", "--cert", ca.File, "--key", p.KeyFile},
	} {
		if _, err := options(t, "h:1", args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
	if _, err := options(t, "nowhere", "--tls"); err == nil || !strings.Contains(err.Error(), `got "nowhere", want HOST:PORT`) {
		t.Error(err)
	}
}

// TestTLS: the trusted authorities, and the client's certificate.
func TestTLS(t *testing.T) {
	ca, strangers := tlstest.NewCA(t), tlstest.NewCA(t)
	own, client := ca.Pair("server"), ca.Pair("client")
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own.Certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := make([]byte, 100)
				if _, err := conn.Read(b); err == nil {
					_, _ = conn.Write([]byte("+PONG\r\n"))
				}
			}()
		}
	}()
	shown := []string{"--tls", "--cert", client.CertFile, "--key", client.KeyFile}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct {
		host, want string // an error; empty: none
		more       []string
	}{
		{"127.0.0.1", "", []string{"--cacert", ca.File}},
		{"127.0.0.1", "", []string{"--insecure"}},
		{"127.0.0.1", "", []string{"--cacert", ca.File, "--sni", "localhost"}},
		{"127.0.0.1", "other.example", []string{"--cacert", ca.File, "--sni", "other.example"}},
		{"127.0.0.1", "unknown authority", []string{"--cacert", strangers.File}},
		{"127.0.0.1", "unknown authority", nil},
	} {
		addr := net.JoinHostPort(c.host, port)
		o, err := options(t, addr, append(shown, c.more...)...)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := wire.Dial(t.Context(), addr, o)
		if err == nil {
			_, err = conn.Do("PING")
			conn.Close()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: got %v, want %q", c.more, err, c.want)
		}
	}
}

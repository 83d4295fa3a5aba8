// Package connect is how the tools reach a running server: the flags for TLS, user and password that each command which
// connects has.
//
//	f := connect.AddFlags(flags)           in Setup
//	opts, err := f.Options("10.0.0.1:6379") when it runs; for wire.Dial, or fields of it for another client
//
// The password is better not given by --pass, as others of the machine see it in the list of processes until the tool
// has begun (package secretargs): the environment variables COUNTERD_PASS and REDISCLI_AUTH, which redis-cli takes too,
// or a file, are for that.
package connect

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/secretfile"
	"github.com/counterd/counterd/internal/wire"
)

// Flags are how to reach a server, as the command line says it.
type Flags struct {
	TLS      bool
	CACert   string // file, PEM
	Cert     string // file, PEM
	Key      string // file, PEM
	SNI      string
	Insecure bool
	User     string
	Pass     string
	PassFile string

	given func(name string) bool
}

// AddFlags declares the flags.
func AddFlags(fs *pflag.FlagSet) *Flags {
	f := &Flags{given: fs.Changed}
	fs.BoolVar(&f.TLS, "tls", false, "connect by TLS")
	fs.StringVar(&f.CACert, "cacert", "", "file of CA certificates to believe; the system's unless given")
	fs.StringVar(&f.Cert, "cert", "", "file of the certificate to show, where the server asks for one")
	fs.StringVar(&f.Key, "key", "", "file of its private key")
	fs.StringVar(&f.SNI, "sni", "", "name that the server's certificate must bear; that of HOST unless given")
	fs.BoolVar(&f.Insecure, "insecure", false, "believe any certificate: whoever sits between can read and change everything")
	fs.StringVar(&f.User, "user", "", "user name for AUTH; default unless given")
	fs.StringVar(&f.Pass, "pass", "", "password; better in the environment variable COUNTERD_PASS or REDISCLI_AUTH, or in a file")
	fs.StringVar(&f.PassFile, "pass-file", "", "file whose first line is the password; others must not be able to read it")
	return f
}

// Options are for a connection to "host:port", or to a unix socket. The error is one of the command line, or of a file.
func (f *Flags) Options(addr string) (o wire.Options, err error) {
	o.User = f.User
	if o.Password, err = f.password(); err != nil {
		return o, err
	}
	if o.User != "" && o.Password == "" {
		return o, cli.Misuse("--user %s: want a password too, in the environment variable COUNTERD_PASS, by --pass-file or --pass", o.User)
	}
	if !f.TLS {
		for _, name := range []string{"cacert", "cert", "key", "sni", "insecure"} {
			if f.given(name) {
				return o, cli.Misuse("--%s is for TLS: want --tls too", name)
			}
		}
		return o, nil
	}
	o.TLS, err = f.config(addr)
	return o, err
}

func (f *Flags) password() (string, error) {
	switch {
	case f.given("pass") && f.given("pass-file"):
		return "", cli.Misuse("got --pass and --pass-file, want one")
	case f.given("pass"):
		return f.Pass, nil
	case f.given("pass-file"):
		text, err := secretfile.Read(f.PassFile)
		if err != nil {
			return "", fmt.Errorf("--pass-file: %w", err)
		}
		line, _, _ := bytes.Cut(text, []byte("\n"))
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
			return "", fmt.Errorf("--pass-file: the first line of %s is empty", f.PassFile)
		}
		return string(line), nil
	}
	if pass, ok := os.LookupEnv("COUNTERD_PASS"); ok {
		return pass, nil
	}
	return os.Getenv("REDISCLI_AUTH"), nil
}

func (f *Flags) config(addr string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.SNI, InsecureSkipVerify: f.Insecure}
	if c.ServerName == "" && !strings.Contains(addr, "/") {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, cli.Misuse("got %q, want HOST:PORT", addr)
		}
		c.ServerName = host
	}
	if f.CACert != "" {
		text, err := os.ReadFile(f.CACert)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--cacert: %s holds no certificate in PEM", f.CACert)
		}
	}
	if f.Cert == "" && f.Key == "" {
		return c, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, cli.Misuse("--cert and --key: got one, want both")
	}
	cert, err := os.ReadFile(f.Cert)
	if err != nil {
		return nil, fmt.Errorf("--cert: %w", err)
	}
	key, err := secretfile.Read(f.Key)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		if bytes.Contains(key, []byte("ENCRYPTED")) {
			err = errors.New("the key has a password: want one without (openssl pkey -in KEY -out PLAIN)")
		}
		return nil, fmt.Errorf("--cert %s, --key %s: %w", f.Cert, f.Key, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

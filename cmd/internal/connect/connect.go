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

	ofURL  *string  // the password of a URL, which counts before all others
	prefix string   // of the flags' names
	env    []string // variables that may hold the password
	given  func(name string) bool
}

// AddFlags declares the flags.
func AddFlags(fs *pflag.FlagSet) *Flags {
	f := addFlags(fs, "", "COUNTERD_PASS", "REDISCLI_AUTH")
	fs.StringVar(&f.Pass, "pass", "", "password; better in the environment variable COUNTERD_PASS or REDISCLI_AUTH, or in a file")
	return f
}

// AddSourceFlags declares the flags for a second server, which data comes from: as those of AddFlags, with source- in front.
// Its password is not given by a flag.
func AddSourceFlags(fs *pflag.FlagSet) *Flags { return addFlags(fs, "source-", "SOURCE_PASS") }

// AddTLSFlags declares the flags of TLS alone, for programs that only test whether a server answers.
func AddTLSFlags(fs *pflag.FlagSet) *Flags { return addTLSFlags(fs, "") }

func addFlags(fs *pflag.FlagSet, prefix string, env ...string) *Flags {
	f := addTLSFlags(fs, prefix, env...)
	fs.StringVar(&f.User, prefix+"user", "", whose(prefix)+"user name for AUTH; default unless given")
	fs.StringVar(&f.PassFile, prefix+"pass-file", "", whose(prefix)+"file whose first line is the password; others must not be able to read it")
	return f
}

// AddSinkFlags declares the flags for a server that data goes to: as those of AddFlags, with sink- in front. Its password is not
// given by a flag.
func AddSinkFlags(fs *pflag.FlagSet) *Flags { return addFlags(fs, "sink-", "SINK_PASS") }

// SetPassword gives the password that a URL has.
func (f *Flags) SetPassword(password string) { f.ofURL = &password }

func whose(prefix string) string {
	if name := strings.TrimSuffix(prefix, "-"); name != "" {
		return "of the " + name + ": "
	}
	return ""
}

func addTLSFlags(fs *pflag.FlagSet, prefix string, env ...string) *Flags {
	f := &Flags{prefix: prefix, env: env, given: func(name string) bool { return fs.Changed(prefix + name) }}
	whose := whose(prefix)
	fs.BoolVar(&f.TLS, prefix+"tls", false, whose+"connect by TLS")
	fs.StringVar(&f.CACert, prefix+"cacert", "", whose+"file of CA certificates to believe; the system's unless given")
	fs.StringVar(&f.Cert, prefix+"cert", "", whose+"file of the certificate to show, where the server asks for one")
	fs.StringVar(&f.Key, prefix+"key", "", whose+"file of its private key")
	fs.StringVar(&f.SNI, prefix+"sni", "", whose+"name that the server's certificate must bear; that of HOST unless given")
	fs.BoolVar(&f.Insecure, prefix+"insecure", false, whose+"believe any certificate: whoever sits between can read and change everything")
	return f
}

// Options are for a connection to "host:port", or to a unix socket. The error is one of the command line, or of a file.
func (f *Flags) Options(addr string) (o wire.Options, err error) {
	o.User = f.User
	if o.Password, err = f.password(); err != nil {
		return o, err
	}
	if o.User != "" && o.Password == "" {
		return o, cli.Misuse("--%suser %s: want a password too, in the environment variable %s or by --%spass-file", f.prefix, o.User, f.env[0], f.prefix)
	}
	if !f.TLS {
		for _, name := range []string{"cacert", "cert", "key", "sni", "insecure"} {
			if f.given(name) {
				return o, cli.Misuse("--%s%s is for TLS: want --%stls too", f.prefix, name, f.prefix)
			}
		}
		return o, nil
	}
	o.TLS, err = f.config(addr)
	return o, err
}

func (f *Flags) password() (string, error) {
	switch {
	case f.ofURL != nil:
		return *f.ofURL, nil
	case f.given("pass") && f.given("pass-file"):
		return "", cli.Misuse("got --pass and --pass-file, want one")
	case f.given("pass"):
		return f.Pass, nil
	case f.given("pass-file"):
		text, err := secretfile.Read(f.PassFile)
		if err != nil {
			return "", fmt.Errorf("--%spass-file: %w", f.prefix, err)
		}
		line, _, _ := bytes.Cut(text, []byte("\n"))
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
			return "", fmt.Errorf("--%spass-file: the first line of %s is empty", f.prefix, f.PassFile)
		}
		return string(line), nil
	}
	for _, name := range f.env {
		if pass, ok := os.LookupEnv(name); ok {
			return pass, nil
		}
	}
	return "", nil
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
			return nil, fmt.Errorf("--%scacert: %w", f.prefix, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--%scacert: %s holds no certificate in PEM", f.prefix, f.CACert)
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
		return nil, fmt.Errorf("--%scert: %w", f.prefix, err)
	}
	key, err := secretfile.Read(f.Key)
	if err != nil {
		return nil, fmt.Errorf("--%skey: %w", f.prefix, err)
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

package sinks

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/internal/wire"
)

// Options complete the text behind --to.
type Options struct {
	Stdout io.Writer
	State  string         // a file for the position of a sink that cannot keep it
	Reach  *connect.Flags // TLS, user and password
}

// Parse reads the text behind --to. The error is one of the command line.
func Parse(to string, o Options) (*Place, error) {
	scheme, _, found := strings.Cut(to, "://")
	var p *Place
	var err error
	switch {
	case to == "":
		return nil, cli.Misuse("want --to, the place to write changes to")
	case to == "-":
		p = &Place{Name: "standard output", open: func(context.Context) (Sink, error) { return &stdout{w: o.Stdout}, nil }}
	case scheme == "redis" || scheme == "rediss":
		p, err = parseStream(to, &o)
	case scheme == "http" || scheme == "https":
		return parseWeb(to, &o)
	case scheme == "kafka":
		p, err = parseTopic(to, &o)
	case found:
		return nil, cli.Misuse("--to %s://: want -, FILE.jsonl, FILE.jsonl.zst, redis://, rediss://, kafka://, http:// or https://", scheme)
	default:
		p, err = parseFile(to)
	}
	if err == nil && o.State != "" {
		return nil, cli.Misuse("--state is for web services")
	}
	return p, err
}

func parseFile(name string) (*Place, error) {
	switch {
	case strings.HasSuffix(name, ".jsonl"):
		return NewPlace(name, func(context.Context) (Sink, error) { return openFile(name, lines{name}) }), nil
	case strings.HasSuffix(name, ".jsonl.zst"):
		return NewPlace(name, func(context.Context) (Sink, error) {
			form, err := newFrames(name)
			if err != nil {
				return nil, err
			}
			return openFile(name, form)
		}), nil
	}
	return nil, cli.Misuse("--to %s: want a name that ends in .jsonl or .jsonl.zst", name)
}

// parseURL reads a URL whose user and password go to the flags' place. Errors do not repeat it.
func parseURL(to string, o *Options) (*url.URL, error) {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" || u.Fragment != "" {
		scheme, _, _ := strings.Cut(to, "://")
		return nil, cli.Misuse("--to %s://: it is no URL with a host", scheme)
	}
	if u.User != nil {
		o.Reach.User = u.User.Username()
		if pass, ok := u.User.Password(); ok {
			o.Reach.SetPassword(pass)
		}
		u.User = nil
	}
	o.Reach.TLS = o.Reach.TLS || u.Scheme == "rediss" || u.Scheme == "https"
	return u, nil
}

// hostPort is a URL's host with a port.
func hostPort(u *url.URL, usual string) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), usual)
}

func parseStream(to string, o *Options) (*Place, error) {
	u, err := parseURL(to, o)
	if err != nil {
		return nil, err
	}
	key := strings.TrimPrefix(u.Path, "/")
	if key == "" {
		return nil, cli.Misuse("--to %s://%s: want the key of a stream behind it: %s://%s/STREAM", u.Scheme, u.Host, u.Scheme, u.Host)
	}
	var db, keep uint64
	for name, values := range u.Query() {
		n, err := strconv.ParseUint(values[0], 10, 31)
		switch {
		case err != nil || name != "db" && name != "maxlen":
			return nil, cli.Misuse("--to %s://: got %s=%s, want db=N or maxlen=N", u.Scheme, name, values[0])
		case name == "db":
			db = n
		default:
			keep = n
		}
	}
	addr := hostPort(u, "6379")
	opts, err := o.Reach.Options(addr)
	if err != nil {
		return nil, err
	}
	opts.Answer = streamAnswer
	dial := func(ctx context.Context) (*wire.Conn, error) { return wire.Dial(ctx, addr, opts) }
	return NewPlace(u.Redacted(), func(ctx context.Context) (Sink, error) {
		return openStream(ctx, dial, int(db), key, keep)
	}), nil
}

func parseWeb(to string, o *Options) (*Place, error) {
	u, err := parseURL(to, o)
	if err != nil {
		return nil, err
	}
	if o.State == "" {
		return nil, cli.Misuse("--to %s://: %v", u.Scheme, errNoState)
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	opts, err := o.Reach.Options(hostPort(u, usual))
	if err != nil {
		return nil, err
	}
	return NewPlace(u.Redacted(), func(context.Context) (Sink, error) {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = opts.TLS
		return remember(newWeb(transport, u.String(), opts.User, opts.Password), o.State)
	}), nil
}

// parseTopic reads kafka://HOST:PORT,HOST:PORT/TOPIC. Package url takes one host only, so the hosts are taken out before.
func parseTopic(to string, o *Options) (*Place, error) {
	rest := strings.TrimPrefix(to, "kafka://")
	authority, path, _ := strings.Cut(rest, "/")
	user, hosts, found := cutLast(authority, "@")
	if !found {
		user, hosts = "", authority
	} else {
		user += "@"
	}
	u, err := parseURL("kafka://"+user+"hosts/"+path, o)
	if err != nil {
		return nil, err
	}
	t := topicOptions{name: strings.TrimPrefix(u.Path, "/")}
	var brokers []string
	for _, host := range strings.Split(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "9092")
		}
		brokers = append(brokers, host)
	}
	if t.name == "" || strings.Contains(t.name, "/") || hosts == "" {
		return nil, cli.Misuse("--to kafka://: want kafka://HOST:PORT[,HOST:PORT...]/TOPIC")
	}
	mechanism := ""
	for name, values := range u.Query() {
		n, err := strconv.ParseUint(values[0], 10, 31)
		switch {
		case name == "sasl":
			mechanism = values[0]
		case name == "partition" && err == nil:
			t.partition = int32(n)
		default:
			return nil, cli.Misuse("--to kafka://: got %s=%s, want partition=N or sasl=plain|scram-sha-256|scram-sha-512", name, values[0])
		}
	}
	opts, err := o.Reach.Options(brokers[0])
	if err != nil {
		return nil, err
	}
	t.client = []kgo.Opt{kgo.SeedBrokers(brokers...)}
	if opts.TLS != nil {
		config := opts.TLS.Clone()
		config.ServerName = o.Reach.SNI // of each broker its own name unless given
		t.client = append(t.client, kgo.DialTLSConfig(config))
	}
	if opts.Password != "" {
		m, err := saslOf(mechanism, opts.User, opts.Password)
		if err != nil {
			return nil, err
		}
		t.client = append(t.client, kgo.SASL(m))
	}
	name := "kafka://" + hosts + "/" + t.name
	return NewPlace(name, func(ctx context.Context) (Sink, error) { return openTopic(ctx, t) }), nil
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// saslOf makes the authentication of a user.
func saslOf(mechanism, user, password string) (sasl.Mechanism, error) {
	switch strings.ToLower(mechanism) {
	case "", "plain":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, cli.Misuse("--to kafka://: got sasl=%s, want plain, scram-sha-256 or scram-sha-512", mechanism)
}

package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// read reads a configuration file with that text, or that file of testdata.
func read(t *testing.T, text string) (c Config, passed []string, err error) {
	t.Helper()
	c = Default()
	c.ConfigFile = filepath.Join(t.TempDir(), "counterd.conf")
	if err := os.WriteFile(c.ConfigFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fs, _ := Flags(&c)
	passed, err = Load(fs, &c)
	return c, passed, err
}

// TestRedisConf: the files that Debian and older versions of Redis come with keep data by snapshots alone, and are refused
// for that. With a log, or with snapshots off, they start a server, which takes the settings that it knows.
func TestRedisConf(t *testing.T) {
	for _, name := range []string{"redis-7.0-debian.conf", "redis-5.0.conf"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(t, string(text)); !errors.Is(err, errSnapshots) {
			t.Errorf("%s: got %v, want %v", name, err, errSnapshots)
		}
		if c, _, err := read(t, strings.Replace(string(text), "appendonly no", "appendonly yes", 1)); err != nil || !c.AppendOnly {
			t.Errorf("%s with a log: %v", name, err)
		}
		c, passed, err := read(t, string(text)+"save \"\"\n")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.TCPKeepalive != 300 || c.Dir != "/var/lib/redis" || c.AppendOnly || !slices.Contains(c.Bind, "127.0.0.1") || c.OutputLimits[2].Hard != 32<<20 {
			t.Errorf("%s: got %+v", name, c)
		}
		if !slices.Contains(passed, "tcp-backlog") || !slices.Contains(passed, "activerehashing") || slices.Contains(passed, "port") {
			t.Errorf("%s: passed over %q", name, passed)
		}
	}
}

// TestRedisConfTLS: the lines about TLS that redis.conf has in comments start a server when they are none any more, but
// for a list of ciphers that cannot be granted (package tlsconf).
func TestRedisConfTLS(t *testing.T) {
	c, passed, err := read(t, `port 0
tls-port 6379
tls-cert-file redis.crt
tls-key-file redis.key
tls-key-file-pass secret
tls-client-cert-file client.crt
tls-client-key-file client.key
tls-client-key-file-pass secret
tls-dh-params-file redis.dh
tls-ca-cert-file ca.crt
tls-ca-cert-dir /etc/ssl/certs
tls-auth-clients optional
tls-replication yes
tls-cluster no
tls-protocols "TLSv1.2 TLSv1.3"
tls-ciphers DEFAULT:!MEDIUM
tls-prefer-server-ciphers yes
tls-session-caching no
tls-session-cache-size 5000
tls-session-cache-timeout 60
`)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	want := TLS{Port: 6379, CertFile: "redis.crt", KeyFile: "redis.key", KeyFilePass: "secret", ClientCertFile: "client.crt", ClientKeyFile: "client.key",
		ClientKeyFilePass: "secret", CACertFile: "ca.crt", CACertDir: "/etc/ssl/certs", AuthClients: "optional", Replication: true, Protocols: "TLSv1.2 TLSv1.3",
		Ciphers: "DEFAULT:!MEDIUM", PreferServerCiphers: true}
	if c.TLS != want {
		t.Errorf("got %+v, want %+v", c.TLS, want)
	}
	if want := []string{"tls-dh-params-file", "tls-cluster", "tls-session-cache-size", "tls-session-cache-timeout"}; !slices.Equal(passed, want) {
		t.Errorf("passed over %q, want %q", passed, want)
	}
	if c.Listening() != 6379 {
		t.Errorf("others are told port %d", c.Listening())
	}
	for _, wrong := range []string{"tls-port 6380\n", "tls-port 6379\ntls-cert-file a\ntls-key-file b\ntls-auth-clients no\n", "tls-replication yes\ntls-cert-file a\ntls-key-file b\n",
		"tls-auth-clients maybe\n", "tls-port 6380\ntls-cert-file a\ntls-key-file b\n", "port 0\n"} {
		c, _, err := read(t, wrong)
		if err == nil {
			err = c.Validate()
		}
		if err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

// TestConfigSaysAllAtOnce: one start shows all lines that keep a server from starting, and none of Redis's that a
// server may lack.
func TestConfigSaysAllAtOnce(t *testing.T) {
	_, _, err := read(t, `port 6379
hz 10
save 900 1
save 300 10
maxmemory-policy allkeys-lru
rename-command FLUSHALL GONE
rename-command FLUSHALL
include /etc/other.conf
appendfsync always
notify-keyspace-events Ex
cluster-enabled perhaps
tls-cluster yes
maxclients many
config x
replica-read-only no
requirepass "open
`)
	if err == nil {
		t.Fatal("the file was taken")
	}
	text := err.Error()
	for _, want := range []string{
		`line 5: maxmemory-policy: got "allkeys-lru", but counterd supports only "noeviction"`, `line 6: rename-command: FLUSHALL cannot be given another name`,
		`line 7: rename-command: got "FLUSHALL", want a command and ""`,
		"line 8: unknown setting \"include\"\n", `line 10: notify-keyspace-events: got "Ex"`, `line 11: cluster-enabled: got "perhaps"`, `line 12: tls-cluster: got "yes"`,
		`line 13: maxclients: `, "line 14: unknown setting \"config\"\n", `line 15: replica-read-only: got "no"`, `line 16: a quote is not closed`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if got := strings.Count(text, "line "); got != 11 {
		t.Errorf("%d lines are named, want 11:\n%s", got, text)
	}
	_, passed, err := read(t, "hz 10\nsave 900 1\nsave 300 10\nmaxmemory-policy noeviction\nslave-read-only yes\nnotify-keyspace-events \"\"\n")
	if want := []string{"hz", "save", "maxmemory-policy", "slave-read-only", "notify-keyspace-events"}; err != nil || !slices.Equal(passed, want) {
		t.Errorf("passed over %q, %v; want %q", passed, err, want)
	}
}

// A setting that counterd has is never passed over as Redis's.
func TestForeignSettingsAreNotOurs(t *testing.T) {
	c := Default()
	fs, _ := Flags(&c)
	for name := range foreign {
		if fs.Lookup(name) != nil {
			t.Errorf("%s is a flag, and in the list of what is not here", name)
		}
	}
}

package protocol

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/tlstest"
	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/testkit/freeport"
)

// secureServer is a server with a port for TLS beside the one without.
type secureServer struct {
	*harness.Server
	ca     *tlstest.CA
	own    tlstest.Pair
	secure string // address for TLS
}

func startTLS(t testing.TB, args ...string) *secureServer {
	t.Helper()
	s := &secureServer{ca: tlstest.NewCA(t)}
	s.own = s.ca.Pair("server")
	port := freeport.Take(t)
	s.secure = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.Server = harness.Start(t, append(harness.TlsArgs(s.ca, s.own, port), args...)...)
	return s
}

// dialTLS connects by TLS as config says; config is s.ca.Client().
func (s *secureServer) dialTLS(config *tls.Config) (*harness.Conn, error) {
	raw, err := harness.DialTimeout("tcp", s.secure, harness.IoTimeout)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(raw.Nc, config)
	raw.Nc = secure
	raw.Br.Reset(secure)
	return raw, nil
}

// TestTLS is go-redis, redis-cli and bare sockets at a port for TLS that wants certificates.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	friend := s.ca.Pair("friend")
	rdb := redis.NewClient(&redis.Options{Addr: s.secure, TLSConfig: s.ca.Client(friend), MaxRetries: -1, DialTimeout: harness.IoTimeout, ReadTimeout: harness.IoTimeout, WriteTimeout: harness.IoTimeout})
	t.Cleanup(func() { rdb.Close() })
	ctx := t.Context()

	// A pipeline of many records each way, and a reply of more.
	const posts = 5000
	keys := make([]string, posts)
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range keys {
			keys[i] = fmt.Sprintf("%d.cntcm", 19089000000+i)
			p.Set(ctx, keys[i], 1_000_000+i, 0)
			p.Incr(ctx, keys[i])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := rdb.MGet(ctx, keys...).Result()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != strconv.Itoa(1_000_001+i) {
			t.Fatalf("%s: got %v", keys[i], v)
		}
	}

	// A transaction; messages, of more than a record; changes that are paused.
	if _, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "1.cntrn")
		p.IncrBy(ctx, "1.cntrn", 10)
		return nil
	}); err != nil {
		t.Error(err)
	}
	n, err := rdb.Get(ctx, "1.cntrn").Int64()
	harness.Same(t, "Get", n, err, 11)
	sub := rdb.Subscribe(ctx, "news")
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 100_000} {
		want := strings.Repeat("x", size)
		if err := rdb.Publish(ctx, "news", want).Err(); err != nil {
			t.Fatal(err)
		}
		if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != want {
			t.Errorf("a message of %d bytes: %v", size, err)
		}
	}
	sub.Close()
	if err := rdb.Do(ctx, "CLIENT", "PAUSE", "300", "WRITE").Err(); err != nil {
		t.Error(err)
	}
	n, err = rdb.Incr(ctx, "1.cntrn").Result()
	harness.Same(t, "Incr after a pause", n, err, 12)

	if path, ok := harness.Tool(t, "redis-cli"); ok {
		_, port, _ := net.SplitHostPort(s.secure)
		cmd := exec.Command(path, "-p", port, "--tls", "--cacert", s.ca.File, "--cert", friend.CertFile, "--key", friend.KeyFile)
		cmd.Stdin = strings.NewReader("INCR 1.cntrn\nHGET 1 repost\n")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "13\n13\n" {
			t.Errorf("redis-cli: %q, %v", out, err)
		}
	}

	reach := []string{"--tls", "--cacert", s.ca.File, "--cert", friend.CertFile, "--key", friend.KeyFile}
	harness.WantCtl(t, 0, append([]string{"ping", s.secure}, reach...), "it serves")
	harness.WantCtl(t, 0, append([]string{"find", s.secure, "weibo", "MID", "IN", "1"}, reach...), "(1 post)")
	harness.WantCtl(t, 1, []string{"ping", s.secure, "--tls", "--cacert", s.ca.File}, "certificate required")

	// Who must stay outside: without a certificate, with one of somebody else's.
	for name, config := range map[string]*tls.Config{"no certificate": s.ca.Client(), "a stranger's": s.ca.Client(tlstest.NewCA(t).Pair("stranger"))} {
		c, err := s.dialTLS(config)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := c.TryDo("PING"); err == nil {
			t.Errorf("%s: PING was answered %q", name, v.Raw)
		}
		c.Close()
	}
	// Who speaks the other language.
	plain := harness.DialAddr(t, "tcp", s.secure)
	plain.Write("PING\r\n")
	if v := plain.Reply(); !strings.HasPrefix(v.Raw, "-ERR this port accepts TLS connections only") {
		t.Errorf("RESP at the port for TLS: got %q", v.Raw)
	}
	plain.WantEOF()
	other := harness.DialAddr(t, "tcp", s.Addr)
	if err := tls.Client(other.Nc, s.ca.Client()).Handshake(); err == nil {
		t.Error("a handshake at the port without TLS went well")
	}
	s.Dial(t).Want("+PONG\r\n", "PING")
}

// TestTLSReload: certificates are exchanged while clients come and are connected: those who are stay, those who come
// have the old or the new one, and files that are wrong change nothing.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	s := startTLS(t, "--tls-auth-clients", "no")
	second := s.ca.Pair("second")
	stays, err := s.dialTLS(s.ca.Client())
	if err != nil {
		t.Fatal(err)
	}
	stays.T = t
	t.Cleanup(stays.Close)
	stays.Want("+PONG\r\n", "PING")
	shown := func() (string, error) {
		c, err := s.dialTLS(s.ca.Client())
		if err != nil {
			return "", err
		}
		defer c.Close()
		if v, err := c.TryDo("PING"); err != nil || v.Raw != "+PONG\r\n" {
			return "", fmt.Errorf("PING: %q, %w", v.Raw, err)
		}
		return c.Nc.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName, nil
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range cap(errs) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := shown(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	admin := s.Dial(t)
	until := func(want string) {
		t.Helper()
		harness.Eventually(t, harness.IoTimeout, want+" is shown", func() bool {
			got, err := shown()
			if err != nil {
				t.Error(err)
			}
			return got == want
		})
	}
	first := s.own
	oldCert, oldKey := read(t, first.CertFile), read(t, first.KeyFile)
	for round := range 10 {
		cert, key, want := read(t, second.CertFile), read(t, second.KeyFile), "second"
		if round%2 != 0 {
			cert, key, want = oldCert, oldKey, "server"
		}
		replace(t, first.CertFile, cert)
		replace(t, first.KeyFile, key)
		if err := s.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		until(want)
		stays.Want("+PONG\r\n", "PING")
	}
	admin.Want("+OK\r\n", "CONFIG", "SET", "tls-cert-file", second.CertFile, "tls-key-file", second.KeyFile)
	until("second")
	for _, wrong := range [][]string{{"tls-cert-file", first.CertFile}, {"tls-cert-file", "/none"}, {"tls-ca-cert-file", ""}, {"tls-protocols", "SSLv3"}, {"tls-auth-clients", "perhaps"}} {
		v := admin.Do("CONFIG", "SET", "tls-auth-clients", "yes", "maxclients", "77", wrong[0], wrong[1])
		if !strings.HasPrefix(v.Raw, "-ERR CONFIG SET failed") && !strings.Contains(v.Raw, "duplicate") {
			t.Errorf("%v: got %q", wrong, v.Raw)
		}
	}
	until("second")
	admin.Want("*2\r\n$10\r\nmaxclients\r\n$5\r\n10000\r\n", "CONFIG", "GET", "maxclients")
	close(stop)
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	admin.Want("+OK\r\n", "CONFIG", "SET", "tls-auth-clients", "yes")
	if _, err := shown(); err == nil {
		t.Error("tls-auth-clients yes, and a client without a certificate came in")
	}
	stays.Want("+PONG\r\n", "PING")
	if log := s.Log.String(); !strings.Contains(log, "TLS certificates loaded") {
		t.Error("no word of it in the log")
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// replace puts a file in another's place at once.
func replace(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestTLSHandshakesThatStall begins 2,000 handshakes and leaves them where they are: others are served, one who comes
// behind them gets in, and they hold little memory.
func TestTLSHandshakesThatStall(t *testing.T) {
	ca := tlstest.NewCA(t)
	own := ca.Pair("server")
	port := freeport.Take(t)
	secure := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	hello := clientHello(t, ca)
	attack(t, append(harness.TlsArgs(ca, own, port), "--tls-auth-clients", "no"), func(t *testing.T, s *harness.Server) {
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				c.Close()
			}
		}()
		for i := range 2000 {
			c, err := net.DialTimeout("tcp", secure, harness.IoTimeout)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
			for _, part := range [][]byte{nil, hello[:1], hello[:len(hello)/2], hello, bytes.Repeat([]byte{22, 3, 1, 64, 0}, 1000)}[i%5:][:1] {
				_, _ = c.Write(part)
			}
		}
		raw, err := net.DialTimeout("tcp", secure, harness.IoTimeout)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		_ = raw.SetDeadline(time.Now().Add(harness.IoTimeout))
		c := tls.Client(raw, ca.Client())
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 7)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "+PONG\r\n" {
			t.Errorf("got %q, %v", b, err)
		}
	})
}

// clientHello is the first flight of a client.
func clientHello(t testing.TB, ca *tlstest.CA) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() { _ = tls.Client(theirs, ca.Client()).Handshake() }()
	head := make([]byte, 5)
	if _, err := io.ReadFull(ours, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(ours, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// TestTLSSentinel is a primary with two replicas, and three stock Sentinels, that reach each other by TLS alone and with
// certificates: after the primary's end one replica leads and the other follows it, and a client that asks Sentinel goes
// on.
func TestTLSSentinel(t *testing.T) {
	path, ok := harness.Tool(t, "redis-sentinel")
	if !ok {
		return
	}
	t.Parallel() // it waits most of the time
	ca := tlstest.NewCA(t)
	own := ca.Pair("node")
	schema := filepath.Join(t.TempDir(), "schema")
	if err := os.WriteFile(schema, []byte("add counter weibo\nadd column weibo n hint=16 max=63 suffix=n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var nodes []*harness.Server
	var ports []int
	for i := range 3 {
		ports = append(ports, freeport.Take(t))
		args := append(harness.TlsArgs(ca, own, ports[i]), "--tls-replication", "yes")
		if i == 0 {
			args = append(args, "--schema", schema)
		} else {
			args = append(args, "--replicaof", fmt.Sprintf("127.0.0.1 %d", ports[0]))
		}
		nodes = append(nodes, harness.StartAt(t, freeport.Take(t), t.TempDir(), args...))
	}
	var sentinels []string
	var logs []*harness.LogBuffer
	for range 3 {
		port, dir := freeport.Take(t), t.TempDir()
		conf := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port 0\ntls-port %d\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-replication yes\nbind 127.0.0.1\ndir %s\n"+
			"sentinel monitor mymaster 127.0.0.1 %d 2\nsentinel down-after-milliseconds mymaster 3000\nsentinel failover-timeout mymaster 10000\n",
			port, own.CertFile, own.KeyFile, ca.File, dir, ports[0])
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log := new(harness.LogBuffer)
		cmd := exec.Command(path, conf)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("sentinel on port %d:\n%s", port, log)
			}
		})
		sentinels, logs = append(sentinels, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))), append(logs, log)
	}
	for _, log := range logs {
		harness.Eventually(t, 60*time.Second, "each Sentinel knows both replicas and both fellows", func() bool {
			return strings.Count(log.String(), "+slave ") == 2 && strings.Count(log.String(), "+sentinel ") == 2
		})
	}
	ctx := context.Background()
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: sentinels, MaxRetries: -1, TLSConfig: ca.Client(own),
		DialTimeout: time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: time.Second, PoolSize: 2})
	defer client.Close()
	add := func() error {
		conn := client.Conn()
		defer conn.Close()
		if err := conn.Incr(ctx, "1.n").Err(); err != nil {
			return err
		}
		return conn.Wait(ctx, 2, 3*time.Second).Err()
	}
	harness.Eventually(t, 60*time.Second, "links are up", func() bool {
		return harness.ReplicationField(nodes[1], "master_link_status") == "up" && harness.ReplicationField(nodes[2], "master_link_status") == "up"
	})
	const before = 50
	for range before {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	if got := harness.ReplicationField(nodes[1], "master_port"); got != strconv.Itoa(ports[0]) {
		t.Errorf("the link goes to port %s, want that for TLS, %d", got, ports[0])
	}
	// Sentinel elects a replica that it has asked for its state since the link is up.
	harness.Eventually(t, 60*time.Second, "Sentinel knows that the links are up", func() bool {
		return strings.Contains(sentinelReplicas(t, ca, own, sentinels[0]), "master-link-status\nok") // at least one
	})
	nodes[0].Kill()
	harness.Eventually(t, 90*time.Second, "a replica is promoted and the client goes on", func() bool { return add() == nil })
	leader, other := nodes[1], nodes[2]
	if harness.ReplicationField(leader, "role") != "master" {
		leader, other = other, leader
	}
	port := ports[1]
	if leader == nodes[2] {
		port = ports[2]
	}
	harness.Eventually(t, 60*time.Second, "the other replica follows the new primary by TLS", func() bool {
		return harness.ReplicationField(leader, "role") == "master" && harness.ReplicationField(other, "master_port") == strconv.Itoa(port) && harness.ReplicationField(other, "master_link_status") == "up"
	})
	if n, err := client.Get(ctx, "1.n").Int64(); err != nil || n < before {
		t.Errorf("got %d, %v, want %d at least", n, err, before)
	}
	// A handover by FAILOVER goes by TLS too.
	moved := other.Dial(t)
	lead := leader.Dial(t)
	lead.Want("+OK\r\n", "FAILOVER", "TIMEOUT", "20000")
	harness.Eventually(t, 60*time.Second, "FAILOVER hands the role over", func() bool { return harness.ReplicationField(other, "role") == "master" })
	moved.Want("+PONG\r\n", "PING")
}

// sentinelReplicas is what a Sentinel says of the replicas.
func sentinelReplicas(t testing.TB, ca *tlstest.CA, own tlstest.Pair, addr string) string {
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, TLSConfig: ca.Client(own)})
	defer c.Close()
	list, err := c.Replicas(t.Context(), "mymaster").Result()
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, r := range list {
		for k, v := range r {
			fmt.Fprintf(&text, "%s\n%s\n", k, v)
		}
	}
	return text.String()
}

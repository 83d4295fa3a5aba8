package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/brake"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/tlstest"
	"github.com/counterd/counterd/persist/vfs"
)

// webGet reads a path of a server's metrics-addr as nobody, or with a password.
func webGet(t testing.TB, s *Server, path, password string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+s.web.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if password != "" {
		r.SetBasicAuth("default", password)
	}
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func withWeb(c *config.Config) { c.MetricsAddr = "127.0.0.1:0" }

// wantHealth looks what /healthz says, and whether the other three agree: the process lives; reads are served unless
// something but the disk is wrong; changes are taken by a primary if all is well.
func wantHealth(t testing.TB, s *Server, status int, word string) {
	t.Helper()
	ready, writable := status, status
	if word == "disk failing" {
		ready = 200
	}
	if s.role.Replica() {
		writable = 503
	}
	for path, want := range map[string]int{"/livez": 200, "/readyz": ready, "/writable": writable} {
		if got, body := webGet(t, s, path, ""); got != want {
			t.Errorf("%s: got %d %q, want %d while /healthz says %q", path, got, body, want, word)
		}
	}
	if got, body := webGet(t, s, "/healthz", ""); got != status || body != word+"\n" {
		t.Errorf("/healthz: got %d %q, want %d %q", got, body, status, word)
	}
}

// TestHealth: a load balancer is told whether commands are served, and a person why not. HTTP is there before data is.
func TestHealth(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.OS())
	s := startServer(t, serverStart{schema: wireSchema,
		change: func(c *config.Config) {
			c.Dir, c.RequirePass = t.TempDir(), "secret" // which nobody is asked for here
			withWeb(c)
		},
		listen: func(s *Server) { wantHealth(t, s, 503, "loading") },
		open: func(s *Server) (*counter.Store, error) {
			return counter.Open(s.config.Get().Dir, counter.Options{FS: faulty, AppendFsync: counter.SyncAlways})
		}})
	store := s.Store()
	wantHealth(t, s, 200, "ok")
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
	_ = store.Set("1.cntrn", 1) // its error is for who made the change
	wantHealth(t, s, 503, "disk failing")
	faulty.Clear()
	until(t, "the disk is well", func() bool { return store.Ready() == nil })
	wantHealth(t, s, 200, "ok")
	s.ending.Store(true)
	wantHealth(t, s, 503, "ending")
	stopServer(t, s)
}

// TestHealthOfReplica: without its primary a replica is well as long as it may answer reads.
func TestHealthOfReplica(t *testing.T) {
	n := newReplNode(t)
	n.change = withWeb
	n.start("127.0.0.1 1") // where nobody is
	wantHealth(t, n.srv, 200, "ok")
	if err := n.srv.config.Set([]string{"replica-serve-stale-data", "no"}); err != nil {
		t.Fatal(err)
	}
	n.srv.role.RoleChanged()
	wantHealth(t, n.srv, 503, "link to the primary down")
}

// TestWebTaken: an address that is taken ends the start in words, and leaves nothing open.
func TestWebTaken(t *testing.T) {
	first := wireServe(t, withWeb)
	conf := first.config.Get()
	conf.UnixSocket += "2"
	conf.MetricsAddr = first.web.Addr().String()
	s, err := New(conf, first.log, first.level)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err == nil || !strings.Contains(err.Error(), "metrics-addr") || !strings.Contains(err.Error(), "taken") {
		t.Errorf("got %v", err)
	}
}

// TestWebTLS: metrics-tls speaks TLS alone, asks for certificates as tls-auth-clients says, and shows a new one once it
// was read.
func TestWebTLS(t *testing.T) {
	ca := tlstest.NewCA(t)
	first, mine := ca.Pair("first"), ca.Pair("prometheus")
	get := func(s *Server, c *tls.Config) (status int, subject string, err error) {
		client := http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: c}}
		defer client.CloseIdleConnections()
		resp, err := client.Get("https://" + s.web.Addr().String() + "/metrics")
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.TLS.PeerCertificates[0].Subject.CommonName, err
	}
	for _, auth := range []string{"no", "yes"} {
		s := wireServe(t, func(c *config.Config) {
			withWeb(c)
			c.TLS.Metrics, c.TLS.AuthClients = true, auth
			c.TLS.CertFile, c.TLS.KeyFile, c.TLS.CACertFile = first.CertFile, first.KeyFile, ca.File
		})
		status, subject, err := get(s, ca.Client())
		if auth == "yes" && err == nil || auth == "no" && (err != nil || status != 200 || subject != "first") {
			t.Errorf("tls-auth-clients %s, and none is shown: %d %q %v", auth, status, subject, err)
		}
		if status, _, err := get(s, ca.Client(mine)); err != nil || status != 200 {
			t.Errorf("tls-auth-clients %s, and one is shown: %d %v", auth, status, err)
		}
		if resp, err := http.Get("http://" + s.web.Addr().String() + "/metrics"); err == nil {
			if resp.Body.Close(); resp.StatusCode == 200 {
				t.Error("it is shown without TLS too")
			}
		}
		next := ca.Pair("next")
		conf := s.config.Get().TLS
		conf.CertFile, conf.KeyFile = next.CertFile, next.KeyFile
		if err := s.Material().Reload(conf); err != nil {
			t.Fatal(err)
		}
		if _, subject, err := get(s, ca.Client(mine)); err != nil || subject != "next" {
			t.Errorf("behind a reload: %q %v", subject, err)
		}
		f := observer{&s.shared}.state(facts.PartProcess)
		if left := time.Until(f.Process.Certificate); left < 0 || left > time.Hour {
			t.Errorf("the certificate ends in %v", left)
		}
	}
}

// TestGuessesByAddress: wrong passwords of one address count together, by whatever connection and protocol; when it has
// none left its connections wait, right passwords included, and another address does not. Right passwords cost nothing.
func TestGuessesByAddress(t *testing.T) {
	port := freeport.Take(t)
	s := startServer(t, serverStart{
		change: func(c *config.Config) {
			c.Bind, c.Port, c.AppendOnly, c.RequirePass = []string{"127.0.0.1"}, port, false, "right"
			withWeb(c)
		},
		made: func(s *Server) { s.guesses = brake.NewGuesses(brake.FreeGuesses, time.Hour) }})
	t.Cleanup(func() { stopServer(t, s) })
	dial := func() *wireClient {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(patience))
		return &wireClient{t: t, conn: conn, r: bufio.NewReader(conn), proto: 2}
	}
	one := dial()
	for range 3 * brake.FreeGuesses {
		one.want("AUTH right", "+OK")
		if status, _ := webGet(t, s, "/status.json", "right"); status != 200 {
			t.Fatalf("a right password got %d", status)
		}
	}
	const wrongPass = "-WRONGPASS invalid username-password pair or user is disabled."
	for range brake.FreeGuesses / 2 { // each connection is below its own limit
		dial().want("AUTH wrong", wrongPass)
		if status, _ := webGet(t, s, "/status.json", "wrong"); status != 401 {
			t.Fatalf("a wrong password got %d", status)
		}
	}
	waits := s.front.Blocked()
	dial().send("AUTH wrong")
	dial().send("HELLO 3 AUTH default wrong")
	dial().send("AUTH right")
	until(t, "connections wait", func() bool { return s.front.Blocked() == waits+3 })
	for _, password := range []string{"wrong", "right"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		r, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.web.Addr().String()+"/status.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("default", password)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
			t.Errorf("%s: got %d, want no answer yet", password, resp.StatusCode)
		}
		cancel()
	}
	one.want("PING", "+PONG") // it was let in before
	wireDial(t, s, 2).want("AUTH right", "+OK")
}

// TestReadyInCluster: /readyz and /writable tell of a node's part in its cluster, /healthz and /livez do not: a restart
// would not mend it.
func TestReadyInCluster(t *testing.T) {
	now := time.Now()
	shard := &topology.Shard{ID: 1, Epoch: 1}
	for _, c := range []struct {
		what            string
		st              cluster.Standing
		ready, writable string
	}{
		{"nothing was heard", cluster.Standing{Reads: route.ErrDown, Writes: route.ErrDown}, "The cluster is down: this node has no part in it yet", "The cluster is down: this node has no part in it yet"},
		{"free", cluster.Standing{Reads: "CLUSTERDOWN The node is of no shard", Writes: "CLUSTERDOWN The node is of no shard", Until: now.Add(time.Minute)}, "The node is of no shard", "The node is of no shard"},
		{"resting", cluster.Standing{Shard: shard, Reads: "CLUSTERDOWN The shard has no primary yet", Writes: "CLUSTERDOWN The shard has no primary yet", Until: now.Add(time.Minute)},
			"The shard has no primary yet", "The shard has no primary yet"},
		{"primary", cluster.Standing{Shard: shard, Primary: true, Until: now.Add(time.Minute)}, "", ""},
		{"primary whose lease ran out", cluster.Standing{Shard: shard, Primary: true, Until: now}, "The lease of this node has expired: another node may be primary of its shard", "The lease of this node has expired: another node may be primary of its shard"},
		{"primary in doubt", cluster.Standing{Shard: shard, Primary: true, Writes: "CLUSTERDOWN A replica in sync does not acknowledge", Until: now.Add(time.Minute)},
			"", "A replica in sync does not acknowledge"},
		{"primary with too few replicas", cluster.Standing{Shard: shard, Primary: true, Writes: "NOREPLICAS Not enough good replicas to write.", Until: now.Add(time.Minute)}, "", "noreplicas"},
		{"replica that is cut off", cluster.Standing{Shard: shard, Reads: "CLUSTERDOWN The replica has no connection to its primary", Until: now.Add(time.Minute)},
			"The replica has no connection to its primary", "The replica has no connection to its primary"},
	} {
		s := wireServe(t, func(conf *config.Config) {
			withWeb(conf)
			conf.Bind, conf.Port = []string{"127.0.0.1"}, freeport.Take(t)
			conf.Cluster.Enabled, conf.Cluster.Name, conf.Cluster.Etcd = true, "test", []string{"http://127.0.0.1:1"}
			conf.AppendOnly = true
		})
		s.cluster.SetStanding(&c.st)
		if got, want := s.part(now, false), c.ready; got != want {
			t.Errorf("%s: ready: got %q, want %q", c.what, got, want)
		}
		for path, word := range map[string]string{"/healthz": "", "/livez": "", "/readyz": c.ready, "/writable": c.writable} {
			want := 503
			if word == "" {
				word, want = "ok", 200
			}
			if got, body := webGet(t, s, path, ""); got != want || body != word+"\n" {
				t.Errorf("%s: %s: got %d %q, want %d %q", c.what, path, got, body, want, word)
			}
		}
	}
}

// TestTroubleRunbooks: each row has a section in the runbooks, which the console links to.
func TestTroubleRunbooks(t *testing.T) {
	book, err := os.ReadFile("../../../../docs/operate/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range allTroubles {
		if !strings.Contains(string(book), `<a id="`+row.id+`"></a>`) {
			t.Errorf("trouble %q has no section", row.id)
		}
	}
}

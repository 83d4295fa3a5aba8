package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/web"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/console"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/metrics"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// Pages and answers by HTTP at --metrics-addr.

// openWeb makes the HTTP server, if there is to be one. It listens before data is loaded, as Listen does.
func (s *Server) openWeb(conf config.Config) error {
	if conf.MetricsAddr == "" {
		return nil
	}
	network, addr, err := config.ParseMetricsAddr(conf.MetricsAddr)
	if err != nil {
		return err
	}
	o := web.Options{Network: network, Addr: addr, Guard: webGuard{s}, Log: s.log, Panicked: func() { s.stats.Panics.Add(1) }}
	if conf.TLS.Metrics {
		o.TLS = s.tls.Server()
	}
	s.web = web.New(o)
	// Answers to probes. /healthz says nothing of a node's part in a cluster: a node that is free is well.
	for path, judge := range map[string]func() string{"/healthz": s.health, "/livez": alive, "/readyz": s.readable, "/writable": s.writable} {
		s.web.HandleAnyone(path, serveHealth(judge))
	}
	usage := new(facts.UsageCache)
	s.web.Handle("/metrics", metrics.Handler(scrapeSource{&s.shared, usage}, s.log, web.Waiting))
	s.console = console.NewMonitor(&consoleSource{srv: &s.shared, usage: usage})
	for _, path := range console.Paths {
		s.web.HandleUsers(path, s.console.Handler(consoleAccess), "info")
	}
	return nil
}

// listenWeb opens the listener of the HTTP server.
func (s *Server) listenWeb() error {
	if s.web == nil {
		return nil
	}
	if err := s.web.Listen(); err != nil {
		return err
	}
	s.console.Start()
	s.log.Info("metrics endpoint started", "address", s.web.Addr().String())
	return nil
}

// closeWeb ends the HTTP server: the last to go, so that the end can be watched.
func (s *Server) closeWeb(ctx context.Context) error {
	if s.web == nil {
		return nil
	}
	s.console.Close()
	return s.web.Shutdown(ctx)
}

// consoleAccess is the parts of the page that the user of a request may see besides the facts of INFO.
func consoleAccess(r *http.Request) console.Access {
	return console.Access{Slowlog: web.May(r, "slowlog|get"), Clients: web.May(r, "client|list"), Posts: web.May(r, "counter.hot")}
}

// alive is empty: an answer shows that the process lives, also while it loads data or its disk is full.
func alive() string { return "" }

// health is a word of what keeps the server from its work, empty if nothing does: it can serve reads, and its disk takes
// changes, be they clients' or its primary's. It asks for nothing that a restart, or another place, would not mend.
func (s *Server) health() string {
	if word := s.able(); word != "" {
		return word
	}
	if s.store().Ready() != nil {
		return "disk failing"
	}
	return ""
}

// writable is a word of what keeps the server from taking changes of clients.
func (s *Server) writable() string {
	if word := cmp.Or(s.health(), s.part(time.Now(), true)); word != "" {
		return word
	}
	if refusal, _ := s.role.Judge(command.Write, false); refusal != "" {
		word, _, _ := strings.Cut(refusal, " ")
		return strings.ToLower(word)
	}
	return ""
}

// readable is a word of what keeps the server from serving reads.
func (s *Server) readable() string {
	return cmp.Or(s.able(), s.part(time.Now(), false))
}

// part is what keeps a node of a cluster from serving reads, or changes, in its cluster: it is of no shard, its lease ran
// out, its shard has no primary. It is the text that INFO shows as cluster_reads or cluster_writes. A replica's changes
// are for Judge to refuse, as where there is no cluster.
func (s *Server) part(now time.Time, changes bool) string {
	if s.cluster == nil {
		return ""
	}
	st := s.cluster.Now()
	refusal := st.Readable(now)
	if changes && st.Primary {
		refusal = cmp.Or(refusal, st.Writes)
	}
	if text, ok := strings.CutPrefix(refusal, "CLUSTERDOWN "); ok {
		return text
	}
	word, _, _ := strings.Cut(refusal, " ")
	return strings.ToLower(word)
}

// able is a word of what keeps the server from serving reads, whatever its part in a cluster is.
func (s *Server) able() string {
	switch {
	case s.ending.Load():
		return "ending"
	case s.progress.active():
		return "loading"
	}
	if refusal, _ := s.role.Judge(command.ReadOnly, false); refusal != "" {
		return "link to the primary down"
	}
	return ""
}

// serveHealth answers 200 while nothing is wrong, 503 and a word while something is.
func serveHealth(judge func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		word, status := "ok", http.StatusOK
		if trouble := judge(); trouble != "" {
			word, status = trouble, http.StatusServiceUnavailable
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(word + "\n"))
	}
}

// webGuard is who may see what: the users of this server, with the passwords that AUTH takes.
type webGuard struct{ *Server }

// Protected is protected mode, as of the other ports.
func (g webGuard) Protected() bool { return g.config.Get().ProtectedMode && g.Open() }

// Open tells whether the default user needs no password.
func (g webGuard) Open() bool { return g.users.Default().Open() }

// Anybody is the default user.
func (g webGuard) Anybody() web.User { return webUser{g.Server, g.users.Default()} }

// Login checks a name and a password as AUTH does, and notes one that is wrong as AUTH does. It waits if too many wrong
// ones came from the address, by whatever protocol.
func (g webGuard) Login(ctx context.Context, user, password, addr string) (web.User, bool) {
	if g.Open() && user == acl.Default { // every password would be right
		return nil, false
	}
	from, _ := netip.ParseAddrPort(addr)
	check, err := g.guesses.Wait(ctx, from.Addr())
	if err != nil {
		return nil, false
	}
	u := g.users.Authenticate([]byte(user), []byte(password))
	check.Judge(u != nil)
	if u == nil {
		g.denials.Add(acl.DeniedAuth, "toplevel", "HTTP", user, func() string { return "addr=" + addr })
		return nil, false
	}
	return webUser{g.Server, u}, true
}

// webUser is a user who looks at what is shown by HTTP.
type webUser struct {
	srv *Server
	*acl.User
}

// May tells whether the user may run a command, or a subcommand as "slowlog|get", as far as its name goes.
func (u webUser) May(name string) bool {
	cmd := u.srv.commands.Lookup([]byte(name))
	return cmd != nil && u.MayRun(cmd.Access())
}

// trouble is a row of the troubles that a server reports of itself in its cluster: see topology.Trouble.
type trouble struct {
	id       string
	severity string
	// look returns the text while the trouble lasts, else an empty string. It runs ten times a second: it must not wait.
	look func(s *Server) string
}

// allTroubles are the rows. What concerns etcd, the map and the role is found by package cluster.
var allTroubles = []trouble{
	{"disk", topology.SevereError, func(s *Server) string { // full, failing, or hanging: Ready knows a hanging disk after 2.1 s
		if err := s.store().Ready(); err != nil {
			return "the disk does not accept writes: " + err.Error()
		}
		return ""
	}},
	{"differs", topology.SevereError, func(s *Server) string {
		if n := s.role.Replication().Compare().Differing; n > 0 {
			return fmt.Sprintf("%d ranges of posts of a replica differ from this primary's, and could not be mended; the log says why", n)
		}
		return ""
	}},
	{"differed", topology.SevereWarning, func(s *Server) string {
		if c := s.role.Replication().Compare(); c.Recently() {
			return fmt.Sprintf("%d posts differed between this node and another, and were mended; the last: %s", c.Differences, c.Last)
		}
		return ""
	}},
}

// troubles are those that last now.
func (s *Server) troubles() (list []topology.Trouble) {
	for _, row := range allTroubles {
		if text := row.look(s); text != "" {
			list = append(list, topology.Trouble{ID: row.id, Severity: row.severity, Text: facts.Clip(text)})
		}
	}
	return list
}

package harness

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// downAfter is Sentinel's down-after-milliseconds in the tests that take nodes down.
const downAfter = 3 * time.Second

// insideEnv tells the test binary that it was started in a network namespace of its own, where it may make networks.
const insideEnv = "COUNTERD_E2E_INSIDE"

// InNamespace runs the test again in a process with a network namespace of its own and reports what that finds. here is
// whether the caller is to do the work: in that process, or because there can be none, which has been said.
func InNamespace(t *testing.T, flags ...string) (here, networks bool) {
	t.Helper()
	if os.Getenv(insideEnv) != "" {
		return true, true
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	probe := exec.Command("sh", "-c", "command -v nsenter && ip link add b0 type bridge && ip link add v0 type veth peer name v1")
	probe.SysProcAttr = attr
	if out, err := probe.CombinedOutput(); err != nil {
		LeftOut(t, fmt.Sprintf("partitions: a network namespace cannot be made (root, ip, nsenter): %v %s", err, bytes.TrimSpace(out)))
		return true, false
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=0", "-seed=" + strconv.FormatUint(seed.Of(t), 10), "-down-after=" + DownAfterFlag.String()}
	args = append(args, flags...)
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.SysProcAttr = attr
	cmd.Env = append(os.Environ(), insideEnv+"=1", "COUNTERD_BINARY="+CounterdPath)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if Scaled(1) > 1 || len(flags) > 0 { // an hour perhaps: print as it goes
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if err := cmd.Run(); err != nil {
		t.Errorf("in a network namespace: %v\n%s", err, &out)
	} else {
		t.Logf("in a network namespace:\n%s", &out)
	}
	return false, true
}

// Group is three nodes, counterd or redis-server, and three Sentinels that watch them.
type Group struct {
	T         *testing.T
	Kind      string // "counterd" or "redis-server"
	path      string
	number    int // of its networks
	networks  bool
	Nodes     [3]*Member
	Sentinels []string // addresses
	Logs      []*LogBuffer
}

// Member is a node and what outlives its process.
type Member struct {
	g      *Group
	Number int
	Host   string // of the network of nodes and Sentinels, which a partition cuts
	Port   int
	Direct string // its address on a second network, which nothing cuts
	Dir    string
	holder int // a process that keeps its network namespace
	*Server
}

// NewGroup starts a group whose first node is the primary, and waits until every Sentinel knows everybody.
func NewGroup(t *testing.T, kind, path string, number int, networks bool, downAfter time.Duration) *Group {
	t.Helper()
	g := &Group{T: t, Kind: kind, path: path, number: number, networks: networks}
	if networks {
		g.Ip("link set lo up")
		for _, network := range []string{"n", "c"} { // of nodes; of control
			g.Ip("link add dev " + g.bridge(network) + " type bridge")
			g.Ip("addr add " + g.address(network, 254) + "/24 dev " + g.bridge(network))
			g.Ip("link set dev " + g.bridge(network) + " up")
		}
	}
	for i := range g.Nodes {
		m := &Member{g: g, Number: i, Host: "127.0.0.1", Port: freeport.Take(t), Dir: t.TempDir()}
		m.Direct = net.JoinHostPort(m.Host, strconv.Itoa(m.Port))
		g.Nodes[i] = m
		if networks {
			m.plug()
		}
		m.configure()
		m.Start()
	}
	g.watch(downAfter)
	return g
}

func (g *Group) bridge(network string) string { return fmt.Sprintf("%s%d", network, g.number) }

func (g *Group) address(network string, host int) string {
	return fmt.Sprintf("10.%d.%d.%d", map[string]int{"n": 77, "c": 78}[network], g.number, host)
}

// Ip runs ip(8).
func (g *Group) Ip(args string) { g.run("ip", strings.Fields(args)...) }

func (g *Group) run(name string, args ...string) {
	g.T.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		g.T.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// plug gives a member a network namespace with a cable to each network.
func (m *Member) plug() {
	g := m.g
	g.T.Helper()
	holder := exec.Command("sleep", "1000000")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		g.T.Fatal(err)
	}
	g.T.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	m.holder = holder.Process.Pid
	inside := func(args string) {
		g.run("nsenter", append([]string{"-t", strconv.Itoa(m.holder), "-n", "ip"}, strings.Fields(args)...)...)
	}
	inside("link set lo up")
	for _, network := range []string{"n", "c"} {
		g.Ip(fmt.Sprintf("link add dev %s type veth peer name %s netns %d", m.Cable(network), network, m.holder))
		g.Ip(fmt.Sprintf("link set dev %s master %s up", m.Cable(network), g.bridge(network)))
		inside(fmt.Sprintf("addr add %s/24 dev %s", g.address(network, m.Number+1), network))
		inside("link set dev " + network + " up")
	}
	m.Host, m.Port = g.address("n", m.Number+1), 6379
	m.Direct = net.JoinHostPort(g.address("c", m.Number+1), "6379")
}

// Cable names the hub's end of a member's cable.
func (m *Member) Cable(network string) string {
	return fmt.Sprintf("%sx%d", m.g.bridge(network), m.Number)
}

// configure writes the configuration file that the member has at its first start.
func (m *Member) configure() {
	g := m.g
	g.T.Helper()
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n", m.Port, m.Dir)
	if g.networks {
		text = fmt.Sprintf("port %d\nbind 0.0.0.0\nprotected-mode no\ndir %s\n", m.Port, m.Dir)
	}
	if m.Number > 0 {
		text += fmt.Sprintf("replicaof %s %d\n", g.Nodes[0].Host, g.Nodes[0].Port)
	}
	if g.Kind == "counterd" {
		schema := filepath.Join(m.Dir, "schema")
		if err := os.WriteFile(schema, []byte("add counter weibo\nadd column weibo n hint=16 max=63 suffix=n\n"), 0o600); err != nil {
			g.T.Fatal(err)
		}
		text += "schema " + schema + "\n"
	} else {
		text += "appendonly yes\nsave \"\"\nrepl-diskless-sync-delay 0\n"
	}
	if err := os.WriteFile(m.config(), []byte(text), 0o600); err != nil {
		g.T.Fatal(err)
	}
}

func (m *Member) config() string { return filepath.Join(m.Dir, "node.conf") }

// Settings is what its configuration file says by now: CONFIG REWRITE writes it.
func (m *Member) Settings() string {
	data, err := os.ReadFile(m.config())
	if err != nil {
		m.g.T.Error(err)
	}
	return string(data)
}

// Start runs the member's process, at first or again, and waits until it answers.
func (m *Member) Start() {
	g := m.g
	g.T.Helper()
	NoteSources()
	args := []string{g.path, m.config()}
	if g.Kind == "counterd" {
		args = []string{g.path, "--config", m.config()}
	}
	if g.networks {
		args = append([]string{"nsenter", "-t", strconv.Itoa(m.holder), "-n", "--"}, args...)
	}
	s := &Server{T: g.T, Name: g.Kind, Log: new(LogBuffer), Dir: m.Dir, Addr: m.Direct, Port: m.Port, Exited: make(chan struct{})}
	s.Cmd = exec.Command(args[0], args[1:]...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Log, s.Log
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.Cmd.Start(); err != nil {
		g.T.Fatal(err)
	}
	go func() {
		s.ExitErr = s.Cmd.Wait()
		close(s.Exited)
	}()
	if !s.AwaitPing() {
		s.Kill()
		g.T.Fatalf("%s did not answer PING\n%s", g.Kind, s.Log)
	}
	m.Server = s
	g.T.Cleanup(s.Cleanup)
	g.T.Cleanup(func() { _ = s.Cmd.Process.Signal(syscall.SIGCONT) }) // before cleanup, which wants it to end by itself
}

// watch starts three Sentinels.
func (g *Group) watch(downAfter time.Duration) {
	g.T.Helper()
	path, err := exec.LookPath("redis-sentinel")
	if err != nil {
		g.T.Fatal(err)
	}
	host := "127.0.0.1"
	if g.networks {
		host = g.address("n", 254)
	}
	for range 3 {
		dir, port := g.T.TempDir(), freeport.Take(g.T)
		conf := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind %s\nprotected-mode no\ndir %s\nsentinel monitor mymaster %s %d 2\nsentinel down-after-milliseconds mymaster %d\nsentinel failover-timeout mymaster 10000\n",
			port, host, dir, g.Nodes[0].Host, g.Nodes[0].Port, downAfter.Milliseconds())
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			g.T.Fatal(err)
		}
		log := new(LogBuffer)
		cmd := exec.Command(path, conf)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			g.T.Fatal(err)
		}
		g.T.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if g.T.Failed() {
				g.T.Logf("Sentinel of %s on port %d:\n%s", g.Kind, port, log)
			}
		})
		g.Sentinels, g.Logs = append(g.Sentinels, net.JoinHostPort(host, strconv.Itoa(port))), append(g.Logs, log)
	}
	for _, log := range g.Logs {
		Eventually(g.T, 60*time.Second, "each Sentinel knows both replicas and both fellows", func() bool {
			return strings.Count(log.String(), "+slave ") == 2 && strings.Count(log.String(), "+sentinel ") == 2
		})
	}
}

// Named returns the member that all Sentinels name the primary; nil while they do not agree.
func (g *Group) Named() *Member {
	var found *Member
	for _, addr := range g.Sentinels {
		text := Ask(addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
		var at *Member
		for _, m := range g.Nodes {
			if strings.Contains(text, "\r\n"+m.Host+"\r\n") && strings.Contains(text, "\r\n"+strconv.Itoa(m.Port)+"\r\n") {
				at = m
			}
		}
		if at == nil || found != nil && found != at {
			return nil
		}
		found = at
	}
	return found
}

// Follows tells whether a member is a replica of another and has its stream.
func (m *Member) Follows(leader *Member) bool {
	text := Ask(m.Direct, "INFO", "replication")
	for _, want := range []string{"role:slave", "master_host:" + leader.Host, "master_port:" + strconv.Itoa(leader.Port), "master_link_status:up"} {
		if !strings.Contains(text, "\r\n"+want+"\r\n") {
			return false
		}
	}
	return true
}

// Settled returns the primary when all Sentinels name it, it agrees, the others follow it, and every Sentinel has heard
// so.
func (g *Group) Settled() *Member {
	leader := g.Named()
	if leader == nil || !strings.Contains(Ask(leader.Direct, "INFO", "replication"), "role:master\r\n") {
		return nil
	}
	for _, m := range g.Nodes {
		if m != leader && !m.Follows(leader) {
			return nil
		}
	}
	for _, addr := range g.Sentinels {
		if !strings.Contains(Ask(addr, "INFO", "sentinel"), "\r\nsentinel_tilt:0\r\n") { // it was kept from running for 2 s, and does nothing for 30
			return nil
		}
		text := Ask(addr, "SENTINEL", "REPLICAS", "mymaster")
		if strings.Contains(text, "_down") || strings.Contains(text, "disconnected") || strings.Count(text, "\r\nmaster-link-status\r\n$2\r\nok\r\n") != 2 ||
			strings.Count(text, "\r\nmaster-host\r\n$"+strconv.Itoa(len(leader.Host))+"\r\n"+leader.Host+"\r\n") != 2 ||
			strings.Count(text, "\r\nrole-reported\r\n$5\r\nslave\r\n") != 2 {
			return nil
		}
	}
	return leader
}

// Ask returns the raw answer to a command on a connection of its own; empty if there is none.
func Ask(addr string, args ...string) string {
	c, err := DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.Nc.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := c.Nc.Write(resptest.Append(nil, args...)); err != nil {
		return ""
	}
	v, err := resptest.Read(c.Br, resptest.Any)
	if err != nil {
		return ""
	}
	return v.Raw
}

// ReportedAt returns when the Sentinels first logged an event behind the given places of their logs.
func (g *Group) ReportedAt(from []int, event string) (at time.Time, times int) {
	for i, log := range g.Logs {
		for line := range strings.Lines(log.From(from[i])) { // 4711:X 21 Nov 2026 06:31:16.123 # +odown master ...
			if !strings.Contains(line, " "+event+" ") {
				continue
			}
			words := strings.Fields(line)
			when, err := time.ParseInLocation("02 Jan 2006 15:04:05.000", strings.Join(words[1:5], " "), time.Local)
			if err != nil {
				g.T.Errorf("Sentinel's line %q: %v", line, err)
				continue
			}
			times++
			if at.IsZero() || when.Before(at) {
				at = when
			}
		}
	}
	return at, times
}

// LogSizes are places of the Sentinels' logs.
func (g *Group) LogSizes() (sizes []int) {
	for _, log := range g.Logs {
		sizes = append(sizes, log.Size())
	}
	return sizes
}

package e2e

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

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// downAfter is Sentinel's down-after-milliseconds in the tests that take nodes down.
const downAfter = 3 * time.Second

// insideEnv tells the test binary that it was started in a network namespace of its own, where it may make networks.
const insideEnv = "COUNTERD_E2E_INSIDE"

// inNamespace runs the test again in a process with a network namespace of its own and reports what that finds. here is
// whether the caller is to do the work: in that process, or because there can be none, which has been said.
func inNamespace(t *testing.T, flags ...string) (here, networks bool) {
	t.Helper()
	if os.Getenv(insideEnv) != "" {
		return true, true
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	probe := exec.Command("sh", "-c", "command -v nsenter && ip link add b0 type bridge && ip link add v0 type veth peer name v1")
	probe.SysProcAttr = attr
	if out, err := probe.CombinedOutput(); err != nil {
		leftOut(t, fmt.Sprintf("partitions: a network namespace cannot be made (root, ip, nsenter): %v %s", err, bytes.TrimSpace(out)))
		return true, false
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=0", "-seed=" + strconv.FormatInt(firstSeed(), 10), "-down-after=" + downAfterFlag.String()}
	args = append(args, flags...)
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.SysProcAttr = attr
	cmd.Env = append(os.Environ(), insideEnv+"=1", "COUNTERD_BINARY="+counterdPath)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if scaled(1) > 1 || len(flags) > 0 { // an hour perhaps: print as it goes
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if err := cmd.Run(); err != nil {
		t.Errorf("in a network namespace: %v\n%s", err, &out)
	} else {
		t.Logf("in a network namespace:\n%s", &out)
	}
	return false, true
}

// group is three nodes, counterd or redis-server, and three Sentinels that watch them.
type group struct {
	t         *testing.T
	kind      string // "counterd" or "redis-server"
	path      string
	number    int // of its networks
	networks  bool
	nodes     [3]*member
	sentinels []string // addresses
	logs      []*logBuffer
}

// member is a node and what outlives its process.
type member struct {
	g      *group
	number int
	host   string // of the network of nodes and Sentinels, which a partition cuts
	port   int
	direct string // its address on a second network, which nothing cuts
	dir    string
	holder int // a process that keeps its network namespace
	*server
}

// newGroup starts a group whose first node is the primary, and waits until every Sentinel knows everybody.
func newGroup(t *testing.T, kind, path string, number int, networks bool, downAfter time.Duration) *group {
	t.Helper()
	g := &group{t: t, kind: kind, path: path, number: number, networks: networks}
	if networks {
		g.ip("link set lo up")
		for _, network := range []string{"n", "c"} { // of nodes; of control
			g.ip("link add dev " + g.bridge(network) + " type bridge")
			g.ip("addr add " + g.address(network, 254) + "/24 dev " + g.bridge(network))
			g.ip("link set dev " + g.bridge(network) + " up")
		}
	}
	for i := range g.nodes {
		m := &member{g: g, number: i, host: "127.0.0.1", port: freePort(t), dir: t.TempDir()}
		m.direct = net.JoinHostPort(m.host, strconv.Itoa(m.port))
		g.nodes[i] = m
		if networks {
			m.plug()
		}
		m.configure()
		m.start()
	}
	g.watch(downAfter)
	return g
}

func (g *group) bridge(network string) string { return fmt.Sprintf("%s%d", network, g.number) }

func (g *group) address(network string, host int) string {
	return fmt.Sprintf("10.%d.%d.%d", map[string]int{"n": 77, "c": 78}[network], g.number, host)
}

// ip runs ip(8).
func (g *group) ip(args string) { g.run("ip", strings.Fields(args)...) }

func (g *group) run(name string, args ...string) {
	g.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		g.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// plug gives a member a network namespace with a cable to each network.
func (m *member) plug() {
	g := m.g
	g.t.Helper()
	holder := exec.Command("sleep", "1000000")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	m.holder = holder.Process.Pid
	inside := func(args string) {
		g.run("nsenter", append([]string{"-t", strconv.Itoa(m.holder), "-n", "ip"}, strings.Fields(args)...)...)
	}
	inside("link set lo up")
	for _, network := range []string{"n", "c"} {
		g.ip(fmt.Sprintf("link add dev %s type veth peer name %s netns %d", m.cable(network), network, m.holder))
		g.ip(fmt.Sprintf("link set dev %s master %s up", m.cable(network), g.bridge(network)))
		inside(fmt.Sprintf("addr add %s/24 dev %s", g.address(network, m.number+1), network))
		inside("link set dev " + network + " up")
	}
	m.host, m.port = g.address("n", m.number+1), 6379
	m.direct = net.JoinHostPort(g.address("c", m.number+1), "6379")
}

// cable names the hub's end of a member's cable.
func (m *member) cable(network string) string {
	return fmt.Sprintf("%sx%d", m.g.bridge(network), m.number)
}

// configure writes the configuration file that the member has at its first start.
func (m *member) configure() {
	g := m.g
	g.t.Helper()
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n", m.port, m.dir)
	if g.networks {
		text = fmt.Sprintf("port %d\nbind 0.0.0.0\nprotected-mode no\ndir %s\n", m.port, m.dir)
	}
	if m.number > 0 {
		text += fmt.Sprintf("replicaof %s %d\n", g.nodes[0].host, g.nodes[0].port)
	}
	if g.kind == "counterd" {
		schema := filepath.Join(m.dir, "schema")
		if err := os.WriteFile(schema, []byte("add counter weibo\nadd column weibo n hint=16 max=63 suffix=n\n"), 0o600); err != nil {
			g.t.Fatal(err)
		}
		text += "schema " + schema + "\n"
	} else {
		text += "appendonly yes\nsave \"\"\nrepl-diskless-sync-delay 0\n"
	}
	if err := os.WriteFile(m.config(), []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (m *member) config() string { return filepath.Join(m.dir, "node.conf") }

// settings is what its configuration file says by now: CONFIG REWRITE writes it.
func (m *member) settings() string {
	data, err := os.ReadFile(m.config())
	if err != nil {
		m.g.t.Error(err)
	}
	return string(data)
}

// start runs the member's process, at first or again, and waits until it answers.
func (m *member) start() {
	g := m.g
	g.t.Helper()
	noteSources()
	args := []string{g.path, m.config()}
	if g.kind == "counterd" {
		args = []string{g.path, "--config", m.config()}
	}
	if g.networks {
		args = append([]string{"nsenter", "-t", strconv.Itoa(m.holder), "-n", "--"}, args...)
	}
	s := &server{t: g.t, name: g.kind, log: new(logBuffer), dir: m.dir, addr: m.direct, port: m.port, exited: make(chan struct{})}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	go func() {
		s.exitErr = s.cmd.Wait()
		close(s.exited)
	}()
	if !s.awaitPing() {
		s.kill()
		g.t.Fatalf("%s did not answer PING\n%s", g.kind, s.log)
	}
	m.server = s
	g.t.Cleanup(s.cleanup)
	g.t.Cleanup(func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }) // before cleanup, which wants it to end by itself
}

// watch starts three Sentinels.
func (g *group) watch(downAfter time.Duration) {
	g.t.Helper()
	path, err := exec.LookPath("redis-sentinel")
	if err != nil {
		g.t.Fatal(err)
	}
	host := "127.0.0.1"
	if g.networks {
		host = g.address("n", 254)
	}
	for range 3 {
		dir, port := g.t.TempDir(), freePort(g.t)
		conf := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind %s\nprotected-mode no\ndir %s\nsentinel monitor mymaster %s %d 2\nsentinel down-after-milliseconds mymaster %d\nsentinel failover-timeout mymaster 10000\n",
			port, host, dir, g.nodes[0].host, g.nodes[0].port, downAfter.Milliseconds())
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			g.t.Fatal(err)
		}
		log := new(logBuffer)
		cmd := exec.Command(path, conf)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			g.t.Fatal(err)
		}
		g.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if g.t.Failed() {
				g.t.Logf("Sentinel of %s on port %d:\n%s", g.kind, port, log)
			}
		})
		g.sentinels, g.logs = append(g.sentinels, net.JoinHostPort(host, strconv.Itoa(port))), append(g.logs, log)
	}
	for _, log := range g.logs {
		eventually(g.t, 60*time.Second, "each Sentinel knows both replicas and both fellows", func() bool {
			return strings.Count(log.String(), "+slave ") == 2 && strings.Count(log.String(), "+sentinel ") == 2
		})
	}
}

// named returns the member that all Sentinels name the primary; nil while they do not agree.
func (g *group) named() *member {
	var found *member
	for _, addr := range g.sentinels {
		text := ask(addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
		var at *member
		for _, m := range g.nodes {
			if strings.Contains(text, "\r\n"+m.host+"\r\n") && strings.Contains(text, "\r\n"+strconv.Itoa(m.port)+"\r\n") {
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

// follows tells whether a member is a replica of another and has its stream.
func (m *member) follows(leader *member) bool {
	text := ask(m.direct, "INFO", "replication")
	for _, want := range []string{"role:slave", "master_host:" + leader.host, "master_port:" + strconv.Itoa(leader.port), "master_link_status:up"} {
		if !strings.Contains(text, "\r\n"+want+"\r\n") {
			return false
		}
	}
	return true
}

// settled returns the primary when all Sentinels name it, it agrees, the others follow it, and every Sentinel has heard
// so.
func (g *group) settled() *member {
	leader := g.named()
	if leader == nil || !strings.Contains(ask(leader.direct, "INFO", "replication"), "role:master\r\n") {
		return nil
	}
	for _, m := range g.nodes {
		if m != leader && !m.follows(leader) {
			return nil
		}
	}
	for _, addr := range g.sentinels {
		if !strings.Contains(ask(addr, "INFO", "sentinel"), "\r\nsentinel_tilt:0\r\n") { // it was kept from running for 2 s, and does nothing for 30
			return nil
		}
		text := ask(addr, "SENTINEL", "REPLICAS", "mymaster")
		if strings.Contains(text, "_down") || strings.Contains(text, "disconnected") || strings.Count(text, "\r\nmaster-link-status\r\n$2\r\nok\r\n") != 2 ||
			strings.Count(text, "\r\nmaster-host\r\n$"+strconv.Itoa(len(leader.host))+"\r\n"+leader.host+"\r\n") != 2 ||
			strings.Count(text, "\r\nrole-reported\r\n$5\r\nslave\r\n") != 2 {
			return nil
		}
	}
	return leader
}

// ask returns the raw answer to a command on a connection of its own; empty if there is none.
func ask(addr string, args ...string) string {
	c, err := dialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.close()
	_ = c.nc.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := c.nc.Write(resptest.Append(nil, args...)); err != nil {
		return ""
	}
	v, err := resptest.Read(c.br, resptest.Any)
	if err != nil {
		return ""
	}
	return v.Raw
}

// reportedAt returns when the Sentinels first logged an event behind the given places of their logs.
func (g *group) reportedAt(from []int, event string) (at time.Time, times int) {
	for i, log := range g.logs {
		for line := range strings.Lines(log.from(from[i])) { // 4711:X 21 Nov 2026 06:31:16.123 # +odown master ...
			if !strings.Contains(line, " "+event+" ") {
				continue
			}
			words := strings.Fields(line)
			when, err := time.ParseInLocation("02 Jan 2006 15:04:05.000", strings.Join(words[1:5], " "), time.Local)
			if err != nil {
				g.t.Errorf("Sentinel's line %q: %v", line, err)
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

// logSizes are places of the Sentinels' logs.
func (g *group) logSizes() (sizes []int) {
	for _, log := range g.logs {
		sizes = append(sizes, log.size())
	}
	return sizes
}

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/testkit/delayproxy"
	"github.com/counterd/counterd/internal/testkit/freeport"
)

// place is where processes of a cluster run: on 127.0.0.1, or in a network namespace of their own with an address of
// their own, so that what passes between two of them can be dropped.
//
//	bridge ck0, 10.81.0.254: the test, its clients and counterctl
//	  |- 10.81.0.1   a node
//	  |- 10.81.0.2   a node
//	  |- 10.81.0.101 a member of etcd
type place struct {
	c      *cluster
	host   string
	holder int // a process that keeps the namespace; 0: there is none
}

// process is a program of a cluster, and what outlives it.
type process struct {
	place
	name    string
	dir     string
	port    int
	forward int             // port of a counterd for clients that know of no cluster
	args    func() []string // the program and its arguments
	*harness.Server
}

// cluster is etcd and counterds that are its nodes.
type cluster struct {
	t        testing.TB
	name     string
	networks bool
	timeout  time.Duration // cluster-node-timeout
	fsync    string
	etcd     []*process
	nodes    []*process
	disks    bool
	extra    []string
	far      []*delayproxy.Proxy // between nodes and etcd; none: they connect to it directly
}

type clusterOptions struct {
	networks               bool
	members                int // of etcd
	shards, replicas, free int
	timeout                time.Duration
	fsync                  string
	disks                  bool // small ones, a node's own
	args                   []string
	roundTrip, jitter      time.Duration // between nodes and etcd; 0: as the machine has it
}

const clusterSchema = "add counter weibo\nadd column weibo repost hint=16 max=63 suffix=n\n"

// newCluster starts etcd and nodes, has counterctl make a cluster of them, and waits until all of it serves.
func newCluster(t testing.TB, o clusterOptions) (c *cluster, ok bool) {
	t.Helper()
	path, ok := harness.Tool(t, "etcd")
	if !ok {
		return nil, false
	}
	harness.NoteSources()
	c = &cluster{t: t, name: "weibo", networks: o.networks, timeout: o.timeout, fsync: o.fsync, disks: o.disks, extra: o.args}
	if c.networks {
		c.run("ip", "link", "set", "lo", "up")
		c.run("ip", "link", "add", "dev", "ck0", "type", "bridge")
		c.run("ip", "addr", "add", "10.81.0.254/24", "dev", "ck0")
		c.run("ip", "link", "set", "dev", "ck0", "up")
	}
	c.startEtcd(path, o.members)
	if o.roundTrip > 0 {
		for i, m := range c.etcd {
			c.far = append(c.far, delayproxy.New(t, fmt.Sprintf("%s:%d", m.host, m.port), uint64(i)))
		}
		c.setDelay(o.roundTrip, o.jitter)
	}
	for range o.shards*(1+o.replicas) + o.free {
		c.addNode()
	}
	args := []string{"cluster", "create", "--etcd", c.endpoints(), "--name", c.name, "--shards", strconv.Itoa(o.shards), "--replicas", strconv.Itoa(o.replicas), "--yes"}
	for _, n := range c.nodes[:o.shards*(1+o.replicas)] {
		args = append(args, n.Addr)
	}
	if out, status := harness.Counterctl(t, args...); status != 0 {
		t.Fatalf("counterctl %s: status %d\n%s\n%s", strings.Join(args, " "), status, out, c.nodes[0].Log)
	}
	c.healthy(time.Minute)
	first := harness.DialAddr(t, "tcp", c.nodes[0].Addr)
	harness.RunScript(t, first, clusterSchema)
	first.Close()
	return c, true
}

func (c *cluster) run(name string, args ...string) {
	c.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// newPlace makes a namespace with the next address from a number on.
func (c *cluster) newPlace(number int) place {
	c.t.Helper()
	p := place{c: c, host: "127.0.0.1"}
	if !c.networks {
		return p
	}
	p.host = fmt.Sprintf("10.81.0.%d", number)
	holder := exec.Command("sleep", "1000000")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	p.holder = holder.Process.Pid
	cable := fmt.Sprintf("ck0x%d", number)
	c.run("ip", "link", "add", "dev", cable, "type", "veth", "peer", "name", "n", "netns", strconv.Itoa(p.holder))
	c.run("ip", "link", "set", "dev", cable, "master", "ck0", "up")
	for _, args := range []string{"link set lo up", "addr add " + p.host + "/24 dev n", "link set dev n up"} {
		p.inside("ip", strings.Fields(args)...)
	}
	// What comes from a host that nothing may be sent to is not dropped: that is what one way means.
	p.inside("sh", "-c", "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done")
	return p
}

// inside runs a program in the place's namespace.
func (p *place) inside(name string, args ...string) {
	p.c.t.Helper()
	p.c.run("nsenter", append([]string{"-t", strconv.Itoa(p.holder), "-n", name}, args...)...)
}

// drop lets nothing of p reach q from now on; the other direction stays.
func (p *place) drop(q *place) { p.route("replace", q) }

// pass takes drop back.
func (p *place) pass(q *place) { p.route("del", q) }

// route may be called by goroutines of a test.
func (p *place) route(verb string, q *place) {
	args := []string{"-t", strconv.Itoa(p.holder), "-n", "ip", "route", verb, "blackhole", q.host + "/32"}
	if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
		p.c.t.Errorf("nsenter %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// startEtcd runs members that know each other.
func (c *cluster) startEtcd(path string, members int) {
	c.t.Helper()
	var initial []string
	for i := range members {
		m := &process{place: c.newPlace(101 + i), name: "etcd", dir: c.t.TempDir(), port: 2379}
		peer := 2380
		if !c.networks {
			m.port, peer = freeport.Take(c.t), freeport.Take(c.t)
		}
		client, peers := fmt.Sprintf("http://%s:%d", m.host, m.port), fmt.Sprintf("http://%s:%d", m.host, peer)
		name := fmt.Sprintf("m%d", i)
		initial = append(initial, name+"="+peers)
		m.args = func() []string {
			return []string{path, "--name", name, "--data-dir", filepath.Join(m.dir, "data"), "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peers,
				"--initial-advertise-peer-urls", peers, "--initial-cluster", strings.Join(initial, ","), "--logger", "zap", "--log-level", "error"}
		}
		c.etcd = append(c.etcd, m)
	}
	for _, m := range c.etcd {
		m.start()
	}
	harness.Eventually(c.t, time.Minute, "etcd answers", func() bool {
		_, err := c.load()
		return err == nil
	})
}

func (c *cluster) endpoints() string {
	var list []string
	for _, m := range c.etcd {
		list = append(list, fmt.Sprintf("http://%s:%d", m.host, m.port))
	}
	return strings.Join(list, ",")
}

// setDelay sets how long a round trip between a node and etcd takes.
func (c *cluster) setDelay(roundTrip, jitter time.Duration) {
	for _, p := range c.far {
		p.Set(roundTrip, jitter)
	}
}

// nodeEndpoints is endpoints for nodes.
func (c *cluster) nodeEndpoints() string {
	if len(c.far) == 0 {
		return c.endpoints()
	}
	var list []string
	for _, p := range c.far {
		list = append(list, "http://"+p.Addr())
	}
	return strings.Join(list, ",")
}

// addNode starts a counterd that belongs to no shard yet.
func (c *cluster) addNode() *process {
	c.t.Helper()
	n := &process{place: c.newPlace(len(c.nodes) + 1), name: "counterd", dir: c.t.TempDir(), port: 6379, forward: 6399}
	if !c.networks {
		n.port, n.forward = freeport.Take(c.t), freeport.Take(c.t)
	}
	if c.disks {
		c.disks = n.mountDisk()
	}
	version := len(c.nodes)
	n.args = func() []string {
		program := harness.CounterdPath
		if version++; *clusterOlderFlag != "" && version%2 == 0 { // each start is of the other version
			program = *clusterOlderFlag
		}
		args := []string{program, "--port", strconv.Itoa(n.port), "--bind", n.host, "--protected-mode", "no", "--dir", n.dir, "--appendfsync", c.fsync, "--cluster-enabled", "yes",
			"--cluster-name", c.name, "--cluster-etcd", c.nodeEndpoints(), "--cluster-node-timeout", strconv.Itoa(int(c.timeout.Milliseconds())), "--cluster-announce-ip", n.host, "--forward-port", strconv.Itoa(n.forward)}
		return append(args, c.extra...)
	}
	c.nodes = append(c.nodes, n)
	if err := n.start(); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// start runs the process, at first or again. A counterd is waited for until it answers.
func (p *process) start() error {
	if err := p.launch(); err != nil {
		return err
	}
	if p.name == "counterd" && !p.AwaitPing() {
		p.Kill()
		return fmt.Errorf("%s did not answer PING\n%s", strings.Join(p.Cmd.Args, " "), p.Log)
	}
	return nil
}

// launch is start that does not wait.
func (p *process) launch() error {
	args := p.args()
	if p.holder != 0 {
		args = append([]string{"nsenter", "-t", strconv.Itoa(p.holder), "-n", "--"}, args...)
	}
	s := &harness.Server{T: p.c.t, Name: p.name, Log: new(harness.LogBuffer), Dir: p.dir, Port: p.port, Exited: make(chan struct{})}
	s.Addr = net.JoinHostPort(p.host, strconv.Itoa(p.port))
	s.Cmd = exec.Command(args[0], args[1:]...)
	var out io.Writer = s.Log
	if *clusterLogFlag != "" { // of a long run all is kept
		f, err := os.OpenFile(fmt.Sprintf("%s.%s", *clusterLogFlag, s.Addr), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		p.c.t.Cleanup(func() { f.Close() })
		out = io.MultiWriter(s.Log, f)
	}
	s.Cmd.Stdout, s.Cmd.Stderr = out, out
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.Cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "ETCD_UNSUPPORTED_ARCH=")
	if err := s.Cmd.Start(); err != nil {
		return err
	}
	go func() {
		s.ExitErr = s.Cmd.Wait()
		close(s.Exited)
	}()
	p.Server = s
	p.c.t.Cleanup(func() {
		if s.Name == "counterd" {
			if s.T.Failed() {
				s.T.Logf("log of the node at %s:\n%s", s.Addr, s.Log)
			}
			s.CheckLog()
		}
		_ = s.Cmd.Process.Kill() // whatever it is, it has been checked: a cluster does not end in order
		<-s.Exited
	})
	return nil
}

// freeze stops the process and waits until all its threads have.
func (p *process) freeze() { p.Freeze(p.c.t) }

func (p *process) thaw() { _ = p.Cmd.Process.Signal(syscall.SIGCONT) }

// load reads the map from etcd by its HTTP gateway, as nobody else here does.
func (c *cluster) load() (*topology.Map, error) {
	prefix := "/counterd/" + c.name + "/"
	request, _ := json.Marshal(map[string][]byte{"key": []byte(prefix), "range_end": []byte(prefix[:len(prefix)-1] + "0")})
	errs := []error{errors.New("no member of etcd answers")}
	for _, m := range c.etcd {
		client := http.Client{Timeout: 2 * time.Second}
		reply, err := client.Post(fmt.Sprintf("http://%s:%d/v3/kv/range", m.host, m.port), "application/json", bytes.NewReader(request))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var body struct {
			Header struct {
				Revision int64 `json:",string"`
			}
			Kvs []struct {
				Key         []byte
				Value       []byte
				ModRevision int64 `json:"mod_revision,string"`
			}
		}
		err = json.NewDecoder(reply.Body).Decode(&body)
		reply.Body.Close()
		if err != nil || reply.StatusCode != http.StatusOK {
			errs = append(errs, fmt.Errorf("status %s: %w", reply.Status, err))
			continue
		}
		var kvs []topology.KV
		for _, kv := range body.Kvs {
			kvs = append(kvs, topology.KV{Key: strings.TrimPrefix(string(kv.Key), prefix), Value: kv.Value, Revision: kv.ModRevision})
		}
		return topology.NewMap(body.Header.Revision, kvs)
	}
	return nil, errors.Join(errs...)
}

// node finds the process of a node; nil if it is none of these.
func (c *cluster) node(m *topology.Map, id topology.NodeID) *process {
	if n := m.Nodes[id]; n != nil {
		for _, p := range c.nodes {
			if p.host == n.Host && p.port == n.Port {
				return p
			}
		}
	}
	return nil
}

// primary is the process that leads a shard; nil if nobody does.
func (c *cluster) primary(m *topology.Map, shard *topology.Shard) *process {
	return c.node(m, shard.Primary)
}

// replicas are the processes of a shard that do not lead it.
func (c *cluster) replicas(m *topology.Map, shard *topology.Shard) (list []*process) {
	for _, n := range m.Members(shard.ID) {
		if p := c.node(m, n.ID); n.ID != shard.Primary && p != nil {
			list = append(list, p)
		}
	}
	return list
}

// unwell says what keeps the cluster from being whole: every shard with a primary and all of its nodes in sync, every
// group owned, no move, and every node of the same opinion. It is empty when nothing does.
func (c *cluster) unwell() string {
	m, err := c.load()
	if err != nil {
		return err.Error()
	}
	if !m.Created() {
		return "there is no cluster"
	}
	if unowned := m.Unowned(); !unowned.Empty() {
		return "nobody owns groups " + unowned.String()
	}
	if len(m.Moves) > 0 {
		return fmt.Sprintf("%d moves", len(m.Moves))
	}
	for _, s := range m.Shards {
		members := m.Members(s.ID)
		if s.Primary == "" || len(s.InSync) != len(members) {
			return fmt.Sprintf("shard %d: primary %.8q, %d of %d in sync", s.ID, s.Primary, len(s.InSync), len(members))
		}
		for _, n := range members {
			if m.Live[n.ID] == nil {
				return fmt.Sprintf("node %.8s of shard %d is not there", n.ID, s.ID)
			}
			p := c.node(m, n.ID)
			want := "role:slave"
			if n.ID == s.Primary {
				want = "role:master"
			}
			if text := harness.Ask(p.Addr, "INFO", "replication"); !strings.Contains(text, want+"\r\n") {
				return fmt.Sprintf("node %.8s of shard %d at %s is not %s", n.ID, s.ID, p.Addr, want)
			}
			if text := harness.Ask(p.Addr, "CLUSTER", "INFO"); !strings.Contains(text, "cluster_state:ok\r\n") {
				return fmt.Sprintf("node %.8s of shard %d at %s answers %q", n.ID, s.ID, p.Addr, text)
			}
		}
	}
	return ""
}

// healthy waits until nothing keeps the cluster from being whole.
func (c *cluster) healthy(within time.Duration) {
	c.t.Helper()
	if reason := c.becomes(within); reason != "" {
		c.t.Fatalf("the cluster is not whole within %v: %s", within, reason)
	}
}

// becomes is healthy for goroutines of a test, and says what is wrong.
func (c *cluster) becomes(within time.Duration) (reason string) {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if reason = c.unwell(); reason == "" {
			return ""
		}
	}
	return reason
}

// alike checks that the nodes of each shard hold the same items. Nobody writes.
func (c *cluster) alike(within time.Duration) error {
	m, err := c.load()
	if err != nil {
		return err
	}
	for _, s := range m.Shards {
		var digests []string
		for deadline := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
			digests = digests[:0]
			for _, n := range m.Members(s.ID) {
				digests = append(digests, harness.Ask(c.node(m, n.ID).Addr, "COUNTER.DIGEST"))
			}
			if len(slices.Compact(digests)) == 1 && digests[0] != "" && digests[0][0] != '-' {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("nodes of shard %d have digests %q", s.ID, digests)
			}
		}
	}
	return nil
}

// mids makes mids that a shard owns, each once, and others for each number.
func (c *cluster) mids(m *topology.Map, shard *topology.Shard, number uint64) func() uint64 {
	var next atomic.Uint64
	next.Store(5<<56 + number<<32)
	return func() uint64 {
		for {
			if mid := next.Add(1); m.Owner(groupOf(mid)) == shard {
				return mid
			}
		}
	}
}

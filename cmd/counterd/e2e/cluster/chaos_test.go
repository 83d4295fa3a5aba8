package cluster

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

var (
	clusterFaultsFlag = flag.Int("cluster-faults", 2, "faults in TestClusterChaos")
	clusterLogFlag    = flag.String("cluster-log", "", "file with a line for each fault of TestClusterChaos, which goes on behind those that are there")
	clusterOnlyFlag   = flag.String("cluster-only", "", "only faults of TestClusterChaos whose names hold this; $ is their end")
	clusterShardsFlag = flag.Int("cluster-shards", 2, "shards of TestClusterChaos, of three nodes each, where there are more than two faults")
	clusterFsyncFlag  = flag.String("cluster-appendfsync", "everysec", "appendfsync in TestClusterChaos")
	nodeTimeoutFlag   = flag.Duration("node-timeout", 2*time.Second, "cluster-node-timeout in TestClusterChaos")
	clusterOlderFlag  = flag.String("cluster-older", "", "another counterd, of an older version: nodes of TestClusterChaos run it at every second start, neighbours in turns")
	clusterHoldFlag   = flag.Duration("cluster-hold", 0, "how long a fault of TestClusterChaos lasts at least; 0: 4 times the node timeout, every third 30 s")
)

// struck is what was seen of one fault: a line of the log.
type struck struct {
	N        int     `json:"n"`
	Fault    string  `json:"fault"`
	Timeout  float64 `json:"nodeTimeout"`        // s
	Held     float64 `json:"held"`               // s, until it was taken back
	FirstAck float64 `json:"firstAck"`           // s, until the shard acknowledged a change that was begun behind the fault
	Whole    float64 `json:"whole"`              // s, from when it was taken back until all nodes were in sync again
	Acked    int64   `json:"acked"`              // increments meanwhile
	History  int     `json:"history"`            // operations that porcupine found an order for
	Problem  string  `json:"problem,omitempty"`  // what was wrong
	Unknown  bool    `json:"unlinear,omitempty"` // porcupine's time was over
	Epochs   uint64  `json:"epochs"`             // that the shard had more behind it
	found            // of all posts
	Errors   string  `json:"errors,omitempty"`
}

// TestClusterChaos hurts a cluster again and again while clients write to it: plain INCRs, that are sent once, some
// of them to forward ports; numbered ones by package client; and a few that read and change the same posts, whose history porcupine checks. Behind every fault the
// cluster becomes whole by itself, no acknowledged increment is gone, none was made twice, and the nodes of a shard hold
// the same. make chaos does 300.
//
//	go test ./cmd/counterd/e2e/cluster -run ClusterChaos -cluster-faults 300 -cluster-log chaos.log -v -timeout 12h
func TestClusterChaos(t *testing.T) {
	t.Parallel() // it waits most of the time
	r, seed := harness.Random(t)
	faults := *clusterFaultsFlag
	long := faults > 2
	here, networks := true, false
	if long {
		if here, networks = harness.InNamespace(t, "-cluster-faults="+fmt.Sprint(faults), "-cluster-log="+*clusterLogFlag, "-cluster-only="+*clusterOnlyFlag,
			"-node-timeout="+nodeTimeoutFlag.String(), "-cluster-hold="+clusterHoldFlag.String(), fmt.Sprintf("-cluster-shards=%d", *clusterShardsFlag), "-cluster-appendfsync="+*clusterFsyncFlag); !here {
			return
		}
	}
	done := readStruck(t, *clusterLogFlag)
	if len(done) >= faults {
		reportStruck(t, done)
		return
	}
	o := clusterOptions{networks: networks, members: 1, shards: 1, replicas: 2, timeout: *nodeTimeoutFlag, fsync: *clusterFsyncFlag}
	if long {
		o.members, o.shards = 3, *clusterShardsFlag
		o.args = []string{"--aof-retain", "8mb", "--auto-aof-rewrite-min-size", "8mb"}
		o.disks = networks
	}
	c, ok := newCluster(t, o)
	if !ok {
		return
	}
	var kinds []clusterFault
	all := slices.Clone(clusterFaults)
	for _, f := range moveFaults {
		all = append(all, f.fault())
	}
	for _, f := range all {
		if f.shards <= o.shards && (!f.networks || networks) && (!f.disks || o.disks) && strings.Contains(f.name+"$", *clusterOnlyFlag) {
			kinds = append(kinds, f)
		}
	}
	if long {
		c.fill(200_000)
	}
	gap, plain, numbered := 2*time.Millisecond, 3, 2
	l, err := c.startLoad(r, plain, numbered, gap)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d, %d kinds of faults, %d done before", seed, len(kinds), len(done))
	for n := len(done); n < faults; n++ {
		kind := kinds[n%len(kinds)]
		s := c.strike(l, r, n, kind, long)
		done = append(done, s)
		if err := appendStruck(*clusterLogFlag, s); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d: %s: acknowledged again after %.2f s, held %.1f s, whole %.1f s behind it; %d acknowledged meanwhile, %d posts checked, history of %d %s",
			n, kind.name, s.FirstAck, s.Held, s.Whole, s.Acked, s.Checked, s.History, s.Errors)
		if s.Problem != "" || t.Failed() {
			t.Fatalf("%s: %s", kind.name, s.Problem)
		}
	}
	l.end()
	reportStruck(t, done)
}

// strike is one fault, from a whole cluster to a whole cluster.
func (c *cluster) strike(l *clusterLoad, r *rand.Rand, n int, kind clusterFault, long bool) (s struck) {
	s = struck{N: n, Fault: kind.name, Timeout: c.timeout.Seconds()}
	problem := func(format string, args ...any) struck {
		s.Problem = fmt.Sprintf(format, args...)
		return s
	}
	if reason := c.becomes(3 * time.Minute); reason != "" {
		return problem("not whole before it: %s", reason)
	}
	busy := l.acked() + 50
	for deadline := time.Now().Add(time.Minute); l.acked() < busy; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return problem("clients do not get on before it: %s", l.errors())
		}
	}
	m, err := c.load()
	if err != nil {
		return problem("%v", err)
	}
	shard := m.Shards[r.IntN(len(m.Shards))]
	stop := make(chan struct{})
	history := l.record(stop)
	time.Sleep(harness.RandomPause(r, 50*time.Millisecond, 300*time.Millisecond))

	hold := *clusterHoldFlag
	switch {
	case hold > 0:
	case !long:
		hold = 0 // until it has been acknowledged again
	case n%3 == 2:
		hold = 30 * time.Second
	default:
		hold = 4 * c.timeout
	}
	acked := l.acked()
	next := c.mids(m, shard, uint64(n))
	began := time.Now()
	heal := kind.strike(c, r, m, shard)
	gone := make(chan struct{})
	answered := make(chan time.Duration, 1)
	go func() {
		if took, ok := c.probe(m, shard, next, began, gone); ok {
			answered <- took
		}
	}()
	var first time.Duration
	await := func(within time.Duration) {
		if first == 0 {
			select {
			case first = <-answered:
			case <-time.After(within):
			}
		}
	}
	if long {
		time.Sleep(time.Until(began.Add(hold)))
		await(0)
	} else {
		await(3*c.timeout + 30*time.Second)
	}
	heal()
	s.Held = time.Since(began).Seconds()
	healed := time.Now()
	reason := c.becomes(5 * time.Minute)
	s.Whole = time.Since(healed).Seconds()
	await(time.Minute)
	close(gone)
	close(stop)
	s.FirstAck = first.Seconds()
	s.Errors = l.errors()
	if reason != "" {
		return problem("not whole %.0f s behind it: %s", s.Whole, reason)
	}
	if first == 0 {
		return problem("the shard acknowledges nothing: %s", l.errors())
	}
	if kind.leads && long && first > hold {
		s.Errors += " NO FAILOVER WHILE IT LASTED"
	}
	operations := history()
	s.History = len(operations)
	switch porcupine.CheckOperationsTimeout(harness.CounterModel, operations, time.Minute) {
	case porcupine.Illegal:
		text := ""
		for _, op := range operations {
			text += fmt.Sprintf("%d %d..%d %+v -> %+v\n", op.ClientId, op.Call, op.Return, op.Input, op.Output)
		}
		return problem("no order explains what clients saw:\n%s", text)
	case porcupine.Unknown:
		s.Unknown = true
	}
	if s.found, err = l.check(); err != nil {
		return problem("%v", err)
	}
	l.pause.Lock()
	err = c.alike(time.Minute)
	l.pause.Unlock()
	if err != nil {
		return problem("%v", err)
	}
	s.Acked = l.acked() - acked
	if now, err := c.load(); err == nil {
		s.Epochs = now.Shard(shard.ID).Epoch - shard.Epoch
	}
	return s
}

// readStruck reads the log of a run that was ended.
func readStruck(t testing.TB, path string) (list []struck) {
	t.Helper()
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var s struck
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("%s: line %d: %v", path, len(list)+1, err)
		}
		list = append(list, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func appendStruck(path string, s struck) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(text, '\n'))
	return err
}

// reportStruck prints what came of each kind.
func reportStruck(t testing.TB, all []struck) {
	t.Helper()
	var names []string
	var sum found
	acked, histories, problems := int64(0), 0, 0
	for _, s := range all {
		if !slices.Contains(names, s.Fault) {
			names = append(names, s.Fault)
		}
		sum.add(s.found)
		acked += s.Acked
		if s.Problem != "" {
			problems++
		} else if !s.Unknown {
			histories++
		}
	}
	for _, name := range names {
		var some []struck
		for _, s := range all {
			if s.Fault == name {
				some = append(some, s)
			}
		}
		of := func(f func(struck) float64) func(struck) time.Duration {
			return func(s struck) time.Duration { return time.Duration(f(s) * float64(time.Second)) }
		}
		t.Logf("%-52s %3d: acknowledged again after %s, whole again %s", name, len(some),
			harness.MedianSpread(some, of(func(s struck) float64 { return s.FirstAck })), harness.MedianSpread(some, of(func(s struck) float64 { return s.Whole })))
	}
	t.Logf("%d faults, %d increments acknowledged meanwhile, %d values checked: %d lost, %d doubled; %d histories in order, %d problems",
		len(all), acked, sum.Checked, sum.Lost, sum.Doubled, histories, problems)
}

// mountDisk gives a process a small disk of its own.
func (p *process) mountDisk() bool {
	if err := syscall.Mount("tmpfs", p.dir, "tmpfs", 0, "size=128m"); err != nil {
		harness.LeftOut(p.c.t, fmt.Sprintf("a small disk cannot be mounted: %v", err))
		return false
	}
	dir := p.dir
	p.c.t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return true
}

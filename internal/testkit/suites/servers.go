package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/testkit/freeport"
)

// servers are the programs that a suite runs against, with a proxy before each counterd. They end with it. A counterd that a test shuts
// down is started again, as a suite's containers are.
type servers struct {
	counterd string // path of the program
	dir      string
	names    *names // of all nodes: a key of a primary has the same name on its replica

	mu      sync.Mutex
	closed  bool
	stops   []func()
	waiting sync.WaitGroup
}

func newServers(counterd string) (*servers, error) {
	path, err := filepath.Abs(counterd)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/dev/shm", "suites-") // a disk that is busy would make counterd refuse changes
	if err != nil {
		dir, err = os.MkdirTemp("", "suites-")
	}
	if err != nil {
		return nil, err
	}
	return &servers{counterd: path, dir: dir}, nil
}

func (s *servers) close() {
	s.mu.Lock()
	s.closed = true
	stops := s.stops
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	s.waiting.Wait()
	os.RemoveAll(s.dir)
}

// onOneNode runs tests against one counterd behind a proxy. Reports can be written to dir.
func (o options) onOneNode(ctx context.Context, b behind, tests func(dir string, port int) ([]outcome, error)) ([]outcome, error) {
	s, err := newServers(o.counterd)
	if err != nil {
		return nil, err
	}
	defer s.close()
	port, err := s.node(ctx, b)
	if err != nil {
		return nil, err
	}
	return tests(s.dir, port)
}

// program runs a program until close, again whenever it ends.
func (s *servers) program(name, path string, args ...string) error {
	output, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	s.waiting.Go(func() {
		defer output.Close()
		for first := true; ; first = false {
			cmd := exec.Command(path, args...)
			cmd.Stdout, cmd.Stderr, cmd.Dir = output, output, s.dir
			s.mu.Lock()
			if s.closed {
				s.mu.Unlock()
				return
			}
			err := cmd.Start()
			if err == nil {
				s.stops = append(s.stops, func() { _ = cmd.Process.Kill() })
			}
			s.mu.Unlock()
			if first {
				started <- err
			}
			if err != nil {
				return
			}
			_ = cmd.Wait() // a test ended it, or close
			time.Sleep(100 * time.Millisecond)
		}
	})
	return <-started
}

// options of one counterd behind a proxy.
type behind struct {
	port     int // of the proxy; 0: a free one
	args     []string
	node     bool // of a cluster, which gets the counter when it serves
	answered func(args [][]byte) bool
	integers map[string]string
}

// node starts a counterd and its proxy, and returns the port of the proxy.
func (s *servers) node(ctx context.Context, b behind) (int, error) {
	port, err := freeport.Find()
	if err != nil {
		return 0, err
	}
	name := "counterd-" + strconv.Itoa(port)
	if b.port > 0 {
		name = "counterd-" + strconv.Itoa(b.port)
	}
	conf := filepath.Join(s.dir, name+".conf") // for CONFIG REWRITE
	if err := os.WriteFile(conf, nil, 0o600); err != nil {
		return 0, err
	}
	args := append([]string{conf, "--appendfsync", "no", "--port", strconv.Itoa(port), "--dir", filepath.Join(s.dir, name)}, b.args...)
	if err := s.program(name, s.counterd, args...); err != nil {
		return 0, err
	}
	addr := "127.0.0.1:" + strconv.Itoa(port)
	if err := answers(ctx, addr); err != nil {
		return 0, fmt.Errorf("counterd of %s: %w", name, err)
	}
	if !b.node {
		if s.names, err = single(ctx, addr, s.names); err != nil {
			return 0, err
		}
	}
	k, err := newKeymap("127.0.0.1:"+strconv.Itoa(b.port), addr, s.names)
	if err != nil {
		return 0, err
	}
	k.answered, k.integers = b.answered, b.integers
	s.mu.Lock()
	s.stops = append(s.stops, func() { k.listener.Close() })
	s.mu.Unlock()
	go k.serve()
	return k.addr().Port, nil
}

// single makes the counter of a server that is in no cluster, and the names of its keys if n is nil.
func single(ctx context.Context, addr string, n *names) (*names, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer rdb.Close()
	if err := createSchema(ctx, rdb); err != nil || n != nil {
		return n, err
	}
	keys, err := keysOf(ctx, rdb)
	if err != nil {
		return nil, err
	}
	return newNames(keys), nil
}

// schema is that of the one counter behind a proxy.
var schema = [][]any{
	{"ADD", "COLUMN", "t", "MID", "HINT=64", "MAX=64", "PRIMARYKEY"}, {"ADD", "COUNTER", "t"},
	{"ADD", "COLUMN", "t", "n", "HINT=8", "MAX=63", "SUFFIX=n"},
}

func createSchema(ctx context.Context, rdb redis.UniversalClient) error {
	for _, line := range schema {
		if err := rdb.Do(ctx, line...).Err(); err != nil && !strings.Contains(err.Error(), "exists") {
			return fmt.Errorf("%v: %w", line, err)
		}
	}
	return nil
}

// sentinel starts a redis-sentinel that watches nothing.
func (s *servers) sentinel(ctx context.Context, port int) error {
	path, err := exec.LookPath("redis-sentinel")
	if err != nil {
		return fmt.Errorf("%w (Debian and Ubuntu: apt-get install redis-sentinel)", err)
	}
	conf := filepath.Join(s.dir, fmt.Sprintf("sentinel-%d.conf", port))
	if err := os.WriteFile(conf, fmt.Appendf(nil, "port %d\nbind 127.0.0.1\ndir %s\n", port, s.dir), 0o600); err != nil {
		return err
	}
	if err := s.program(fmt.Sprintf("sentinel-%d", port), path, conf); err != nil {
		return err
	}
	return answers(ctx, "127.0.0.1:"+strconv.Itoa(port))
}

// cluster starts etcd and a node behind each port, one of each shard first and then their replicas, and makes a cluster of them. all has
// the options that the proxies have in common.
func (s *servers) cluster(ctx context.Context, shards int, ports []int, all behind, move func(uint16) uint16) error {
	path, err := exec.LookPath("etcd")
	if err != nil {
		return fmt.Errorf("%w (Debian and Ubuntu: apt-get install etcd-server)", err)
	}
	client, err := freeport.Find()
	if err != nil {
		return err
	}
	peer, err := freeport.Find()
	if err != nil {
		return err
	}
	etcd, peers := fmt.Sprintf("http://127.0.0.1:%d", client), fmt.Sprintf("http://127.0.0.1:%d", peer)
	if err := s.program("etcd", path, "--data-dir", filepath.Join(s.dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--log-level", "warn"); err != nil {
		return err
	}
	if s.names == nil {
		keys, err := s.keys(ctx)
		if err != nil {
			return err
		}
		s.names = newNames(keys)
	}
	s.names.move = move
	create := []string{"cluster", "create", "--yes", "--shards", strconv.Itoa(shards), "--replicas", strconv.Itoa(len(ports)/shards - 1)}
	for _, port := range ports {
		b := all
		b.port, b.node, b.args = port, true, []string{"--cluster-enabled", "yes", "--cluster-name", "suite",
			"--cluster-etcd", etcd, "--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(port)}
		if _, err := s.node(ctx, b); err != nil {
			return err
		}
		create = append(create, "127.0.0.1:"+strconv.Itoa(port))
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.counterd), "counterctl"), create...)
	cmd.Env = append(os.Environ(), "COUNTERD_ETCD="+etcd, "COUNTERD_CLUSTER=suite")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("counterctl %s: %w\n%s", strings.Join(create, " "), err, output)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(ports[0]), DisableIdentity: true})
	defer rdb.Close()
	return createSchema(ctx, rdb)
}

// keys asks a counterd of its own for the arguments that are keys: nodes of a cluster tell too, but only when it serves.
func (s *servers) keys(ctx context.Context) (map[string]keyRange, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	addr := "127.0.0.1:" + strconv.Itoa(port)
	cmd := exec.CommandContext(ctx, s.counterd, "--port", strconv.Itoa(port), "--dir", filepath.Join(s.dir, "keys"))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	if err := answers(ctx, addr); err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer rdb.Close()
	return keysOf(ctx, rdb)
}

// answers waits until a server has loaded its data and answers a PING: a node that serves no shard does so with an error.
func answers(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer rdb.Close()
	for {
		err := rdb.Ping(ctx).Err()
		var answer redis.Error
		if err == nil || errors.As(err, &answer) && !strings.HasPrefix(err.Error(), "LOADING") || ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

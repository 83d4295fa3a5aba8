package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// counterd is a cluster of one shard: a primary, and replicas in sync.
type counterd struct {
	bin    string // folder of the programs
	fsync  string // appendfsync
	logs   string
	disks  []*Disk
	shared *Disk // of etcd
	etcd   *Process
	nodes  []*Process
	ports  []int
	url    string
	client *redis.ClusterClient

	producers chan producer // those that no write uses
}

// producer numbers its changes, one at a time.
type producer struct {
	name   string
	number uint64
}

func newCounterd(bin, fsync, logs string, disks []*Disk, shared *Disk) *counterd {
	return &counterd{bin: bin, fsync: fsync, logs: logs, disks: disks, shared: shared, nodes: make([]*Process, len(disks))}
}

func (s *counterd) Name() string {
	out, _ := exec.Command(filepath.Join(s.bin, "counterd"), "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	return first + ", appendfsync " + s.fsync
}

func (s *counterd) Start(ctx context.Context) (err error) {
	redis.SetLogger(silent{})
	if s.ports, err = freePorts(len(s.disks) + 2); err != nil {
		return err
	}
	s.url = fmt.Sprintf("http://127.0.0.1:%d", s.ports[len(s.disks)])
	if err := s.StartShared(); err != nil {
		return err
	}
	var addrs []string
	for i := range s.disks {
		if err := s.StartNode(i); err != nil {
			return err
		}
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", s.ports[i]))
	}
	args := append([]string{"cluster", "create", "--shards", "1", "--replicas", strconv.Itoa(len(s.disks) - 1), "--yes"}, addrs...)
	if err := poll(ctx, func(ctx context.Context) error { return s.ctl(ctx, args...) }); err != nil {
		return err
	}
	s.client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, MaxRetries: -1, MaxRedirects: 8})
	s.producers = make(chan producer, maxWriters)
	for i := range maxWriters {
		s.producers <- producer{name: "writer-" + strconv.Itoa(i)}
	}
	for _, line := range [][]any{
		{"ADD", "COLUMN", "t", "mid", "HINT=64", "MAX=64", "PRIMARYKEY"}, {"ADD", "COUNTER", "t"},
		{"ADD", "COLUMN", "t", "n", "HINT=8", "MAX=32", "DEFAULT=0"},
	} {
		if err := s.client.Do(ctx, line...).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (s *counterd) ctl(ctx context.Context, args ...string) error {
	args = append(args, "--etcd", s.url, "--name", "survival")
	if out, err := exec.CommandContext(ctx, filepath.Join(s.bin, "counterctl"), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("counterctl %s: %w: %s", args[1], err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (s *counterd) StartShared() (err error) {
	peer := fmt.Sprintf("http://127.0.0.1:%d", s.ports[len(s.disks)+1])
	s.etcd, err = StartProcess(s.logs, "etcd", "etcd", "--data-dir", filepath.Join(s.shared.dir, "etcd"), "--listen-client-urls", s.url,
		"--advertise-client-urls", s.url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	return err
}

func (s *counterd) KillShared() { s.etcd.Kill() }

func (s *counterd) StartNode(i int) (err error) {
	s.nodes[i], err = StartProcess(s.logs, fmt.Sprintf("counterd-%d", i), filepath.Join(s.bin, "counterd"), "--port", strconv.Itoa(s.ports[i]),
		"--dir", filepath.Join(s.disks[i].dir, "data"), "--cluster-enabled", "yes", "--cluster-name", "survival", "--cluster-etcd", s.url,
		"--cluster-node-timeout", "2000", "--appendfsync", s.fsync)
	return err
}

func (s *counterd) KillNode(i int) { s.nodes[i].Kill() }

func key(id uint64) string { return "t:{" + strconv.FormatUint(id, 10) + "}.n" }

// Write increments a post of its own, with a number, because go-redis repeats a command whose connection was lost.
func (s *counterd) Write(ctx context.Context, id uint64) error {
	p := <-s.producers
	p.number++
	err := s.client.Do(ctx, "INCRBY", key(id), 1, "IDMP", p.name, p.number).Err()
	s.producers <- p
	return err
}

func (s *counterd) Read(ctx context.Context, ids []uint64) (map[uint64]int, error) {
	found := map[uint64]int{}
	for len(ids) > 0 {
		n := min(len(ids), 1000)
		replies := make([]*redis.StringCmd, n)
		_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range ids[:n] {
				replies[i] = p.Get(ctx, key(id))
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		for i, r := range replies {
			if r.Err() == nil {
				if found[ids[i]], err = r.Int(); err != nil {
					return nil, err
				}
			} else if !errors.Is(r.Err(), redis.Nil) {
				return nil, r.Err()
			}
		}
		ids = ids[n:]
	}
	return found, nil
}

func (s *counterd) Healthy(ctx context.Context) error { return s.ctl(ctx, "cluster", "check") }

func (s *counterd) HasRecords(path string) bool {
	return slices.Contains([]string{".aof", ".hot", ".cold"}, filepath.Ext(path))
}

func (s *counterd) Stop() {
	if s.client != nil {
		s.client.Close()
	}
	for _, n := range s.nodes {
		n.Kill()
	}
	s.etcd.Kill()
}

// silent is go-redis's log.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

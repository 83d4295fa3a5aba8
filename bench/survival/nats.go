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
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStream is a cluster of nats-server with one replicated stream.
type jetStream struct {
	server string // path of the program
	sync   string // sync_interval
	logs   string
	disks  []*Disk
	nodes  []*Process
	ports  []int // of clients
	routes []int
	conn   *nats.Conn
	js     jetstream.JetStream
}

const streamName = "RECORDS"

func newJetStream(server, sync, logs string, disks []*Disk) *jetStream {
	return &jetStream{server: server, sync: sync, logs: logs, disks: disks, nodes: make([]*Process, len(disks))}
}

func (s *jetStream) Name() string {
	out, _ := exec.Command(s.server, "--version").Output()
	return strings.TrimSpace(string(out)) + ", sync_interval " + s.sync
}

func (s *jetStream) Start(ctx context.Context) (err error) {
	if s.ports, err = freePorts(2 * len(s.disks)); err != nil {
		return err
	}
	s.ports, s.routes = s.ports[:len(s.disks)], s.ports[len(s.disks):]
	var urls []string
	for i := range s.disks {
		if err := s.StartNode(i); err != nil {
			return err
		}
		urls = append(urls, "nats://127.0.0.1:"+strconv.Itoa(s.ports[i]))
	}
	s.conn, err = nats.Connect(strings.Join(urls, ","), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	if s.js, err = jetstream.New(s.conn); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		// A request that comes before the servers have a leader gets no answer.
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		_, err := s.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: streamName, Subjects: []string{"records"}, Replicas: len(s.disks), Storage: jetstream.FileStorage})
		return err
	})
}

func (s *jetStream) StartNode(i int) (err error) {
	var routes []string
	for _, port := range s.routes {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	config := fmt.Sprintf(`server_name: n%d
host: 127.0.0.1
port: %d
jetstream { store_dir: %q, sync_interval: %q }
cluster { name: survival, host: 127.0.0.1, port: %d, routes: [%s] }
`, i, s.ports[i], filepath.Join(s.disks[i].dir, "js"), s.sync, s.routes[i], strings.Join(routes, ", "))
	path := filepath.Join(s.logs, fmt.Sprintf("nats-%d.conf", i))
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return err
	}
	s.nodes[i], err = StartProcess(s.logs, fmt.Sprintf("nats-%d", i), s.server, "-c", path)
	return err
}

func (s *jetStream) Write(ctx context.Context, id uint64) error {
	ack, err := s.js.Publish(ctx, "records", strconv.AppendUint(nil, id, 10))
	if err == nil && ack.Stream != streamName {
		err = fmt.Errorf("acknowledged by stream %q", ack.Stream)
	}
	return err
}

func (s *jetStream) Read(ctx context.Context, _ []uint64) (map[uint64]int, error) {
	found := map[uint64]int{}
	c, err := s.js.OrderedConsumer(ctx, streamName, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	for empty := 0; empty < 3; {
		batch, err := c.Fetch(10_000, jetstream.FetchMaxWait(2*time.Second))
		if err != nil {
			return nil, err
		}
		n := 0
		for m := range batch.Messages() {
			id, err := strconv.ParseUint(string(m.Data()), 10, 64)
			if err != nil {
				return nil, err
			}
			found[id]++
			n++
		}
		if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			return nil, err
		}
		if empty++; n > 0 {
			empty = 0
		}
	}
	return found, nil
}

func (s *jetStream) KillNode(i int)     { s.nodes[i].Kill() }
func (s *jetStream) KillShared()        {}
func (s *jetStream) StartShared() error { return nil }

func (s *jetStream) HasRecords(path string) bool {
	return strings.HasSuffix(path, ".blk") && strings.Contains(path, "/streams/"+streamName+"/")
}

func (s *jetStream) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	stream, err := s.js.Stream(ctx, streamName)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	if info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != len(s.disks)-1 {
		return fmt.Errorf("the stream has no leader, or lacks replicas: %+v", info.Cluster)
	}
	for _, r := range info.Cluster.Replicas {
		if !r.Current || r.Offline {
			return fmt.Errorf("replica %s is not current", r.Name)
		}
	}
	return nil
}

func (s *jetStream) Stop() {
	if s.conn != nil {
		s.conn.Close()
	}
	for _, n := range s.nodes {
		n.Kill()
	}
}

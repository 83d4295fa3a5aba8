package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/bench/sample"
)

var clusterDemoCommand = command{
	Name:    "demo-cluster",
	Summary: "run a cluster of six nodes under load, break it, and show what clients saw",
	Details: `Starts etcd and six counterd on free ports of this machine, makes a cluster of two shards of them, loads real
posts, and puts load on it. Meanwhile a primary is killed, a group of posts is moved, and a third shard is
added. Then it compares what was acknowledged with what is there, to the last increment, and ends.`,
	Setup: func(flags *pflag.FlagSet) action {
		var opts clusterDemoOptions
		flags.StringVar(&opts.counterd, "counterd", "counterd", "`path` of the counterd program")
		flags.StringVar(&opts.counterctl, "counterctl", "counterctl", "`path` of the counterctl program")
		flags.StringVar(&opts.etcd, "etcd", "etcd", "`path` of the etcd program")
		flags.IntVar(&opts.posts, "posts", 50_000, "how many posts of the sample are loaded")
		flags.DurationVar(&opts.pause, "pause", 2*time.Second, "time between one event and the next")
		return func(ctx context.Context, out output, args []string) error {
			if len(args) != 0 {
				return misuse("takes no arguments, only flags")
			}
			return clusterDemo(ctx, out, opts)
		}
	},
}

type clusterDemoOptions struct {
	counterd, counterctl, etcd string
	posts                      int
	pause                      time.Duration
}

const (
	demoNodes   = 6
	demoCluster = "demo"
)

// clusterDemoRun is a demo that runs. Everything it started ends with it.
type clusterDemoRun struct {
	opts  clusterDemoOptions
	out   io.Writer
	temp  string
	began time.Time
	etcd  *process
	nodes [demoNodes]*demoNode
}

// demoNode is one of the nodes, and how it is started.
type demoNode struct {
	*child
	dir     string
	args    []string
	port    int
	forward string // address for clients that know of no cluster
}

func clusterDemo(ctx context.Context, out output, opts clusterDemoOptions) (err error) {
	if _, err := exec.LookPath(opts.etcd); err != nil {
		return fmt.Errorf("%w: a cluster needs etcd (Debian and Ubuntu: apt-get install etcd-server), or --etcd PATH", err)
	}
	d := &clusterDemoRun{opts: opts, out: out.Stdout, began: time.Now()}
	if d.temp, err = os.MkdirTemp("", "counterd-demo-cluster-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.temp)
	defer d.stop()
	if err := d.start(ctx); err != nil {
		return err
	}
	// go-redis would try five times to reach a node that is gone, and write so to standard error each time.
	redis.SetLogger(quiet{})
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: d.addresses(), DialerRetries: 1})
	defer rdb.Close()
	posts, err := d.load(ctx, rdb)
	if err != nil {
		return err
	}
	load, err := startClusterLoad(ctx, rdb, d.nodes[demoNodes-1].forward, posts)
	if err != nil {
		return err
	}
	defer load.cancel()
	d.say("load begins: %d writers with the Go client, %d plain clients on the forward port of one node, %d readers of pages of %d posts",
		clusterWriters, clusterPlain, clusterReaders, clusterPage)
	for _, event := range []func(context.Context, *redis.ClusterClient, *clusterLoad) error{d.killPrimary, d.moveGroup, d.addShard} {
		if err := sleep(ctx, opts.pause); err != nil {
			return err
		}
		if err := event(ctx, rdb, load); err != nil {
			return err
		}
	}
	if err := sleep(ctx, opts.pause); err != nil {
		return err
	}
	load.stop()
	d.say("load ends")
	return load.report(ctx, d.out, rdb)
}

func (d *clusterDemoRun) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%6.1f s  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

// start starts etcd and the nodes, and makes a cluster of two shards of four of them.
func (d *clusterDemoRun) start(ctx context.Context) error {
	client, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	peer, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	url, peerURL := fmt.Sprintf("http://127.0.0.1:%d", client), fmt.Sprintf("http://127.0.0.1:%d", peer)
	if d.etcd, err = startProcess(filepath.Join(d.temp, "etcd.log"), d.opts.etcd, "--data-dir", filepath.Join(d.temp, "etcd"),
		"--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peerURL,
		"--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL); err != nil {
		return err
	}
	if err := waitPort(ctx, client); err != nil {
		return fmt.Errorf("%s: %w", d.opts.etcd, err)
	}
	for i := range d.nodes {
		if d.nodes[i], err = d.startNode(ctx, url, i); err != nil {
			return err
		}
	}
	d.say("etcd and %d nodes run on this machine", demoNodes)
	_, err = d.ctl(ctx, append([]string{"cluster", "create", "--shards", "2", "--replicas", "1", "--yes"}, d.addresses()[:4]...)...)
	if err != nil {
		return err
	}
	d.say("a cluster of 2 shards, of a primary and a replica each; 2 nodes are free")
	return nil
}

func (d *clusterDemoRun) startNode(ctx context.Context, etcd string, i int) (*demoNode, error) {
	port, err := freePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	forward, err := freePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	n := &demoNode{dir: filepath.Join(d.temp, fmt.Sprintf("node-%d", i+1)), port: port, forward: net.JoinHostPort("127.0.0.1", strconv.Itoa(forward))}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		return nil, err
	}
	n.args = []string{"--port", strconv.Itoa(port), "--dir", filepath.Join(n.dir, "data"), "--cluster-enabled", "yes", "--cluster-name", demoCluster,
		"--cluster-etcd", etcd, "--cluster-node-timeout", "2000", "--forward-port", strconv.Itoa(forward)}
	n.child, err = startChild(ctx, n.dir, "127.0.0.1", port, d.opts.counterd, n.args...)
	return n, err
}

// ctl runs counterctl, and returns what it printed.
func (d *clusterDemoRun) ctl(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--etcd", d.nodes[0].args[9], "--name", demoCluster)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, d.opts.counterctl, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("counterctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (d *clusterDemoRun) addresses() (list []string) {
	for _, n := range d.nodes {
		if n != nil {
			list = append(list, n.addr)
		}
	}
	return list
}

// stop ends all that was started.
func (d *clusterDemoRun) stop() {
	for _, n := range d.nodes {
		if n != nil && n.child != nil {
			n.stop()
		}
	}
	if d.etcd != nil {
		d.etcd.stop()
	}
}

// load makes the counter and sends the first posts of the sample, one pipeline for each thousand.
func (d *clusterDemoRun) load(ctx context.Context, rdb *redis.ClusterClient) (posts []uint64, err error) {
	began := time.Now()
	for line := range strings.Lines(sample.Script) {
		words := strings.Fields(line)
		args := make([]any, len(words))
		for i, w := range words {
			args[i] = w
		}
		if len(args) > 0 {
			if err := rdb.Do(ctx, args...).Err(); err != nil {
				return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
			}
		}
	}
	file := postFile{name: sample.Name, open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(sample.Reddit)), nil }}
	r, err := file.reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	pipe, row := rdb.Pipeline(), make([]uint64, len(r.Columns()))
	for len(posts) < d.opts.posts {
		mid, err := r.Read(row)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		posts = append(posts, mid)
		fields := make([]any, 0, 2*len(row))
		for i, name := range r.Columns() {
			fields = append(fields, name, row[i])
		}
		pipe.HSet(ctx, fmt.Sprintf("reddit:{%d}", mid), fields...)
		if pipe.Len() == 1000 {
			if _, err := pipe.Exec(ctx); err != nil {
				return nil, err
			}
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	d.say("%s real posts of Reddit loaded by go-redis's cluster client in %s", report.Int(int64(len(posts))), report.Duration(time.Since(began)))
	return posts, nil
}

// quiet is go-redis's log.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// waitPort returns when somebody listens on a port of this machine.
func waitPort(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("nobody listens on port %d within %s", port, startWithin))
	defer cancel()
	for {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
		if err == nil {
			return conn.Close()
		}
		if sleep(ctx, 20*time.Millisecond) != nil {
			return context.Cause(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

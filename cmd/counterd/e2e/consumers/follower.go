package consumers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/counter/client"
)

// Nodes are the servers whose changes are followed.
type Nodes struct {
	Addrs     []string // all nodes
	Writes    []string // where changes are sent: each takes them, or refuses them without an effect
	Cluster   bool
	Sentinels []string // that watch the primary mymaster
	Counter   string
	Safe      int    // a feed gives changes that so many replicas have
	Cursor    string // of the consumer with a file; may be empty
}

// followed is the variable of the environment that makes a test's program a consumer.
const followed = "COUNTERD_TEST_FOLLOWED"

// follower is a program with Client.Feed that appends each change to a file, with its position, and goes on behind the last one.
type follower struct {
	Nodes
	File string
}

// Main runs the tests of a folder, or the program with Client.Feed.
func Main(m *testing.M) {
	text := os.Getenv(followed)
	if text == "" {
		harness.Main(m)
		return
	}
	var f follower
	err := json.Unmarshal([]byte(text), &f)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err = f.follow(ctx); ctx.Err() != nil {
			err = nil
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "follow:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// NewFollower makes a consumer with Client.Feed.
func NewFollower(t testing.TB, nodes *Nodes) *Consumer {
	t.Helper()
	f := follower{Nodes: *nodes, File: filepath.Join(t.TempDir(), "changes.jsonl")}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return newConsumer(t, "client.Feed", &Sink{Read: fileLines(f.File)}, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), followed+"="+string(text))
		return cmd
	})
}

// client connects to the nodes.
func (f *follower) client() redis.UniversalClient {
	switch {
	case f.Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: f.Addrs, DisableIdentity: true})
	case len(f.Sentinels) > 0:
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: f.Sentinels, DisableIdentity: true})
	}
	return redis.NewClient(&redis.Options{Addr: f.Addrs[0], DisableIdentity: true})
}

// follow appends changes until ctx ends.
func (f *follower) follow(ctx context.Context) error {
	out, from, err := f.open()
	if err != nil {
		return err
	}
	defer out.Close()
	rdb := f.client()
	defer rdb.Close()
	posts, err := client.New(rdb, client.Options{Counter: f.Counter})
	if err != nil {
		return err
	}
	for change, err := range posts.Feed(ctx, from, client.FeedSafe(f.Safe)) {
		if err != nil {
			return err
		}
		if _, err := out.Write(line(&change)); err != nil {
			return err
		}
	}
	return nil
}

// open opens the file, cuts a torn line off, and reads the last position.
func (f *follower) open() (out *os.File, position string, err error) {
	if out, err = os.OpenFile(f.File, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return nil, "", err
	}
	position, whole := client.FeedOldest, int64(0)
	var last []byte
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			break
		}
		whole += int64(len(line))
		last = line
	}
	if last != nil {
		var change struct{ Position string }
		if err := json.Unmarshal(bytes.TrimSpace(last), &change); err != nil {
			return nil, "", fmt.Errorf("%q: %w", last, err)
		}
		position = change.Position
	}
	return out, position, out.Truncate(whole)
}

// line is a change as counterctl feed writes it.
func line(c *client.FeedChange) []byte {
	type part struct {
		Kind   string           `json:"kind"`
		Mid    string           `json:"mid"`
		Values map[string]int64 `json:"values"`
	}
	parts := []part{}
	for _, p := range c.Parts {
		values := map[string]int64{}
		for i, name := range p.Columns {
			values[name] = p.Values[i]
		}
		parts = append(parts, part{p.Kind, strconv.FormatUint(p.Mid, 10), values})
	}
	text, _ := json.Marshal(struct { // names and numbers always can be
		Position string `json:"position"`
		Parts    []part `json:"parts"`
	}{c.Position, parts})
	return append(text, '\n')
}

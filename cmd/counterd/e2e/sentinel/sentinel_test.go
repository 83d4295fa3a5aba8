package sentinel

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/testkit/freeport"
)

// TestSentinel lets three stock Sentinels watch a primary with two replicas: they find the replicas, fail over when the
// primary is killed, and make the old primary a replica when it returns. A go-redis client that asks Sentinel goes on,
// and no increment that WAIT 1 acknowledged is lost.
func TestSentinel(t *testing.T) {
	path, ok := harness.Tool(t, "redis-sentinel")
	if !ok {
		return
	}
	t.Parallel() // it waits most of the time
	ports := []int{freeport.Take(t), freeport.Take(t), freeport.Take(t)}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	schema := filepath.Join(t.TempDir(), "schema")
	if err := os.WriteFile(schema, []byte("add counter weibo\nadd column weibo n hint=16 max=63 suffix=n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	primary := harness.StartAt(t, ports[0], dirs[0], "--schema", schema)
	follow := fmt.Sprintf("127.0.0.1 %d", ports[0])
	nodes := []*harness.Server{primary, harness.StartAt(t, ports[1], dirs[1], "--replicaof", follow), harness.StartAt(t, ports[2], dirs[2], "--replicaof", follow)}
	sentinels, logs := harness.StartSentinels(t, path, ports[0])
	for _, log := range logs {
		harness.Eventually(t, time.Minute, "each Sentinel knows both replicas and both fellows", func() bool {
			return strings.Count(log.String(), "+slave ") == 2 && strings.Count(log.String(), "+sentinel ") == 2
		})
	}

	ctx := context.Background()
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: sentinels, MaxRetries: -1,
		DialTimeout: time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: time.Second, PoolSize: 4})
	defer client.Close()
	safe, tried := int64(0), int64(0) // increments that WAIT 1 acknowledged; and that were sent
	add := func() error {
		tried++
		conn := client.Conn() // WAIT is about what this connection wrote
		defer conn.Close()
		if err := conn.Incr(ctx, "1.n").Err(); err != nil {
			return err
		}
		n, err := conn.Wait(ctx, 1, time.Second).Result()
		if err == nil && n >= 1 {
			safe++
		}
		return err
	}
	adds := func(n int) { // a busy machine may keep a reply for longer than the client waits
		harness.Eventually(t, time.Minute, fmt.Sprint(n, " changes"), func() bool {
			for ; n > 0; n-- {
				if add() != nil {
					return false
				}
			}
			return true
		})
	}
	adds(200)
	// Sentinel elects a replica only when it has heard of its link; two of its rounds of INFO are enough.
	harness.Eventually(t, time.Minute, "links are up", func() bool {
		return harness.ReplicationField(nodes[1], "master_link_status") == "up" && harness.ReplicationField(nodes[2], "master_link_status") == "up"
	})
	began := time.Now()
	primary.Kill()
	harness.Eventually(t, time.Minute, "a replica is promoted and the client goes on", func() bool { return add() == nil })
	t.Logf("the client wrote again %v after the kill", time.Since(began).Round(time.Millisecond))
	var leader, other *harness.Server
	for _, n := range nodes[1:] {
		if harness.ReplicationField(n, "role") == "master" {
			leader = n
		} else {
			other = n
		}
	}
	if leader == nil || other == nil {
		t.Fatal("want one primary and one replica")
	}
	harness.Eventually(t, time.Minute, "the other replica follows the new primary", func() bool {
		return harness.ReplicationField(other, "master_port") == strconv.Itoa(leader.Port) && harness.ReplicationField(other, "master_link_status") == "up"
	})

	old := harness.StartAt(t, ports[0], dirs[0], "--schema", schema)
	lone, err := harness.DialTimeout("tcp", old.Addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer lone.Close()
	if v, err := lone.TryDo("INCR", "1.n"); err != nil || !strings.HasPrefix(v.Raw, "-READONLY ") {
		t.Errorf("an old primary that returns answers INCR by %q %v, want READONLY", v.Raw, err)
	}
	harness.Eventually(t, time.Minute, "the old primary is a replica of the new one", func() bool {
		return harness.ReplicationField(old, "role") == "slave" && harness.ReplicationField(old, "master_port") == strconv.Itoa(leader.Port) && harness.ReplicationField(old, "master_link_status") == "up"
	})
	adds(50)
	value, err := client.Get(ctx, "1.n").Int64()
	if err != nil || value < safe || value > tried {
		t.Fatalf("got %d %v, want %d..%d", value, err, safe, tried)
	}
	digest := func(s *harness.Server) string {
		c, err := harness.DialTimeout("tcp", s.Addr, time.Second)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		v, _ := c.TryDo("COUNTER.DIGEST")
		return v.Raw
	}
	harness.Eventually(t, time.Minute, "all nodes have the same items", func() bool {
		return digest(leader) == digest(other) && digest(leader) == digest(old)
	})
}

// TestWatchReplica lets redis-cli --replica print the stream of changes.
func TestWatchReplica(t *testing.T) {
	path, ok := harness.Tool(t, "redis-cli")
	if !ok {
		return
	}
	s := harness.Start(t)
	c := s.Dial(t)
	for _, command := range []string{"ADD COUNTER weibo", "ADD COLUMN weibo n hint=8 max=32 suffix=n"} {
		if v, err := c.TryDo(strings.Fields(command)...); err != nil || v.Raw != "+OK\r\n" {
			t.Fatalf("%s: %q %v", command, v.Raw, err)
		}
	}
	out := new(harness.LogBuffer)
	cli := exec.Command(path, "-p", strconv.Itoa(s.Port), "--replica")
	cli.Stdout, cli.Stderr = out, out
	cli.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cli.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cli.Process.Kill()
		_ = cli.Wait()
	}()
	harness.Eventually(t, time.Minute, "redis-cli is connected", func() bool { return strings.Contains(out.String(), "SYNC done") })
	harness.Eventually(t, time.Minute, "its REPLCONF ACK", func() bool { return strings.Contains(out.String(), "ACK") })
	if v, err := c.TryDo("INCRBY", "7.n", "41"); err != nil || v.Raw != ":41\r\n" {
		t.Fatalf("%q %v", v.Raw, err)
	}
	harness.Eventually(t, time.Minute, "redis-cli prints the change", func() bool { return strings.Contains(out.String(), `"SET","7.n","41"`) })
}

package e2e

import (
	"context"
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

	"github.com/redis/go-redis/v9"
)

// startAt runs counterd on a port and in a directory that outlive it.
func startAt(t testing.TB, port int, dir string, args ...string) *server {
	t.Helper()
	noteSources()
	return launchAt(t, "counterd", counterdPath, port, dir, args)
}

// launchAt is startAt for any server.
func launchAt(t testing.TB, name, path string, port int, dir string, args []string) *server {
	t.Helper()
	s := &server{t: t, name: name, log: new(logBuffer), dir: dir, port: port, exited: make(chan struct{})}
	s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.cmd = exec.Command(path, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.exitErr = s.cmd.Wait()
		close(s.exited)
	}()
	if !s.awaitPing() {
		s.kill()
		t.Fatalf("%s did not answer PING\n%s", name, s.log)
	}
	t.Cleanup(s.cleanup)
	return s
}

// startSentinels runs three redis-sentinels that watch a primary. At a down-after of 1 s a second failover followed the
// first now and then, and did so with redis-server too: Sentinel connects to a node once a second at most, so the new
// primary's first PING may be answered more than 1 s after it was named, which one Sentinel takes for +sdown; and as
// what the others said of the old primary counts for 5 s more, that makes +odown. Hence 3 s. It returns their addresses
// and logs.
func startSentinels(t testing.TB, path string, primary int, settings ...string) (addrs []string, logs []*logBuffer) {
	t.Helper()
	for range 3 {
		port, dir := freePort(t), t.TempDir()
		conf := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor mymaster 127.0.0.1 %d 2\nsentinel down-after-milliseconds mymaster 3000\nsentinel failover-timeout mymaster 10000\n",
			port, dir, primary) + strings.Join(settings, "\n") + "\n"
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log := new(logBuffer)
		cmd := exec.Command(path, conf)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("sentinel on port %d:\n%s", port, log)
			}
		})
		addrs, logs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))), append(logs, log)
	}
	return addrs, logs
}

// replicationField returns a line of INFO replication.
func replicationField(s *server, name string) string {
	c, err := dialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.close()
	v, err := c.tryDo("INFO", "replication")
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(v.Raw, "\r\n") {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return rest
		}
	}
	return ""
}

func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// TestSentinel lets three stock Sentinels watch a primary with two replicas: they find the replicas, fail over when the
// primary is killed, and make the old primary a replica when it returns. A go-redis client that asks Sentinel goes on,
// and no increment that WAIT 1 acknowledged is lost.
func TestSentinel(t *testing.T) {
	path, ok := tool(t, "redis-sentinel")
	if !ok {
		return
	}
	t.Parallel() // it waits most of the time
	ports := []int{freePort(t), freePort(t), freePort(t)}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	schema := filepath.Join(t.TempDir(), "schema")
	if err := os.WriteFile(schema, []byte("add counter weibo\nadd column weibo n hint=16 max=63 suffix=n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	primary := startAt(t, ports[0], dirs[0], "--schema", schema)
	follow := fmt.Sprintf("127.0.0.1 %d", ports[0])
	nodes := []*server{primary, startAt(t, ports[1], dirs[1], "--replicaof", follow), startAt(t, ports[2], dirs[2], "--replicaof", follow)}
	sentinels, logs := startSentinels(t, path, ports[0])
	for _, log := range logs {
		eventually(t, 30*time.Second, "each Sentinel knows both replicas and both fellows", func() bool {
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
	for range 200 {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	// Sentinel elects a replica only when it has heard of its link; two of its rounds of INFO are enough.
	eventually(t, 30*time.Second, "links are up", func() bool {
		return replicationField(nodes[1], "master_link_status") == "up" && replicationField(nodes[2], "master_link_status") == "up"
	})
	began := time.Now()
	primary.kill()
	eventually(t, 60*time.Second, "a replica is promoted and the client goes on", func() bool { return add() == nil })
	t.Logf("the client wrote again %v after the kill", time.Since(began).Round(time.Millisecond))
	var leader, other *server
	for _, n := range nodes[1:] {
		if replicationField(n, "role") == "master" {
			leader = n
		} else {
			other = n
		}
	}
	if leader == nil || other == nil {
		t.Fatal("want one primary and one replica")
	}
	eventually(t, 60*time.Second, "the other replica follows the new primary", func() bool {
		return replicationField(other, "master_port") == strconv.Itoa(leader.port) && replicationField(other, "master_link_status") == "up"
	})

	old := startAt(t, ports[0], dirs[0], "--schema", schema)
	lone, err := dialTimeout("tcp", old.addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer lone.close()
	if v, err := lone.tryDo("INCR", "1.n"); err != nil || !strings.HasPrefix(v.Raw, "-READONLY ") {
		t.Errorf("an old primary that returns answers INCR by %q %v, want READONLY", v.Raw, err)
	}
	eventually(t, 60*time.Second, "the old primary is a replica of the new one", func() bool {
		return replicationField(old, "role") == "slave" && replicationField(old, "master_port") == strconv.Itoa(leader.port) && replicationField(old, "master_link_status") == "up"
	})
	for range 50 {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	value, err := client.Get(ctx, "1.n").Int64()
	if err != nil || value < safe || value > tried {
		t.Fatalf("got %d %v, want %d..%d", value, err, safe, tried)
	}
	digest := func(s *server) string {
		c, err := dialTimeout("tcp", s.addr, time.Second)
		if err != nil {
			return err.Error()
		}
		defer c.close()
		v, _ := c.tryDo("COUNTER.DIGEST")
		return v.Raw
	}
	eventually(t, 10*time.Second, "all nodes have the same items", func() bool {
		return digest(leader) == digest(other) && digest(leader) == digest(old)
	})
}

// TestWatchReplica lets redis-cli --replica print the stream of changes.
func TestWatchReplica(t *testing.T) {
	path, ok := tool(t, "redis-cli")
	if !ok {
		return
	}
	s := start(t)
	c := s.dial(t)
	for _, command := range []string{"ADD COUNTER weibo", "ADD COLUMN weibo n hint=8 max=32 suffix=n"} {
		if v, err := c.tryDo(strings.Fields(command)...); err != nil || v.Raw != "+OK\r\n" {
			t.Fatalf("%s: %q %v", command, v.Raw, err)
		}
	}
	out := new(logBuffer)
	cli := exec.Command(path, "-p", strconv.Itoa(s.port), "--replica")
	cli.Stdout, cli.Stderr = out, out
	cli.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cli.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cli.Process.Kill()
		_ = cli.Wait()
	}()
	eventually(t, 10*time.Second, "redis-cli is connected", func() bool { return strings.Contains(out.String(), "SYNC done") })
	eventually(t, 10*time.Second, "its REPLCONF ACK", func() bool { return strings.Contains(out.String(), "ACK") })
	if v, err := c.tryDo("INCRBY", "7.n", "41"); err != nil || v.Raw != ":41\r\n" {
		t.Fatalf("%q %v", v.Raw, err)
	}
	eventually(t, 10*time.Second, "redis-cli prints the change", func() bool { return strings.Contains(out.String(), `"SET","7.n","41"`) })
}

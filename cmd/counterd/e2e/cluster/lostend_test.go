package cluster

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// synced is the part of a log that a disk has.
type synced struct {
	offset uint64
	claim  []byte // the file DURABLE
}

// synced waits until the disk has all of a node's log.
func (p *process) synced() synced {
	p.c.t.Helper()
	harness.AwaitClaim(p.c.t, p.Addr, p.dir)
	claim, err := os.ReadFile(format.ClaimPath(p.dir))
	if err != nil {
		p.c.t.Fatal(err)
	}
	return synced{p.written(), claim}
}

// written is the offset at which the node's log ends.
func (p *process) written() uint64 {
	p.c.t.Helper()
	n, err := strconv.ParseUint(harness.ReplicationField(p.Server, "master_repl_offset"), 10, 64)
	if err != nil {
		p.c.t.Fatal(err)
	}
	return n
}

// losePower takes the log of a node that was killed back to the part that the disk had, as a loss of power does.
func (p *process) losePower(to synced) {
	t := p.c.t
	t.Helper()
	for _, path := range harness.Segments(t, p.dir) {
		start, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".aof"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if start > to.offset {
			err = os.Remove(path)
		} else if info, serr := os.Stat(path); serr == nil { // the file was made in its full size
			keep := int64(format.SegmentHeaderLen + to.offset - start)
			err = errors.Join(os.Truncate(path, min(keep, info.Size())), os.Truncate(path, info.Size()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	boot := []byte("counterd boot 1\nid of another start of the machine\ndurable false\nbehind false\n")
	boot = fmt.Appendf(boot, "end crc32c %08x\n", crc32.Checksum(boot, crc32.MakeTable(crc32.Castagnoli)))
	for name, text := range map[string][]byte{"BOOT": boot, format.ClaimName: to.claim} {
		if err := os.WriteFile(filepath.Join(p.dir, name), text, 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClusterLostEnd: of three nodes of a shard, one is away. The machine of the primary loses power, and with it acknowledged changes, and all
// manifests of the other node in sync are damaged, whose HISTORY says that its log needs a snapshot. Without a person, the primary gets the
// changes from the log of the damaged node and leads, and the damaged node copies the data. No change is lost.
func TestClusterLostEnd(t *testing.T) {
	t.Parallel()
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 1, replicas: 2, timeout: 2 * time.Second, fsync: "everysec", args: []string{"--aof-retain", "0"}})
	if !ok {
		return
	}
	c.fill(1000)
	m, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	primary, replicas := c.primary(m, m.Shards[0]), c.replicas(m, m.Shards[0])
	damaged, away := replicas[0], replicas[1]
	node := damaged.Dial(t)
	node.Save()
	c.killed(away)
	conn := primary.Dial(t)
	counts := map[string]int{}
	incr := func(posts, times int) {
		t.Helper()
		for i := range posts * times {
			key := nKey(9<<56 + uint64(i%posts))
			counts[key]++
			got := ""
			harness.Eventually(t, time.Minute, "a change is made", func() bool { // a disk that needs seconds for a sync refuses it
				got = conn.Do("INCR", key).Raw
				return !strings.HasPrefix(got, "-MISCONF")
			})
			if want := fmt.Sprintf(":%d\r\n", counts[key]); got != want {
				t.Fatalf("INCR %s: %q, want %q", key, got, want)
			}
		}
	}
	incr(50, 1)
	harness.Eventually(t, time.Minute, "two nodes are in sync", func() bool {
		m, err := c.load()
		return err == nil && len(m.Shards[0].InSync) == 2
	})
	node.Save()
	disk := primary.synced()
	incr(100, 5)
	conn.Close()
	node.Close()
	end := primary.written()
	c.killed(primary, damaged)
	primary.losePower(disk)
	manifests, _ := filepath.Glob(filepath.Join(damaged.dir, "MANIFEST-*"))
	for _, path := range manifests {
		harness.Patch(t, path, 100, func(b []byte) { b[0] ^= 1 }, 1)
	}
	past, err := logfile.ReadLineage(vfs.OS(), damaged.dir)
	if err != nil || len(past.Terms) == 0 {
		t.Fatalf("%+v, %v", past, err)
	}
	past.NeedsSnapshot = true
	if err := logfile.WriteLineage(vfs.OS(), damaged.dir, &past); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{damaged, away, primary} {
		if err := p.launch(); err != nil {
			t.Fatal(err)
		}
	}
	c.healthy(time.Minute)
	if primary.written() < end || !strings.Contains(primary.Log.String(), "this node has all acknowledged changes again, from the log of a node that cannot open its data") {
		t.Errorf("the primary's log ended at %d, at %d behind the loss of power, and ends at %d now", end, disk.offset, primary.written())
	}
	if damaged.sets() == 0 {
		t.Error("the damaged node copied nothing")
	}
	now, err := c.load()
	if err != nil || c.primary(now, now.Shards[0]) != primary {
		t.Fatalf("another node leads, %v", err)
	}
	conn = primary.Dial(t)
	for key, n := range counts {
		conn.Want(harness.BulkOf(strconv.Itoa(n)), "GET", key)
	}
	if err := c.alike(time.Minute); err != nil {
		t.Error(err)
	}
}

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestFeedBehindCopyCluster damages a replica so that it takes a full copy, and kills the primary as soon as the replica is in sync: counterctl feed
// goes on at the new primary from its position, and has each change once. The log before the snapshot is kept for the cursor alone.
func TestFeedBehindCopyCluster(t *testing.T) {
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 1, replicas: 1, timeout: 2 * time.Second, fsync: "always", args: []string{"--aof-retain", "0"}})
	if !ok {
		return
	}
	rdb := c.client()
	defer rdb.Close()
	sink := filepath.Join(t.TempDir(), "changes.jsonl")
	follow := func(p *process) {
		t.Helper()
		harness.WantCtl(t, 0, []string{"feed", p.Addr, "--from", "OLDEST", "--to", sink, "--cursor", "search", "--until-caught-up"}, "it has everything up to the position")
	}
	made := 0
	more := func() {
		t.Helper()
		for range 300 {
			made++
			if n, err := rdb.Incr(t.Context(), nKey(1)).Result(); err != nil || n != int64(made) {
				t.Fatalf("INCR %d: %d, %v", made, n, err)
			}
		}
	}
	m, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	primary, replica := c.primary(m, m.Shards[0]), c.replicas(m, m.Shards[0])[0]
	more()
	follow(primary)
	more()
	harness.AwaitClaim(t, replica.Addr, replica.dir)
	replica.Kill()
	harness.Eventually(t, time.Minute, "the primary goes on alone", func() bool {
		m, err := c.load()
		return err == nil && len(m.Shards[0].InSync) == 1
	})
	more()
	for range 2 {
		if v := harness.Ask(primary.Addr, "SAVE"); v != "+OK\r\n" {
			t.Fatalf("SAVE: %q", v)
		}
	}
	replica.damage(func([]byte) []byte { return []byte{} }, "HISTORY", "HISTORY.copy")
	c.start(replica)
	c.healthy(2 * time.Minute)
	if !strings.Contains(replica.Log.String(), "full copy complete") {
		t.Error("the replica has taken no full copy")
	}
	primary.Kill()
	harness.Eventually(t, time.Minute, "the replica leads", func() bool {
		now, err := c.load()
		return err == nil && c.primary(now, now.Shards[0]) == replica && harness.Ask(replica.Addr, "GET", nKey(1)) != ""
	})
	harness.Eventually(t, time.Minute, "the replica takes changes", func() bool {
		n, err := rdb.Get(t.Context(), nKey(1)).Int()
		return err == nil && n == made && strings.HasPrefix(harness.Ask(replica.Addr, "SET", nKey(2), "1"), "+OK")
	})
	follow(replica)
	text, err := os.ReadFile(sink)
	if err != nil {
		t.Fatal(err)
	}
	values := regexp.MustCompile(`"mid":"1","values":\{"repost":(\d+)\}`).FindAllSubmatch(text, -1)
	for i, v := range values {
		if string(v[1]) != fmt.Sprint(i+1) {
			t.Fatalf("change %d has the value %s", i+1, v[1])
		}
	}
	if len(values) != made {
		t.Errorf("%d changes in the sink, %d were made", len(values), made)
	}
}

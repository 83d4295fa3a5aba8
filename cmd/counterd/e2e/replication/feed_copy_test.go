package replication

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestFeedBehindCopy replaces the replica of a primary, which is killed as soon as the new one has its full copy: counterctl feed goes on there from
// its position, and has each change once. The log between the cursor and the snapshot is kept for the cursor alone.
func TestFeedBehindCopy(t *testing.T) {
	primary := harness.Start(t, "--appendfsync", "always", "--aof-retain", "0")
	c := primary.Dial(t)
	harness.RunScript(t, c, harness.PlainScript)
	sink := filepath.Join(t.TempDir(), "changes.jsonl")
	follow := func(s *harness.Server) {
		t.Helper()
		harness.WantCtl(t, 0, []string{"feed", s.Addr, "--to", sink, "--cursor", "search", "--until-caught-up"}, "it has everything up to the position")
	}
	made := 0
	more := func() {
		t.Helper()
		for range 500 {
			made++
			if v := c.Do("INCR", "n:1"); v.Raw != fmt.Sprintf(":%d\r\n", made) {
				t.Fatalf("INCR %d: %q", made, v.Raw)
			}
		}
	}
	c.Do("COUNTER.CURSOR", "SET", "search", c.Do("COUNTER.FEED", "FROM", "NOW").List[0].Text)
	more()
	follow(primary)
	more()
	for range 2 {
		if v := c.Do("SAVE"); v.Raw != "+OK\r\n" {
			t.Fatalf("SAVE: %q", v.Raw)
		}
	}
	more()
	replica := harness.Start(t, "--appendfsync", "always", "--aof-retain", "0", "--replicaof", fmt.Sprintf("127.0.0.1 %d", primary.Port))
	harness.Eventually(t, time.Minute, "the copy", func() bool {
		return harness.ReplicationField(replica, "slave_repl_offset") == harness.ReplicationField(primary, "master_repl_offset")
	})
	primary.Kill()
	c = replica.Dial(t)
	if v := c.Do("REPLICAOF", "NO", "ONE"); v.Raw != "+OK\r\n" {
		t.Fatalf("REPLICAOF NO ONE: %q", v.Raw)
	}
	more()
	follow(replica)
	text, err := os.ReadFile(sink)
	if err != nil {
		t.Fatal(err)
	}
	values := regexp.MustCompile(`"values":\{"v":(\d+)\}`).FindAllSubmatch(text, -1)
	for i, v := range values {
		if string(v[1]) != fmt.Sprint(i+1) {
			t.Fatalf("change %d has the value %s", i+1, v[1])
		}
	}
	if len(values) != made {
		t.Errorf("%d changes in the sink, %d were made", len(values), made)
	}
}

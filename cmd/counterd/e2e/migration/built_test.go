package migration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestBuilt: a directory of counterctl build is one as any other: it is served, copied by a replica, changed in files
// and in memory, backed up and restored.
func TestBuilt(t *testing.T) {
	t.Parallel()
	const posts, first = 40_000, 3_000_000_000_000_000
	var text strings.Builder
	text.WriteString("cntrn\tmid\tcntan\n")
	for i := range posts {
		fmt.Fprintf(&text, "%d\t%d\t%d\n", i%7, first+i*4000, i%500/499*70_000)
	}
	work := t.TempDir()
	in, sch, dir := filepath.Join(work, "posts.tsv"), filepath.Join(work, "schema"), filepath.Join(work, "data")
	for path, text := range map[string]string{in: text.String(), sch: harness.SchemaScript} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	harness.WantCtl(t, 0, []string{"build", "--schema", sch, "--out", dir, "--hot", "0", "--file-posts", "8000", in}, "40000 of counter weibo", "32000 posts in 4 files")
	a := harness.StartIn(t, dir)
	c := a.Dial(t)
	c.Want(":40000\r\n", "DBSIZE")
	old := fmt.Sprint(first + 499*4000)
	c.Want("*1\r\n*3\r\n:0\r\n:2\r\n:70000\r\n", "COUNTER.MGET", "weibo", old)
	b := harness.Start(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", a.Port))
	c.Want(":3\r\n", "INCR", old+".cntrn")
	c.Want("+OK\r\n", "COUNTER.PROMOTE", "weibo", fmt.Sprint(first+9000*4000))
	c.Want(":1\r\n", "DEL", fmt.Sprint(first+9000*4000))
	c.Want(":1\r\n", "INCR", fmt.Sprint(first+posts*4000)+".cntrn")
	c.Want("+OK\r\n", "COUNTER.DEMOTE", "weibo", old)
	c.Save()
	harness.Eventually(t, 60*time.Second, "the replica has the log", func() bool {
		return harness.ReplicationField(b, "master_link_status") == "up" && harness.ReplicationField(b, "slave_repl_offset") == harness.ReplicationField(a, "master_repl_offset")
	})
	digest := c.Do("COUNTER.DIGEST").Raw
	if got := b.Dial(t).Do("COUNTER.DIGEST").Raw; got != digest {
		t.Errorf("the replica's digest is %q, want %q", got, digest)
	}
	harness.WantCtl(t, 0, []string{"backup", dir, filepath.Join(work, "backups")})
	a.Kill()
	harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	out := filepath.Join(work, "restored")
	harness.WantCtl(t, 0, []string{"restore", filepath.Join(work, "backups"), "--out", out})
	for _, dir := range []string{dir, out} {
		if got := harness.StartIn(t, dir).Dial(t).Do("COUNTER.DIGEST").Raw; got != digest {
			t.Errorf("%s: the digest is %q, want %q", dir, got, digest)
		}
	}
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	for path, text := range map[string]string{in: text.String(), sch: schemaScript} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wantCtl(t, 0, []string{"build", "--schema", sch, "--out", dir, "--hot", "0", "--file-posts", "8000", in}, "40000 of counter weibo", "32000 posts in 4 files")
	a := startIn(t, dir)
	c := a.dial(t)
	c.want(":40000\r\n", "DBSIZE")
	old := fmt.Sprint(first + 499*4000)
	c.want("*1\r\n*3\r\n:0\r\n:2\r\n:70000\r\n", "COUNTER.MGET", "weibo", old)
	b := start(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", a.port))
	c.want(":3\r\n", "INCR", old+".cntrn")
	c.want("+OK\r\n", "COUNTER.PROMOTE", "weibo", fmt.Sprint(first+9000*4000))
	c.want(":1\r\n", "DEL", fmt.Sprint(first+9000*4000))
	c.want(":1\r\n", "INCR", fmt.Sprint(first+posts*4000)+".cntrn")
	c.want("+OK\r\n", "COUNTER.DEMOTE", "weibo", old)
	c.want("+OK\r\n", "SAVE")
	eventually(t, 60*time.Second, "the replica has the log", func() bool {
		return replicationField(b, "master_link_status") == "up" && replicationField(b, "slave_repl_offset") == replicationField(a, "master_repl_offset")
	})
	digest := c.do("COUNTER.DIGEST").Raw
	if got := b.dial(t).do("COUNTER.DIGEST").Raw; got != digest {
		t.Errorf("the replica's digest is %q, want %q", got, digest)
	}
	wantCtl(t, 0, []string{"backup", dir, filepath.Join(work, "backups")})
	a.kill()
	wantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	out := filepath.Join(work, "restored")
	wantCtl(t, 0, []string{"restore", filepath.Join(work, "backups"), "--out", out})
	for _, dir := range []string{dir, out} {
		if got := startIn(t, dir).dial(t).do("COUNTER.DIGEST").Raw; got != digest {
			t.Errorf("%s: the digest is %q, want %q", dir, got, digest)
		}
	}
}

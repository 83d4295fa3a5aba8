// Scenario: an import, a backup and its restore beside derived columns, and the top list of one.

package migration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestWindowTools: an import that sets values counts nothing in a window, or in a sum that decays, and takes nothing from them, and an import with --add counts its
// additions. A restored backup has the windows and sums of the node, from a snapshot and from the log behind it.
func TestWindowTools(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	for name, text := range map[string]string{"schema": harness.SchemaScript, "set.tsv": "mid\trepost\n7\t100\n8\t200\n", "added.tsv": "mid\trepost\n8\t30\n9\t4\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := harness.StartIn(t, path("data"), "--appendfsync", "always", "--schema", path("schema"))
	c := s.Dial(t)
	defer c.Close()
	windows := func(c *harness.Conn, want string) {
		t.Helper()
		c.Want(want, "COUNTER.MGET", "weibo", "7", "8", "9", "COLUMNS", "repost", "recent")
	}
	c.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "recent", "window=360d/6d", "of=repost")
	c.Want("+OK\r\n", "ADD", "COLUMN", "weibo", "heat", "decay=366d", "of=repost*2", "top=2")
	hot := func(c *harness.Conn, want string) {
		t.Helper()
		c.Want(want, "COUNTER.TOP", "weibo", "heat", "2")
	}
	c.Want(":5\r\n", "INCRBY", "7.cntrn", "5")
	harness.WantCtl(t, 0, []string{"import", path("set.tsv"), "--to", s.Addr}, "verified")
	windows(c, "*3\r\n*2\r\n:100\r\n:5\r\n*2\r\n:200\r\n:0\r\n*-1\r\n")
	hot(c, "*2\r\n*2\r\n:7\r\n:10\r\n*2\r\n:8\r\n:0\r\n")
	harness.WantCtl(t, 0, []string{"import", path("added.tsv"), "--to", s.Addr, "--add", "--resume", path("journal")}, "verified")
	c.Want("+OK\r\n", "SAVE")
	c.Want(":6\r\n", "INCRBY", "9.cntrn", "2")
	const of = "*3\r\n*2\r\n:100\r\n:5\r\n*2\r\n:230\r\n:30\r\n*2\r\n:6\r\n:6\r\n"
	const best = "*2\r\n*2\r\n:8\r\n:60\r\n*2\r\n:9\r\n:12\r\n"
	windows(c, of)
	hot(c, best)
	harness.WantCtl(t, 0, []string{"backup", path("data"), path("backups")})
	c.Want(":7\r\n", "INCRBY", "9.cntrn", "1")
	harness.WantCtl(t, 0, []string{"restore", path("backups"), "--out", path("restored")})
	r := harness.StartIn(t, path("restored"))
	restored := r.Dial(t)
	defer restored.Close()
	windows(restored, of)
	hot(restored, best)
}

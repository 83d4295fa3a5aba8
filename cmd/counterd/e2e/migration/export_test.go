package migration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// exported runs counterctl export on a running node, which must call what it wrote verified, and returns the file.
func exported(t *testing.T, s *harness.Server, name string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	harness.WantCtl(t, 0, append([]string{"export", s.Addr, "--out", path}, args...), ", verified, to "+path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExportNode exports the posts of a running node over several pages, and reads them back: as a table, into another
// counterd, and into SQLite where it is installed.
func TestExportNode(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	if _, ok := harness.Tool(t, "redis-cli"); !ok {
		return
	}
	s.Cli(t, harness.SchemaScript+"add counter other\nadd column other limit hint=8 max=63 suffix=o\nincr other:5.o\n")
	const posts = 25_000 // two pages and a half
	want := strings.Builder{}
	c := s.Dial(t)
	err := harness.Bulk(c, posts, func(dst []byte, i int) []byte {
		mid, v := 1000+7*i, i%400
		fmt.Fprintf(&want, "%d\t%d\t%d\t%d\n", mid, v, i, 0)
		return fmt.Appendf(dst, "HSET %d comment %d repost %d\r\n", mid, v, i)
	}, func(i int, reply []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := exported(t, s, "weibo.tsv", "weibo"); got != "mid\tcomment\trepost\tattitude\n"+want.String() {
		t.Errorf("exported %d bytes, want %d: %.100s", len(got), want.Len()+30, got)
	}
	if got := exported(t, s, "some.csv", "weibo", "MID", "<", "2000", "WHERE", "repost", ">=", "140", "--columns", "cntrn"); got != "mid,repost\r\n1980,140\r\n1987,141\r\n1994,142\r\n" {
		t.Errorf("by conditions: %q", got)
	}
	if got := exported(t, s, "limit.tsv", "other"); got != "mid\tlimit\n5\t1\n" {
		t.Errorf("a column called limit: %q", got)
	}
	other := harness.Start(t)
	if told := other.Cli(t, exported(t, s, "all.resp"), "--pipe"); !strings.Contains(told, "errors: 0") {
		t.Error(told)
	}
	harness.WantCtl(t, 0, []string{"diff", s.Addr, "--with", other.Addr}, "no differences")
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Log("left out: sqlite3 is not installed")
		return
	}
	load := exec.Command("sqlite3", "-batch", "-bail", ":memory:", ".read /dev/stdin", "select count(*), sum(comment), sum(repost) from weibo; select * from other")
	load.Stdin = strings.NewReader(exported(t, s, "all.sql"))
	out, err := load.CombinedOutput()
	if err != nil || !bytes.Equal(out, []byte("25000|4967500|312487500\n5|1\n")) {
		t.Errorf("sqlite3: %s, %v", out, err)
	}
}

// Scenario: a feed of a directory that was built, beside an import, and behind a backup and its restore.

package migration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// exportedPosts returns the posts of a file of counterctl export with the one column repost.
func exportedPosts(t testing.TB, path string) posts {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := posts{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		mid, value, _ := strings.Cut(line, "\t")
		if all[mid], err = strconv.ParseInt(value, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// with returns the posts behind the changes of a file of counterctl feed.
func (p posts) with(t testing.TB, path string) posts {
	t.Helper()
	got := posts{}
	for mid, n := range p {
		got[mid] = n
	}
	for _, line := range fileLines(t, path) {
		var change struct {
			Parts []struct {
				Kind, Mid string
				Values    map[string]int64
			}
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil {
			t.Fatal(err)
		}
		for _, part := range change.Parts {
			if part.Kind == "del" {
				delete(got, part.Mid)
			} else {
				got[part.Mid] = part.Values["repost"]
			}
		}
	}
	return got
}

// TestFeedBesideTools: posts that counterctl build made are no changes. An export and the feed behind it make the posts of the node, with
// those that counterctl import adds; and on a restored backup, from the same position, the posts of the backup.
func TestFeedBesideTools(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	built, added := "cntrn\tmid\n", "id\tlikes\n"
	for mid := range 20 {
		built += fmt.Sprintf("%d\t%d\n", mid+1, mid)
		added += fmt.Sprintf("%d\t5\n", mid+10)
	}
	for name, text := range map[string]string{"schema": harness.SchemaScript, "built.tsv": built, "added.tsv": added} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	harness.WantCtl(t, 0, []string{"build", "--schema", path("schema"), "--out", path("data"), path("built.tsv")}, "20 of counter weibo")
	s := harness.StartIn(t, path("data"), "--appendfsync", "always")
	harness.WantCtl(t, 0, []string{"export", s.Addr, "weibo", "--columns", "repost", "--out", path("rows.tsv"), "--position", path("position")}, "weibo: 20 posts")
	rows := exportedPosts(t, path("rows.tsv"))
	if want := fmt.Sprint(stored(t, s)); fmt.Sprint(rows) != want {
		t.Errorf("the export has %v, the node %s", rows, want)
	}
	harness.WantCtl(t, 0, []string{"import", path("added.tsv"), "--to", s.Addr, "--columns", "mid,repost", "--add", "--resume", path("journal")}, "verified")
	of := fmt.Sprint(stored(t, s))
	harness.WantCtl(t, 0, []string{"backup", path("data"), path("backups")})
	s.Dial(t).Want(":3\r\n", "INCRBY", "1.cntrn", "1")
	now := fmt.Sprint(stored(t, s))
	harness.WantCtl(t, 0, []string{"feed", s.Addr, "--from", path("position"), "--to", path("node.jsonl"), "--until-caught-up"}, "it has everything up to the position")
	if got := fmt.Sprint(rows.with(t, path("node.jsonl"))); got != now || now == of {
		t.Errorf("the node: the feed makes %s, want %s", got, now)
	}
	harness.WantCtl(t, 0, []string{"restore", path("backups"), "--out", path("restored")})
	r := harness.StartIn(t, path("restored"), "--appendfsync", "always")
	harness.WantCtl(t, 0, []string{"feed", r.Addr, "--from", path("position"), "--to", path("restored.jsonl"), "--until-caught-up"}, "it has everything up to the position")
	if got := fmt.Sprint(rows.with(t, path("restored.jsonl"))); got != of || fmt.Sprint(stored(t, r)) != of {
		t.Errorf("the restored backup: the feed makes %s, want %s", got, of)
	}
}

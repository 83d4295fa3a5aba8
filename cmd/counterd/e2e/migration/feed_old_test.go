// Scenario: the feed and the tools have the values before each change of a counter with old=on.

package migration

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestFeedWithOld: a real server logs old values, restarts and is killed; counterctl feed writes them, and from them alone come the sums of all posts.
func TestFeedWithOld(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	dir, file := filepath.Join(work, "data"), filepath.Join(work, "changes.jsonl")
	s := harness.StartIn(t, dir, "--appendfsync", "always")
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	if out, status := harness.Counterctl(t, "feed", s.Addr, "--from", "OLDEST", "--with-old", "--to", file, "--until-caught-up"); status == 0 || !strings.Contains(out, "run ALTER COUNTER weibo old=on") {
		t.Errorf("without a counter with old=on: status %d, %s", status, out)
	}
	c.Want(":5\r\n", "INCRBY", "1.cntrn", "5")
	c.Want("+OK\r\n", "ALTER", "COUNTER", "weibo", "old=on")
	c.Want(":7\r\n", "INCRBY", "1.cntrn", "2")
	c.Want(":2\r\n", "HSET", "2", "repost", "4", "comment", "9")
	c.Want("+OK\r\n", "SET", "2.cntrn", "3")
	s.Kill()
	s = harness.StartIn(t, dir, "--appendfsync", "always")
	c = s.Dial(t)
	c.Want("+OK\r\n", "MSET", "1.cntrn", "10", "3.cntrn", "1")
	c.Want(":1\r\n", "DEL", "2")
	c.Want(":8\r\n", "INCRBY", "2.cntrn", "8")
	harness.WantCtl(t, 0, []string{"feed", s.Addr, "--from", "OLDEST", "--with-old", "--to", file, "--until-caught-up"}, "it has everything up to the position")
	sums, unknown := map[string]int64{}, 0
	var olds []string
	for _, line := range fileLines(t, file) {
		var change struct {
			Parts []struct {
				Kind, Mid   string
				Values, Old map[string]int64
			}
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil {
			t.Fatal(err)
		}
		for _, p := range change.Parts {
			switch {
			case p.Kind != "set" && p.Kind != "del":
				continue
			case p.Old == nil:
				unknown++
			default:
				text, _ := json.Marshal(p.Old)
				olds = append(olds, p.Kind+p.Mid+string(text))
			}
			for name, n := range p.Values {
				sums[name] += n
			}
			for name, n := range p.Old {
				sums[name] -= n
			}
		}
	}
	want := `set1{"repost":5} set2{} set2{"repost":4} set1{"repost":7} set3{} del2{"attitude":0,"comment":9,"repost":3} set2{}`
	if got := strings.Join(olds, " "); got != want || unknown != 1 {
		t.Errorf("old values %s, %d changes without, want %s and 1", got, unknown, want)
	}
	if want := map[string]int64{"repost": 19, "comment": 0, "attitude": 0}; !maps.Equal(sums, want) {
		t.Errorf("sums %v, want %v", sums, want)
	}
	s.Stop()
	out := harness.WantCtl(t, 0, []string{"dump", dir})
	for _, line := range []string{"set weibo 1 repost=7 old repost=5", "setitem weibo 2 repost=4 comment=9 old none", "delete weibo 2 old comment=9 repost=3"} {
		if !strings.Contains(out, line) {
			t.Errorf("counterctl dump does not print %q: %s", line, out)
		}
	}
}

// TestFeedLatestTorn: a machine that stops while counterctl feed --latest --with-old writes the changes of a reply leaves some of its lines. The next run cuts them, and all differences
// together are the values. It went on behind the last line, and earlier changes of posts that come later in the reply were in no difference.
func TestFeedLatestTorn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "changes.jsonl")
	s := harness.Start(t, "--appendfsync", "always")
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	c.Want("+OK\r\n", "ALTER", "COUNTER", "weibo", "old=on")
	feed := func() (lines []string) {
		harness.WantCtl(t, 0, []string{"feed", s.Addr, "--from", "OLDEST", "--latest", "--with-old", "--to", file, "--until-caught-up"}, "it has everything up to the position")
		return fileLines(t, file)
	}
	c.Want("+OK\r\n", "MSET", "1.cntrn", "5", "2.cntrn", "5", "3.cntrn", "5")
	before := feed()
	for _, key := range []string{"1.cntrn", "2.cntrn", "3.cntrn", "1.cntrn"} {
		c.Do("INCR", key)
	}
	whole := feed()
	if len(whole) != len(before)+3 {
		t.Fatalf("got %q behind %q, want 3 more lines", whole, before)
	}
	for torn := len(before); torn < len(whole); torn++ {
		if err := os.WriteFile(file, []byte(strings.Join(whole[:torn], "\n")+"\n"+whole[torn][:9]), 0o644); err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, line := range feed() {
			var change struct {
				Parts []struct{ Values, Old map[string]int64 }
			}
			if err := json.Unmarshal([]byte(line), &change); err != nil {
				t.Fatal(err)
			}
			for _, p := range change.Parts {
				sum += p.Values["repost"] - p.Old["repost"]
			}
		}
		if sum != 19 {
			t.Errorf("%d lines of a reply of 3 were written: the differences are %d together, want 19", torn-len(before), sum)
		}
	}
}

package durability

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// startCold starts a server that holds far more posts than its memory is for, with most of them in cold files.
func startCold(t testing.TB, n int) (s *harness.Server, p harness.ColdPosts) {
	t.Helper()
	s = harness.Start(t, "--maxmemory", "16mb")
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	p = harness.ColdPosts{N: n}
	p.Load(t, s)
	within := func() bool {
		return harness.InfoNumber(t, c, "tiers", "cold_items") >= int64(n)-2_900_000 && harness.InfoNumber(t, c, "tiers", "hot_bytes") <= 20<<20 // an open block beside
	}
	for range 1000 {
		if within() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !within() {
		t.Fatalf("memory is not within maxmemory:\n%s\n%s", c.Do("INFO", "tiers").Text, c.Do("INFO", "memory").Text)
	}
	return s, p
}

// demoteAll writes all blocks but the last to cold files.
func demoteAll(t testing.TB, c *harness.Conn, p harness.ColdPosts) {
	t.Helper()
	for i := 0; i < p.N; i += 20_000 {
		c.Do("COUNTER.DEMOTE", "weibo", strconv.FormatUint(p.Mid(i), 10)) // the last block, and cold ones without changes, refuse
	}
	if harness.InfoNumber(t, c, "tiers", "cold_items") == 0 {
		t.Fatal("nothing is cold")
	}
}

// coldItems is how many posts the large test loads. Three million (SCALE=10) do not fit into 16 MiB, and the server writes them to files
// by itself, as TestMaxMemory of package counter shows each time; fewer are told to go.
func coldItems() int { return max(harness.Scaled(300_000), 300_000) }

// TestColdServes loads posts into 16 MiB and does all that is done to posts to those that are in files.
func TestColdServes(t *testing.T) {
	t.Parallel()
	s, p := startCold(t, coldItems())
	c := s.Dial(t)
	if p.N < 2_500_000 {
		demoteAll(t, c, p)
	}
	t.Logf("%d posts: cold_items %d in %s bytes of files, hot_items %s in %s bytes", p.N, harness.InfoNumber(t, c, "tiers", "cold_items"), harness.InfoValue(t, c, "tiers", "cold_bytes"),
		harness.InfoValue(t, c, "tiers", "hot_items"), harness.InfoValue(t, c, "tiers", "hot_bytes"))
	c.Want(fmt.Sprintf(":%d\r\n", p.N), "DBSIZE")
	p.Verify(t, s, nil)
	changed := p.Change(t, s)
	p.Verify(t, s, changed.Skip)
	changed.Verify(t, s)
	tiers := func(field string) int64 { return harness.InfoNumber(t, c, "tiers", field) }
	if tiers("overlay_items") == 0 && tiers("rewrites") == 0 && tiers("promotions") == 0 { // it may have merged them, or brought their ranges back
		t.Error("changes of cold posts left no overlay")
	}

	// A range goes back to memory and to a file again; nobody may see a difference.
	mid := strconv.FormatUint(p.Mid(50_000), 10)
	move := func(command, counted string) {
		if v := c.Do(command, "weibo", mid); v.Raw != "+OK\r\n" && !strings.HasPrefix(v.Raw, "-ERR counter: no such block") { // the server may do it on its own before
			t.Errorf("%s answered %q", command, v.Raw)
		}
		if tiers(counted) == 0 {
			t.Errorf("after %s INFO says %s:0", command, counted)
		}
	}
	move("COUNTER.PROMOTE", "promotions")
	p.Verify(t, s, changed.Skip)
	move("COUNTER.DEMOTE", "demotions")
	changed.Verify(t, s)
	blocks := c.Do("COUNTER.BLOCKS", "weibo")
	if !strings.Contains(blocks.Raw, "cold") || !strings.Contains(blocks.Raw, "hot") {
		t.Errorf("COUNTER.BLOCKS answered %.500q", blocks.Raw)
	}

	// SCAN returns each post once.
	seen := make(map[string]bool, p.N)
	for cursor, first := "0", true; first || cursor != "0"; first = false {
		v := c.Do("SCAN", cursor, "COUNT", "10000")
		cursor = v.List[0].Text
		for _, e := range v.List[1].List {
			if seen[e.Text] {
				t.Fatalf("SCAN returned %s twice", e.Text)
			}
			seen[e.Text] = true
		}
	}
	if n, err := c.Do("DBSIZE").Int(); err != nil || int(n) != len(seen) {
		t.Errorf("SCAN returned %d items, DBSIZE is %d, %v", len(seen), n, err)
	}

	// Restarts: with a snapshot, and after a kill with changes since.
	c.Save()
	dir := s.Dir
	s.Stop()
	harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	s = harness.StartIn(t, dir, "--maxmemory", "16mb")
	p.Verify(t, s, changed.Skip)
	changed.Verify(t, s)
	again := p.Change(t, s)
	for i := range again.Skip {
		changed.Skip[i] = true
	}
	s.Kill()
	s = harness.StartIn(t, dir, "--maxmemory", "16mb")
	p.Verify(t, s, changed.Skip)
	again.Verify(t, s)
	s.Stop()
	harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
}

// coldDir makes a stopped data directory with several cold files, some of them with overlays.
func coldDir(t testing.TB) (dir string, p harness.ColdPosts, changed harness.ColdChanges) {
	t.Helper()
	s := harness.Start(t, "--aof-retain", "0")
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	p = harness.ColdPosts{N: 300_000}
	p.Load(t, s)
	demoteAll(t, c, p)
	changed = p.Change(t, s)
	c.Save()                            // else the log alone would bring the posts back, to memory
	c.Want(":1\r\n", "INCR", "2.cntcm") // its frame tells that all before is durable
	dir = s.Dir
	s.Stop()
	s = harness.StartIn(t, dir, "--aof-retain", "0") // begins a new segment there
	c = s.Dial(t)
	c.Want(":1\r\n", "INCR", "1.cntcm")
	c.Save()
	c.Save() // both snapshots name the files, and the log that the posts came by is dropped
	s.Stop()
	if n := len(files(t, dir, "cold", "*.cold")); n < 3 {
		t.Fatalf("%d cold files, want at least 3", n)
	}
	if first := filepath.Base(harness.Segments(t, dir)[0]); strings.Trim(first, "0") == ".aof" {
		t.Fatal("the whole log is still there")
	}
	return dir, p, changed
}

// TestColdDamagedPage damages one page of a cold file. Its posts answer IOERR, which is counted, all others are served;
// check names the mids, dump goes on around them, and repair --lose-unreadable saves the rest.
func TestColdDamagedPage(t *testing.T) {
	t.Parallel()
	dir, p, changed := coldDir(t)
	file := files(t, dir, "cold", "*.cold")[1]
	harness.Patch(t, file, 3*4096+100, func(b []byte) { b[0] ^= 0x10 }, 1)

	harness.WantCtl(t, 1, []string{"check", dir}, "PROBLEM", filepath.Base(file), "mids that cannot be read: [")
	harness.WantCtl(t, 1, []string{"dump", "--rows", "--only", "files", dir}, "weibo:")

	s := harness.StartIn(t, dir)
	c := s.Dial(t)
	lost := map[int]bool{}
	first := p.N
	harness.BulkParallel(t, s, 1, p.N, func(dst []byte, i int) []byte {
		return harness.AppendCall(dst, "GET", "", p.Mid(i), ".cntcm", -1)
	}, func(i int, reply []byte) error {
		if reply[0] == '-' {
			if !strings.HasPrefix(string(reply), "-IOERR ") {
				return fmt.Errorf("a post of the damaged page answered %q", reply)
			}
			lost[i] = true
			first = min(first, i)
		}
		return nil
	})
	if len(lost) == 0 || len(lost) > 4000 {
		t.Fatalf("%d posts cannot be read, want those of one page", len(lost))
	}
	if harness.InfoNumber(t, c, "tiers", "cold_read_errors") < int64(len(lost)) {
		t.Errorf("cold_read_errors is %s after %d errors", harness.InfoValue(t, c, "tiers", "cold_read_errors"), len(lost))
	}
	key := strconv.FormatUint(p.Mid(first), 10)
	for _, args := range [][]string{{"INCR", key + ".cntcm"}, {"EXISTS", key}, {"HGETALL", "weibo:" + key}} {
		if v := c.Do(args...); v.Kind != '-' || !strings.HasPrefix(v.Text, "IOERR ") {
			t.Errorf("%s of a post of the damaged page answered %q", args[0], v.Raw)
		}
	}
	skip := map[int]bool{}
	for i := range lost {
		skip[i] = true
	}
	for i := range changed.Skip {
		skip[i] = true
	}
	p.Verify(t, s, skip)
	c.Want("+PONG\r\n", "PING")
	s.Stop()

	// The default keeps hands off; with --lose-unreadable the rest is saved.
	harness.WantCtl(t, 1, []string{"repair", dir}, "mids that cannot be read: [")
	harness.WantCtl(t, 0, []string{"repair", "--lose-unreadable", dir}, "saved", "a server starts")
	if len(files(t, dir, "cold", "*.broken-*")) == 0 {
		t.Error("repair kept nothing of the damaged file")
	}
	harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	s = harness.StartIn(t, dir)
	p.Verify(t, s, skip)
	c = s.Dial(t)
	for i := range lost {
		if !changed.Skip[i] {
			c.Want("$-1\r\n", "GET", strconv.FormatUint(p.Mid(i), 10)+".cntcm")
		}
	}
	c.Want("+OK\r\n", "SET", key+".cntrn", "5")
	s.Stop()
}

// TestColdMissingFile takes a cold file away, or its end. repair names the range of mids and gives nothing up by
// itself; put back, all is well; with --lose-unreadable the server starts without these posts, but with what was
// changed since.
func TestColdMissingFile(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"missing", "truncated"} {
		t.Run(how, func(t *testing.T) {
			dir, p, changed := coldDir(t)
			file := files(t, dir, "cold", "*.cold")[1]
			away := filepath.Join(t.TempDir(), "away")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(away, data, 0o640); err != nil {
				t.Fatal(err)
			}
			if how == "missing" {
				err = os.Remove(file)
			} else {
				err = os.Truncate(file, int64(len(data)/2))
			}
			if err != nil {
				t.Fatal(err)
			}
			harness.WantCtl(t, 1, []string{"check", dir}, "PROBLEM", filepath.Base(file), "mids that cannot be read: [")
			harness.WantCtl(t, 1, []string{"repair", dir}, filepath.Base(file), "mids that cannot be read: [", "--lose-unreadable")

			back := harness.CopyTree(t, dir)
			if err := os.WriteFile(filepath.Join(back, "cold", filepath.Base(file)), data, 0o640); err != nil {
				t.Fatal(err)
			}
			harness.WantCtl(t, 0, []string{"check", back}, "nothing is damaged")
			s := harness.StartIn(t, back)
			p.Verify(t, s, changed.Skip)
			changed.Verify(t, s)
			s.Stop()

			harness.WantCtl(t, 0, []string{"repair", "--lose-unreadable", dir}, "saved", "a server starts")
			harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
			s = harness.StartIn(t, dir)
			c := s.Dial(t)
			changed.Verify(t, s) // overlays survive
			there, gone := 0, 0
			for i := 0; i < p.N; i += 100 {
				comment, _, _ := p.Values(i)
				switch v := c.Do("GET", strconv.FormatUint(p.Mid(i), 10)+".cntcm"); {
				case changed.Skip[i]:
				case v.Null:
					gone++
				case v.Text == strconv.FormatUint(comment, 10):
					there++
				default:
					t.Fatalf("post %d answered %q", i, v.Raw)
				}
			}
			if gone == 0 || there < gone {
				t.Errorf("%d posts are there and %d gone, want one file's gone", there, gone)
			}
			s.Stop()
		})
	}
}

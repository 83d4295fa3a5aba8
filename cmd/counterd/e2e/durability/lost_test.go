package durability

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestLostImage damages an image that both snapshots share. The server starts, its range answers IOERR until it is set,
// also behind snapshots and kills; check and repair name the mids, and with leave they are given up.
func TestLostImage(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--aof-retain", "0")
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	p := harness.ColdPosts{N: 300_000}
	p.Load(t, s)
	c.Save()
	c.Want(":1\r\n", "INCR", "2.cntcm") // its frame tells that all before is durable
	dir := s.Dir
	s.Stop()
	s = harness.StartIn(t, dir, "--aof-retain", "0") // begins a new segment there
	c = s.Dial(t)
	c.Want(":1\r\n", "INCR", "1.cntcm")
	c.Save()
	c.Save()
	s.Stop()
	text, err := os.ReadFile(manifests(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	var path string
	var lo, hi uint64
	for _, m := range regexp.MustCompile(`\nhot \d+ lo (\d+) hi (\d+) .* file "(.*)"`).FindAllStringSubmatch(string(text), -1) {
		lo, _ = strconv.ParseUint(m[1], 10, 64)
		hi, _ = strconv.ParseUint(m[2], 10, 64)
		if path = filepath.Join(dir, "rdb", m[3]); lo > 0 && hi <= math.MaxInt64 {
			break
		}
	}
	harness.Patch(t, path, 5000, func(b []byte) { b[0] ^= 0x10 }, 1)
	skip := map[int]bool{}
	first := p.N
	for i := range p.N {
		if mid := p.Mid(i); lo <= mid && mid < hi {
			skip[i] = true
			first = min(first, i)
		}
	}
	if len(skip) == 0 || len(skip) > p.N/2 {
		t.Fatalf("%d of %d posts are in the range [%d, %d) of %s", len(skip), p.N, lo, hi, path)
	}
	lost := fmt.Sprintf("mids that cannot be read: [%d, %d)", lo, hi)
	key := strconv.FormatUint(p.Mid(first), 10)
	next := strconv.FormatUint(p.Mid(first+1), 10)
	harness.WantCtl(t, 1, []string{"check", dir}, "PROBLEM", filepath.Base(path), "a manifest whose images are good")

	for round := range 3 {
		s = harness.StartIn(t, dir, "--aof-retain", "0")
		c = s.Dial(t)
		p.Verify(t, s, skip)
		for _, args := range [][]string{{"INCR", next + ".cntcm"}, {"GET", next + ".cntcm"}, {"HGETALL", "weibo:" + next}, {"GET", key + ".cntcm"}} {
			if v := c.Do(args...); v.Kind != '-' || !strings.HasPrefix(v.Text, "IOERR ") {
				t.Errorf("round %d: %s %s answered %q", round, args[0], args[1], v.Raw)
			}
		}
		if n := harness.InfoNumber(t, c, "tiers", "cold_files_unusable"); n != 1 {
			t.Errorf("round %d: cold_files_unusable is %d, want 1", round, n)
		}
		if v := c.Do("SCAN", strconv.FormatUint(lo, 10)); v.Kind != '-' || !strings.Contains(v.Text, fmt.Sprintf("from %d to %d", lo, hi-1)) {
			t.Errorf("round %d: SCAN answered %q", round, v.Raw)
		}
		unreadable := func(s *harness.Server, get string) {
			t.Helper()
			if v := s.Dial(t).Do("GET", get); v.Kind != '-' || !strings.HasPrefix(v.Text, "IOERR ") {
				t.Errorf("round %d: %s answers GET %s with %q", round, s.Name, get, v.Raw)
			}
		}
		if round < 2 { // before a snapshot of this state, and with one
			replica := harness.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port))
			harness.Eventually(t, 3*time.Minute, "a full copy", func() bool { return harness.ReplicationField(replica, "master_link_status") == "up" })
			c.Do("SET", key+".cntan", "9")
			c.Want(":1\r\n", "WAIT", "1", "0")
			replica.Dial(t).Want(harness.BulkOf("9"), "GET", key+".cntan")
			p.Verify(t, replica, skip)
			unreadable(replica, next+".cntcm")
			replica.Stop()
		}
		if cli, ok := harness.Tool(t, "redis-cli"); ok && round == 1 {
			file, out := filepath.Join(t.TempDir(), "download"), filepath.Join(t.TempDir(), "restored")
			if said, err := exec.Command(cli, "-p", strconv.Itoa(s.Port), "--rdb", file).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			harness.Counterctl(t, "restore", file, "--out", out)
			restored := harness.StartIn(t, out)
			restored.Dial(t).Want(harness.BulkOf("9"), "GET", key+".cntan")
			p.Verify(t, restored, skip)
			unreadable(restored, next+".cntcm")
			restored.Stop()
		}
		c.Do("SET", key+".cntrn", "77")
		c.Want(":78\r\n", "INCR", key+".cntrn")
		c.Want("+OK\r\n", "SET", next+".cntrn", "5")
		if round < 2 {
			c.Save()
		}
		c.Want(":1\r\n", "INCR", fmt.Sprintf("%d.cntcm", 10+round))
		s.Kill()
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the damaged image is not there any more: %v", err)
	}
	harness.WantCtl(t, 1, []string{"repair", dir}, lost, "--lose-unreadable")
	harness.WantCtl(t, 0, []string{"repair", "--lose-unreadable", dir}, lost, "given up: weibo:"+key, "a server starts")
	harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	s = harness.StartIn(t, dir)
	c = s.Dial(t)
	p.Verify(t, s, skip)
	c.Want("$-1\r\n", "GET", key+".cntrn")
	c.Want(":1\r\n", "INCR", key+".cntcm")
	c.Want(":1\r\n", "INCR", next+".cntcm")
	s.Stop()
}

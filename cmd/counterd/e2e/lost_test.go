package e2e

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
)

// TestLostImage damages an image that both snapshots share. The server starts, its range answers IOERR until it is set,
// also behind snapshots and kills; check and repair name the mids, and with leave they are given up.
func TestLostImage(t *testing.T) {
	s := start(t, "--aof-retain", "0")
	c := s.dial(t)
	seedSchema(t, c)
	p := coldPosts{300_000}
	p.load(t, s)
	c.want("+OK\r\n", "SAVE")
	c.want(":1\r\n", "INCR", "2.cntcm") // its frame tells that all before is durable
	dir := s.dir
	s.stop()
	s = startIn(t, dir, "--aof-retain", "0") // begins a new segment there
	c = s.dial(t)
	c.want(":1\r\n", "INCR", "1.cntcm")
	c.want("+OK\r\n", "SAVE")
	c.want("+OK\r\n", "SAVE")
	s.stop()
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
	patch(t, path, 5000, func(b []byte) { b[0] ^= 0x10 }, 1)
	skip := map[int]bool{}
	first := p.n
	for i := range p.n {
		if mid := p.mid(i); lo <= mid && mid < hi {
			skip[i] = true
			first = min(first, i)
		}
	}
	if len(skip) == 0 || len(skip) > p.n/2 {
		t.Fatalf("%d of %d posts are in the range [%d, %d) of %s", len(skip), p.n, lo, hi, path)
	}
	lost := fmt.Sprintf("mids that cannot be read: [%d, %d)", lo, hi)
	key := strconv.FormatUint(p.mid(first), 10)
	next := strconv.FormatUint(p.mid(first+1), 10)
	wantCtl(t, 1, []string{"check", dir}, "PROBLEM", filepath.Base(path), "a manifest whose images are good")

	for round := range 3 {
		s = startIn(t, dir, "--aof-retain", "0")
		c = s.dial(t)
		p.verify(t, s, skip)
		for _, args := range [][]string{{"INCR", next + ".cntcm"}, {"GET", next + ".cntcm"}, {"HGETALL", "weibo:" + next}, {"GET", key + ".cntcm"}} {
			if v := c.do(args...); v.Kind != '-' || !strings.HasPrefix(v.Text, "IOERR ") {
				t.Errorf("round %d: %s %s answered %q", round, args[0], args[1], v.Raw)
			}
		}
		if n := infoNumber(t, c, "tiers", "cold_files_unusable"); n != 1 {
			t.Errorf("round %d: cold_files_unusable is %d, want 1", round, n)
		}
		if v := c.do("SCAN", strconv.FormatUint(lo, 10)); v.Kind != '-' || !strings.Contains(v.Text, fmt.Sprintf("from %d to %d", lo, hi-1)) {
			t.Errorf("round %d: SCAN answered %q", round, v.Raw)
		}
		unreadable := func(s *server, get string) {
			t.Helper()
			if v := s.dial(t).do("GET", get); v.Kind != '-' || !strings.HasPrefix(v.Text, "IOERR ") {
				t.Errorf("round %d: %s answers GET %s with %q", round, s.name, get, v.Raw)
			}
		}
		if round < 2 { // before a snapshot of this state, and with one
			replica := start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.port))
			eventually(t, 3*time.Minute, "a full copy", func() bool { return replicationField(replica, "master_link_status") == "up" })
			c.do("SET", key+".cntan", "9")
			c.want(":1\r\n", "WAIT", "1", "0")
			replica.dial(t).want(bulkOf("9"), "GET", key+".cntan")
			p.verify(t, replica, skip)
			unreadable(replica, next+".cntcm")
			replica.stop()
		}
		if cli, ok := tool(t, "redis-cli"); ok && round == 1 {
			file, out := filepath.Join(t.TempDir(), "download"), filepath.Join(t.TempDir(), "restored")
			if said, err := exec.Command(cli, "-p", strconv.Itoa(s.port), "--rdb", file).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			counterctl(t, "restore", file, "--out", out)
			restored := startIn(t, out)
			restored.dial(t).want(bulkOf("9"), "GET", key+".cntan")
			p.verify(t, restored, skip)
			unreadable(restored, next+".cntcm")
			restored.stop()
		}
		c.do("SET", key+".cntrn", "77")
		c.want(":78\r\n", "INCR", key+".cntrn")
		c.want("+OK\r\n", "SET", next+".cntrn", "5")
		if round < 2 {
			c.want("+OK\r\n", "SAVE")
		}
		c.want(":1\r\n", "INCR", fmt.Sprintf("%d.cntcm", 10+round))
		s.kill()
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the damaged image is not there any more: %v", err)
	}
	wantCtl(t, 1, []string{"repair", dir}, lost, "--lose-unreadable")
	wantCtl(t, 0, []string{"repair", "--lose-unreadable", dir}, lost, "given up: weibo:"+key, "a server starts")
	wantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	s = startIn(t, dir)
	c = s.dial(t)
	p.verify(t, s, skip)
	c.want("$-1\r\n", "GET", key+".cntrn")
	c.want(":1\r\n", "INCR", key+".cntcm")
	c.want(":1\r\n", "INCR", next+".cntcm")
	s.stop()
}

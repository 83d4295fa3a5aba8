package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// coldPosts are posts of a stream: mids rise by 4000 on average, most counters are small.
type coldPosts struct{ n int }

func mix(x uint64) uint64 {
	x *= 0x9E3779B97F4A7C15
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	return x ^ x>>32
}

// mid of post i; between it and the next there is room for others.
func (coldPosts) mid(i int) uint64 { return 19_089_006_004 + uint64(i)*4000 + mix(uint64(i))%3990 }

// values of post i.
func (coldPosts) values(i int) (comment, repost, attitude uint64) {
	h := mix(uint64(i) + 1<<40)
	comment, repost, attitude = h%8, h>>8%64, h>>16%3
	if h>>24%500 == 0 { // a popular one: too large for its packed column
		comment, attitude = h>>32%(1<<31), h>>20%100_000
	}
	return comment, repost, attitude
}

// load writes all posts.
func (p coldPosts) load(t testing.TB, s *server) {
	t.Helper()
	bulkParallel(t, s, 2, p.n, func(dst []byte, i int) []byte {
		a, b, c := p.values(i)
		dst = append(dst, "*8\r\n$4\r\nHSET\r\n"...)
		dst = appendBulk(dst, "weibo:", p.mid(i), true, "")
		dst = append(dst, "$7\r\ncomment\r\n"...)
		dst = appendBulk(dst, "", a, true, "")
		dst = append(dst, "$6\r\nrepost\r\n"...)
		dst = appendBulk(dst, "", b, true, "")
		dst = append(dst, "$8\r\nattitude\r\n"...)
		return appendBulk(dst, "", c, true, "")
	}, wantReply(":3"))
}

// verify reads every counter of every post but those that skip tells.
func (p coldPosts) verify(t testing.TB, s *server, skip map[int]bool) {
	t.Helper()
	suffix := [...]string{".cntcm", ".cntrn", ".cntan"}
	bulkParallel(t, s, 2, 3*p.n, func(dst []byte, i int) []byte {
		return appendCall(dst, "GET", "", p.mid(i/3), suffix[i%3], -1)
	}, func(i int, reply []byte) error {
		if skip[i/3] {
			return nil
		}
		a, b, c := p.values(i / 3)
		if want := "$" + strconv.FormatUint([...]uint64{a, b, c}[i%3], 10); string(reply) != want {
			return fmt.Errorf("post %d, mid %d: %s is %q, want %q", i/3, p.mid(i/3), suffix[i%3], reply, want)
		}
		return nil
	})
}

// startCold starts a server that holds far more posts than its memory is for, with most of them in cold files.
func startCold(t testing.TB, n int) (s *server, p coldPosts) {
	t.Helper()
	s = start(t, "--maxmemory", "16mb")
	c := s.dial(t)
	seedSchema(t, c)
	p = coldPosts{n}
	p.load(t, s)
	within := func() bool {
		return infoNumber(t, c, "tiers", "cold_items") >= int64(n)-2_900_000 && infoNumber(t, c, "tiers", "hot_bytes") <= 20<<20 // an open block beside
	}
	for range 1000 {
		if within() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !within() {
		t.Fatalf("memory is not within maxmemory:\n%s\n%s", c.do("INFO", "tiers").Text, c.do("INFO", "memory").Text)
	}
	return s, p
}

// demoteAll writes all blocks but the last to cold files.
func demoteAll(t testing.TB, c *conn, p coldPosts) {
	t.Helper()
	for i := 0; i < p.n; i += 20_000 {
		c.do("COUNTER.DEMOTE", "weibo", strconv.FormatUint(p.mid(i), 10)) // the last block, and cold ones without changes, refuse
	}
	if infoNumber(t, c, "tiers", "cold_items") == 0 {
		t.Fatal("nothing is cold")
	}
}

// coldItems is how many posts the large test loads.
func coldItems() int { return max(scaled(3_000_000), 300_000) }

// TestColdServes loads three million posts into 16 MiB and does all that is done to posts to those that are in files.
func TestColdServes(t *testing.T) {
	s, p := startCold(t, coldItems())
	c := s.dial(t)
	if p.n < 2_500_000 {
		demoteAll(t, c, p)
	}
	t.Logf("%d posts: cold_items %d in %s bytes of files, hot_items %s in %s bytes", p.n, infoNumber(t, c, "tiers", "cold_items"), infoValue(t, c, "tiers", "cold_bytes"),
		infoValue(t, c, "tiers", "hot_items"), infoValue(t, c, "tiers", "hot_bytes"))
	c.want(fmt.Sprintf(":%d\r\n", p.n), "DBSIZE")
	p.verify(t, s, nil)
	changed := p.change(t, s)
	p.verify(t, s, changed.skip)
	changed.verify(t, s)
	tiers := func(field string) int64 { return infoNumber(t, c, "tiers", field) }
	if tiers("overlay_items") == 0 && tiers("rewrites") == 0 && tiers("promotions") == 0 { // it may have merged them, or brought their ranges back
		t.Error("changes of cold posts left no overlay")
	}

	// A range goes back to memory and to a file again; nobody may see a difference.
	mid := strconv.FormatUint(p.mid(50_000), 10)
	move := func(command, counted string) {
		if v := c.do(command, "weibo", mid); v.Raw != "+OK\r\n" && !strings.HasPrefix(v.Raw, "-ERR counter: no such block") { // the server may do it on its own before
			t.Errorf("%s answered %q", command, v.Raw)
		}
		if tiers(counted) == 0 {
			t.Errorf("after %s INFO says %s:0", command, counted)
		}
	}
	move("COUNTER.PROMOTE", "promotions")
	p.verify(t, s, changed.skip)
	move("COUNTER.DEMOTE", "demotions")
	changed.verify(t, s)
	blocks := c.do("COUNTER.BLOCKS", "weibo")
	if !strings.Contains(blocks.Raw, "cold") || !strings.Contains(blocks.Raw, "hot") {
		t.Errorf("COUNTER.BLOCKS answered %.500q", blocks.Raw)
	}

	// SCAN returns each post once.
	seen := make(map[string]bool, p.n)
	for cursor, first := "0", true; first || cursor != "0"; first = false {
		v := c.do("SCAN", cursor, "COUNT", "10000")
		cursor = v.List[0].Text
		for _, e := range v.List[1].List {
			if seen[e.Text] {
				t.Fatalf("SCAN returned %s twice", e.Text)
			}
			seen[e.Text] = true
		}
	}
	if n, err := c.do("DBSIZE").Int(); err != nil || int(n) != len(seen) {
		t.Errorf("SCAN returned %d items, DBSIZE is %d, %v", len(seen), n, err)
	}

	// Restarts: with a snapshot, and after a kill with changes since.
	c.want("+OK\r\n", "SAVE")
	dir := s.dir
	s.stop()
	wantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	s = startIn(t, dir, "--maxmemory", "16mb")
	p.verify(t, s, changed.skip)
	changed.verify(t, s)
	again := p.change(t, s)
	for i := range again.skip {
		changed.skip[i] = true
	}
	s.kill()
	s = startIn(t, dir, "--maxmemory", "16mb")
	p.verify(t, s, changed.skip)
	again.verify(t, s)
	s.stop()
	wantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
}

// coldChanges are what change did.
type coldChanges struct {
	skip map[int]bool      // posts that were changed
	want map[string]string // replies of GET
}

// change increments, sets and deletes posts all over, and makes new ones between them.
func (p coldPosts) change(t testing.TB, s *server) coldChanges {
	t.Helper()
	c := s.dial(t)
	defer c.close()
	ch := coldChanges{skip: map[int]bool{}, want: map[string]string{}}
	for i := 7; i < p.n; i += p.n / 300 {
		key := strconv.FormatUint(p.mid(i), 10)
		comment, err := c.do("GET", key+".cntcm").Int()
		if err != nil {
			comment = 0 // deleted by an earlier change
		}
		ch.skip[i] = true
		switch i / (p.n / 300) % 4 {
		case 0:
			c.want(fmt.Sprintf(":%d\r\n", comment+1), "INCR", key+".cntcm")
			ch.want[key+".cntcm"] = bulkOf(strconv.FormatInt(comment+1, 10))
		case 1:
			c.want("+OK\r\n", "SET", key+".cntrn", "1234567")
			ch.want[key+".cntrn"] = bulkOf("1234567")
			ch.want[key+".cntcm"] = bulkOf(strconv.FormatInt(comment, 10))
		case 2:
			c.do("DEL", "weibo:"+key)
			ch.want[key+".cntcm"], ch.want[key+".cntan"] = "$-1\r\n", "$-1\r\n"
		case 3: // a new post in a cold range
			fresh := strconv.FormatUint(p.mid(i)+5, 10)
			if v := c.do("INCRBY", fresh+".cntan", "3"); v.Kind != ':' {
				t.Errorf("a new post in a cold range answered %q", v.Raw)
			}
			c.want("+OK\r\n", "SET", fresh+".cntan", "300")
			ch.want[fresh+".cntan"], ch.want[fresh+".cntcm"] = bulkOf("300"), bulkOf("0")
		}
	}
	return ch
}

func (ch coldChanges) verify(t testing.TB, s *server) {
	t.Helper()
	c := s.dial(t)
	defer c.close()
	for key, want := range ch.want {
		c.want(want, "GET", key)
	}
}

// coldDir makes a stopped data directory with several cold files, some of them with overlays.
func coldDir(t testing.TB) (dir string, p coldPosts, changed coldChanges) {
	t.Helper()
	s := start(t, "--aof-retain", "0")
	c := s.dial(t)
	seedSchema(t, c)
	p = coldPosts{300_000}
	p.load(t, s)
	demoteAll(t, c, p)
	changed = p.change(t, s)
	c.want("+OK\r\n", "SAVE")           // else the log alone would bring the posts back, to memory
	c.want(":1\r\n", "INCR", "2.cntcm") // its frame tells that all before is durable
	dir = s.dir
	s.stop()
	s = startIn(t, dir, "--aof-retain", "0") // begins a new segment there
	c = s.dial(t)
	c.want(":1\r\n", "INCR", "1.cntcm")
	c.want("+OK\r\n", "SAVE")
	c.want("+OK\r\n", "SAVE") // both snapshots name the files, and the log that the posts came by is dropped
	s.stop()
	if n := len(files(t, dir, "cold", "*.cold")); n < 3 {
		t.Fatalf("%d cold files, want at least 3", n)
	}
	if first := filepath.Base(segments(t, dir)[0]); strings.Trim(first, "0") == ".aof" {
		t.Fatal("the whole log is still there")
	}
	return dir, p, changed
}

// TestColdDamagedPage damages one page of a cold file. Its posts answer IOERR, which is counted, all others are served;
// check names the mids, dump goes on around them, and repair --lose-unreadable saves the rest.
func TestColdDamagedPage(t *testing.T) {
	dir, p, changed := coldDir(t)
	file := files(t, dir, "cold", "*.cold")[1]
	patch(t, file, 3*4096+100, func(b []byte) { b[0] ^= 0x10 }, 1)

	wantCtl(t, 1, []string{"check", dir}, "PROBLEM", filepath.Base(file), "mids that cannot be read: [")
	wantCtl(t, 1, []string{"dump", "--rows", "--only", "files", dir}, "weibo:")

	s := startIn(t, dir)
	c := s.dial(t)
	lost := map[int]bool{}
	first := p.n
	bulkParallel(t, s, 1, p.n, func(dst []byte, i int) []byte {
		return appendCall(dst, "GET", "", p.mid(i), ".cntcm", -1)
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
	if infoNumber(t, c, "tiers", "cold_read_errors") < int64(len(lost)) {
		t.Errorf("cold_read_errors is %s after %d errors", infoValue(t, c, "tiers", "cold_read_errors"), len(lost))
	}
	key := strconv.FormatUint(p.mid(first), 10)
	for _, args := range [][]string{{"INCR", key + ".cntcm"}, {"EXISTS", key}, {"HGETALL", "weibo:" + key}} {
		if v := c.do(args...); v.Kind != '-' || !strings.HasPrefix(v.Text, "IOERR ") {
			t.Errorf("%s of a post of the damaged page answered %q", args[0], v.Raw)
		}
	}
	skip := map[int]bool{}
	for i := range lost {
		skip[i] = true
	}
	for i := range changed.skip {
		skip[i] = true
	}
	p.verify(t, s, skip)
	c.want("+PONG\r\n", "PING")
	s.stop()

	// The default keeps hands off; with --lose-unreadable the rest is saved.
	wantCtl(t, 1, []string{"repair", dir}, "mids that cannot be read: [")
	wantCtl(t, 0, []string{"repair", "--lose-unreadable", dir}, "saved", "a server starts")
	if len(files(t, dir, "cold", "*.broken-*")) == 0 {
		t.Error("repair kept nothing of the damaged file")
	}
	wantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	s = startIn(t, dir)
	p.verify(t, s, skip)
	c = s.dial(t)
	for i := range lost {
		if !changed.skip[i] {
			c.want("$-1\r\n", "GET", strconv.FormatUint(p.mid(i), 10)+".cntcm")
		}
	}
	c.want("+OK\r\n", "SET", key+".cntrn", "5")
	s.stop()
}

// TestColdMissingFile takes a cold file away, or its end. repair names the range of mids and gives nothing up by
// itself; put back, all is well; with --lose-unreadable the server starts without these posts, but with what was
// changed since.
func TestColdMissingFile(t *testing.T) {
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
			wantCtl(t, 1, []string{"check", dir}, "PROBLEM", filepath.Base(file), "mids that cannot be read: [")
			wantCtl(t, 1, []string{"repair", dir}, filepath.Base(file), "mids that cannot be read: [", "--lose-unreadable")

			back := copyTree(t, dir)
			if err := os.WriteFile(filepath.Join(back, "cold", filepath.Base(file)), data, 0o640); err != nil {
				t.Fatal(err)
			}
			wantCtl(t, 0, []string{"check", back}, "nothing is damaged")
			s := startIn(t, back)
			p.verify(t, s, changed.skip)
			changed.verify(t, s)
			s.stop()

			wantCtl(t, 0, []string{"repair", "--lose-unreadable", dir}, "saved", "a server starts")
			wantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
			s = startIn(t, dir)
			c := s.dial(t)
			changed.verify(t, s) // overlays survive
			there, gone := 0, 0
			for i := 0; i < p.n; i += 100 {
				comment, _, _ := p.values(i)
				switch v := c.do("GET", strconv.FormatUint(p.mid(i), 10)+".cntcm"); {
				case changed.skip[i]:
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
			s.stop()
		})
	}
}

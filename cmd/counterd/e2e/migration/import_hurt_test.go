// Scenario: an import into a server that moves posts to files, is flushed, has a full disk, loses acknowledged changes or is replaced.

package migration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/cutproxy"
	"github.com/counterd/counterd/internal/testkit/freeport"
)

// importHurt is a server into which posts are imported, and its replica. Clients reach the server by a proxy, which later leads to
// the replica.
type importHurt struct {
	t     *testing.T
	proxy *cutproxy.Proxy
	nodes [2]*harness.Server // the first is the primary
	args  []string
	file  string // of the posts
	dir   string
	moved bool // ranges moved to files; behind a FLUSHALL there may be too few posts for that
}

// Every second post is imported, at hurtRate, in chunks of 2,500 values. That takes 3 s, and to hurt the server may take longer on a
// busy machine. So an import is slow but while goesOn waits for it: each 16 KiB of its 1.4 MB then wait for hurtPause.
const (
	hurtPosts = 60_000
	hurtRows  = hurtPosts / 2
	hurtRate  = 10_000 // values a second
	hurtPause = 400 * time.Millisecond
)

func newImportHurt(t *testing.T) *importHurt {
	h := &importHurt{t: t, dir: t.TempDir(), args: []string{"--schema", "../../weibo.schema", "--aof-retain", "16mb", "--auto-aof-rewrite-min-size", "0"}}
	h.nodes[0] = harness.StartAt(t, freeport.Take(t), t.TempDir(), h.args...)
	h.proxy = cutproxy.New(t, h.nodes[0].Port, 1, false)
	c := h.nodes[0].Dial(t) // other columns of the posts, so that there are ranges to move and segments to compress
	defer c.Close()
	if err := harness.Bulk(c, 5*hurtPosts, func(dst []byte, i int) []byte {
		return harness.AppendCall(dst, "INCR", "", harness.ColdPosts{}.Mid(i%hurtPosts), ".cntan", -1)
	}, func(int, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("mid\trepost\n")
	for i := range hurtRows {
		fmt.Fprintf(&text, "%d\t%d\n", harness.ColdPosts{}.Mid(2*i), i%50+1)
	}
	h.file = filepath.Join(h.dir, "posts.tsv")
	if err := os.WriteFile(h.file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// importing is the command of an import.
func (h *importHurt) importing(more ...string) []string {
	return append([]string{"import", h.file, "--to", fmt.Sprintf("127.0.0.1:%d", h.proxy.Port()), "--counter", "weibo", "--wait", "4m"}, more...)
}

// ask asks the primary.
func (h *importHurt) ask(args ...string) string { return harness.Ask(h.nodes[0].Addr, args...) }

func (h *importHurt) offset() int64 {
	n, err := strconv.ParseInt(harness.ReplicationField(h.nodes[0], "master_repl_offset"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// goesOn waits until the import has written some chunks. A chunk takes 41,000 bytes of log, so one has ended since, and the import
// has noted where.
func (h *importHurt) goesOn() {
	h.t.Helper()
	h.proxy.Slow(0)
	defer h.proxy.Slow(hurtPause)
	from := h.offset()
	harness.Eventually(h.t, time.Minute, "the import goes on", func() bool { return h.offset() > from+60_000 })
}

// during runs an import, and strikes once it goes on. It returns the import's output and exit status.
func (h *importHurt) during(strike func(), args ...string) (out string, status int) {
	h.t.Helper()
	i := startImport(h.t, append(args, "--rate", strconv.Itoa(hurtRate))...)
	h.t.Cleanup(func() {
		if h.t.Failed() {
			h.t.Logf("import: %s", i.out.String())
		}
	})
	h.goesOn()
	strike()
	h.proxy.Slow(0)
	_ = i.cmd.Wait()
	return i.out.String(), i.cmd.ProcessState.ExitCode()
}

// tiers has posts of the import in compressed log, in cold files, and merged with them.
func (h *importHurt) tiers() {
	h.t.Helper()
	old := strconv.FormatUint(harness.ColdPosts{}.Mid(10), 10)
	c := h.nodes[0].Dial(h.t)
	defer c.Close()
	for range 2 {
		c.Do("COUNTER.DEMOTE", "weibo", old) // where an import has not changed it since, it is refused
		h.goesOn()
	}
	c.Save()
	harness.Eventually(h.t, time.Minute, "the log is compressed", func() bool {
		return harness.InfoNumber(h.t, c, "persistence", "log_compressed_bytes") > 0
	})
	if n := harness.InfoNumber(h.t, c, "tiers", "demotions") + harness.InfoNumber(h.t, c, "tiers", "rewrites"); n == 0 && !h.moved {
		h.t.Error("no range moved to a file during the import")
	}
	h.moved = true
}

// restart starts the primary again.
func (h *importHurt) restart() {
	h.t.Helper()
	h.nodes[0] = harness.StartAt(h.t, h.nodes[0].Port, h.nodes[0].Dir, h.args...)
}

// disk fills the disk for a while.
func (h *importHurt) disk() {
	h.t.Helper()
	in, ok := h.nodes[0].Inject("pwrite64,fallocate,fdatasync", "error=ENOSPC")
	if !ok {
		return
	}
	c := h.nodes[0].Dial(h.t)
	defer c.Close()
	harness.Eventually(h.t, time.Minute, "the disk is full", func() bool {
		return harness.InfoValue(h.t, c, "persistence", "aof_last_write_status") == "err"
	})
	in.End()
}

// power takes the end of the log away, as no part of it was synced.
func (h *importHurt) power() {
	h.t.Helper()
	c := h.nodes[0].Dial(h.t)
	defer c.Close()
	c.Want("+OK\r\n", "CONFIG", "SET", "appendfsync", "no")
	c.Save()
	h.goesOn()
	at := h.offset()
	h.goesOn()
	h.nodes[0].Kill()
	for _, path := range slices.Backward(harness.Segments(h.t, h.nodes[0].Dir)) {
		start, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), ".aof"), 10, 64)
		if err != nil {
			h.t.Fatal(err)
		}
		if start > at {
			if err := os.Remove(path); err != nil {
				h.t.Fatal(err)
			}
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			h.t.Fatal(err)
		}
		from := 64 + at - start
		harness.Patch(h.t, path, from, func(b []byte) { clear(b) }, int(info.Size()-from))
		break
	}
	h.restart()
}

// rollBack starts the primary from an older copy of its directory.
func (h *importHurt) rollBack() {
	h.t.Helper()
	h.nodes[0].Kill()
	older := harness.CopyTree(h.t, h.nodes[0].Dir)
	h.restart()
	h.goesOn()
	h.goesOn()
	h.nodes[0].Kill()
	h.nodes[0].Dir = older
	h.restart()
}

// failOver promotes a replica that lags. The primary comes back as its replica and cuts its log, while its directory is backed up.
func (h *importHurt) failOver() {
	h.t.Helper()
	port, dir := freeport.Take(h.t), h.t.TempDir()
	b := harness.StartAt(h.t, port, dir, append([]string{"--replicaof", fmt.Sprintf("127.0.0.1 %d", h.nodes[0].Port)}, h.args...)...)
	harness.Eventually(h.t, 2*time.Minute, "the replica follows", func() bool { return harness.ReplicationField(b, "master_link_status") == "up" })
	b.Kill()
	h.goesOn()
	h.goesOn()
	a := h.nodes[0]
	a.Kill()
	b = harness.StartAt(h.t, port, dir, h.args...)
	if got := harness.Ask(b.Addr, "REPLICAOF", "NO", "ONE"); got != "+OK\r\n" {
		h.t.Fatalf("REPLICAOF NO ONE: %q", got)
	}
	h.nodes[0] = b
	h.proxy.SetPort(port)
	h.proxy.CutAll()
	link := cutproxy.New(h.t, port, 2, false)
	link.Refuse(true)
	h.nodes[1] = harness.StartAt(h.t, a.Port, a.Dir, append([]string{"--replicaof", fmt.Sprintf("127.0.0.1 %d", link.Port())}, h.args...)...)
	place := filepath.Join(h.dir, "place")
	backUp := func(n int) { // it has the log as it was, or as it is cut
		restored := filepath.Join(h.dir, fmt.Sprint("restored", n))
		harness.WantCtl(h.t, 0, []string{"backup", a.Dir, place})
		harness.WantCtl(h.t, 0, []string{"restore", place, "--out", restored})
		harness.WantCtl(h.t, 0, []string{"check", restored}, "nothing is damaged")
	}
	backUp(0)
	link.Refuse(false)
	for n, follows := 1, false; !follows; n++ {
		follows = harness.ReplicationField(h.nodes[1], "master_link_status") == "up"
		backUp(n)
		if n == 100 {
			h.t.Fatal("the old primary does not follow")
		}
	}
	if cuts := harness.ReplicationField(h.nodes[1], "counterd_diverged_cuts"); cuts == "" || cuts == "0" {
		h.t.Errorf("counterd_diverged_cuts is %q: the old primary cut nothing", cuts)
	}
}

// TestImportHurt sets posts while the server is hurt: every import that ends well has set all of them, also those that the server had
// acknowledged and lost, and a FLUSHALL is reported. Additions count once, or the import says that a part of them is lost.
func TestImportHurt(t *testing.T) {
	t.Parallel()
	h := newImportHurt(t)
	for _, strike := range []struct {
		name string
		f    func()
		lost bool
	}{{"tiers", h.tiers, false}, {"disk", h.disk, false}, {"power", h.power, true}, {"rollback", h.rollBack, true}} {
		out, status := h.during(strike.f, h.importing("--resume", filepath.Join(h.dir, strike.name))...)
		if status != 0 || !strings.Contains(out, "verified: ") || strings.Contains(out, "beginning anew") != strike.lost {
			t.Errorf("%s: the import ended with %d: %s", strike.name, status, out)
		}
	}
	flush := h.importing("--resume", filepath.Join(h.dir, "flush"))
	if out, status := h.during(func() { h.ask("FLUSHALL") }, flush...); status != 1 || !strings.Contains(out, "NOT verified") {
		t.Errorf("behind a FLUSHALL the import ended with %d: %s", status, out)
	}
	harness.WantCtl(t, 0, flush, "verified: ")
	add := h.importing("--add", "--resume", filepath.Join(h.dir, "add"))
	if out, status := h.during(func() { h.tiers(); h.disk(); h.nodes[0].Kill(); h.restart() }, add...); status != 0 || !strings.Contains(out, "verified: ") {
		t.Errorf("the import that adds ended with %d: %s", status, out)
	}
	again := h.importing("--add", "--resume", filepath.Join(h.dir, "again"))
	if out, status := h.during(h.failOver, again...); status != 1 || !strings.Contains(out, "has lost changes that it had acknowledged") && !strings.Contains(out, "NOT verified") {
		t.Errorf("behind a failover that lost changes the import that adds ended with %d: %s", status, out)
	}
	harness.WantCtl(t, 0, h.importing("--verify", "values"), fmt.Sprintf("verified: all %d values", hurtRows))
	harness.Eventually(t, time.Minute, "both nodes hold the same", func() bool {
		return h.ask("COUNTER.DIGEST") == harness.Ask(h.nodes[1].Addr, "COUNTER.DIGEST")
	})
}

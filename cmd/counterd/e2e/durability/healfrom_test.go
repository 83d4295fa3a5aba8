// Scenario: the directory of a node without replicas is damaged, and the node heals from a backup (heal-from).

package durability

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// backedUp makes a directory with 300 posts and a counter of 300 numbered changes, and a place with backups of the first
// 100 and 200 of each.
func backedUp(t testing.TB) (dir, place string) {
	t.Helper()
	dir, place = t.TempDir(), t.TempDir()
	s := harness.StartIn(t, dir, "--appendfsync", "always")
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	for i := range 300 {
		c.Want("+OK\r\n", "SET", strconv.Itoa(1000+i)+".cntcm", strconv.Itoa(i))
		c.Want(":"+strconv.Itoa(i+1)+"\r\n", "INCR", "5.cntcm", "IDMP", "writer", strconv.Itoa(i+1))
		if i == 50 || i == 150 {
			c.Save()
		}
		if i == 99 || i == 199 {
			harness.WantCtl(t, 0, []string{"backup", dir, place})
		}
	}
	harness.AwaitClaim(t, s.Addr, dir) // else a last segment that is missing is not missed
	s.Kill()
	return dir, place
}

// wantHealed checks that the node has the first changes, n at least, and no other, and that all changes that are repeated count once.
// It returns how many it had.
func wantHealed(t testing.TB, s *harness.Server, n int) (had int) {
	t.Helper()
	c := s.Dial(t)
	for had < 300 && c.Do("GET", strconv.Itoa(1000+had)+".cntcm").Raw == harness.BulkOf(strconv.Itoa(had)) {
		had++
	}
	if had < n {
		t.Errorf("%d changes are there, want %d", had, n)
	}
	for i := had; i < 300; i++ {
		c.Want("$-1\r\n", "GET", strconv.Itoa(1000+i)+".cntcm")
	}
	for i := range 300 {
		c.Do("INCR", "5.cntcm", "IDMP", "writer", strconv.Itoa(i+1))
	}
	c.Want(harness.BulkOf("300"), "GET", "5.cntcm")
	return had
}

func TestHealFrom(t *testing.T) {
	t.Parallel()
	flip := func(b []byte) { b[0] ^= 0x40 }
	whole, backups := backedUp(t)
	text, err := os.ReadFile(filepath.Join(whole, "HISTORY"))
	if err != nil {
		t.Fatal(err)
	}
	terms := map[string]bool{}
	for _, word := range strings.Fields(string(text)) {
		terms[word] = true
	}
	for _, c := range []struct {
		name   string
		damage func(t testing.TB, dir, place string)
		remain int
		lost   int // bytes of log at most; -1: any number but none
	}{
		{"the history", func(t testing.TB, dir, _ string) { patchHistory(t, dir, flip) }, 300, 0},
		{"both manifests and the beginning of the log", func(t testing.TB, dir, _ string) {
			damageManifests(t, dir)
			harness.Patch(t, harness.Segments(t, dir)[0], 100, flip, 1)
		}, 300, 0},
		{"the history, with the newest backup damaged", func(t testing.TB, dir, place string) {
			patchHistory(t, dir, flip)
			names := files(t, place, "backups", "*.json")
			harness.Patch(t, names[len(names)-1], 100, flip, 1)
		}, 300, 0},
		{"both manifests and the beginning of the log, with files of the newest backup missing", func(t testing.TB, dir, place string) {
			damageManifests(t, dir)
			harness.Patch(t, harness.Segments(t, dir)[0], 100, flip, 1)
			first, err := os.ReadFile(files(t, place, "backups", "*.json")[0])
			if err != nil {
				t.Fatal(err)
			}
			removed := 0
			for _, path := range files(t, place, "objects", "*/*.zst") {
				if !strings.Contains(string(first), strings.TrimSuffix(filepath.Base(path), ".zst")) {
					removed++
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			if removed == 0 {
				t.Fatal("the newest backup has no file of its own")
			}
		}, 300, 0},
		{"the log near its end", func(t testing.TB, dir, _ string) {
			paths := harness.Segments(t, dir)
			harness.Patch(t, paths[len(paths)-1], -2000, flip, 1)
		}, 250, 2200},
		{"the last segment missing", func(t testing.TB, dir, _ string) {
			paths := harness.Segments(t, dir)
			if err := os.Remove(paths[len(paths)-1]); err != nil {
				t.Fatal(err)
			}
		}, 200, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, place := t.TempDir(), t.TempDir()
			if err := errors.Join(os.CopyFS(dir, os.DirFS(whole)), os.CopyFS(place, os.DirFS(backups))); err != nil {
				t.Fatal(err)
			}
			c.damage(t, dir, place)
			harness.Refused(t, dir, "corrupt")
			s := harness.StartIn(t, dir, "--heal-from", place)
			conn := s.Dial(t)
			lost, err := strconv.Atoi(harness.InfoValue(t, conn, "replication", "counterd_healing_lost_bytes"))
			if err != nil || (lost > 0) != (c.lost != 0) || c.lost > 0 && lost > c.lost {
				t.Errorf("%d bytes of log are lost, %v, want %d at most\n%s", lost, err, c.lost, s.Log)
			}
			if got := harness.InfoValue(t, conn, "replication", "counterd_healed"); got != "1" {
				t.Errorf("healed %s times", got)
			}
			if role, id := harness.InfoValue(t, conn, "replication", "role"), harness.InfoValue(t, conn, "replication", "master_replid"); role != "master" || terms[id] {
				t.Errorf("role %s, history %s, which is an old one: %v", role, id, terms[id])
			}
			had := wantHealed(t, s, c.remain)
			if said := strings.Contains(s.Log.String(), "are lost"); said != (c.lost != 0) || said == (had == 300) {
				t.Errorf("%d changes were there, and that some are lost was said: %v\n%s", had, said, s.Log)
			}
			if len(files(t, dir, "", "*.damaged-1")) == 0 {
				t.Error("the damaged files are not there")
			}
			s.Kill()
			s = harness.StartIn(t, dir)
			wantHealed(t, s, had)
			s.Stop()
			for _, path := range files(t, dir, "", "*.damaged-1") {
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
			}
			harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
			harness.WantCtl(t, 0, []string{"backup", dir, place})
		})
	}
}

// TestHealFromRefused: the place has only backups of another store, or nothing. The node starts no more than without the setting, and nothing is changed.
func TestHealFromRefused(t *testing.T) {
	t.Parallel()
	dir, _ := backedUp(t)
	_, place := backedUp(t)
	patchHistory(t, dir, func(b []byte) { b[0] ^= 0x40 })
	for _, place := range []string{place, t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		before := tree(t, dir)
		out, status := harness.RunCounterd(t, "--port", strconv.Itoa(freeport.Take(t)), "--bind", "127.0.0.1", "--dir", dir, "--heal-from", place)
		if status != 1 || !strings.Contains(out, "no backup") {
			t.Errorf("exit status %d, and the log does not say that there is no backup:\n%s", status, out)
		}
		if after := tree(t, dir); after != before {
			t.Errorf("the directory was\n%s\nand is\n%s", before, after)
		}
	}
}

// tree lists the files of a directory and their sizes.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var text strings.Builder
	for _, sub := range []string{"", "log", "rdb"} {
		for _, path := range files(t, dir, sub, "*") {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if !info.IsDir() {
				text.WriteString(path + " " + strconv.FormatInt(info.Size(), 10) + "\n")
			}
		}
	}
	return text.String()
}

// TestHealFromKilled kills the node twice while it heals, at any moment. The next start makes it whole.
func TestHealFromKilled(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(seed.Of(t), 1))
	whole, place := backedUp(t)
	patchHistory(t, whole, func(b []byte) { b[0] ^= 0x40 })
	halves := 0
	for range 2 {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s := harness.Spawn(t, dir, "--heal-from", place)
			for end := time.Now().Add(time.Minute); rng.IntN(12) > 0 && time.Now().Before(end); { // it is killed at any state of the directory
				was := len(files(t, dir, "", "*")) + len(files(t, dir, "heal-from.tmp", "*/*"))
				for range 30 {
					if time.Sleep(time.Millisecond); len(files(t, dir, "", "*"))+len(files(t, dir, "heal-from.tmp", "*/*")) != was {
						break
					}
				}
			}
			s.Kill()
			if len(files(t, dir, "", "*.restored"))+len(files(t, dir, "", "heal-from.tmp"))+len(files(t, dir, "", "HEALING")) > 0 {
				halves++
			}
		}
		s := harness.StartIn(t, dir, "--heal-from", place)
		wantHealed(t, s, 300)
		s.Stop()
		for _, pattern := range []string{"*.restored", "heal-from.tmp", "HEALING"} {
			if left := files(t, dir, "", pattern); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		}
	}
	t.Logf("%d of 4 kills left a healing unfinished", halves)
}

package durability

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// loaded makes a data directory with some increments, synced in many steps, after a kill. With snapshots there is an
// image of half of them.
func loaded(t testing.TB, snapshots int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := harness.StartIn(t, dir, "--appendfsync", "always")
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	for i := range 300 {
		c.Want("+OK\r\n", "SET", strconv.Itoa(1000+i)+".cntcm", strconv.Itoa(i))
		for n := range snapshots {
			if i == 100+50*n {
				c.Save()
			}
		}
	}
	s.Kill()
	return dir
}

// wantLoaded checks that the first n values of loaded are there.
func wantLoaded(t testing.TB, s *harness.Server, n int) {
	t.Helper()
	c := s.Dial(t)
	for i := range n {
		c.Want(harness.BulkOf(strconv.Itoa(i)), "GET", strconv.Itoa(1000+i)+".cntcm")
	}
}

// TestDurableSecondProcess starts a second server on a directory in use.
func TestDurableSecondProcess(t *testing.T) {
	s := harness.Start(t)
	harness.SeedSchema(t, s.Dial(t))
	s.Dial(t).Want(":1\r\n", "INCR", "1.cntcm")
	harness.Refused(t, s.Dir, s.Dir, "lock is held by another process")
	harness.WantCtl(t, 1, []string{"repair", s.Dir}, "a server has")
	s.Dial(t).Want(":2\r\n", "INCR", "1.cntcm")
}

// TestDurableTornTail leaves at the log's end what a crash may leave. The server starts, says so, and has all that was
// acknowledged before.
func TestDurableTornTail(t *testing.T) {
	for _, c := range []struct {
		name   string
		tear   func(t testing.TB, last string)
		remain int
	}{
		{"garbage behind the end", func(t testing.TB, last string) {
			harness.Patch(t, last, -1, func(b []byte) { copy(b[1:], strings.Repeat("garbage!", 12)) }, 97)
		}, 300},
		{"last bytes never written", func(t testing.TB, last string) {
			harness.Patch(t, last, -3, func(b []byte) { clear(b) }, 3)
		}, 299},
		{"half a frame", func(t testing.TB, last string) {
			harness.Patch(t, last, -20, func(b []byte) { clear(b) }, 20)
		}, 299},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := loaded(t, 0)
			paths := harness.Segments(t, dir)
			// A slow machine may have rested for a second before the kill: then what is torn here was durable.
			if err := os.Remove(filepath.Join(dir, "DURABLE")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			c.tear(t, paths[len(paths)-1])
			harness.WantCtl(t, 0, []string{"check", dir}, "torn tail", "nothing is damaged")
			s := harness.StartIn(t, dir)
			if !strings.Contains(s.Log.String(), "torn tail") || !strings.Contains(s.Log.String(), filepath.Base(paths[len(paths)-1])) {
				t.Errorf("the log does not tell of the torn tail:\n%s", s.Log)
			}
			wantLoaded(t, s, c.remain)
			s.Stop()
			kept, err := filepath.Glob(filepath.Join(dir, "torn-*.aof"))
			if err != nil || len(kept) != 1 || !strings.Contains(s.Log.String(), filepath.Base(kept[0])) {
				t.Errorf("kept %q, %v; the log does not name it", kept, err)
			}
			if strings.Contains(harness.WantCtl(t, 0, []string{"check", dir}), "torn tail in") {
				t.Error("the torn tail is still there")
			}
		})
	}
}

// patchHistory damages HISTORY and its copy.
func patchHistory(t testing.TB, dir string, damage func(b []byte)) {
	t.Helper()
	for _, name := range []string{"HISTORY", "HISTORY.copy"} {
		harness.Patch(t, filepath.Join(dir, name), 30, damage, 1)
	}
}

// damageManifests damages all manifests.
func damageManifests(t testing.TB, dir string) {
	t.Helper()
	for _, path := range manifests(t, dir) {
		harness.Patch(t, path, 100, func(b []byte) { b[0] ^= 0x40 }, 1)
	}
}

// TestDurableCorrupt damages what was durable. The server does not start, says where and what to do; after that it
// starts, with what stood before the damage, and what was cut is still there.
func TestDurableCorrupt(t *testing.T) {
	t.Parallel()
	flip := func(b []byte) { b[0] ^= 0x40 }
	for _, c := range []struct {
		name      string
		snapshots int
		damage    func(t testing.TB, dir string)
		remain    int // of 300 values, at least
		words     []string
	}{
		{"middle of the log", 0, func(t testing.TB, dir string) { harness.Patch(t, harness.Segments(t, dir)[0], 8000, flip, 1) }, 100, []string{".aof at byte ", "log offset"}},
		{"behind the snapshots", 2, func(t testing.TB, dir string) {
			paths := harness.Segments(t, dir)
			harness.Patch(t, paths[len(paths)-1], -2000, flip, 1)
		}, 200, []string{".aof at byte ", "log offset"}},
		{"a segment cut short", 0, func(t testing.TB, dir string) {
			if err := os.Truncate(harness.Segments(t, dir)[0], 9000); err != nil {
				t.Fatal(err)
			}
		}, 100, []string{".aof at byte "}},
		{"both manifests and the log", 2, func(t testing.TB, dir string) {
			damageManifests(t, dir)
			paths := harness.Segments(t, dir)
			harness.Patch(t, paths[len(paths)-1], -2000, flip, 1)
		}, 200, []string{"MANIFEST-"}},
		{"the header of a segment", 2, func(t testing.TB, dir string) {
			paths := harness.Segments(t, dir)
			harness.Patch(t, paths[len(paths)-1], 40, flip, 1)
		}, 300, []string{".aof at byte 0", "header crc32c"}},
		{"the history and its copy", 1, func(t testing.TB, dir string) { patchHistory(t, dir, flip) }, 300, []string{"HISTORY at byte "}},
		{"a segment missing", 2, func(t testing.TB, dir string) {
			paths := harness.Segments(t, dir)
			if err := os.Remove(paths[len(paths)-1]); err != nil {
				t.Fatal(err)
			}
		}, 100, []string{"log"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := loaded(t, c.snapshots)
			c.damage(t, dir)
			harness.Refused(t, dir, append(c.words, "corrupt", "counterctl repair "+dir)...)
			harness.WantCtl(t, 1, []string{"check", dir}, append(c.words, "PROBLEM")...)
			harness.WantCtl(t, 0, []string{"repair", dir}, "a server starts")
			broken := len(files(t, dir, "", "*.broken-*")) + len(files(t, dir, "log", "*.broken-*")) + len(files(t, dir, "rdb", "*.broken-*"))
			if broken == 0 && c.name != "a segment missing" {
				t.Error("repair kept nothing of what it cut")
			}
			s := harness.StartIn(t, dir)
			wantLoaded(t, s, c.remain)
			conn := s.Dial(t)
			conn.Want("+OK\r\n", "SET", "5.cntcm", "5")
			conn.Want("+OK\r\n", "SET", "1000.cntcm", "12345") // in a block whose image is older than the cut
			s.Kill()
			s = harness.StartIn(t, dir)
			s.Dial(t).Want(harness.BulkOf("5"), "GET", "5.cntcm")
			s.Dial(t).Want(harness.BulkOf("12345"), "GET", "1000.cntcm")
			s.Stop()
			harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
			harness.WantCtl(t, 0, []string{"repair", dir}, "nothing to repair")
		})
	}
}

// TestDurableFallBack damages the newer of two snapshots: the server starts from the older one by itself. If both are damaged, it starts from the log.
// counterctl check ends with status 1, and does not call it a problem, as none of this keeps a server from starting.
func TestDurableFallBack(t *testing.T) {
	for i, damage := range []func(dir string){
		func(dir string) {
			paths := manifests(t, dir)
			harness.Patch(t, paths[len(paths)-1], 60, func(b []byte) { b[0] ^= 1 }, 1)
		},
		func(dir string) {
			paths := files(t, dir, "rdb", "*.hot")
			harness.Patch(t, paths[len(paths)-1], 120, func(b []byte) { b[0] ^= 1 }, 1)
		},
		func(dir string) {
			for _, path := range files(t, dir, "rdb", "*.hot") {
				harness.Patch(t, path, 120, func(b []byte) { b[0] ^= 1 }, 1)
			}
		},
		func(dir string) { damageManifests(t, dir) },
	} {
		dir := loaded(t, 2)
		damage(dir)
		if out := harness.WantCtl(t, 1, []string{"check", dir}, "damaged  ", "what no start needs"); strings.Contains(out, "PROBLEM") {
			t.Errorf("damage %d:\n%s", i, out)
		}
		s := harness.StartIn(t, dir)
		wantLoaded(t, s, 300)
		s.Dial(t).Save()
		s.Dial(t).Save()
		s.Stop()
		harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	}
}

// TestDurableNewerFormat gives each kind of file a later version. The server must neither read nor change it.
func TestDurableNewerFormat(t *testing.T) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	le := binary.LittleEndian
	for _, c := range []struct {
		name   string
		change func(t testing.TB, dir string) string
	}{
		{"segment", func(t testing.TB, dir string) string {
			paths := harness.Segments(t, dir)
			path := paths[len(paths)-1]
			harness.Patch(t, path, 0, func(b []byte) {
				le.PutUint16(b[8:], 99)
				le.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
			}, 64)
			return path
		}},
		{"image", func(t testing.TB, dir string) string {
			path := files(t, dir, "rdb", "*.hot")[0]
			harness.Patch(t, path, 0, func(b []byte) {
				le.PutUint32(b[8:], 99)
				le.PutUint32(b[76:], crc32.Checksum(b[:76], castagnoli))
			}, 80)
			return path
		}},
		{"manifest", func(t testing.TB, dir string) string {
			path := manifests(t, dir)[0]
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = append([]byte("counterd manifest 99"), text[bytes.IndexByte(text, '\n'):]...)
			text = text[:bytes.LastIndex(text, []byte("end crc32c "))]
			text = fmt.Appendf(text, "end crc32c %08x\n", crc32.Checksum(text, castagnoli))
			if err := os.WriteFile(path, text, 0o640); err != nil {
				t.Fatal(err)
			}
			return path
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := loaded(t, 1)
			path := c.change(t, dir)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			harness.Refused(t, dir, filepath.Base(path), "version 99", "newer than this program reads")
			if _, status := harness.Counterctl(t, "check", dir); status != 1 {
				t.Errorf("counterctl check: exit status %d, want 1", status)
			}
			harness.WantCtl(t, 1, []string{"repair", dir}, "newer than this program reads")
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

// TestDurableLoading polls a server that reads a large log: it answers from the first moment on, with LOADING where
// data is asked for.
func TestDurableLoading(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := harness.StartIn(t, dir, "--auto-aof-rewrite-min-size", "0", "--appendfsync", "no")
	harness.SeedSchema(t, s.Dial(t))
	n := max(harness.Scaled(800_000), 800_000)
	harness.BulkParallel(t, s, 2, n, func(dst []byte, i int) []byte {
		return harness.AppendCall(dst, "SET", "", uint64(i)*1_000_003, ".cntcm", int64(i%60_000))
	}, harness.WantReply("+OK"))
	s.Kill()
	s = harness.Spawn(t, dir, "--auto-aof-rewrite-min-size", "0")
	seen := map[string]int{}
	percent := 0.0
	began := time.Now()
	for ready := false; !ready; {
		c, err := harness.DialTimeout("tcp", s.Addr, time.Second)
		if err != nil {
			if !s.Alive() || time.Since(began) > 2*harness.StartTimeout {
				t.Fatalf("the server did not start\n%s", s.Log)
			}
			continue
		}
		for !ready {
			ping, err1 := c.TryDo("PING")
			info, err2 := c.TryDo("INFO", "persistence")
			get, err3 := c.TryDo("GET", "1000003.cntcm")
			if err1 != nil || err2 != nil || err3 != nil {
				t.Fatalf("while loading: %v, %v, %v", err1, err2, err3)
			}
			seen[strings.SplitN(ping.Text, " ", 2)[0]]++
			if strings.Contains(info.Text, "loading:1\r\n") {
				seen["loading:1"]++
				_, after, _ := strings.Cut(info.Text, "loading_loaded_perc:")
				now, err := strconv.ParseFloat(strings.SplitN(after, "\r", 2)[0], 64)
				if err != nil || now < percent || now > 100 {
					t.Fatalf("loading_loaded_perc %q after %v", after, percent)
				}
				percent = now
			}
			switch {
			case get.Kind == '-' && strings.HasPrefix(get.Text, "LOADING "):
				seen["GET refused"]++
			case get.Raw == harness.BulkOf("1"):
				ready = true
			default:
				t.Fatalf("GET while loading answered %q", get.Raw)
			}
		}
		c.Close()
	}
	t.Logf("%d records loaded in %v; %v", n, time.Since(began).Round(time.Millisecond), seen)
	if seen["LOADING"] == 0 || seen["loading:1"] == 0 || seen["GET refused"] == 0 || percent == 0 {
		t.Errorf("never seen loading: %v, %v percent", seen, percent)
	}
	s.Dial(t).Want(fmt.Sprintf(":%d\r\n", n), "DBSIZE")
}

func manifests(t testing.TB, dir string) []string { return files(t, dir, "", "MANIFEST-?") }

// files returns the files of a data directory that match a pattern.
func files(t testing.TB, dir, sub, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, sub, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

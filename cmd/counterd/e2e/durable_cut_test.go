package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// TestDurableCutBelowSnapshot damages the log between the offset that the newest snapshot replays from and the one that
// it stands at, as it was made under load. Repair cuts the log there, so that images stand behind its end; the server
// must start from them, and what is written from then on must outlive a restart.
func TestDurableCutBelowSnapshot(t *testing.T) {
	r, _ := random(t)
	dir := t.TempDir()
	s := startIn(t, dir)
	c := s.dial(t)
	seedSchema(t, c)
	coldPosts{300_000}.load(t, s) // several blocks: the snapshot takes some time
	w := newWriters(4, 20, 4)
	wait := w.begin(t, s, r)
	place := regexp.MustCompile(`manifest MANIFEST-\d+ time \S+ offset (\d+) replay (\d+)`)
	var offset, replay int64
	waitUntil(t, "a snapshot is made while the log grows", func() bool {
		saveInBackground(t, c)
		saveInBackground(t, c) // both of them
		m := place.FindStringSubmatch(wantCtl(t, 0, []string{"dump", "--only", "manifests", dir}))
		if m == nil {
			return false
		}
		offset, _ = strconv.ParseInt(m[1], 10, 64)
		replay, _ = strconv.ParseInt(m[2], 10, 64)
		return offset > replay+2000
	})
	time.Sleep(50 * time.Millisecond)
	s.kill()
	wait()
	at := (offset + replay) / 2
	path, start := "", int64(0)
	for _, p := range segments(t, dir) {
		var n int64
		if _, err := fmt.Sscanf(filepath.Base(p), "%d.aof", &n); err == nil && n <= at {
			path, start = p, n
		}
	}
	patch(t, path, 64+at-start, func(b []byte) { b[0] ^= 0x20 }, 1)
	refused(t, dir, filepath.Base(path), "counterctl repair "+dir)
	wantCtl(t, 0, []string{"repair", dir}, "the log ends at offset", "a server starts")
	s = startIn(t, dir)
	c = s.dial(t)
	for i := range 100 {
		c.want("+OK\r\n", "SET", strconv.FormatUint(coldPosts{}.mid(3000*i), 10)+".cntcm", "54321")
	}
	s.kill()
	s = startIn(t, dir)
	c = s.dial(t)
	for i := range 100 {
		c.want(bulkOf("54321"), "GET", strconv.FormatUint(coldPosts{}.mid(3000*i), 10)+".cntcm")
	}
	s.stop()
	wantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
}

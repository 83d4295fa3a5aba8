package durability

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestDurableCutBelowSnapshot damages the log between the offset that the newest snapshot replays from and the one that
// it stands at, as it was made under load. Repair cuts the log there, so that images stand behind its end; the server
// must start from them, and what is written from then on must outlive a restart.
func TestDurableCutBelowSnapshot(t *testing.T) {
	r, _ := harness.Random(t)
	dir := t.TempDir()
	s := harness.StartIn(t, dir)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	harness.ColdPosts{N: 300_000}.Load(t, s) // several blocks: the snapshot takes some time
	w := harness.NewWriters(4, 20, 4)
	wait := w.Begin(t, s, r)
	place := regexp.MustCompile(`manifest MANIFEST-\d+ time \S+ offset (\d+) replay (\d+)`)
	var offset, replay int64
	harness.WaitUntil(t, "a snapshot is made while the log grows", func() bool {
		harness.SaveInBackground(t, c)
		harness.SaveInBackground(t, c) // both of them
		m := place.FindStringSubmatch(harness.WantCtl(t, 0, []string{"dump", "--only", "manifests", dir}))
		if m == nil {
			return false
		}
		offset, _ = strconv.ParseInt(m[1], 10, 64)
		replay, _ = strconv.ParseInt(m[2], 10, 64)
		return offset > replay+2000
	})
	time.Sleep(50 * time.Millisecond)
	s.Kill()
	wait()
	at := (offset + replay) / 2
	path, start := "", int64(0)
	for _, p := range harness.Segments(t, dir) {
		var n int64
		if _, err := fmt.Sscanf(filepath.Base(p), "%d.aof", &n); err == nil && n <= at {
			path, start = p, n
		}
	}
	harness.Patch(t, path, 64+at-start, func(b []byte) { b[0] ^= 0x20 }, 1)
	harness.Refused(t, dir, filepath.Base(path), "counterctl repair "+dir)
	harness.WantCtl(t, 0, []string{"repair", dir}, "the log ends at offset", "a server starts")
	s = harness.StartIn(t, dir)
	c = s.Dial(t)
	for i := range 100 {
		c.Want("+OK\r\n", "SET", strconv.FormatUint(harness.ColdPosts{}.Mid(3000*i), 10)+".cntcm", "54321")
	}
	s.Kill()
	s = harness.StartIn(t, dir)
	c = s.Dial(t)
	for i := range 100 {
		c.Want(harness.BulkOf("54321"), "GET", strconv.FormatUint(harness.ColdPosts{}.Mid(3000*i), 10)+".cntcm")
	}
	s.Stop()
	harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
}

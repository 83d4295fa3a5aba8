// Scenario: files of a primary go bad while a replica asks for a full copy.

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamagedCopy: files that go bad under a running primary do not keep a replica from a full copy. Posts of a damaged
// or missing cold file answer errors on both sides, and everything else is there; of an image memory has all, so it is
// written anew.
func TestDamagedCopy(t *testing.T) {
	for _, c := range []struct {
		what, glob string
		damage     func(path string, b []byte) error
		lost       bool
	}{
		{"cold page", "cold/*.cold", func(path string, b []byte) error { b[len(b)/2] ^= 1; return os.WriteFile(path, b, 0o640) }, true},
		{"cold header", "cold/*.cold", func(path string, b []byte) error { b[20] ^= 1; return os.WriteFile(path, b, 0o640) }, true},
		{"cold end", "cold/*.cold", func(path string, b []byte) error { return os.Truncate(path, int64(len(b)/2)) }, true},
		{"cold file missing", "cold/*.cold", func(path string, _ []byte) error { return os.Remove(path) }, true},
		{"image", "rdb/*.hot", func(path string, b []byte) error { b[len(b)/2] ^= 1; return os.WriteFile(path, b, 0o640) }, false},
		{"image missing", "rdb/*.hot", func(path string, _ []byte) error { return os.Remove(path) }, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			a, b := newReplNode(t), newReplNode(t)
			a.start("")
			w := a.dial()
			for i := range 1000 {
				w.want(fmt.Sprintf("SET %d.cntcm %d", i, i*3), "+OK")
			}
			w.save()
			w.want("COUNTER.DEMOTE weibo 3", "+OK")
			w.want("INCR 4.cntcm", ":13")
			w.save()
			w.save()
			files, _ := filepath.Glob(filepath.Join(a.dir, c.glob))
			if len(files) == 0 {
				t.Fatal("no files")
			}
			for _, path := range files {
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.damage(path, content); err != nil {
					t.Fatal(err)
				}
			}
			b.start(a.addr())
			r := b.dial()
			until(t, "the full copy", func() bool { return b.info("master_link_status") == "up" })
			w.want("SET 5.cntcm 7", "+OK")
			w.want("WAIT 1 0", ":1")
			for i := range 1000 {
				get := fmt.Sprintf("GET %d.cntcm", i)
				mine, theirs := w.do(get).String(), r.do(get).String()
				switch {
				case theirs == mine:
				case c.lost && strings.Contains(theirs, "IOERR ") && i != 4 && i != 5 && i < 999:
				default:
					t.Fatalf("post %d: %q here, %q there", i, theirs, mine)
				}
			}
			r.want("GET 4.cntcm", `"13"`)
			r.want("GET 5.cntcm", `"7"`)
			b.stop()
			b.start(a.addr())
			b.dial().want("GET 5.cntcm", `"7"`)
		})
	}
}

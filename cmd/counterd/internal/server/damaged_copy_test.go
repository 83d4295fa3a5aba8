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

// filledPair is a primary and its replica, with 400 posts in memory.
func filledPair(t *testing.T) (a, b *replNode) {
	a, b = newReplNode(t), newReplNode(t)
	b.start(a.start("").addr())
	w := a.dial()
	for i := range 400 {
		w.want(fmt.Sprintf("SET %d.cntcm %d", i, i*3), "+OK")
	}
	same(t, a, b)
	a.noted()
	return a, b
}

// TestRangeFromFilesSetAside: a node whose directory is useless copies another node, which has lost a cold file. Both nodes had the same file, and it
// is among the files that the node has set aside: it has the posts again, and so has the other node. Changes since are kept.
func TestRangeFromFilesSetAside(t *testing.T) {
	for _, primary := range []bool{false, true} {
		a, b := filledPair(t)
		w := a.dial()
		var files [2]string
		for i, n := range []*replNode{a, b} {
			n.dial().save()
			n.dial().want("COUNTER.DEMOTE weibo 3", "+OK")
			files[i] = fileLike("cold/*", false)(t, n.dir)
		}
		if mine, theirs := fileText(t, files[0]), fileText(t, files[1]); mine != theirs {
			t.Fatalf("the files differ: %d and %d bytes", len(mine), len(theirs))
		}
		w.want("SET 7.cntcm 700", "+OK")
		w.want("ADD COLUMN weibo late hint=8 max=8 suffix=l", "+OK")
		same(t, a, b)
		a.dial().save()
		b.dial().save()
		useless, from := b, a
		if primary {
			useless, from = a, b
		}
		useless.stop()
		damageFile(t, fileLike("cold/*", false)(t, from.dir), damages[6].make)
		ruin(t, useless.dir)
		useless.start("")
		for _, n := range []*replNode{useless, from} {
			until(t, "all posts are there", func() bool {
				return n.info("counterd_healing") == "0" && strings.Contains(n.dial().do("COUNTER.DIGEST").String(), "items=400")
			})
			n.dial().want("GET 8.cntcm", `"24"`)
			n.dial().want("GET 7.cntcm", `"700"`)
		}
		same(t, a, b)
		a.stop()
		b.stop()
	}
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

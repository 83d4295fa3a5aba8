package durability

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/setclock"
)

// TestUpgrade opens the data directories that releases left behind when they were killed: every post has the values it
// had, changes go on, a snapshot and another kill keep all of them, a range of posts is dropped, and counterctl check reports no problem. testdata/releases
// has one directory of each release whose file formats differ, from 0.1.0 on. Make the next one as the first one was made: 1,500 posts of weibo.schema as
// wasBefore has them, BGSAVE behind the first values and behind the changes, a column added, and kill -9.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/releases/*.tar.gz")
	if err != nil || len(archives) < 1 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			dir := unpack(t, archive)
			harness.WantCtl(t, 0, []string{"check", dir})
			s := harness.StartIn(t, dir)
			c := s.Dial(t)
			wantBefore(t, c, 0)
			for i := range 20 {
				mid, _ := wasBefore(i + 1)
				c.Want(fmt.Sprintf(":%d\r\n", 1+i), "INCRBY", mid+".cntqt", strconv.Itoa(1+i-3))
			}
			harness.SaveInBackground(t, c)
			s.Kill()
			harness.WantCtl(t, 0, []string{"check", dir})
			s = harness.StartIn(t, dir)
			c = s.Dial(t)
			wantBefore(t, c, 20)
			last, _ := wasBefore(1400) // it was deleted
			c.Want(":99\r\n", "COUNTER.DROPRANGE", "weibo", last, "9223372036854775808")
			s.Kill()
			harness.WantCtl(t, 0, []string{"check", dir})
			c = harness.StartIn(t, dir).Dial(t)
			c.Want(":1387\r\n", "DBSIZE")
		})
	}
}

// TestUpgradeClock opens the directories of releases with clocks that were set back or forward by ten years meanwhile. Every post is there,
// a change and a snapshot are made, and the next start, by a right clock, has them.
func TestUpgradeClock(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/releases/*.tar.gz")
	if err != nil || len(archives) < 1 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	for _, archive := range archives {
		for _, jump := range []time.Duration{-10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
			dir := unpack(t, archive)
			for start, by := range []time.Duration{jump, 0} {
				s, err := counter.Open(dir, counter.Options{Now: func() time.Time { return setclock.By(time.Now(), by) }})
				if err != nil {
					t.Fatalf("%s, clock %v: %v", archive, by, err)
				}
				for i := range 1500 {
					mid, values := wasBefore(i)
					if values == nil {
						continue
					}
					got, found, err := s.Get(mid + ".cntqt")
					want := uint64(values[3])
					if start == 1 && i == 1 {
						want++
					}
					if err != nil || !found || got != want {
						t.Fatalf("%s, clock %v: post %s is %d, %v, %v, want %d", archive, by, mid, got, found, err, want)
					}
				}
				if start == 0 {
					mid, _ := wasBefore(1)
					if _, err := s.Incr(mid+".cntqt", 1); err != nil {
						t.Fatal(err)
					}
					if err := s.Snapshot(); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// wasBefore is post i as every version was given it: comment, repost, attitude, quote; a deleted one has nil.
func wasBefore(i int) (mid string, values []int) {
	mid = strconv.Itoa(19089006004 + i*4000 + i*7919%3990)
	switch {
	case i == 0: // deleted, and then again
		return mid, []int{0, 0, 0, 3 + 1 + 2 + 3}
	case i%100 == 0:
		return mid, nil
	}
	values = []int{i % 7, i * i % 300, 0, 3}
	if i%2 == 1 {
		values[2] = i
	}
	if i%97 == 0 {
		values[1] += 1 << (i % 30)
	}
	return mid, values
}

// wantBefore checks every post; quoted of them have got another quote since.
func wantBefore(t *testing.T, c *harness.Conn, quoted int) {
	t.Helper()
	for i := range 1500 {
		mid, values := wasBefore(i)
		want := "*4\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n"
		if values != nil {
			if i >= 1 && i <= quoted {
				values[3] = i
			}
			want = "*4\r\n"
			for _, v := range values {
				want += fmt.Sprintf("$%d\r\n%d\r\n", len(strconv.Itoa(v)), v)
			}
		}
		if got := c.Do("HMGET", mid, "comment", "repost", "attitude", "quote"); got.Raw != want {
			t.Fatalf("post %d, %s: got %q, want %q", i, mid, got.Raw, want)
		}
	}
}

// unpack unpacks a data directory that a .tar.gz holds, and returns where it is.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	to, top := t.TempDir(), ""
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(to, top)
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, h.Name)
		if top == "" {
			top = h.Name
		}
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o750)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, 0o640)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

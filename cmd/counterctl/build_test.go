package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

// TestBuild builds directories of files, and says what is wrong with those of which there is none.
func TestBuild(t *testing.T) {
	racetest.Skip(t, "package bulk has tests of its workers")
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	file := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	sch := file("schema", "add counter weibo\nadd column weibo comment hint=8 max=16 suffix=cntcm\nadd column weibo repost hint=8 max=32 suffix=cntrn\n")
	var rising, mixed strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&rising, "%d\t%d\t%d\n", 1000+i*7, i%5, i%700)
		fmt.Fprintf(&mixed, "%d\t%d\t%d\n", 1000+i*1009%3000*7, i*1009%3000%5, i*1009%3000%700)
	}
	head := "mid\tcntcm\trepost\n"
	sorted, unsorted := file("sorted.tsv", head+rising.String()), file("unsorted.tsv", head+mixed.String())
	two := file("schema2", "add counter a\nadd column a n hint=8\nadd counter b\nadd column b n hint=8 suffix=bn\n")
	for n, c := range []struct {
		args string
		want string // in the output
		code int
	}{
		{"--schema " + sch + " " + sorted, "3000 of counter weibo, 1000 to 21993", 0},
		{"--schema " + sch + " --hot 0 --file-posts 100 --cluster " + sorted, "3000 of counter weibo", 0},
		{"--schema " + sch + " " + unsorted, "all posts are read again, and sorted", 0},
		{"--schema " + sch + " --sort --hot-from 10000 " + unsorted, "sorted      in 1 run", 0},
		{"--schema " + sch + " --duplicates last " + sorted + " " + sorted, "3000 lines, of which the last", 0},
		{"--schema " + sch + " --skip-bad 1 --columns mid,comment,repost " + sorted + " " + file("bad.tsv", "90000\t1\t1\n90001\t-\t2\n"),
			`bad.tsv:2: column 2 "comment": "-" is not`, 1},
		{"--schema " + sch + " " + sorted + " " + sorted, "sorted.tsv:2: post 1000 stands twice, first at " + sorted + ":2", 1},
		{"--schema " + sch + " " + file("wide.tsv", "mid\tcomment\n5\t65536\n"), "wide.tsv:2: column 2", 1},
		{"--schema " + sch + " " + file("empty.tsv", "mid\tcomment\n"), "no posts", 1},
		{"--schema " + sch + " " + path("none"), "no such file", 1},
		{"--schema " + file("schema3", "add nothing\n") + " " + sorted, "schema3: line 1", 1},
		{"--schema " + two + " " + sorted, "2 counters: want --counter", 2},
		{"--schema " + two + " --counter c " + sorted, `no counter "c"`, 2},
		{sorted, "want --schema", 2},
		{"--schema " + sch + " --duplicates all " + sorted, "--duplicates", 2},
		{"--schema " + sch + " --memory 1mb " + sorted, "--memory", 2},
		{"--schema " + sch + " --hot big " + sorted, "--hot", 2},
		{"--schema " + sch + " --skip-bad -1 " + sorted, "--skip-bad", 2},
		{"--schema " + sch + " --separator ab " + sorted, "--separator", 2},
		{"--schema " + sch + " - -", "twice", 2},
	} {
		out := path(fmt.Sprint("data", n))
		stdout, stderr, code := ctl(t, append([]string{"build", "--out", out}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: %d, want %d and %q\n%s%s", c.args, code, c.code, c.want, stdout, stderr)
		}
		made := code == 0 || strings.Contains(stdout, "took")
		if left, err := filepath.Glob(out + "*"); err != nil || len(left) != map[bool]int{true: 1, false: 0}[made] {
			t.Errorf("%s left %q", c.args, left)
		}
		if !made {
			continue
		}
		if stdout, stderr, code := ctl(t, "check", out); code != 0 || strings.Contains(stdout, "note") {
			t.Errorf("%s: check: %d %s%s", c.args, code, stdout, stderr)
		}
		s, err := counter.Open(out, counter.Options{Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{0, 1, 1500, 2999} {
			if v, found, err := s.Get(fmt.Sprintf("%d.cntrn", 1000+i*7)); v != uint64(i%700) || !found || err != nil {
				t.Errorf("%s: post %d: %d %t %v", c.args, 1000+i*7, v, found, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	out := path("data0")
	if _, stderr, code := ctl(t, "build", "--schema", sch, "--out", out, sorted); code != 1 || !strings.Contains(stderr, "exists") {
		t.Errorf("over a directory that is there: %d %s", code, stderr)
	}
	// The leftovers of an interrupted build are removed, with a message.
	if err := os.MkdirAll(path("late.building/cold"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := program.Run(ctx, []string{"build", "--schema", sch, "--out", path("late"), sorted}, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "left by a build") ||
		!strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("ended: %d %s", code, &stderr)
	}
	if left, _ := filepath.Glob(path("late*")); len(left) > 0 {
		t.Errorf("ended, and left %q", left)
	}
}

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterctl/internal/directory"
	"github.com/counterd/counterd/cmd/counterctl/internal/export"
	"github.com/counterd/counterd/cmd/counterctl/internal/posts"
	"github.com/counterd/counterd/counter"
)

// exportDir makes a data directory of two counters and returns it.
func exportDir(t *testing.T) string {
	dir := t.TempDir()
	store, err := counter.Open(dir, counter.Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(store.Replication().AdmitCursors())
	must(store.AlterScript("add counter weibo\nadd column weibo comment hint=4 max=32 suffix=c\nadd column weibo repost hint=16 max=63 suffix=r\n" +
		"add column weibo month window=30d/30d of=repost suffix=m\nadd column weibo heat decay=366d of=comment*3+repost suffix=h top=2\n" +
		"add counter video\nadd column video views hint=8 max=32 suffix=v"))
	for key, by := range map[string]int64{"7.c": 5, "8.r": 70_000, "9.r": 1, "video:3.v": 2} {
		_, err := store.Incr(key, by)
		must(err)
	}
	must(store.Snapshot())
	_, err = store.Incr("7.c", 1)
	must(err)
	must(store.Close())
	return dir
}

func TestExportDirectory(t *testing.T) {
	dir := exportDir(t)
	for args, want := range map[string]string{
		"weibo":                                   "mid\tcomment\trepost\n7\t6\t0\n8\t0\t70000\n9\t0\t1\n",
		"weibo --format csv":                      "mid,comment,repost\r\n7,6,0\r\n8,0,70000\r\n9,0,1\r\n",
		"weibo --columns r":                       "mid\trepost\n7\t0\n8\t70000\n9\t1\n",
		"weibo --columns c,m":                     "mid\tcomment\tmonth\n7\t6\t0\n8\t0\t70000\n9\t0\t1\n",
		"weibo --columns h":                       "mid\theat\n7\t18\n8\t70000\n9\t1\n",
		"weibo MID > 7 AND MID <= 8":              "mid\tcomment\trepost\n8\t0\t70000\n",
		"weibo mid in 9 7 888 WHERE c = 0":        "mid\tcomment\trepost\n9\t0\t1\n",
		"weibo WHERE repost < 70000 AND c != 6":   "mid\tcomment\trepost\n9\t0\t1\n",
		"weibo MID != 8 WHERE comment >= 0":       "mid\tcomment\trepost\n7\t6\t0\n9\t0\t1\n",
		"weibo MID < 0":                           "mid\tcomment\trepost\n",
		"video":                                   "mid\tviews\n3\t2\n",
		"video --format resp WHERE views > 1 -o-": "*3\r\n$3\r\nadd\r\n$7\r\ncounter\r\n$5\r\nvideo\r\n",
	} {
		words := append([]string{"export", dir, "--out", "-"}, strings.Fields(args)...)
		out, note, status := ctl(t, words...)
		if status != 0 || !strings.HasPrefix(out, want) || !strings.Contains(args, "resp") && out != want {
			t.Errorf("%s: %d\n%q\nwant\n%q\n%s", args, status, out, want, note)
		}
		if !strings.Contains(note, ", verified, to -") {
			t.Errorf("%s: told %q", args, note)
		}
	}
	out, note, status := ctl(t, "export", dir, "--out", "-", "--format", "sql")
	if status != 0 || strings.Count(out, "CREATE TABLE") != 2 || strings.Count(out, "COMMIT;") != 2 || !strings.Contains(note, "weibo: 3 posts, sums comment=6 repost=70001, verified") {
		t.Errorf("all as SQL: %d, %s\n%s", status, note, out)
	}
}

// TestExportDerived: the commands of an export set what a server stores, and no derived column. They named all, and the server refused each post.
func TestExportDerived(t *testing.T) {
	out, note, status := ctl(t, "export", exportDir(t), "weibo", "--out", "-", "--format", "resp")
	if status != 0 || !strings.Contains(out, "window=30d/30d") || strings.Count(out, "month") != 1 || !strings.Contains(out, "decay=366d") || strings.Count(out, "heat") != 1 ||
		!strings.Contains(out, "*6\r\n$4\r\nHSET\r\n$7\r\nweibo:8\r\n$7\r\ncomment\r\n$1\r\n0\r\n$6\r\nrepost\r\n$5\r\n70000\r\n") {
		t.Errorf("%d: %q, %s", status, out, note)
	}
}

func TestExportFiles(t *testing.T) {
	dir, to := exportDir(t), t.TempDir()
	names := func() (names []string) {
		entries, err := os.ReadDir(to)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for args, want := range map[string]string{
		"":                                "want --out",
		"--out " + to + "/x.bin":          "want one of tsv",
		"--out " + to + "/x.tsv":          "a file for each",
		"no --out " + to + "/x.tsv":       `no counter "no"`,
		"weibo WHERE -o " + to + "/x.tsv": "got the end behind WHERE",
		"weibo WHERE views = 1 --out " + to + "/x.tsv":     "no column 'views'",
		"weibo WHERE c = x --out " + to + "/x.tsv":         "want a number",
		"weibo WHERE c == 1 --out " + to + "/x.tsv":        "want = != < <= > >=",
		"weibo MID IN x --out " + to + "/x.tsv":            "want a mid",
		"weibo LIMIT 5 --out " + to + "/x.tsv":             "want MID",
		"weibo --columns c,comment --out " + to + "/x.tsv": "named twice",
		"weibo --columns m --out " + to + "/x.resp":        "is derived, and no command sets it",
	} {
		_, note, status := ctl(t, append([]string{"export", dir}, strings.Fields(args)...)...)
		if status != 2 || !strings.Contains(note, want) {
			t.Errorf("%q: %d, %s", args, status, note)
		}
	}
	if got := names(); len(got) > 0 {
		t.Errorf("refused exports left %q", got)
	}
	out, note, status := ctl(t, "export", dir, "--out", filepath.Join(to, "posts-{counter}.csv.zst"))
	if got := names(); status != 0 || !slices.Equal(got, []string{"posts-video.csv.zst", "posts-weibo.csv.zst"}) || strings.Count(out, "verified") != 2 {
		t.Errorf("%d: %q, %s%s", status, got, out, note)
	}
}

// TestExportBack writes numbers as a Redis has them.
func TestExportBack(t *testing.T) {
	dir := exportDir(t)
	args := []string{"export", dir, "--out", "-", "--format", "resp", "--map", "p:{mid}#c=weibo.comment", "--map", "r:{mid}=weibo.repost"}
	out, note, status := ctl(t, args...)
	if status != 0 || strings.Count(out, "HSET") != 3 || strings.Count(out, "SET\r\n") != 6 || !strings.Contains(out, "*4\r\n$4\r\nHSET\r\n$3\r\np:7\r\n$1\r\nc\r\n$1\r\n6\r\n") || strings.Contains(note, "video") {
		t.Errorf("%d: %q, %s", status, out, note)
	}
	if out, _, status = ctl(t, append(args, "--skip-zeros")...); status != 0 || strings.Count(out, "SET\r\n") != 3 {
		t.Errorf("without zeros: %d: %q", status, out)
	}
	for args, want := range map[string]string{
		"--out - --map r:{mid}=weibo.repost":              "for --format resp",
		"--out - --format resp --skip-zeros":              "is for --map",
		"--out - --format resp --map r:{mid}=weibo.x":     "no weibo.x",
		"--out - --format resp --map r:{mid}{*}=weibo.c":  "side by side",
		"--out - --format resp --map r:{mid}:{*}=weibo.c": "stand for {*}",
	} {
		if _, note, status := ctl(t, append([]string{"export", dir}, strings.Fields(args)...)...); status == 0 || !strings.Contains(note, want) {
			t.Errorf("%s: %d, %s", args, status, note)
		}
	}
}

// liar is a source that says of its posts what it likes.
type liar struct {
	posts.Source
	changed bool
}

func (l *liar) Begin() error { return nil }

func (l *liar) Tally(t *posts.Wanted) (*export.Tally, bool, error) {
	said, _, err := l.Source.Tally(t)
	said.Posts++
	return said, l.changed, err
}

// TestExportVerifies: a difference from the source is an error, and leaves no file, unless posts were changed.
func TestExportVerifies(t *testing.T) {
	err := directory.With(t.Context(), exportDir(t), io.Discard, func(dir *directory.Dir) error {
		store, err := dir.OpenStore()
		if err != nil {
			return err
		}
		defer store.Close()
		for _, changed := range []bool{true, false} {
			var out bytes.Buffer
			e := &exporter{out: filepath.Join(t.TempDir(), "x.tsv"), format: "tsv", counter: "weibo"}
			err := e.write(t.Context(), output{Stdout: &out, Stderr: io.Discard}, &liar{posts.OfStore(store), changed})
			_, missing := os.Stat(e.out)
			if changed && (err != nil || missing != nil || !strings.Contains(out.String(), "changed meanwhile: now they are 4 posts")) {
				t.Errorf("changed: %v, %v, %s", err, missing, &out)
			}
			if !changed && (err == nil || missing == nil || !strings.Contains(err.Error(), "read 3 posts, sums comment=6 repost=70001, and the source says 4 posts")) {
				t.Errorf("not changed: %v, %v", err, missing)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

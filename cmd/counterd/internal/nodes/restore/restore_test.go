package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/internal/backup"
	"github.com/counterd/counterd/cmd/internal/backup/place"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start opens a store, increments a post, and closes it: each start of a primary begins a term.
func start(t *testing.T, dir string) {
	t.Helper()
	store, err := counter.Open(dir, counter.Options{})
	must(t, err)
	if len(store.Schema().Counters()) == 0 {
		must(t, store.AlterScript("add counter a\nadd column a n hint=4 max=32 suffix=n"))
	}
	_, err = store.Incr("1.n", 1)
	must(t, err)
	must(t, store.Close())
}

// backUp adds a backup of a directory to a place.
func backUp(t *testing.T, dir, to string) {
	t.Helper()
	s, err := place.OpenDir(to)
	must(t, err)
	_, err = backup.NewMaker(s, backup.Options{Source: "here"}).Make(t.Context(), vfs.OS(), dir)
	must(t, err)
}

func stage(t *testing.T, dir, from string) (Staged, error) {
	t.Helper()
	return Stage(t.Context(), Options{Dir: dir, Place: from, Logger: slog.New(slog.DiscardHandler)})
}

// TestStage: a backup of an earlier start of the store is taken, and stands beside the damaged files, in a new term.
func TestStage(t *testing.T) {
	dir, from := t.TempDir(), t.TempDir()
	start(t, dir)
	backUp(t, dir, from)
	start(t, dir)
	was, err := logfile.ReadLineage(vfs.OS(), dir)
	must(t, err)
	s, err := stage(t, dir, from)
	must(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "HISTORY.restored"))
	must(t, err)
	l, err := format.DecodeLineage("HISTORY", text)
	must(t, err)
	if c := l.Current(); c.ReplID != s.Term || c.Replica || c.Epoch <= was.Current().Epoch || c.ReplID == was.Current().ReplID {
		t.Errorf("the restored log is of %+v, staged %+v, the damaged one of %+v", c, s, was.Current())
	}
	if _, err := os.Stat(filepath.Join(dir, workName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the work is left behind: %v", err)
	}
}

// TestStageBehindRestarts: the node made changes behind its backup, and was restarted several times since. All changes are in its own log, whose
// terms the backup does not know. Also where HISTORY and its copy are damaged.
func TestStageBehindRestarts(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		dir, from := t.TempDir(), t.TempDir()
		store, err := counter.Open(dir, counter.Options{})
		must(t, err)
		must(t, store.AlterScript("add counter a\nadd column a n hint=4 max=32 suffix=n"))
		must(t, store.Set("1.n", 5))
		backUp(t, dir, from)
		must(t, store.Set("1.n", 6)) // in the term of the backup
		must(t, store.Close())
		for range 3 {
			start(t, dir)
		}
		if damaged {
			for _, name := range []string{format.HistoryName, format.HistoryName + vfs.CopySuffix} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte("counterd history 1\n"), 0o640))
			}
		}
		s, err := stage(t, dir, from)
		must(t, err)
		if s.Lost() != 0 || s.End == s.From {
			t.Errorf("damaged %t: lost %d bytes: %+v", damaged, s.Lost(), s)
		}
		out := t.TempDir()
		names, err := filepath.Glob(filepath.Join(dir, "*.restored"))
		must(t, err)
		for _, name := range names {
			must(t, os.Rename(name, filepath.Join(out, strings.TrimSuffix(filepath.Base(name), ".restored"))))
		}
		store, err = counter.Open(out, counter.Options{})
		must(t, err)
		if v, _, err := store.Get("1.n"); v != 9 || err != nil {
			t.Errorf("damaged %t: the restored store has %d, %v, want 9", damaged, v, err)
		}
		must(t, store.Close())
	}
}

// serveBucket serves a directory with backups as a bucket of S3, for reading.
func serveBucket(t *testing.T, dir string) (place string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key, ok := strings.CutPrefix(r.URL.Path, "/posts/"); ok {
			http.ServeFile(w, r, filepath.Join(dir, key))
			return
		}
		fmt.Fprint(w, "<ListBucketResult>")
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			name, _ := filepath.Rel(dir, path)
			if err == nil && !e.IsDir() && strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
				fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>1</Size></Contents>", name)
			}
			return err
		})
		fmt.Fprint(w, "</ListBucketResult>")
	}))
	t.Cleanup(server.Close)
	return "s3://posts?tls=no&endpoint=" + strings.TrimPrefix(server.URL, "http://")
}

// TestStageFromBucket: a backup in a bucket is taken as one in a directory is.
func TestStageFromBucket(t *testing.T) {
	dir, from := t.TempDir(), t.TempDir()
	start(t, dir)
	backUp(t, dir, from)
	start(t, dir)
	s, err := stage(t, dir, serveBucket(t, from))
	must(t, err)
	if _, err := os.Stat(filepath.Join(dir, "HISTORY.restored")); err != nil || s.End <= s.From {
		t.Errorf("staged %+v, %v", s, err)
	}
}

// TestStageRefused: a backup behind a point where the log was left is none of this store's log, and a replica has a primary.
func TestStageRefused(t *testing.T) {
	dir, from := t.TempDir(), t.TempDir()
	start(t, dir)
	fork := t.TempDir()
	must(t, os.CopyFS(fork, os.DirFS(dir)))
	start(t, fork) // another term than the next one of dir
	backUp(t, fork, from)
	start(t, dir)
	for _, replica := range []bool{false, true} {
		l, err := logfile.ReadLineage(vfs.OS(), dir)
		must(t, err)
		l.Replica = replica
		must(t, logfile.WriteLineage(vfs.OS(), dir, &l))
		_, err = stage(t, dir, from)
		if err == nil || errors.Is(err, ErrReplica) != replica || !replica && !strings.Contains(err.Error(), "another past") {
			t.Errorf("replica %v: %v", replica, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*.restored")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

// TestStagePromoted: HISTORY and its copy of a node are damaged that was a replica, and leads by now. The headers of its
// log are those of its primary.
func TestStagePromoted(t *testing.T) {
	dir, from := t.TempDir(), t.TempDir()
	start(t, dir)
	backUp(t, dir, from)
	start(t, dir)
	segs, err := logfile.ListSegments(vfs.OS(), dir)
	must(t, err)
	for _, s := range segs {
		file, err := vfs.OS().OpenRW(s.Path)
		must(t, err)
		h, fault, err := logfile.ReadSegmentHeader(file, &s)
		if fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		h.History.Replica = true
		_, err = file.WriteAt(h.AppendTo(nil), 0)
		must(t, errors.Join(err, file.Close()))
	}
	for _, name := range []string{format.HistoryName, format.HistoryName + vfs.CopySuffix} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("counterd history 1\n"), 0o640))
	}
	s, err := stage(t, dir, from)
	must(t, err)
	if s.End <= s.From {
		t.Errorf("nothing of its own log was taken: %+v", s)
	}
}

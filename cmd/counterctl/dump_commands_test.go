package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/cmd/counterctl/internal/directory"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/vfs"
)

// TestDumpColdFileGone: a server removes a cold file, behind a merge, while its posts are being printed. The dump tells that it lacks them. It ended with status 0, and said nothing.
func TestDumpColdFileGone(t *testing.T) {
	dir := t.TempDir()
	store, err := counter.Open(dir, counter.Options{Manual: true, BlockItems: 16})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=4 max=32 suffix=c"); err != nil {
		t.Fatal(err)
	}
	for mid := range uint64(200) {
		if err := store.Set(string(store.Schema().AppendKey(nil, store.Schema().Counter("weibo"), 0, mid+1)), 7); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Admin().Demote("weibo", 20); err != nil {
		t.Fatal(err)
	}
	if err := store.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	notes := 0
	d := &dumper{Dir: &directory.Dir{Path: dir, FS: vfs.NewView(vfs.OS(), nil)}, dumpOptions: &dumpOptions{}, ctx: t.Context(), w: bufio.NewWriter(&text), note: func(string, ...any) { notes++ }}
	d.mids.Hi = 1 << 63
	if store, err = d.OpenStore(); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	files, err := filepath.Glob(filepath.Join(dir, "cold", "*.cold"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.printStore(store); err != nil {
		t.Fatal(err)
	}
	d.w.Flush()
	if lines := bytes.Count(text.Bytes(), []byte("HSET")); lines < 200 && notes == 0 || lines == 0 {
		t.Errorf("%d posts of 200, and %d notes that some are left out", lines, notes)
	}
	if notes == 0 {
		t.Error("all posts were printed: the file was read before it was removed")
	}
}

package repl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist/vfs"
)

// twins are two nodes with the same log and snapshots at the same offset, so that the files of both have the same names
// and sizes, but not the same bytes.
func twins(t testing.TB) (a, b *testHost) {
	t.Helper()
	a = &testHost{t: t, sim: vfs.NewSim(), seed: 1}
	b = &testHost{t: t, sim: vfs.NewSim(), seed: 2}
	s := a.open()
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := s.Set(fmt.Sprintf("%d.n", i), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	a.commit()
	if _, err := b.open().Replication().Follow(s.Replication().Lineage()); err != nil {
		t.Fatal(err)
	}
	for _, f := range frames(t, s, 0) {
		if _, err := b.Store().Replication().Replicate(f); err != nil {
			t.Fatal(err)
		}
	}
	b.commit()
	for _, h := range []*testHost{a, b} {
		if err := h.Store().Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	x, y := a.Store().Replication().Manifests()[0].Counters[0].Blocks[0], b.Store().Replication().Manifests()[0].Counters[0].Blocks[0]
	if x.Name != y.Name || x.Bytes != y.Bytes || x.CRC == y.CRC {
		t.Fatalf("%+v and %+v, want different files of one name and size", x, y)
	}
	return a, b
}

// TestCopyBesideOwnFiles copies a node's data, and then that of one whose files have the same names, while the files of
// the first copy are those of this node's own snapshot. Wherever the second is cut off: all that the snapshot names is
// as it was, and a restart finds it.
func TestCopyBesideOwnFiles(t *testing.T) {
	a, b := twins(t)
	c := &testHost{t: t, sim: vfs.NewSim()}
	c.open()
	if err := newTestLink(t, c, true).hears(append([]byte(hello), b.copied(t)...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if _, err := c.Store().Replication().Lead(); err != nil {
		t.Fatal(err)
	}
	if err := c.Store().Set("99.n", 99); err != nil {
		t.Fatal(err)
	}
	c.commit()
	want, said := digest(t, c.Store()), a.copied(t)
	for n := 0; n <= len(said); n += 1 + len(said)/places() {
		h := &testHost{t: t, sim: c.sim.Kill()}
		h.open()
		l := newTestLink(t, h, true)
		if err := l.hears(append([]byte(hello), said[:n]...)); err == nil {
			t.Fatalf("cut at byte %d: no error", n)
		}
		if h.opens > 1 { // it had all and changed over
			continue
		}
		left := h.sim.Kill()
		report, err := datadir.Check(left, "data", datadir.CheckOptions{})
		if err != nil || !report.OK() {
			t.Fatalf("cut at byte %d: %v, %v", n, err, report.Problems)
		}
		h = &testHost{t: t, sim: left}
		if got := digest(t, h.open()); got != want {
			t.Fatalf("cut at byte %d: got %s, want %s", n, got, want)
		}
	}
}

// files lists the block files of a node.
func (h *testHost) files(t testing.TB) (all []string) {
	t.Helper()
	for _, dir := range []string{"data/rdb", "data/cold"} {
		names, err := h.sim.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			all = append(all, path.Join(dir, name))
		}
	}
	return all
}

// TestFetchedOnce cuts a copy off before its end: the next connection asks for nothing that is there whole, not even
// after a snapshot of the node's own, and what another snapshot has no use for goes, at the link's end all of it.
func TestFetchedOnce(t *testing.T) {
	w := newWorld(t)
	said := w.copied(t)
	end := bytes.Index(said, []byte("\r\n+CONTINUE")) + 2
	from := bytes.Index(said, []byte("\r\n$")) + 2 // the first file's head
	c := &testHost{t: t, sim: vfs.NewSim()}
	c.open()
	l := newTestLink(t, c, true)
	if err := l.hears(append([]byte(hello), said[:end]...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	before := c.files(t)
	if len(before) == 0 || slices.ContainsFunc(before, func(name string) bool { return !strings.HasPrefix(path.Base(name), "copy-") }) {
		t.Fatalf("files %q, want copies", before)
	}
	if err := c.Store().Snapshot(); err != nil {
		t.Fatal(err)
	}
	// Again, and one file is gone meanwhile: that one alone comes, and is looked at.
	if err := c.sim.Remove(before[0]); err != nil {
		t.Fatal(err)
	}
	if err := l.hears(append([]byte(hello), said[:from]...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var gone *fetchedFile
	for _, file := range l.fetched.files {
		if !file.whole {
			gone = file
		}
	}
	if gone == nil || gone.ours != path.Base(before[0]) {
		t.Fatalf("asks for %+v, want %s", gone, before[0])
	}
	bad := []byte("$0\r\n\r\n")
	for key := range l.fetched.files {
		if l.fetched.files[key] == gone {
			bad = append(fmt.Appendf(nil, "$%d\r\n", key.block.Bytes), bytes.Repeat([]byte("x"), int(key.block.Bytes)+2)...)
			copy(bad[len(bad)-2:], "\r\n")
		}
	}
	if err := l.hears(append(append([]byte(hello), said[:from]...), bad...)); !errors.Is(err, ErrProtocol) {
		t.Fatalf("a file that comes again as another: %v", err)
	}
	a, _ := twins(t)
	said = a.copied(t)
	if err := l.hears(append([]byte(hello), said[:bytes.Index(said, []byte("\r\n+CONTINUE"))+2]...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for _, name := range c.files(t) {
		if slices.Contains(before, name) {
			t.Errorf("%s is there still, and of no use", name)
		}
	}
	l.fetched.discard(c.sim, "data")
	if left := c.files(t); slices.ContainsFunc(left, func(name string) bool { return strings.HasPrefix(path.Base(name), "copy-") }) {
		t.Errorf("left: %q", left)
	}
}

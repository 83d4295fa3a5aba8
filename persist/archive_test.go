package persist

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// sampleArchive archives the directory of sampleDir, which is returned too.
func sampleArchive(t testing.TB, withSnapshot bool) (archive []byte, disk *vfs.Sim) {
	t.Helper()
	_, disk, opts := sampleDir(t)
	d, err := OpenDir(disk, testDir)
	must(t, err)
	m := d.Manifests()[0]
	from := m.Replay
	if !withSnapshot {
		m, from = nil, 0
	}
	l, _, err := OpenLog(opts, from, discard)
	must(t, err)
	lineage := Lineage{Terms: []Term{{ReplID{4}, 6, 0}, {testHistory.ReplID, testHistory.Epoch, 700}}, cut: true, cutAt: 9}
	w, err := NewArchiveWriter(testDir, l, m, lineage)
	must(t, err)
	var out bytes.Buffer
	n, err := w.WriteTo(&out)
	must(t, err)
	if n != w.Size() || n != int64(out.Len()) || w.End() != l.Written() {
		t.Fatalf("%d bytes written, %d announced, to offset %d of %d", n, w.Size(), w.End(), l.Written())
	}
	must(t, w.Close())
	must(t, l.Close())
	must(t, d.Close())
	return out.Bytes(), disk
}

// putArchive opens an archive that lies on a file system of its own.
func putArchive(t testing.TB, content []byte) (*Archive, error) {
	t.Helper()
	disk := newFS(t)
	file, err := disk.Create("/data/a.archive")
	must(t, err)
	_, err = file.WriteAt(content, 0)
	must(t, errors.Join(err, file.Close()))
	return OpenArchive(disk, "/data/a.archive")
}

func TestArchiveGolden(t *testing.T) {
	b, _ := sampleArchive(t, true)
	golden(t, "v1-log3.archive", b) // with segments of version 3
	for _, name := range []string{"v1.archive", "v1-log2.archive"} {
		old, err := os.ReadFile("testdata/" + name)
		must(t, err)
		a, err := putArchive(t, old)
		must(t, err)
		must(t, a.Verify(nil))
		must(t, verifyDir(a, a.Path()))
		must(t, a.Close())
	}
}

// TestArchive reads an archive as the directory that it was made of: nothing is wrong with it, and it has the same
// records.
func TestArchive(t *testing.T) {
	for _, withSnapshot := range []bool{true, false} {
		b, disk := sampleArchive(t, withSnapshot)
		a, err := putArchive(t, b)
		must(t, err)
		must(t, a.Verify(nil))
		before, _, ends, _ := logRecords(t, disk, testDir, 0)
		end := ends[len(ends)-1]
		if a.End() != end {
			t.Errorf("ends at %d, want %d", a.End(), end)
		}
		view := vfs.NewView(a, nil)
		must(t, verifyDir(view, a.Path()))
		l, err := ReadLineage(view, a.Path())
		must(t, err)
		if l.cut || len(l.Terms) != 2 || l.Current() != testHistory {
			t.Errorf("history %+v", l)
		}
		from := uint64(0)
		if withSnapshot {
			m, err := ReadManifest(view, filepath.Join(a.Path(), ManifestName(2)))
			must(t, err)
			from = m.Replay
		}
		after, _, _, _ := logRecords(t, view, a.Path(), from)
		if tail := before[len(before)-len(after):]; len(after) == 0 || !withSnapshot && len(after) != len(before) {
			t.Errorf("%d records of %d", len(after), len(before))
		} else {
			for i := range after {
				if after[i] != tail[i] {
					t.Fatalf("record %d: %s, want %s", i, after[i], tail[i])
				}
			}
		}
		if _, err := a.Create("/data/a.archive/x"); err == nil {
			t.Error("an archive was written to")
		}
		must(t, a.Close())
	}
}

// TestArchiveDamage flips every bit of an archive and cuts it at every length: it is refused, with the place.
func TestArchiveDamage(t *testing.T) {
	whole, _ := sampleArchive(t, true)
	if testing.Short() {
		whole, _ = sampleArchive(t, false)
	}
	disk := newFS(t)
	file, err := disk.Create("/data/a")
	must(t, err)
	everyDamage(t, whole, func(b []byte) error {
		must(t, file.Truncate(int64(len(b))))
		if _, err := file.WriteAt(b, 0); err != nil {
			return err
		}
		a, err := OpenArchive(disk, "/data/a")
		if err == nil {
			err = errors.Join(a.Verify(nil), a.Close())
		}
		var corrupt *CorruptError
		if errors.As(err, &corrupt) && (corrupt.File != "/data/a" || corrupt.Offset > int64(len(whole))) {
			t.Fatalf("the place: %v", err)
		}
		if len(b) < len(whole) && len(b) >= archiveHeaderLen && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut to %d bytes: %v", len(b), err)
		}
		return err
	})
	must(t, file.Close())
	if leaks := disk.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
}

// TestArchiveRefused: archives whose checksums are right and that say what none says.
func TestArchiveRefused(t *testing.T) {
	segment := (&segmentHeader{history: testHistory, size: segmentHeaderLen}).appendTo(nil)
	build := func(version byte, parts ...string) []byte {
		var body []byte
		for _, name := range parts {
			body = appendArchivePart(body, name, uint64(len(segment)))
			body = append(body, segment...)
			body = append(body, byte(crc32c(segment)), byte(crc32c(segment)>>8), byte(crc32c(segment)>>16), byte(crc32c(segment)>>24))
		}
		b := appendArchiveHeader(nil, len(parts), uint64(archiveHeaderLen+len(body)))
		b[8] = version
		sum := crc32c(b[:24])
		b[24], b[25], b[26], b[27] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		return append(b, body...)
	}
	first := "log/" + SegmentName(0)
	a, err := putArchive(t, build(1, first))
	must(t, err)
	must(t, a.Verify(nil))
	must(t, a.Close())
	if _, err := putArchive(t, build(2, first)); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("version 2: %v", err)
	}
	for name, parts := range map[string][]string{
		"no log":         {"HISTORY"},
		"twice":          {first, first},
		"a gap":          {first, "log/" + SegmentName(7)},
		"a path":         {first, "rdb/../../etc/x.hot"},
		"a parent":       {first, "../x"},
		"absolute":       {first, "/etc/x.hot"},
		"a stranger":     {first, "rdb/x"},
		"the lock":       {first, "LOCK"},
		"a manifest's 0": {first, "MANIFEST-01"},
	} {
		if _, err := putArchive(t, build(1, parts...)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := appendArchiveHeader(nil, 1<<32-1, archiveHeaderLen)
	if _, err := putArchive(t, many); !errors.Is(err, ErrCorrupt) {
		t.Errorf("four billion parts: %v", err)
	}
}

// TestArchiveSource: a block file that is not as the snapshot says ends the writing.
func TestArchiveSource(t *testing.T) {
	for _, change := range []func(disk vfs.FS, path string){
		func(disk vfs.FS, path string) { must(t, disk.Remove(path)) },
		func(disk vfs.FS, path string) { must(t, truncateTo(disk, path, 5)) },
	} {
		_, disk, opts := sampleDir(t)
		d, err := OpenDir(disk, testDir)
		must(t, err)
		m := d.Manifests()[0]
		l, _, err := OpenLog(opts, m.Replay, discard)
		must(t, err)
		w, err := NewArchiveWriter(testDir, l, m, Lineage{Terms: []Term{{testHistory.ReplID, 7, 0}}})
		must(t, err)
		change(disk, m.Counters[0].Blocks[0].Path(testDir))
		if n, err := w.WriteTo(io.Discard); err == nil || n >= w.Size() {
			t.Errorf("wrote %d of %d: %v", n, w.Size(), err)
		}
		must(t, w.Close())
		must(t, l.Close())
		must(t, d.Close())
		if leaks := disk.Leaks(); len(leaks) > 0 {
			t.Error("open files:", leaks)
		}
	}
}

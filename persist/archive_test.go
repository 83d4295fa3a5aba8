package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// sampleArchive archives the directory of sampleDir, which is returned too.
func sampleArchive(t testing.TB, withSnapshot, compressed bool) (archive []byte, disk *vfs.Sim) {
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
	write := w.WriteTo
	if compressed {
		write = w.WriteCompressed
	}
	n, err := write(&out)
	must(t, err)
	if !compressed && n != w.Size() || n != int64(out.Len()) || w.End() != l.Written() {
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
	b, _ := sampleArchive(t, true, false)
	golden(t, "v1-log5.archive", b) // with segments of version 5
	b, _ = sampleArchive(t, true, true)
	if *update { // another version of the encoder may write other bytes
		must(t, os.WriteFile("testdata/v2-log6.archive", b, 0o644))
	}
	for _, name := range []string{"v1-log5.archive", "v2-log6.archive"} {
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
	for i := range 4 {
		withSnapshot, compressed := i%2 == 0, i/2 == 1
		b, disk := sampleArchive(t, withSnapshot, compressed)
		if compressed { // as redis-cli leaves it where it cannot cut the mark off
			b = append(b, "0123456789012345678901234567890123456789"...)
		}
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
	racetest.Skip(t, "it starts no goroutine")
	whole, _ := sampleArchive(t, true, false)
	if testing.Short() {
		whole, _ = sampleArchive(t, false, false)
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

// TestArchiveCompressedDamage is the same of one that is compressed, with a bit of each byte.
func TestArchiveCompressedDamage(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	whole, _ := sampleArchive(t, true, true)
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		a, err := putArchive(t, b)
		if err == nil {
			err = errors.Join(a.Verify(nil), a.Close())
		}
		if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupportedFormat) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if _, err := putArchive(t, whole[:i]); !errors.Is(err, ErrCorrupt) || i >= archiveHeaderLen && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
	if _, err := putArchive(t, append(whole, 0)); !errors.Is(err, ErrCorrupt) {
		t.Error("a byte more:", err)
	}
}

// TestArchiveRefused: archives whose checksums are right and that say what none says.
func TestArchiveRefused(t *testing.T) {
	segment := (&segmentHeader{history: testHistory, size: segmentHeaderLen}).appendTo(nil)
	build := func(version byte, parts ...string) []byte {
		var body []byte
		for _, name := range parts {
			body = appendArchivePart(body, archivePlain, name, uint64(len(segment)))
			body = append(body, segment...)
			body = append(body, byte(crc32c(segment)), byte(crc32c(segment)>>8), byte(crc32c(segment)>>16), byte(crc32c(segment)>>24))
		}
		b := appendArchiveHeader(nil, archiveVersion, len(parts), uint64(archiveHeaderLen+len(body)))
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
	if _, err := putArchive(t, build(3, first)); !errors.Is(err, ErrUnsupportedFormat) {
		t.Errorf("version 3: %v", err)
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
	for name, image := range map[string][]byte{
		"no length":       make([]byte, 7),
		"a length above":  binary.LittleEndian.AppendUint64(nil, maxArchivePacked+1),
		"another length":  append(binary.LittleEndian.AppendUint64(nil, 9), zstdOf(t, "image")...),
		"a length behind": append(binary.LittleEndian.AppendUint64(nil, 4), zstdOf(t, "image")...),
		"no zstd":         binary.LittleEndian.AppendUint64(nil, 5),
	} {
		b := appendArchiveHeader(nil, archiveCompressed, 0, 0)
		for _, p := range []struct {
			kind    uint16
			name    string
			content []byte
		}{{archivePlain, first, segment}, {archiveZstd, "rdb/x.hot", image}} {
			b = append(appendArchivePart(b, p.kind, p.name, uint64(len(p.content))), p.content...)
			b = binary.LittleEndian.AppendUint32(b, crc32c(p.content))
		}
		a, err := putArchive(t, appendArchivePart(b, archiveEnd, "", uint64(len(b))))
		if err == nil {
			_, err = a.Open(filepath.Join(a.Path(), "rdb", "x.hot"))
			must(t, a.Close())
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("an image with %s: %v", name, err)
		}
	}
	many := appendArchiveHeader(nil, archiveVersion, 1<<32-1, archiveHeaderLen)
	if _, err := putArchive(t, many); !errors.Is(err, ErrCorrupt) {
		t.Errorf("four billion parts: %v", err)
	}
}

// zstdOf compresses a text.
func zstdOf(t *testing.T, text string) []byte {
	e, err := zstd.NewWriter(nil)
	must(t, err)
	return e.EncodeAll([]byte(text), nil)
}

// TestArchiveCompressed: the log of a compressed archive is in packed segments, which are small, and the whole is smaller.
func TestArchiveCompressed(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	disk := newFS(t)
	l, _, err := OpenLog(LogOptions{FS: disk, Dir: testDir, History: testHistory, Create: true, Manual: true, Now: newClock().Now}, 0, discard)
	must(t, err)
	for i := range uint64(10) {
		var records []byte
		for k := range uint64(40_000) {
			records = AppendSet(records, 1, 1, i*1000+k%17*4000, k)
		}
		_, err := l.Append(records)
		must(t, err)
	}
	must(t, l.Sync())
	w, err := NewArchiveWriter(testDir, l, nil, Lineage{Terms: []Term{{testHistory.ReplID, testHistory.Epoch, 0}}})
	must(t, err)
	var out bytes.Buffer
	n, err := w.WriteCompressed(&out)
	must(t, err)
	if n*2 > w.Size() || n != int64(out.Len()) || w.Size() < 3*archiveLogPart {
		t.Errorf("%d bytes in place of %d", n, w.Size())
	}
	must(t, w.Close())
	must(t, l.Close())
	a, err := putArchive(t, out.Bytes())
	must(t, err)
	must(t, a.Verify(nil))
	segs, err := Segments(a, a.Path())
	must(t, err)
	if len(segs) < 2 || a.End() != l.Written() {
		t.Errorf("%d segments up to %d, want %d", len(segs), a.End(), l.Written())
	}
	want, _, _, _ := logRecords(t, disk, testDir, 0)
	got, _, _, _ := logRecords(t, a, a.Path(), 0)
	if !slices.Equal(got, want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
	must(t, a.Close())
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
		if _, err := w.WriteCompressed(io.Discard); err == nil {
			t.Error("wrote it compressed")
		}
		must(t, w.Close())
		must(t, l.Close())
		must(t, d.Close())
		if leaks := disk.Leaks(); len(leaks) > 0 {
			t.Error("open files:", leaks)
		}
	}
}

package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/klauspost/compress/zstd"
)

// sampleArchive archives the directory of persisttest.SampleDir, which is returned too.
func sampleArchive(t testing.TB, withSnapshot, compressed bool) (archive []byte, disk *vfs.Sim) {
	t.Helper()
	_, disk, opts := persisttest.SampleDir(t)
	d, err := persist.OpenDir(disk, persisttest.Dir)
	persisttest.Must(t, err)
	m := d.Manifests()[0]
	from := m.Replay
	if !withSnapshot {
		m, from = nil, 0
	}
	l, _, err := persist.OpenLog(opts, from, persisttest.Discard)
	persisttest.Must(t, err)
	lineage := format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{4}, Epoch: 6, Start: 0}, {ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 700}}, Cutting: true, CuttingAt: 9, NeedsSnapshot: compressed}
	w, err := NewWriter(disk, persisttest.Dir, l, m, lineage)
	persisttest.Must(t, err)
	var out bytes.Buffer
	write := w.WriteTo
	if compressed {
		write = w.WriteCompressed
	}
	n, err := write(&out)
	persisttest.Must(t, err)
	if !compressed && n != w.Size() || n != int64(out.Len()) || w.End() != l.Written() {
		t.Fatalf("%d bytes written, %d announced, to offset %d of %d", n, w.Size(), w.End(), l.Written())
	}
	persisttest.Must(t, w.Close())
	persisttest.Must(t, l.Close())
	persisttest.Must(t, d.Close())
	return out.Bytes(), disk
}

// putArchive opens an archive that lies on a file system of its own.
func putArchive(t testing.TB, content []byte) (*Archive, error) {
	t.Helper()
	disk := persisttest.NewFS(t)
	file, err := disk.Create("/data/a.archive")
	persisttest.Must(t, err)
	_, err = file.WriteAt(content, 0)
	persisttest.Must(t, errors.Join(err, file.Close()))
	return Open(disk, "/data/a.archive")
}

func TestArchiveGolden(t *testing.T) {
	b, _ := sampleArchive(t, true, false)
	persisttest.Golden(t, "v1-log5.archive", b) // with segments of version 5
	b, _ = sampleArchive(t, true, true)
	if *persisttest.Update { // another version of the encoder may write other bytes
		persisttest.Must(t, os.WriteFile("testdata/v2-log6.archive", b, 0o644))
	}
	for _, name := range []string{"v1-log5.archive", "v2-log6.archive"} {
		old, err := os.ReadFile("testdata/" + name)
		persisttest.Must(t, err)
		a, err := putArchive(t, old)
		persisttest.Must(t, err)
		persisttest.Must(t, a.Verify(nil))
		persisttest.Must(t, persisttest.VerifyDir(a, a.Path()))
		persisttest.Must(t, a.Close())
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
		persisttest.Must(t, err)
		persisttest.Must(t, a.Verify(nil))
		before, _, ends, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
		end := ends[len(ends)-1]
		if a.End() != end {
			t.Errorf("ends at %d, want %d", a.End(), end)
		}
		view := vfs.NewView(a, nil)
		persisttest.Must(t, persisttest.VerifyDir(view, a.Path()))
		l, err := logfile.ReadLineage(view, a.Path())
		persisttest.Must(t, err)
		if l.Cutting || len(l.Terms) != 2 || l.Current() != persisttest.History || l.NeedsSnapshot != compressed {
			t.Errorf("history %+v", l)
		}
		from := uint64(0)
		if withSnapshot {
			m, err := snapfile.ReadManifest(view, filepath.Join(a.Path(), format.ManifestName(2)))
			persisttest.Must(t, err)
			from = m.Replay
		}
		after, _, _, _ := persisttest.LogRecords(t, view, a.Path(), from)
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
		persisttest.Must(t, a.Close())
	}
}

// TestArchiveDamage flips every bit of an archive and cuts it at every length: it is refused, with the place.
func TestArchiveDamage(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	whole, _ := sampleArchive(t, true, false)
	if testing.Short() {
		whole, _ = sampleArchive(t, false, false)
	}
	disk := persisttest.NewFS(t)
	file, err := disk.Create("/data/a")
	persisttest.Must(t, err)
	damagetest.AllFound(t, whole, persisttest.IsDamage, func(b []byte) error {
		persisttest.Must(t, file.Truncate(int64(len(b))))
		if _, err := file.WriteAt(b, 0); err != nil {
			return err
		}
		a, err := Open(disk, "/data/a")
		if err == nil {
			err = errors.Join(a.Verify(nil), a.Close())
		}
		var corrupt *format.CorruptError
		if errors.As(err, &corrupt) && (corrupt.File != "/data/a" || corrupt.Offset > int64(len(whole))) {
			t.Fatalf("the place: %v", err)
		}
		if len(b) < len(whole) && len(b) >= archiveHeaderLen && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut to %d bytes: %v", len(b), err)
		}
		return err
	})
	persisttest.Must(t, file.Close())
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
		if !errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupportedFormat) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if _, err := putArchive(t, whole[:i]); !errors.Is(err, format.ErrCorrupt) || i >= archiveHeaderLen && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
	if _, err := putArchive(t, append(whole, 0)); !errors.Is(err, format.ErrCorrupt) {
		t.Error("a byte more:", err)
	}
}

// TestArchiveRefused: archives whose checksums are right and that say what none says.
func TestArchiveRefused(t *testing.T) {
	segment := (&format.SegmentHeader{History: persisttest.History, Size: format.SegmentHeaderLen}).AppendTo(nil)
	build := func(version byte, parts ...string) []byte {
		var body []byte
		for _, name := range parts {
			body = appendArchivePart(body, archivePlain, name, uint64(len(segment)))
			body = append(body, segment...)
			body = append(body, byte(format.Checksum(segment)), byte(format.Checksum(segment)>>8), byte(format.Checksum(segment)>>16), byte(format.Checksum(segment)>>24))
		}
		b := appendArchiveHeader(nil, archiveVersion, len(parts), uint64(archiveHeaderLen+len(body)))
		b[8] = version
		sum := format.Checksum(b[:24])
		b[24], b[25], b[26], b[27] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		return append(b, body...)
	}
	first := "log/" + format.SegmentName(0)
	a, err := putArchive(t, build(1, first))
	persisttest.Must(t, err)
	persisttest.Must(t, a.Verify(nil))
	persisttest.Must(t, a.Close())
	if _, err := putArchive(t, build(3, first)); !errors.Is(err, format.ErrUnsupportedFormat) {
		t.Errorf("version 3: %v", err)
	}
	for name, parts := range map[string][]string{
		"no log":         {"HISTORY"},
		"twice":          {first, first},
		"a gap":          {first, "log/" + format.SegmentName(7)},
		"a path":         {first, "rdb/../../etc/x.hot"},
		"a parent":       {first, "../x"},
		"absolute":       {first, "/etc/x.hot"},
		"a stranger":     {first, "rdb/x"},
		"the lock":       {first, "LOCK"},
		"a manifest's 0": {first, "MANIFEST-01"},
	} {
		if _, err := putArchive(t, build(1, parts...)); !errors.Is(err, format.ErrCorrupt) {
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
			b = binary.LittleEndian.AppendUint32(b, format.Checksum(p.content))
		}
		a, err := putArchive(t, appendArchivePart(b, archiveEnd, "", uint64(len(b))))
		if err == nil {
			_, err = a.Open(filepath.Join(a.Path(), "rdb", "x.hot"))
			persisttest.Must(t, a.Close())
		}
		if !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("an image with %s: %v", name, err)
		}
	}
	many := appendArchiveHeader(nil, archiveVersion, 1<<32-1, archiveHeaderLen)
	if _, err := putArchive(t, many); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("four billion parts: %v", err)
	}
}

// zstdOf compresses a text.
func zstdOf(t *testing.T, text string) []byte {
	e, err := zstd.NewWriter(nil)
	persisttest.Must(t, err)
	return e.EncodeAll([]byte(text), nil)
}

// TestArchiveCompressed: the log of a compressed archive is in packed segments, which are small, and the whole is smaller.
func TestArchiveCompressed(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	disk := persisttest.NewFS(t)
	l, _, err := persist.OpenLog(persist.LogOptions{FS: disk, Dir: persisttest.Dir, History: persisttest.History, Create: true, Manual: true, Now: persisttest.NewClock().Now}, 0, persisttest.Discard)
	persisttest.Must(t, err)
	for i := range uint64(10) {
		var records []byte
		for k := range uint64(40_000) {
			records = format.AppendSet(records, 1, 1, i*1000+k%17*4000, k)
		}
		_, err := l.Append(records)
		persisttest.Must(t, err)
	}
	persisttest.Must(t, l.Sync())
	w, err := NewWriter(disk, persisttest.Dir, l, nil, format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 0}}})
	persisttest.Must(t, err)
	var out bytes.Buffer
	n, err := w.WriteCompressed(&out)
	persisttest.Must(t, err)
	if n*2 > w.Size() || n != int64(out.Len()) || w.Size() < 3*archiveLogPart {
		t.Errorf("%d bytes in place of %d", n, w.Size())
	}
	persisttest.Must(t, w.Close())
	persisttest.Must(t, l.Close())
	a, err := putArchive(t, out.Bytes())
	persisttest.Must(t, err)
	persisttest.Must(t, a.Verify(nil))
	segs, err := logfile.Segments(a, a.Path())
	persisttest.Must(t, err)
	if len(segs) < 2 || a.End() != l.Written() {
		t.Errorf("%d segments up to %d, want %d", len(segs), a.End(), l.Written())
	}
	want, _, _, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
	got, _, _, _ := persisttest.LogRecords(t, a, a.Path(), 0)
	if !slices.Equal(got, want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
	persisttest.Must(t, a.Close())
}

// TestArchiveSource: a block file that is not as the snapshot says ends the writing.
func TestArchiveSource(t *testing.T) {
	for _, change := range []func(disk vfs.FS, path string){
		func(disk vfs.FS, path string) { persisttest.Must(t, disk.Remove(path)) },
		func(disk vfs.FS, path string) { persisttest.Must(t, vfs.TruncateTo(disk, path, 5)) },
	} {
		_, disk, opts := persisttest.SampleDir(t)
		d, err := persist.OpenDir(disk, persisttest.Dir)
		persisttest.Must(t, err)
		m := d.Manifests()[0]
		l, _, err := persist.OpenLog(opts, m.Replay, persisttest.Discard)
		persisttest.Must(t, err)
		w, err := NewWriter(disk, persisttest.Dir, l, m, format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: 7, Start: 0}}})
		persisttest.Must(t, err)
		change(disk, m.Counters[0].Blocks[0].Path(persisttest.Dir))
		if n, err := w.WriteTo(io.Discard); err == nil || n >= w.Size() {
			t.Errorf("wrote %d of %d: %v", n, w.Size(), err)
		}
		if _, err := w.WriteCompressed(io.Discard); err == nil {
			t.Error("wrote it compressed")
		}
		persisttest.Must(t, w.Close())
		persisttest.Must(t, l.Close())
		persisttest.Must(t, d.Close())
		if leaks := disk.Leaks(); len(leaks) > 0 {
			t.Error("open files:", leaks)
		}
	}
}

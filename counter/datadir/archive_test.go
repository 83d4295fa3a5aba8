// Scenario: an archive is read, checked and restored as a directory is

package datadir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// Lengths of an archive's pieces, as persist/archive/writer.go draws them.
const (
	archiveHeaderLen = 28
	archivePartLen   = 16
	archiveSumLen    = 4
)

func crc32c(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// sampleArchive archives the directory of persisttest.SampleDir, which is returned too.
func sampleArchive(t testing.TB, withSnapshot, compressed bool) (content []byte, disk *vfs.Sim) {
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
	lineage := format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{4}, Epoch: 6}, {ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 700}}}
	w, err := archive.NewWriter(disk, persisttest.Dir, l, m, lineage)
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
func putArchive(t testing.TB, content []byte) (*archive.Archive, error) {
	t.Helper()
	disk := persisttest.NewFS(t)
	file, err := disk.Create("/data/a.archive")
	persisttest.Must(t, err)
	_, err = file.WriteAt(content, 0)
	persisttest.Must(t, errors.Join(err, file.Close()))
	return archive.Open(disk, "/data/a.archive")
}

// TestArchive reads an archive as the directory that it was made of: nothing is wrong with it, and what is restored has
// the same records.
func TestArchive(t *testing.T) {
	for i := range 4 {
		withSnapshot := i%2 == 0
		b, disk := sampleArchive(t, withSnapshot, i/2 == 1)
		a, err := putArchive(t, b)
		persisttest.Must(t, err)
		persisttest.Must(t, a.Verify(nil))
		before, _, ends, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
		end := ends[len(ends)-1]
		if a.End() != end {
			t.Errorf("ends at %d, want %d", a.End(), end)
		}
		view := vfs.NewView(a, nil)
		report, err := Check(view, a.Path(), CheckOptions{})
		persisttest.Must(t, err)
		if !report.OK() || len(report.Problems) > 0 || report.Log.End != end || withSnapshot && report.Images != 2 {
			t.Errorf("check: %+v", report)
		}
		l, err := logfile.ReadLineage(view, a.Path())
		persisttest.Must(t, err)
		if l.Begun() != "" || len(l.Terms) != 2 || l.Current() != persisttest.History {
			t.Errorf("history %+v", l)
		}
		out := persisttest.NewFS(t)
		done, err := Restore(view, a.Path(), out, "/data/out", Target{Offset: a.End()}, RestoreOptions{})
		persisttest.Must(t, err)
		if done.Offset != end || withSnapshot != (done.Snapshot == 2) {
			t.Errorf("restored %+v", done)
		}
		after, _, _, _ := persisttest.LogRecords(t, out, "/data/out", done.Replay)
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

// resealArchive puts right checksums into what is nearly an archive, so that a fuzzer gets behind them.
func resealArchive(b []byte) {
	le := binary.LittleEndian
	if len(b) < archiveHeaderLen {
		return
	}
	if b[8] != 2 { // of one that is compressed nothing is known before
		le.PutUint64(b[16:], uint64(len(b)))
	}
	le.PutUint32(b[24:], crc32c(b[:24]))
	for at := archiveHeaderLen; at+archivePartLen <= len(b); {
		length, n := le.Uint64(b[at:]), int(le.Uint16(b[at+8:]))
		name := at + archivePartLen
		if len(b)-name < n+archiveSumLen || length > uint64(len(b)-name-n-archiveSumLen) {
			return
		}
		le.PutUint32(b[at+12:], crc32c(append(bytes.Clone(b[at:at+12]), b[name:name+n]...)))
		end := name + n + int(length)
		le.PutUint32(b[end:], crc32c(b[name+n:end]))
		at = end + archiveSumLen
	}
}

func FuzzArchive(f *testing.F) {
	for _, withSnapshot := range []bool{true, false} {
		b, _ := sampleArchive(f, withSnapshot, true)
		f.Add(b, true)
		b, _ = sampleArchive(f, withSnapshot, false)
		f.Add(b, true)
		f.Add(b[:len(b)/2], false)
	}
	many, _ := sampleArchive(f, false, false)
	many = many[:archiveHeaderLen]
	binary.LittleEndian.PutUint32(many[12:], 1<<32-1) // parts
	resealArchive(many)
	f.Add(many, false)
	f.Fuzz(func(t *testing.T, b []byte, reseal bool) {
		if b = bytes.Clone(b); reseal {
			resealArchive(b)
		}
		a, err := putArchive(t, b)
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrUnsupportedFormat) {
				t.Errorf("error of no kind: %v", err)
			}
			return
		}
		defer a.Close()
		if err := a.Verify(nil); err != nil {
			return
		}
		if _, err := Check(vfs.NewView(a, nil), a.Path(), CheckOptions{}); err != nil && !errors.Is(err, format.ErrUnsupportedFormat) {
			t.Error(err)
		}
	})
}

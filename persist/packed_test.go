// Scenario: a packed segment is damaged, cut and read back

package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// packedFileOf makes a log and returns one packed segment of it: its bytes, its place and what was in it before.
func packedFileOf(t testing.TB) (disk *vfs.Sim, seg logfile.SegmentInfo, packed, raw []byte, chunks []format.PackedChunk) {
	disk = newFS(t)
	_, l := packSample(t, disk, 600)
	seg = l.Segments().List()[1]
	raw, err := vfs.ReadFile(disk, seg.Path, 1<<20)
	must(t, err)
	packAll(t, l)
	must(t, l.Close())
	packed, err = vfs.ReadFile(disk, seg.Path, 1<<20)
	must(t, err)
	file, err := logfile.OpenSegmentFile(disk, seg.Segment())
	must(t, err)
	chunks = slices.Clone(file.(*logfile.PackedFile).Chunks)
	must(t, file.Close())
	if len(chunks) < 4 {
		t.Fatalf("%d chunks", len(chunks))
	}
	return disk, seg, packed, raw[:seg.Segment().Offset(seg.End)], chunks
}

// TestPackDamage damages a packed segment everywhere: what is read of the log is true, or an error says where the
// damage is; frames of other chunks can be read.
func TestPackDamage(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	disk, seg, packed, raw, chunks := packedFileOf(t)
	index := len(packed) - format.PackedFooterLen - len(chunks)*format.PackedEntryLen
	blockOf := func(i int) int { // of a byte of the file; -1: header, index or footer
		if i < format.SegmentHeaderLen || i >= index {
			return -1
		}
		n := 0
		for n+1 < len(chunks) && chunks[n+1].At <= int64(i) {
			n++
		}
		return n
	}
	try := func(b []byte, hit int, what string) {
		d := disk.Kill()
		put(t, d, seg.Path, b)
		file, err := logfile.OpenSegmentFile(d, seg.Segment())
		must(t, err)
		got, err := vfs.ReadAtMost(file, make([]byte, len(raw)), 0)
		must(t, err)
		_, err = logfile.Walk(d, testDir, 0, 0, logfile.Visitor{})
		var corrupt *format.CorruptError
		if err != nil && (!errors.As(err, &corrupt) || corrupt.File != seg.Path) {
			t.Fatalf("%s: %v", what, err)
		}
		n := blockOf(hit)
		switch {
		case n >= 0:
			if err == nil || corrupt.LogOffset != chunks[n].Start {
				t.Fatalf("%s in chunk %d, offset %d: %v", what, n, chunks[n].Start, err)
			}
			for k, chunk := range chunks {
				from, to := seg.Segment().Offset(chunk.Start), int64(len(raw))
				if k+1 < len(chunks) {
					to = seg.Segment().Offset(chunks[k+1].Start)
				}
				if k != n && !bytes.Equal(got[from:to], raw[from:to]) {
					t.Fatalf("%s in chunk %d: chunk %d is lost", what, n, k)
				}
				if k == n && bytes.Equal(got[from:to], raw[from:to]) {
					t.Fatalf("%s in chunk %d was not found", what, n)
				}
			}
			// The tool that repairs finds the frames behind.
			if n+1 < len(chunks) {
				start, frames, found, err := logfile.FramesBehind(d, seg, chunks[n].Start+1, 1<<40)
				if err != nil || !found || start != chunks[n+1].Start || len(frames) == 0 {
					t.Fatalf("%s: frames behind from %d, %v", what, start, err)
				}
			}
		case hit >= format.SegmentHeaderLen: // index or footer: found by another way
			if err != nil || !bytes.Equal(got[format.SegmentHeaderLen:], raw[format.SegmentHeaderLen:]) {
				t.Fatalf("%s: %v", what, err)
			}
			if logfile.IndexDamage(file) == nil {
				t.Fatalf("%s was not found", what)
			}
		default: // the header: as with any segment
			if err == nil || corrupt.LogOffset != seg.Start {
				t.Fatalf("%s: %v", what, err)
			}
			if !bytes.Equal(got[format.SegmentHeaderLen:], raw[format.SegmentHeaderLen:]) {
				t.Fatalf("%s: the frames are lost", what)
			}
		}
		must(t, file.Close())
		if leaks := d.Leaks(); len(leaks) > 0 {
			t.Fatal(leaks)
		}
	}
	for i := range packed {
		b := bytes.Clone(packed)
		b[i] ^= 1 << (i % 8)
		try(b, i, fmt.Sprintf("bit %d of byte %d", i%8, i))
	}
	for i := 0; i < len(packed); i += 7 { // cut short: true up to there, and never taken for the end
		d := disk.Kill()
		put(t, d, seg.Path, packed[:i])
		_, err := logfile.Walk(d, testDir, 0, 0, logfile.Visitor{Frame: func(at logfile.SegmentInfo, f *format.Frame) error {
			if at.Start == seg.Start && !bytes.Equal(f.Raw, raw[seg.Segment().Offset(f.Start):][:len(f.Raw)]) {
				t.Fatalf("cut to %d: a false frame", i)
			}
			return nil
		}})
		if i < index && !errors.Is(err, format.ErrCorrupt) || i >= index && err != nil {
			t.Fatalf("cut to %d of %d, the index is at %d: %v", i, len(packed), index, err)
		}
	}
	// That the segment behind is missing shows, as with any.
	d := disk.Kill()
	segs, err := logfile.Segments(d, testDir)
	must(t, err)
	for _, s := range segs {
		if s.Start > seg.Start {
			must(t, d.Remove(s.Path))
		}
	}
	if _, err := logfile.Walk(d, testDir, 0, 0, logfile.Visitor{}); !errors.Is(err, format.ErrCorrupt) {
		t.Error("a packed segment as the last one:", err)
	}
}

// TestPackEnd cuts a log inside a packed segment, as a replica does whose primary has other bytes, at each frame, and
// lets the power fail meanwhile.
func TestPackEnd(t *testing.T) {
	seed := newSeed(t)
	disk, seg, _, raw, _ := packedFileOf(t)
	for off, n := format.SegmentHeaderLen, 0; off < len(raw); off, n = off+format.RawFrameLen(raw[off:]), n+1 {
		at := seg.Start + uint64(off-format.SegmentHeaderLen)
		d := disk.Kill()
		if n%5 == 0 {
			d.CrashAt(d.Ops() + n/5%9)
		}
		if err := logfile.EndSegment(d, seg, at); err != nil {
			if !d.Crashed() {
				t.Fatal(err)
			}
			d = d.Crash(seed, 50)
			must(t, logfile.EndSegment(d, seg, at))
		} else if d.Crashed() {
			d = d.Crash(seed, 50)
		}
		b, err := vfs.ReadFile(d, seg.Path, 1<<20)
		must(t, err)
		if at == seg.Start && len(b) != format.SegmentHeaderLen || !bytes.Equal(b[format.SegmentHeaderLen:], raw[format.SegmentHeaderLen:off]) {
			t.Fatalf("cut at %d: %d bytes, want %d", at, len(b), off)
		}
		h, fault, err := format.DecodeSegmentHeader(b, seg.Path, seg.Start)
		if err != nil || fault != nil || h.Durable > at {
			t.Fatalf("header %+v, %v, %v", h, fault, err)
		}
	}
	d := disk.Kill()
	must(t, logfile.EndSegment(d, seg, seg.End))
	if b, err := vfs.ReadFile(d, seg.Path, 1<<20); err != nil || !format.IsPackedHeader(b) {
		t.Error("a cut behind the segment unpacked it", err)
	}
}

// TestPackedGolden reads the packed segment of testdata. Another version of the encoder may write other
// bytes, which mean the same.
func TestPackedGolden(t *testing.T) {
	disk, seg, packed, raw, _ := packedFileOf(t)
	if *filetest.Update {
		must(t, os.WriteFile("testdata/v6-packed.aof", packed, 0o644))
		must(t, os.WriteFile("testdata/v6-unpacked.aof", raw, 0o644))
	}
	want, err := os.ReadFile("testdata/v6-unpacked.aof")
	must(t, err)
	old, err := os.ReadFile("testdata/v6-packed.aof")
	must(t, err)
	put(t, disk, seg.Path, old)
	file, err := logfile.OpenSegmentFile(disk, seg.Segment())
	must(t, err)
	got, err := vfs.ReadAtMost(file, make([]byte, len(want)+1), 0)
	must(t, err)
	if !bytes.Equal(got[format.SegmentHeaderLen:], want[format.SegmentHeaderLen:]) {
		t.Error("the packed segment of testdata reads as another")
	}
	if err := logfile.IndexDamage(file); err != nil {
		t.Errorf("index: %v", err)
	}
	must(t, file.Close())
	if _, _, err := format.DecodeSegmentHeader(old, seg.Path, seg.Start); !errors.Is(err, format.ErrUnsupportedFormat) {
		t.Error("the header of a packed segment reads as one that is not packed:", err)
	}
}

// TestOldSegments: segments of earlier versions are refused and left alone. The error says which version was found and
// which is read.
func TestOldSegments(t *testing.T) {
	_, disk, opts := sampleLog(t)
	segs, err := logfile.ListSegments(disk, testDir)
	must(t, err)
	for version := uint16(0); version <= format.PackedVersion+1; version++ {
		if version == format.SegmentVersion || version == format.PackedVersion {
			continue
		}
		b, err := vfs.ReadFile(disk, segs[0].Path, 1<<20)
		must(t, err)
		binary.LittleEndian.PutUint16(b[8:], version)
		binary.LittleEndian.PutUint32(b[60:], format.Checksum(b[:60]))
		old := disk.Kill()
		put(t, old, segs[0].Path, b)
		opts.FS = old
		_, _, err = OpenLog(opts, 0, discard)
		var v *format.VersionError
		if !errors.As(err, &v) || v.Found != uint32(version) || !errors.Is(err, format.ErrUnsupportedFormat) || errors.Is(err, format.ErrCorrupt) {
			t.Errorf("version %d: got %v, want a *VersionError", version, err)
		}
		if now, err := vfs.ReadFile(old, segs[0].Path, 1<<20); err != nil || !bytes.Equal(now, b) {
			t.Errorf("version %d: the segment was changed: %v", version, err)
		}
	}
}

// FuzzChunk: any bytes are a chunk or a fault, and take no more memory than a chunk may have.
func FuzzChunk(f *testing.F) {
	_, _, packed, _, chunks := packedFileOf(f)
	for i := range chunks[:2] {
		f.Add(packed[chunks[i].At:chunks[i+1].At], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		b = bytes.Clone(b)
		if seal && len(b) > format.ChunkHeaderLen { // behind the checksums, too
			stored := b[format.ChunkHeaderLen:]
			binary.LittleEndian.PutUint32(b, uint32(len(stored)))
			binary.LittleEndian.PutUint32(b[20:], format.Checksum(stored))
			binary.LittleEndian.PutUint32(b[28:], format.Checksum(b[:28]))
		}
		var u format.ChunkUnpacker
		raw, fault := u.Unpack(nil, b)
		if cap(u.Plain) > format.MaxPackPlain+format.UnpackSlack || cap(raw) > 2*format.MaxPackRaw {
			t.Fatalf("%d bytes for %d and %d", cap(u.Plain), cap(raw), len(b))
		}
		if fault != nil {
			if len(raw) > 0 {
				t.Fatal("a fault and bytes")
			}
			return
		}
		h, _ := format.DecodeChunkHeader(b)
		var frame format.Frame
		for at := h.Start; len(raw) > 0; at, raw = frame.End(), raw[len(frame.Raw):] {
			if fault := format.DecodeFrame(raw, at, &frame); fault != nil {
				t.Fatalf("at %d: %+v", at, fault)
			}
		}
	})
}

// FuzzPackedFile: any file is a packed segment with frames that are whole or damaged, or none at all.
func FuzzPackedFile(f *testing.F) {
	_, seg, packed, _, _ := packedFileOf(f)
	f.Add(packed, false)
	f.Add(packed, true)
	f.Add(packed[:len(packed)-1], false)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if n := len(b) - format.PackedFooterLen; seal && n > 0 { // behind the checksum of the index, too
			b = bytes.Clone(b)
			if index := binary.LittleEndian.Uint64(b[n:]); index < uint64(n) {
				binary.LittleEndian.PutUint32(b[n+format.PackedFooterKeep:], format.Checksum(b[index:n+format.PackedFooterKeep]))
			}
		}
		disk := newFS(t)
		must(t, disk.MkdirAll(format.LogDir(testDir)))
		path := filepath.Join(format.LogDir(testDir), format.SegmentName(seg.Start))
		must(t, vfs.WriteFileAtomic(disk, path, b))
		_, err := logfile.Walk(disk, testDir, seg.Start, 0, logfile.Visitor{})
		if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrUnsupportedFormat) {
			t.Fatal(err)
		}
	})
}

package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// packOptions are smallLog's, with segments of several packed blocks.
func packOptions(fsys vfs.FS) LogOptions {
	opts := smallLog(fsys, newClock())
	opts.FirstSegmentBytes, opts.SegmentBytes, opts.packBlock = 4096, 4096, 700
	return opts
}

// packSample makes a log of several segments that are all sealed but the last.
func packSample(t testing.TB, disk vfs.FS, records int) (m model, l *Log) {
	l, _, err := OpenLog(packOptions(disk), 0, discard)
	must(t, err)
	for i := range records {
		pos := m.appendSome(t, l, i)
		if i%3 == 2 {
			must(t, l.Commit(pos))
		}
		if i%20 == 0 {
			l.Tick()
		}
	}
	must(t, l.Sync())
	return m, l
}

// packAll packs what may be, and returns how many segments that were.
func packAll(t testing.TB, l *Log) (n int) {
	t.Helper()
	for {
		packed, err := l.Pack(l.Durable(), nil)
		must(t, err)
		if !packed {
			return n
		}
		n++
	}
}

// TestPack packs a log and finds the same bytes and records in it, from every offset on, in this process and the next.
func TestPack(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	disk := newFS(t)
	m, l := packSample(t, disk, 800)
	whole := map[string][]byte{}
	for _, s := range l.Segments() {
		b, err := vfs.ReadFile(disk, s.Path, 1<<20)
		must(t, err)
		whole[s.Path] = b
	}
	before := l.Stats()
	if before.DiskBytes != before.SegmentBytes+int64(before.Segments)*segmentHeaderLen {
		t.Errorf("%d bytes on disk, of %d in the log", before.DiskBytes, before.SegmentBytes)
	}
	old, err := l.NewReader(0) // is in a segment that is packed while it reads
	must(t, err)
	if _, err := old.TryNext(); err != nil {
		t.Fatal(err)
	}
	n := packAll(t, l)
	after := l.Stats()
	if n < 4 || after.Packed != n || after.Segments != n+1 || after.DiskBytes > before.DiskBytes*2/3 || after.SegmentBytes != before.SegmentBytes {
		t.Fatalf("packed %d: %+v, before %+v", n, after, before)
	}
	if f, err := old.TryNext(); err != nil || f.Start == 0 {
		t.Fatal(f, err)
	}
	must(t, old.Close())
	var sum int64
	for i, s := range l.Segments() {
		info, err := disk.Stat(s.Path)
		must(t, err)
		if s.Packed != (i < n) || s.Packed && s.Bytes != info.Size() {
			t.Errorf("segment %+v of %d bytes", s, info.Size())
		}
		sum += s.Bytes
		if !s.Packed {
			continue
		}
		file, err := openSegmentFile(disk, s.segment())
		must(t, err)
		size, err := file.Size()
		must(t, err)
		b, err := readAtMost(file, make([]byte, size+100), 0)
		must(t, err)
		if want := whole[s.Path][:len(b)]; !bytes.Equal(b[segmentHeaderLen:], want[segmentHeaderLen:]) || uint64(len(b)) != segmentHeaderLen+s.End-s.Start {
			t.Errorf("%s unpacked is another", s.Path)
		}
		for range 200 { // any place, any length
			off := rand.IntN(len(b))
			part := make([]byte, rand.IntN(3000))
			n, _ := file.ReadAt(part, int64(off))
			if !bytes.Equal(part[:n], b[off:off+n]) || n < min(len(part), len(b)-off) {
				t.Fatalf("%d bytes at %d are others", n, off)
			}
		}
		must(t, file.Close())
	}
	if sum != after.DiskBytes {
		t.Errorf("%d bytes on disk, segments have %d", after.DiskBytes, sum)
	}
	for _, from := range m.pos {
		m.checkRead(t, l, from)
	}
	m.checkRead(t, l, 0)
	must(t, l.Close())
	l, rec := m.checkReplay(t, packOptions(disk), 0, m.pos[len(m.pos)-1])
	if rec.Torn != nil {
		t.Error(rec.Torn)
	}
	if s := l.Stats(); s.Packed != n || s.PackedBytes != after.PackedBytes {
		t.Errorf("after a restart %+v", s)
	}
	if more := packAll(t, l); more > 1 {
		t.Errorf("%d packed again", more)
	}
	must(t, l.Close())
	if leaks := disk.Leaks(); len(leaks) > 0 {
		t.Fatal(leaks)
	}
}

// TestPackLimits: what recovery may need, what is not durable and the last segment stay as they are.
func TestPackLimits(t *testing.T) {
	disk := newFS(t)
	_, l := packSample(t, disk, 800)
	segs := l.Segments()
	if packed, err := l.Pack(segs[2].End-1, nil); !packed || err != nil {
		t.Fatal(packed, err)
	}
	if packed, err := l.Pack(segs[2].End-1, nil); !packed || err != nil {
		t.Fatal(packed, err)
	}
	if packed, err := l.Pack(segs[2].End-1, nil); packed || err != nil {
		t.Fatal("a segment behind the limit was packed", err)
	}
	stop := errors.New("stop")
	before, err := disk.List(LogDir(testDir))
	must(t, err)
	if packed, err := l.Pack(segs[2].End, func() error { return stop }); packed || !errors.Is(err, stop) {
		t.Fatal(packed, err)
	}
	if names, err := disk.List(LogDir(testDir)); err != nil || !slices.Equal(names, before) {
		t.Error("left behind:", names, err)
	}
	if err := l.DropBefore(segs[1].End); err != nil {
		t.Fatal(err)
	}
	packAll(t, l)
	if s := l.Stats(); s.Packed != s.Segments-1 {
		t.Errorf("%+v", s)
	}
	// Of bytes on disk, not of the log.
	keep := l.Segments()
	sum := uint64(0)
	for i := len(keep) - 1; i >= 0; i-- {
		sum += uint64(keep[i].Bytes)
		if got := l.KeepFrom(sum); got != keep[i].Start {
			t.Errorf("%d bytes are kept from %d on, want %d", sum, got, keep[i].Start)
		}
	}
	if got := l.KeepFrom(sum + 1); got != 0 {
		t.Errorf("all is kept from %d on", got)
	}
	must(t, l.Close())
	if packed, err := l.Pack(1<<40, nil); packed || err != nil {
		t.Error("packed a closed log:", err)
	}
}

// TestPackDense: what does not become smaller stays.
func TestPackDense(t *testing.T) {
	disk := newFS(t)
	l, _, err := OpenLog(packOptions(disk), 0, discard)
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		var records []byte
		for range 120 {
			records = AppendSet(records, rng.Uint32(), uint16(rng.Uint32()), rng.Uint64(), rng.Uint64())
		}
		_, err := l.Append(records)
		must(t, err)
		must(t, l.Sync())
		l.Tick()
	}
	if packed, err := l.Pack(l.Durable(), nil); packed || err != nil {
		t.Fatal(packed, err)
	}
	if s := l.Stats(); s.Packed != 0 || s.Segments < 2 {
		t.Errorf("%+v", s)
	}
	ops := disk.Ops()
	if packed, err := l.Pack(l.Durable(), nil); packed || err != nil || disk.Ops() != ops {
		t.Error("tried again", err)
	}
	must(t, l.Close())
}

// TestPackCrash lets the power fail, or the process be killed, at every operation of packing: the log is whole.
func TestPackCrash(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	seed := newSeed(t)
	for n, crashed := 0, true; crashed; n++ {
		disk := newFS(t)
		m, l := packSample(t, disk, 400)
		from := l.Segments()[1].Start
		disk.TornCrashAt(disk.Ops()+n, 50)
		for packed := true; packed; {
			var err error
			if packed, err = l.Pack(l.Durable(), nil); err != nil {
				break
			}
		}
		crashed = disk.Crashed()
		for _, keep := range []int{-1, 0, 30, 70, 100} {
			left := disk.Kill()
			if keep >= 0 {
				left = disk.Crash(seed+uint64(n), keep)
			}
			o, rec := m.checkReplay(t, packOptions(left), from, l.Durable())
			if rec.Torn != nil {
				t.Fatal(rec.Torn)
			}
			m.checkRead(t, o, 0)
			packAll(t, o)
			m.checkRead(t, o, 0)
			must(t, o.Close())
			if misuse := left.Misuse(); len(misuse) > 0 {
				t.Fatal(misuse)
			}
		}
		_ = l.Close()
	}
}

// TestPackFaults makes every operation of packing fail: nothing is changed, or the segment is packed, and the log goes
// on; the next attempt packs it.
func TestPackFaults(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for k, fired := 0, true; fired; k++ {
			disk := newFS(t)
			m, l := packSample(t, disk, 400)
			must(t, l.Close())
			faulty := vfs.NewFaulty(disk)
			l, _, err := OpenLog(packOptions(faulty), 0, discard)
			must(t, err)
			faulty.Inject(vfs.Rule{Ops: vfs.OpMutating | vfs.OpOpen | vfs.OpRead | vfs.OpClose, Skip: k, Err: errno, Short: k%2 == 0})
			want := l.Segments()[0]
			packed, err := l.Pack(want.End, nil)
			fired = faulty.Fired() > 0
			// A temporary file that could not be removed is no error.
			if packed != (err == nil) || err != nil && !errors.Is(err, errno) {
				t.Fatalf("call %d: packed %v, %v", k, packed, err)
			}
			faulty.Clear()
			must(t, l.Ready())
			m.checkRead(t, l, 0)
			packAll(t, l)
			if got := l.Segments()[0]; !got.Packed {
				t.Fatalf("call %d: not packed after the fault: %+v", k, got)
			}
			must(t, l.Close())
			l, _ = m.checkReplay(t, packOptions(disk), 0, m.pos[len(m.pos)-1])
			must(t, l.Close())
			if leaks := disk.Leaks(); len(leaks) > 0 {
				t.Fatal("open files:", leaks)
			}
		}
	}
}

// TestPackNoRoom: what is kept free for a snapshot is not touched.
func TestPackNoRoom(t *testing.T) {
	disk := newFS(t)
	m, l := packSample(t, disk, 400)
	disk.SetCapacity(1 << 20)
	l.Reserve(1 << 20)
	if packed, err := l.Pack(l.Durable(), nil); packed || !vfs.IsNoSpace(err) {
		t.Fatal(packed, err)
	}
	l.Reserve(0)
	if packAll(t, l) == 0 {
		t.Error("nothing was packed")
	}
	m.checkRead(t, l, 0)
	must(t, l.Close())
}

// packedFileOf makes a log and returns one packed segment of it: its bytes, its place and what was in it before.
func packedFileOf(t testing.TB) (disk *vfs.Sim, seg SegmentInfo, packed, raw []byte, blocks []packedBlock) {
	disk = newFS(t)
	_, l := packSample(t, disk, 600)
	seg = l.Segments()[1]
	raw, err := vfs.ReadFile(disk, seg.Path, 1<<20)
	must(t, err)
	packAll(t, l)
	must(t, l.Close())
	packed, err = vfs.ReadFile(disk, seg.Path, 1<<20)
	must(t, err)
	file, err := openSegmentFile(disk, seg.segment())
	must(t, err)
	blocks = slices.Clone(file.(*packedFile).blocks)
	must(t, file.Close())
	if len(blocks) < 4 {
		t.Fatalf("%d blocks", len(blocks))
	}
	return disk, seg, packed, raw[:seg.segment().offset(seg.End)], blocks
}

// put writes a file over another.
func put(t testing.TB, disk vfs.FS, path string, b []byte) {
	t.Helper()
	must(t, disk.Remove(path))
	f, err := disk.Create(path)
	must(t, err)
	_, err = f.WriteAt(b, 0)
	must(t, err)
	must(t, f.Close())
}

// TestPackDamage damages a packed segment everywhere: what is read of the log is true, or an error says where the
// damage is; frames of other blocks can be read.
func TestPackDamage(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	disk, seg, packed, raw, blocks := packedFileOf(t)
	index := len(packed) - packedFooterLen - len(blocks)*packedEntryLen
	blockOf := func(i int) int { // of a byte of the file; -1: header, index or footer
		if i < segmentHeaderLen || i >= index {
			return -1
		}
		n := 0
		for n+1 < len(blocks) && blocks[n+1].at <= int64(i) {
			n++
		}
		return n
	}
	try := func(b []byte, hit int, what string) {
		d := disk.Kill()
		put(t, d, seg.Path, b)
		file, err := openSegmentFile(d, seg.segment())
		must(t, err)
		got, err := readAtMost(file, make([]byte, len(raw)), 0)
		must(t, err)
		_, err = WalkLog(d, testDir, 0, 0, LogVisitor{})
		var corrupt *CorruptError
		if err != nil && (!errors.As(err, &corrupt) || corrupt.File != seg.Path) {
			t.Fatalf("%s: %v", what, err)
		}
		n := blockOf(hit)
		switch {
		case n >= 0:
			if err == nil || corrupt.LogOffset != blocks[n].start {
				t.Fatalf("%s in block %d, offset %d: %v", what, n, blocks[n].start, err)
			}
			for k, block := range blocks {
				from, to := seg.segment().offset(block.start), int64(len(raw))
				if k+1 < len(blocks) {
					to = seg.segment().offset(blocks[k+1].start)
				}
				if k != n && !bytes.Equal(got[from:to], raw[from:to]) {
					t.Fatalf("%s in block %d: block %d is lost", what, n, k)
				}
				if k == n && bytes.Equal(got[from:to], raw[from:to]) {
					t.Fatalf("%s in block %d was not found", what, n)
				}
			}
			// The tool that repairs finds the frames behind.
			if n+1 < len(blocks) {
				start, frames, found, err := FramesBehind(d, seg, blocks[n].start+1, 1<<40)
				if err != nil || !found || start != blocks[n+1].start || len(frames) == 0 {
					t.Fatalf("%s: frames behind from %d, %v", what, start, err)
				}
			}
		case hit >= segmentHeaderLen: // index or footer: found by another way
			if err != nil || !bytes.Equal(got[segmentHeaderLen:], raw[segmentHeaderLen:]) {
				t.Fatalf("%s: %v", what, err)
			}
			if p := file.(*packedFile); p.indexFault == nil {
				t.Fatalf("%s was not found", what)
			}
		default: // the header: as with any segment
			if err == nil || corrupt.LogOffset != seg.Start {
				t.Fatalf("%s: %v", what, err)
			}
			if !bytes.Equal(got[segmentHeaderLen:], raw[segmentHeaderLen:]) {
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
		_, err := WalkLog(d, testDir, 0, 0, LogVisitor{Frame: func(at SegmentInfo, f *Frame) error {
			if at.Start == seg.Start && !bytes.Equal(f.Raw, raw[seg.segment().offset(f.Start):][:len(f.Raw)]) {
				t.Fatalf("cut to %d: a false frame", i)
			}
			return nil
		}})
		if i < index && !errors.Is(err, ErrCorrupt) || i >= index && err != nil {
			t.Fatalf("cut to %d of %d, the index is at %d: %v", i, len(packed), index, err)
		}
	}
	// That the segment behind is missing shows, as with any.
	d := disk.Kill()
	segs, err := Segments(d, testDir)
	must(t, err)
	for _, s := range segs {
		if s.Start > seg.Start {
			must(t, d.Remove(s.Path))
		}
	}
	if _, err := WalkLog(d, testDir, 0, 0, LogVisitor{}); !errors.Is(err, ErrCorrupt) {
		t.Error("a packed segment as the last one:", err)
	}
}

// TestPackEnd cuts a log inside a packed segment, as a replica does whose primary has other bytes, at each frame, and
// lets the power fail meanwhile.
func TestPackEnd(t *testing.T) {
	seed := newSeed(t)
	disk, seg, _, raw, _ := packedFileOf(t)
	for off, n := segmentHeaderLen, 0; off < len(raw); off, n = off+rawFrameLen(raw[off:]), n+1 {
		at := seg.Start + uint64(off-segmentHeaderLen)
		d := disk.Kill()
		if n%5 == 0 {
			d.CrashAt(d.Ops() + n/5%9)
		}
		if err := EndSegment(d, seg, at); err != nil {
			if !d.Crashed() {
				t.Fatal(err)
			}
			d = d.Crash(seed, 50)
			must(t, EndSegment(d, seg, at))
		} else if d.Crashed() {
			d = d.Crash(seed, 50)
		}
		b, err := vfs.ReadFile(d, seg.Path, 1<<20)
		must(t, err)
		if at == seg.Start && len(b) != segmentHeaderLen || !bytes.Equal(b[segmentHeaderLen:], raw[segmentHeaderLen:off]) {
			t.Fatalf("cut at %d: %d bytes, want %d", at, len(b), off)
		}
		h, fault, err := decodeSegmentHeader(b, seg.Path, seg.Start)
		if err != nil || fault != nil || h.durable > at {
			t.Fatalf("header %+v, %v, %v", h, fault, err)
		}
	}
	d := disk.Kill()
	must(t, EndSegment(d, seg, seg.End))
	if b, err := vfs.ReadFile(d, seg.Path, 1<<20); err != nil || !isPackedHeader(b) {
		t.Error("a cut behind the segment unpacked it", err)
	}
}

// TestPackedGolden reads the packed segment of testdata. Another version of the encoder may write other
// bytes, which mean the same.
func TestPackedGolden(t *testing.T) {
	disk, seg, packed, raw, _ := packedFileOf(t)
	if *update {
		must(t, os.WriteFile("testdata/v6-packed.aof", packed, 0o644))
		must(t, os.WriteFile("testdata/v6-unpacked.aof", raw, 0o644))
	}
	want, err := os.ReadFile("testdata/v6-unpacked.aof")
	must(t, err)
	old, err := os.ReadFile("testdata/v6-packed.aof")
	must(t, err)
	put(t, disk, seg.Path, old)
	file, err := openSegmentFile(disk, seg.segment())
	must(t, err)
	got, err := readAtMost(file, make([]byte, len(want)+1), 0)
	must(t, err)
	if !bytes.Equal(got[segmentHeaderLen:], want[segmentHeaderLen:]) {
		t.Error("the packed segment of testdata reads as another")
	}
	if p := file.(*packedFile); p.indexFault != nil {
		t.Errorf("index: %+v", p.indexFault)
	}
	must(t, file.Close())
	if _, _, err := decodeSegmentHeader(old, seg.Path, seg.Start); !errors.Is(err, ErrUnsupportedFormat) {
		t.Error("the header of a packed segment reads as one that is not packed:", err)
	}
}

// TestOldSegments: segments of earlier versions are refused and left alone. The error says which version was found and
// which is read.
func TestOldSegments(t *testing.T) {
	_, disk, opts := sampleLog(t)
	segs, err := listSegments(disk, testDir)
	must(t, err)
	for version := uint16(0); version <= packedVersion+1; version++ {
		if version == segmentVersion || version == packedVersion {
			continue
		}
		b, err := vfs.ReadFile(disk, segs[0].path, 1<<20)
		must(t, err)
		binary.LittleEndian.PutUint16(b[8:], version)
		binary.LittleEndian.PutUint32(b[60:], crc32c(b[:60]))
		old := disk.Kill()
		put(t, old, segs[0].path, b)
		opts.FS = old
		_, _, err = OpenLog(opts, 0, discard)
		var v *VersionError
		if !errors.As(err, &v) || v.Found != uint32(version) || !errors.Is(err, ErrUnsupportedFormat) || errors.Is(err, ErrCorrupt) {
			t.Errorf("version %d: got %v, want a *VersionError", version, err)
		}
		if now, err := vfs.ReadFile(old, segs[0].path, 1<<20); err != nil || !bytes.Equal(now, b) {
			t.Errorf("version %d: the segment was changed: %v", version, err)
		}
	}
}

// TestPackReaders lets replicas resume at any offset while the log is written, packed and dropped.
func TestPackReaders(t *testing.T) {
	disk := newFS(t)
	opts := packOptions(disk)
	opts.Policy = SyncAlways
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	const records = 600
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range uint64(records) {
			if err := l.Commit(l.AppendSet(1, 1, i, i)); err != nil {
				t.Error(err)
				return
			}
			l.Tick()
		}
	})
	wg.Go(func() {
		for last := false; !last; {
			select {
			case <-done:
				last = true // once more
			default:
			}
			end := l.Durable()
			for more := true; more; {
				var err error
				if more, err = l.Pack(end-min(end, 1000), nil); err != nil {
					t.Error(err)
					return
				}
			}
			if err := l.DropBefore(end - min(end, 6_000)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			for {
				select {
				case <-done:
					return
				default:
				}
				first, end := l.Stats().First, l.Durable()
				from := first + rng.Uint64N(max(end-min(first, end), 1))
				r, err := l.NewReader(from)
				if errors.Is(err, ErrGone) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrAhead) {
					continue
				}
				if err != nil {
					t.Error("resume at", from, err)
					return
				}
				next, last := r.Pos(), ^uint64(0)
				for range rng.IntN(300) {
					f, err := r.TryNext()
					if errors.Is(err, ErrGone) || errors.Is(err, fs.ErrNotExist) || err == nil && f == nil {
						break
					}
					if err != nil || f.Start != next || f.End() <= from {
						t.Errorf("at %d, resumed at %d: %+v, %v", next, from, f, err)
						return
					}
					next = f.End()
					var rec Record
					if err := f.Records(&rec, 0, func(_ uint64, rec *Record) error {
						if last != ^uint64(0) && rec.Mid != last+1 || rec.Value != rec.Mid {
							return fmt.Errorf("record %d behind %d", rec.Mid, last)
						}
						last = rec.Mid
						return nil
					}); err != nil {
						t.Error(err)
						return
					}
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s := l.Stats(); s.Packed == 0 || s.First == 0 { // 25 kB: the last segments but one are packed, the first are gone
		t.Errorf("nothing was packed, or dropped: %+v", s)
	}
	must(t, l.Close())
	if leaks := disk.Leaks(); len(leaks) > 0 {
		t.Fatal(leaks)
	}
}

// FuzzPackBlock: any bytes are a block or a fault, and take no more memory than a block may have.
func FuzzPackBlock(f *testing.F) {
	_, _, packed, _, blocks := packedFileOf(f)
	for i := range blocks[:2] {
		f.Add(packed[blocks[i].at:blocks[i+1].at], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		b = bytes.Clone(b)
		if seal && len(b) > packBlockHeaderLen { // behind the checksums, too
			stored := b[packBlockHeaderLen:]
			binary.LittleEndian.PutUint32(b, uint32(len(stored)))
			binary.LittleEndian.PutUint32(b[20:], crc32c(stored))
			binary.LittleEndian.PutUint32(b[28:], crc32c(b[:28]))
		}
		var u blockUnpacker
		raw, fault := u.unpack(nil, b)
		if cap(u.plain) > maxPackPlain+unpackSlack || cap(raw) > 2*maxPackRaw {
			t.Fatalf("%d bytes for %d and %d", cap(u.plain), cap(raw), len(b))
		}
		if fault != nil {
			if len(raw) > 0 {
				t.Fatal("a fault and bytes")
			}
			return
		}
		h, _ := decodePackBlockHeader(b)
		var frame Frame
		for at := h.start; len(raw) > 0; at, raw = frame.End(), raw[len(frame.Raw):] {
			if fault := decodeFrame(raw, at, &frame); fault != nil {
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
		if n := len(b) - packedFooterLen; seal && n > 0 { // behind the checksum of the index, too
			b = bytes.Clone(b)
			if index := binary.LittleEndian.Uint64(b[n:]); index < uint64(n) {
				binary.LittleEndian.PutUint32(b[n+packedFooterKeep:], crc32c(b[index:n+packedFooterKeep]))
			}
		}
		disk := newFS(t)
		must(t, disk.MkdirAll(LogDir(testDir)))
		path := filepath.Join(LogDir(testDir), SegmentName(seg.Start))
		must(t, vfs.WriteFileAtomic(disk, path, b))
		_, err := WalkLog(disk, testDir, seg.Start, 0, LogVisitor{})
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedFormat) {
			t.Fatal(err)
		}
	})
}

// TestPackCut takes a packed log back inside of a packed segment, with a crash at every operation: the log is what it
// was up to there, and what was cut is saved.
func TestPackCut(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	disk, seg, _, _, blocks := packedFileOf(t)
	at := blocks[len(blocks)/2].start // a frame's start
	want, _, ends, _ := logRecords(t, disk, testDir, 0)
	_, positions, _, _ := logRecords(t, disk, testDir, 0)
	kept := 0
	for kept < len(positions) && positions[kept] <= at {
		kept++
	}
	lineage := Lineage{Replica: true, Terms: []Term{{testHistory.ReplID, testHistory.Epoch, 0}}}
	must(t, WriteLineage(disk, testDir, &lineage))
	for n, crashed := 0, true; crashed; n++ {
		d := disk.Kill()
		d.CrashAt(d.Ops() + n)
		_, err := Cut(d, testDir, at, lineage)
		if crashed = d.Crashed(); !crashed {
			must(t, err)
		}
		for _, left := range []*vfs.Sim{d.Kill(), d.Crash(uint64(n), 0), d.Crash(uint64(n), 50)} {
			must(t, FinishBegun(left, testDir))
			tail, err := Cut(left, testDir, at, lineage)
			if err != nil || tail.File != "" && tail.To != ends[len(ends)-1] {
				t.Fatalf("operation %d: %+v, %v", n, tail, err)
			}
			got, _, _, _ := logRecords(t, left, testDir, 0)
			if !slices.Equal(got, want[:kept]) {
				t.Fatalf("operation %d: %d records are left, want %d", n, len(got), kept)
			}
			if tails, _, err := ListDiverged(left, testDir); err != nil || len(tails) != 1 {
				t.Fatalf("operation %d: tails %v, %v", n, tails, err)
			}
			opts := packOptions(left)
			opts.History = History{}
			l, rec, err := OpenLog(opts, 0, discard)
			if err != nil || rec.End != at {
				t.Fatalf("operation %d: the log ends at %d, want %d: %v", n, rec.End, at, err)
			}
			must(t, l.Close())
		}
	}
	if at <= seg.Start || at >= seg.End {
		t.Errorf("%d is not inside of a packed segment", at)
	}
}

package persist

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// packOptions are smallLog's, with segments of several packed chunks.
func packOptions(fsys vfs.FS) LogOptions {
	opts := smallLog(fsys, newClock())
	opts.FirstSegmentBytes, opts.SegmentBytes, opts.packChunk = 4096, 4096, 700
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
		packed, err := l.Packer().Pack(l.Durable(), nil)
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
	for _, s := range l.Segments().List() {
		b, err := vfs.ReadFile(disk, s.Path, 1<<20)
		must(t, err)
		whole[s.Path] = b
	}
	before := l.Stats()
	if before.DiskBytes != before.SegmentBytes+int64(before.Segments)*format.SegmentHeaderLen {
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
	for i, s := range l.Segments().List() {
		info, err := disk.Stat(s.Path)
		must(t, err)
		if s.Packed != (i < n) || s.Packed && s.Bytes != info.Size() {
			t.Errorf("segment %+v of %d bytes", s, info.Size())
		}
		sum += s.Bytes
		if !s.Packed {
			continue
		}
		file, err := logfile.OpenSegmentFile(disk, s.Segment())
		must(t, err)
		size, err := file.Size()
		must(t, err)
		b, err := vfs.ReadAtMost(file, make([]byte, size+100), 0)
		must(t, err)
		if want := whole[s.Path][:len(b)]; !bytes.Equal(b[format.SegmentHeaderLen:], want[format.SegmentHeaderLen:]) || uint64(len(b)) != format.SegmentHeaderLen+s.End-s.Start {
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
	segs := l.Segments().List()
	if packed, err := l.Packer().Pack(segs[2].End-1, nil); !packed || err != nil {
		t.Fatal(packed, err)
	}
	if packed, err := l.Packer().Pack(segs[2].End-1, nil); !packed || err != nil {
		t.Fatal(packed, err)
	}
	if packed, err := l.Packer().Pack(segs[2].End-1, nil); packed || err != nil {
		t.Fatal("a segment behind the limit was packed", err)
	}
	stop := errors.New("stop")
	before, err := disk.List(format.LogDir(testDir))
	must(t, err)
	if packed, err := l.Packer().Pack(segs[2].End, func() error { return stop }); packed || !errors.Is(err, stop) {
		t.Fatal(packed, err)
	}
	if names, err := disk.List(format.LogDir(testDir)); err != nil || !slices.Equal(names, before) {
		t.Error("left behind:", names, err)
	}
	if err := l.Segments().DropBefore(segs[1].End); err != nil {
		t.Fatal(err)
	}
	packAll(t, l)
	if s := l.Stats(); s.Packed != s.Segments-1 {
		t.Errorf("%+v", s)
	}
	// Of bytes on disk, not of the log.
	keep := l.Segments().List()
	sum := uint64(0)
	for i := len(keep) - 1; i >= 0; i-- {
		sum += uint64(keep[i].Bytes)
		if got := l.Segments().KeepFrom(sum); got != keep[i].Start {
			t.Errorf("%d bytes are kept from %d on, want %d", sum, got, keep[i].Start)
		}
	}
	if got := l.Segments().KeepFrom(sum + 1); got != 0 {
		t.Errorf("all is kept from %d on", got)
	}
	must(t, l.Close())
	if packed, err := l.Packer().Pack(1<<40, nil); packed || err != nil {
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
			records = format.AppendSet(records, rng.Uint32(), uint16(rng.Uint32()), rng.Uint64(), rng.Uint64())
		}
		_, err := l.Append(records)
		must(t, err)
		must(t, l.Sync())
		l.Tick()
	}
	if packed, err := l.Packer().Pack(l.Durable(), nil); packed || err != nil {
		t.Fatal(packed, err)
	}
	if s := l.Stats(); s.Packed != 0 || s.Segments < 2 {
		t.Errorf("%+v", s)
	}
	ops := disk.Ops()
	if packed, err := l.Packer().Pack(l.Durable(), nil); packed || err != nil || disk.Ops() != ops {
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
		from := l.Segments().List()[1].Start
		disk.TornCrashAt(disk.Ops()+n, 50)
		for packed := true; packed; {
			var err error
			if packed, err = l.Packer().Pack(l.Durable(), nil); err != nil {
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
			want := l.Segments().List()[0]
			packed, err := l.Packer().Pack(want.End, nil)
			fired = faulty.Fired() > 0
			// A temporary file that could not be removed is no error.
			if packed != (err == nil) || err != nil && !errors.Is(err, errno) {
				t.Fatalf("call %d: packed %v, %v", k, packed, err)
			}
			faulty.Clear()
			must(t, l.Ready())
			m.checkRead(t, l, 0)
			packAll(t, l)
			if got := l.Segments().List()[0]; !got.Packed {
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
	if packed, err := l.Packer().Pack(l.Durable(), nil); packed || !vfs.IsNoSpace(err) {
		t.Fatal(packed, err)
	}
	l.Reserve(0)
	if packAll(t, l) == 0 {
		t.Error("nothing was packed")
	}
	m.checkRead(t, l, 0)
	must(t, l.Close())
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
				if more, err = l.Packer().Pack(end-min(end, 1000), nil); err != nil {
					t.Error(err)
					return
				}
			}
			if err := l.Segments().DropBefore(end - min(end, 6_000)); err != nil {
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
				if errors.Is(err, format.ErrGone) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, format.ErrAhead) {
					continue
				}
				if err != nil {
					t.Error("resume at", from, err)
					return
				}
				next, last := r.Pos(), ^uint64(0)
				for range rng.IntN(300) {
					f, err := r.TryNext()
					if errors.Is(err, format.ErrGone) || errors.Is(err, fs.ErrNotExist) || err == nil && f == nil {
						break
					}
					if err != nil || f.Start != next || f.End() <= from {
						t.Errorf("at %d, resumed at %d: %+v, %v", next, from, f, err)
						return
					}
					next = f.End()
					var rec format.Record
					if err := f.Records(&rec, 0, func(_ uint64, rec *format.Record) error {
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

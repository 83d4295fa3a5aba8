// Scenario: bits of segments flip, files are cut or go missing

package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

var le = binary.LittleEndian

// sampleLog makes a log of three segments, the last with frames whose durability a later one claims, and frames that
// none does. It returns the model, the disk and the durable offset.
func sampleLog(t testing.TB) (m model, disk *vfs.Sim, opts LogOptions) {
	disk = newFS(t)
	c := newClock()
	opts = smallLog(disk, c)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	for i := range 60 {
		pos := m.appendSome(t, l, i)
		if i%3 == 2 {
			must(t, l.Commit(pos))
		}
		if i == 10 || i == 50 {
			l.Tick()
		}
	}
	must(t, l.Commit(l.Position()))
	must(t, l.Close())
	return m, disk, opts
}

// TestLogGolden compares segments with those in testdata, byte by byte.
func TestLogGolden(t *testing.T) {
	_, disk, _ := sampleLog(t)
	segs, err := logfile.ListSegments(disk, testDir)
	must(t, err)
	for i, s := range segs {
		b, err := vfs.ReadFile(disk, s.Path, 1<<20)
		must(t, err)
		golden(t, fmt.Sprintf("v5-segment%d.aof", i), b)
	}
	l, _, err := OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	l.AppendSet(1, 2, 3, 4)
	l.HoldFrame()
	l.AppendSet(1, 2, 5, 6)
	l.AppendDelete(1, 7)
	l.ReleaseFrame()
	l.AppendSet(1, 2, 3, 5)
	must(t, l.Close())
	b, err := vfs.ReadFile(l.opts.FS, l.files.segs[0].Path, 1<<20)
	must(t, err)
	checkGolden(t, "v5-whole.aof", "set 1 2 3 4|set 1 2 5 6|del 1 7|set 1 2 3 5")
	golden(t, "v5-whole.aof", b)

	l, _, err = OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	define := format.AppendDefine(nil, 300, 2, 1<<40, []byte("producer"))
	for _, records := range [][]byte{
		format.AppendSet(format.AppendOnce(define, 300, 16000, 0x1abcde, 0, format.Result{}), 1, 2, 3, 4),
		format.AppendDelete(format.AppendOnce(nil, 300, 16001, 1, 255, format.Result{Kind: format.ResultBulk, N: 77}), 1, 3),
		format.AppendOnce(nil, 300, 16002, 0, 9, format.Result{Kind: format.ResultNil}),
	} {
		_, err := l.Append(records)
		must(t, err)
	}
	records := format.AppendOnce(nil, 300, 16003, 2, 10, format.Result{Kind: format.ResultBlob, Blob: []byte("blob")})
	_, err = l.AppendWhole(format.AppendSet(format.AppendSet(records, 1, 2, 3, 5), 1, 2, 4, 5))
	must(t, err)
	must(t, l.Close())
	b, err = vfs.ReadFile(l.opts.FS, l.files.segs[0].Path, 1<<20)
	must(t, err)
	golden(t, "v5-once.aof", b)
	checkGolden(t, "v5-once.aof", `define 300 "producer" epoch 2 base 1099511627776|`+
		`once 300 16000 hash 1abcde group 0 next 0 ""|set 1 2 3 4|once 300 16001 hash 1 group 255 bulk 77 ""|del 1 3|`+
		`once 300 16002 hash 0 group 9 nil 0 ""|once 300 16003 hash 2 group 10 blob 0 "blob"|set 1 2 3 5|set 1 2 4 5`)

	l, _, err = OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	groups := slot.Set{1<<7 | 1, 0, 0, 1 << 63}
	for _, record := range [][]byte{
		format.AppendMove(nil, format.KindImport, "4f1d", groups),
		format.AppendRows(nil, 300, []uint16{1, 2, 1 << 15}, []byte("items")),
		format.AppendFloor(format.AppendDefine(nil, 7, 1, 0, []byte("producer")), 7, 1<<40),
		format.AppendMove(nil, format.KindAccept, "4f1d", groups),
		format.AppendMove(nil, format.KindDrop, "90ab", groups),
	} {
		_, err := l.Append(record)
		must(t, err)
	}
	must(t, l.Close())
	b, err = vfs.ReadFile(l.opts.FS, l.files.segs[0].Path, 1<<20)
	must(t, err)
	golden(t, "v5-move.aof", b)
	checkGolden(t, "v5-move.aof", `import "4f1d" 0,7,255|rows 300 [1 2 32768] "items"|define 7 "producer" epoch 1 base 0|`+
		`floor 7 1099511627776|accept "4f1d" 0,7,255|drop "90ab" 0,7,255`)

	l, _, err = OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	_, err = l.Append(format.AppendCursor(format.AppendCursor(nil, "search-1", 1<<40, "1-0102030405060708-3-1099511627776-abcd"), "old", 0, ""))
	must(t, err)
	must(t, l.Close())
	b, err = vfs.ReadFile(l.opts.FS, l.files.segs[0].Path, 1<<20)
	must(t, err)
	golden(t, "v5-cursor.aof", b)
	checkGolden(t, "v5-cursor.aof", `cursor search-1 1099511627776 "1-0102030405060708-3-1099511627776-abcd"|cursor old 0 ""`)

	l, _, err = OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	_, err = l.Append(format.AppendDropRange(format.AppendDropRange(nil, 300, 7, 1<<63, slot.AllGroups()), 1, 0, 1<<40, slot.Set{1, 0, 0, 1 << 63}))
	must(t, err)
	must(t, l.Close())
	b, err = vfs.ReadFile(l.opts.FS, l.files.segs[0].Path, 1<<20)
	must(t, err)
	golden(t, "v5-droprange.aof", b)
	checkGolden(t, "v5-droprange.aof", `droprange 300 7 9223372036854775808 0-255|droprange 1 0 1099511627776 0,255`)

	l, _, err = OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	_, err = l.Append(format.AppendTick(format.AppendTick(nil, 1764000000), format.MaxTick))
	must(t, err)
	must(t, l.Close())
	b, err = vfs.ReadFile(l.opts.FS, l.files.segs[0].Path, 1<<20)
	must(t, err)
	golden(t, "v5-tick.aof", b)
	checkGolden(t, "v5-tick.aof", fmt.Sprintf(`tick 1764000000|tick %d`, format.MaxTick))

	l, _, err = OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	columns := []format.ColumnValue{{Column: 1, Value: 5}, {Column: 300, Value: 0}}
	records = format.AppendSetOld(format.AppendSetOld(nil, 1, 2, 3, 5, true, 4), 1, 2, 4, 1, false, 0)
	records = format.AppendSetItemOld(format.AppendSetItemOld(records, 1, 7, columns, true, []uint64{6, 1<<63 - 1}), 1, 8, columns, false, nil)
	_, err = l.Append(format.AppendDeleteOld(records, 1, 7, columns))
	must(t, err)
	must(t, l.Close())
	b, err = vfs.ReadFile(l.opts.FS, l.files.segs[0].Path, 1<<20)
	must(t, err)
	golden(t, "v5-old.aof", b)
	checkGolden(t, "v5-old.aof", `set 1 2 3 5 old [{2 4}]|set 1 2 4 1 old []|item 1 7 [{1 5} {300 0}] old [{1 6} {300 9223372036854775807}]|`+
		`item 1 8 [{1 5} {300 0}] old []|del 1 7 old [{1 5} {300 0}]`)
}

// checkGolden compares the records of a segment of testdata, the only one of its log, with a text.
func checkGolden(t *testing.T, name, want string) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	must(t, err)
	disk := newFS(t)
	must(t, disk.MkdirAll(format.LogDir(testDir)))
	must(t, vfs.WriteFileAtomic(disk, format.LogDir(testDir)+"/"+format.SegmentName(0), b))
	records, _, _, _ := logRecords(t, disk, testDir, 0)
	if got := strings.Join(records, "|"); got != want {
		t.Errorf("%s: got  %s\nwant %s", name, got, want)
	}
}

// TestLogDamage flips every bit of every segment, and cuts at every length: what is replayed is always a true prefix,
// and it ends before durable bytes only with an error.
func TestLogDamage(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, claimed := range []bool{false, true} {
		t.Run(fmt.Sprintf("claimed=%v", claimed), func(t *testing.T) { testLogDamage(t, claimed) })
	}
}

// testLogDamage damages a log that was ended, with its claim, and as one that was killed has none.
func testLogDamage(t *testing.T, claimed bool) {
	m, disk, opts := sampleLog(t)
	if !claimed {
		must(t, logfile.DropClaim(disk, testDir))
	}
	segs, err := logfile.ListSegments(disk, testDir)
	must(t, err)
	var durable uint64 // claimed by some frame or header: what must not be lost silently
	_, err = logfile.Walk(disk, testDir, 0, 0, logfile.Visitor{
		Segment: func(h logfile.Header) error { durable = max(durable, h.Durable); return nil },
		Frame:   func(_ logfile.SegmentInfo, f *format.Frame) error { durable = max(durable, f.Durable); return nil },
	})
	must(t, err)
	if last := segs[len(segs)-1].Start; durable <= last {
		t.Fatalf("durable %d is not inside the last segment, from %d", durable, last)
	}
	known, err := logfile.ReadClaim(disk, testDir)
	must(t, err)
	outside := known.Offset
	durable = max(durable, outside)
	// evidence is what frames and headers of segment s before its byte i, and of the segments before, claim.
	evidence := func(s logfile.Segment, i int) (claim uint64) {
		_, err := logfile.Walk(disk, testDir, 0, 0, logfile.Visitor{
			Segment: func(h logfile.Header) error {
				if h.Start < s.Start || h.Start == s.Start && i >= format.SegmentHeaderLen {
					claim = max(claim, h.Durable)
				}
				return nil
			},
			Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
				if s.Offset(f.End()) <= int64(i) {
					claim = max(claim, f.Durable)
				}
				return nil
			},
		})
		must(t, err)
		return max(claim, outside)
	}
	refused, torn := 0, 0
	try := func(path string, b []byte, durable uint64, what string) {
		d := disk.Kill()
		must(t, d.Remove(path))
		f, err := d.Create(path)
		must(t, err)
		_, err = f.WriteAt(b, 0)
		must(t, err)
		must(t, f.Close())
		opts.FS = d
		i := 0
		l, rec, err := OpenLog(opts, 0, func(pos uint64, r *format.Record) error {
			if pos != m.pos[i] || recordText(r) != m.text[i] {
				t.Fatalf("%s: wrong record at %d", what, pos)
			}
			i++
			return nil
		})
		switch {
		case err == nil:
			if rec.End < durable {
				t.Fatalf("%s: the log ends at %d, durable were %d", what, rec.End, durable)
			}
			if rec.Torn != nil {
				torn++
			}
			must(t, l.Close())
		case errors.Is(err, format.ErrCorrupt):
			refused++
		default:
			t.Fatalf("%s: %v", what, err)
		}
		if leaks := d.Leaks(); len(leaks) > 0 {
			t.Fatal(leaks)
		}
	}
	for _, s := range segs {
		whole, err := vfs.ReadFile(disk, s.Path, 1<<20)
		must(t, err)
		for i := range whole {
			if i >= len(whole)-200 && format.AllZero(whole[i:]) {
				break // preallocated: a bit there is what a torn write leaves
			}
			if b := bytes.Clone(whole); i%32 == 0 {
				clear(b[i:])
				try(s.Path, b, evidence(s, i), fmt.Sprintf("%s zero from %d", s.Path, i))
				b = bytes.Clone(whole)
				clear(b[i:min(i+96, len(b))])
				try(s.Path, b, durable, fmt.Sprintf("%s 96 bytes zero from %d", s.Path, i))
			}
			for bit := range 8 {
				b := bytes.Clone(whole)
				b[i] ^= 1 << bit
				try(s.Path, b, durable, fmt.Sprintf("%s byte %d bit %d", s.Path, i, bit))
			}
			try(s.Path, whole[:i:i], durable, fmt.Sprintf("%s cut to %d", s.Path, i))
		}
	}
	if refused == 0 || (torn == 0) != claimed {
		t.Errorf("%d refused, %d torn: want some of both, and none torn of a log that was ended", refused, torn)
	}
}

func TestLogMissingSegment(t *testing.T) {
	_, disk, opts := sampleLog(t)
	segs, err := logfile.ListSegments(disk, testDir)
	must(t, err)
	for i := range len(segs) {
		d := disk.Kill()
		must(t, d.Remove(segs[i].Path))
		opts.FS = d
		_, _, err := OpenLog(opts, 0, discard)
		// That the last one is missing shows in the size of the one before, which is cut only when it has a next.
		if last := i == len(segs)-1; !errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrGap) == last {
			t.Errorf("segment %d missing: got %v", i, err)
		}
	}
	opts.FS, opts.KnownDurable = disk, 1<<40
	if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, format.ErrGap) {
		t.Error("a log that ends before an image: got", err)
	}
	opts.FS, opts.KnownDurable = newFS(t), 0
	opts.Create = false
	if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, format.ErrGap) {
		t.Error("no segment at all: got", err)
	}
}

func TestLogNewerFormat(t *testing.T) {
	_, disk, opts := sampleLog(t)
	segs, err := logfile.ListSegments(disk, testDir)
	must(t, err)
	f, err := disk.OpenRW(segs[1].Path)
	must(t, err)
	h := make([]byte, format.SegmentHeaderLen)
	_, err = f.ReadAt(h, 0)
	must(t, err)
	h[8] = format.PackedVersion + 1
	le.PutUint32(h[60:], format.Checksum(h[:60]))
	_, err = f.WriteAt(h, 0)
	must(t, err)
	must(t, f.Close())
	before := disk.Ops()
	if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, format.ErrUnsupportedFormat) || errors.Is(err, format.ErrCorrupt) {
		t.Error("got", err)
	}
	if disk.Ops() != before {
		t.Error("a refused log was changed")
	}
}

// TestReplicaTail: a replica's frames carry the primary's durable offsets, so its own torn tail is no corruption.
func TestReplicaTail(t *testing.T) {
	m, disk, _ := sampleLog(t)
	replica, c := newFS(t), newClock()
	opts := smallLog(replica, c)
	opts.History.Replica = true
	opts.SegmentBytes, opts.FirstSegmentBytes = 1<<16, 1<<16
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	_, err = logfile.Walk(disk, testDir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		pos, err := l.AppendFrame(f.Raw)
		if err != nil {
			return err
		}
		return l.Commit(pos)
	}})
	must(t, err)
	if _, err := l.AppendFrame([]byte("no frame")); !errors.Is(err, format.ErrCorrupt) {
		t.Error("a bad frame was taken:", err)
	}
	end := l.Position()
	if end != m.pos[len(m.pos)-1] {
		t.Fatalf("position %d", end)
	}
	killed := replica.Kill()
	segs, err := logfile.ListSegments(killed, testDir)
	must(t, err)
	f, err := killed.OpenRW(segs[0].Path)
	must(t, err)
	_, err = f.WriteAt(make([]byte, 100), 300) // a sector the disk had not written
	must(t, err)
	must(t, f.Close())
	must(t, l.Close())
	o := opts
	o.FS = killed
	l, rec := m.checkReplay(t, o, 0, 0)
	if rec.Torn == nil || rec.Torn.Frames == 0 {
		t.Errorf("recovery %+v", rec)
	}
	// Promotion: own frames in a new history, in a segment of their own.
	h := format.History{ReplID: format.ReplID{5}, Epoch: 9}
	must(t, l.SetHistory(h))
	m.cut(rec.End)
	must(t, l.Commit(m.appendSome(t, l, 1)))
	must(t, l.Close())
	o.History = format.History{}
	l, rec = m.checkReplay(t, o, 0, l.Durable())
	if rec.History != h || l.History() != h {
		t.Errorf("history %+v", rec.History)
	}
	must(t, l.Close())
}

// smallFrame is a frame of one record at log offset 0.
func smallFrame() []byte {
	b := format.AppendSet(make([]byte, format.FrameHeaderLen), 1, 2, 3, 4)
	format.PutFrameHeader(b, false, 0, 0, 1, 1)
	return b
}

// FuzzSegment opens arbitrary bytes as a log's only segment.
func FuzzSegment(f *testing.F) {
	h := format.SegmentHeader{History: testHistory}
	f.Add(append(h.AppendTo(nil), smallFrame()...))
	f.Add(append(h.AppendTo(nil), make([]byte, 100)...))
	f.Add([]byte{})
	h.Durable = 1 << 60 // a claim behind the end
	f.Add(h.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= format.SegmentHeaderLen {
			le.PutUint32(b[60:], format.Checksum(b[:60]))
		}
		disk := newFS(t)
		must(t, disk.MkdirAll(format.LogDir(testDir)))
		file, err := disk.Create(format.LogDir(testDir) + "/" + format.SegmentName(0))
		must(t, err)
		_, err = file.WriteAt(b, 0)
		must(t, err)
		must(t, file.Close())
		l, rec, err := OpenLog(smallLog(disk, newClock()), 0, discard)
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrUnsupportedFormat) {
				t.Fatal(err)
			}
			return
		}
		must(t, l.Close())
		l, again, err := OpenLog(smallLog(disk, newClock()), 0, discard)
		must(t, err)
		if again.End != rec.End || again.Records != rec.Records || again.Torn != nil {
			t.Fatalf("recovered %+v, then %+v", rec, again)
		}
		must(t, l.Close())
	})
}

package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

var le = binary.LittleEndian

// everyDamage flips every bit and tries every truncation of a file's bytes, and some runs of zeros, and demands that
// read finds all of it: with ErrCorrupt, and never as something else.
func everyDamage(t *testing.T, whole []byte, read func([]byte) error) {
	t.Helper()
	must(t, read(bytes.Clone(whole)))
	check := func(b []byte, what string) {
		if err := read(b); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupportedFormat) {
			t.Fatalf("%s: got %v", what, err)
		}
	}
	for i := range whole {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			check(b, fmt.Sprintf("byte %d bit %d flipped", i, bit))
		}
		check(bytes.Clone(whole[:i]), fmt.Sprintf("cut to %d bytes", i))
		if b := bytes.Clone(whole); i%64 == 0 {
			clear(b[i:min(i+64, len(b))])
			if !bytes.Equal(b, whole) {
				check(b, fmt.Sprintf("64 bytes from %d zero", i))
			}
		}
	}
	check(append(bytes.Clone(whole), 0), "a byte more")
}

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
	segs, err := listSegments(disk, testDir)
	must(t, err)
	for i, s := range segs {
		b, err := vfs.ReadFile(disk, s.path, 1<<20)
		must(t, err)
		golden(t, fmt.Sprintf("v5-segment%d.aof", i), b)
	}
	l, _, err := OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	l.AppendSet(1, 2, 3, 4)
	l.Hold()
	l.AppendSet(1, 2, 5, 6)
	l.AppendDelete(1, 7)
	l.Release()
	l.AppendSet(1, 2, 3, 5)
	must(t, l.Close())
	b, err := vfs.ReadFile(l.opts.FS, l.files.segs[0].path, 1<<20)
	must(t, err)
	checkGolden(t, "v5-whole.aof", "set 1 2 3 4|set 1 2 5 6|del 1 7|set 1 2 3 5")
	golden(t, "v5-whole.aof", b)

	l, _, err = OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	define := AppendDefine(nil, 300, 2, 1<<40, []byte("producer"))
	for _, records := range [][]byte{
		AppendSet(AppendOnce(define, 300, 16000, 0x1abcde, 0, Result{}), 1, 2, 3, 4),
		AppendDelete(AppendOnce(nil, 300, 16001, 1, 255, Result{Kind: ResultBulk, N: 77}), 1, 3),
		AppendOnce(nil, 300, 16002, 0, 9, Result{Kind: ResultNil}),
	} {
		_, err := l.Append(records)
		must(t, err)
	}
	records := AppendOnce(nil, 300, 16003, 2, 10, Result{Kind: ResultBlob, Blob: []byte("blob")})
	_, err = l.AppendWhole(AppendSet(AppendSet(records, 1, 2, 3, 5), 1, 2, 4, 5))
	must(t, err)
	must(t, l.Close())
	b, err = vfs.ReadFile(l.opts.FS, l.files.segs[0].path, 1<<20)
	must(t, err)
	golden(t, "v5-once.aof", b)
	checkGolden(t, "v5-once.aof", `define 300 "producer" epoch 2 base 1099511627776|`+
		`once 300 16000 hash 1abcde group 0 next 0 ""|set 1 2 3 4|once 300 16001 hash 1 group 255 bulk 77 ""|del 1 3|`+
		`once 300 16002 hash 0 group 9 nil 0 ""|once 300 16003 hash 2 group 10 blob 0 "blob"|set 1 2 3 5|set 1 2 4 5`)

	l, _, err = OpenLog(smallLog(newFS(t), newClock()), 0, discard)
	must(t, err)
	groups := slot.Set{1<<7 | 1, 0, 0, 1 << 63}
	for _, record := range [][]byte{
		AppendMove(nil, KindImport, "4f1d", groups),
		AppendRows(nil, 300, []uint16{1, 2, 1 << 15}, []byte("items")),
		AppendFloor(AppendDefine(nil, 7, 1, 0, []byte("producer")), 7, 1<<40),
		AppendMove(nil, KindAccept, "4f1d", groups),
		AppendMove(nil, KindDrop, "90ab", groups),
	} {
		_, err := l.Append(record)
		must(t, err)
	}
	must(t, l.Close())
	b, err = vfs.ReadFile(l.opts.FS, l.files.segs[0].path, 1<<20)
	must(t, err)
	golden(t, "v5-move.aof", b)
	checkGolden(t, "v5-move.aof", `import "4f1d" 0,7,255|rows 300 [1 2 32768] "items"|define 7 "producer" epoch 1 base 0|`+
		`floor 7 1099511627776|accept "4f1d" 0,7,255|drop "90ab" 0,7,255`)
}

// checkGolden compares the records of a segment of testdata, the only one of its log, with a text.
func checkGolden(t *testing.T, name, want string) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	must(t, err)
	disk := newFS(t)
	must(t, disk.MkdirAll(LogDir(testDir)))
	must(t, vfs.WriteFileAtomic(disk, LogDir(testDir)+"/"+SegmentName(0), b))
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
		must(t, DropClaim(disk, testDir))
	}
	segs, err := listSegments(disk, testDir)
	must(t, err)
	var durable uint64 // claimed by some frame or header: what must not be lost silently
	_, err = WalkLog(disk, testDir, 0, 0, LogVisitor{
		Segment: func(h SegmentHeader) error { durable = max(durable, h.Durable); return nil },
		Frame:   func(_ SegmentInfo, f *Frame) error { durable = max(durable, f.Durable); return nil },
	})
	must(t, err)
	if last := segs[len(segs)-1].start; durable <= last {
		t.Fatalf("durable %d is not inside the last segment, from %d", durable, last)
	}
	known, err := ReadClaim(disk, testDir)
	must(t, err)
	outside := known.Offset
	durable = max(durable, outside)
	// evidence is what frames and headers of segment s before its byte i, and of the segments before, claim.
	evidence := func(s segment, i int) (claim uint64) {
		_, err := WalkLog(disk, testDir, 0, 0, LogVisitor{
			Segment: func(h SegmentHeader) error {
				if h.Start < s.start || h.Start == s.start && i >= segmentHeaderLen {
					claim = max(claim, h.Durable)
				}
				return nil
			},
			Frame: func(_ SegmentInfo, f *Frame) error {
				if s.offset(f.End()) <= int64(i) {
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
		l, rec, err := OpenLog(opts, 0, func(pos uint64, r *Record) error {
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
		case errors.Is(err, ErrCorrupt):
			refused++
		default:
			t.Fatalf("%s: %v", what, err)
		}
		if leaks := d.Leaks(); len(leaks) > 0 {
			t.Fatal(leaks)
		}
	}
	for _, s := range segs {
		whole, err := vfs.ReadFile(disk, s.path, 1<<20)
		must(t, err)
		for i := range whole {
			if i >= len(whole)-200 && allZero(whole[i:]) {
				break // preallocated: a bit there is what a torn write leaves
			}
			if b := bytes.Clone(whole); i%32 == 0 {
				clear(b[i:])
				try(s.path, b, evidence(s, i), fmt.Sprintf("%s zero from %d", s.path, i))
				b = bytes.Clone(whole)
				clear(b[i:min(i+96, len(b))])
				try(s.path, b, durable, fmt.Sprintf("%s 96 bytes zero from %d", s.path, i))
			}
			for bit := range 8 {
				b := bytes.Clone(whole)
				b[i] ^= 1 << bit
				try(s.path, b, durable, fmt.Sprintf("%s byte %d bit %d", s.path, i, bit))
			}
			try(s.path, whole[:i:i], durable, fmt.Sprintf("%s cut to %d", s.path, i))
		}
	}
	if refused == 0 || (torn == 0) != claimed {
		t.Errorf("%d refused, %d torn: want some of both, and none torn of a log that was ended", refused, torn)
	}
}

func TestLogMissingSegment(t *testing.T) {
	_, disk, opts := sampleLog(t)
	segs, err := listSegments(disk, testDir)
	must(t, err)
	for i := range len(segs) {
		d := disk.Kill()
		must(t, d.Remove(segs[i].path))
		opts.FS = d
		_, _, err := OpenLog(opts, 0, discard)
		// That the last one is missing shows in the size of the one before, which is cut only when it has a next.
		if last := i == len(segs)-1; !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrGap) == last {
			t.Errorf("segment %d missing: got %v", i, err)
		}
	}
	opts.FS, opts.KnownDurable = disk, 1<<40
	if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, ErrGap) {
		t.Error("a log that ends before an image: got", err)
	}
	opts.FS, opts.KnownDurable = newFS(t), 0
	opts.Create = false
	if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, ErrGap) {
		t.Error("no segment at all: got", err)
	}
}

func TestLogNewerFormat(t *testing.T) {
	_, disk, opts := sampleLog(t)
	segs, err := listSegments(disk, testDir)
	must(t, err)
	f, err := disk.OpenRW(segs[1].path)
	must(t, err)
	h := make([]byte, segmentHeaderLen)
	_, err = f.ReadAt(h, 0)
	must(t, err)
	h[8] = packedVersion + 1
	le.PutUint32(h[60:], crc32c(h[:60]))
	_, err = f.WriteAt(h, 0)
	must(t, err)
	must(t, f.Close())
	before := disk.Ops()
	if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, ErrUnsupportedFormat) || errors.Is(err, ErrCorrupt) {
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
	_, err = WalkLog(disk, testDir, 0, 0, LogVisitor{Frame: func(_ SegmentInfo, f *Frame) error {
		pos, err := l.AppendFrame(f.Raw)
		if err != nil {
			return err
		}
		return l.Commit(pos)
	}})
	must(t, err)
	if _, err := l.AppendFrame([]byte("no frame")); !errors.Is(err, ErrCorrupt) {
		t.Error("a bad frame was taken:", err)
	}
	end := l.Position()
	if end != m.pos[len(m.pos)-1] {
		t.Fatalf("position %d", end)
	}
	killed := replica.Kill()
	segs, err := listSegments(killed, testDir)
	must(t, err)
	f, err := killed.OpenRW(segs[0].path)
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
	h := History{ReplID: ReplID{5}, Epoch: 9}
	must(t, l.SetHistory(h))
	m.cut(rec.End)
	must(t, l.Commit(m.appendSome(t, l, 1)))
	must(t, l.Close())
	o.History = History{}
	l, rec = m.checkReplay(t, o, 0, l.Durable())
	if rec.History != h || l.History() != h {
		t.Errorf("history %+v", rec.History)
	}
	must(t, l.Close())
}

func FuzzRecord(f *testing.F) {
	f.Add(AppendSet(nil, 1, 2, 3, 4))
	f.Add(AppendSet(nil, 1<<31, 1<<15, 1<<63, 1<<62))
	f.Add(AppendSetItem(nil, 1, 2, []ColumnValue{{1, 2}, {3, 4}}))
	f.Add(AppendDelete(nil, 1, 2))
	f.Add(AppendFlush(nil))
	f.Add(AppendSchema(nil, "add counter weibo"))
	f.Add(AppendDefine(nil, 7, 1, 1<<60, []byte("producer")))
	f.Add(AppendDefine(nil, 7, 0, 0, nil))
	for k := range ResultKind(8) {
		f.Add(AppendOnce(nil, 7, 300, 0x1fffff, 255, Result{k, 77, []byte("blob")}))
	}
	for _, k := range []Kind{KindImport, KindAccept, KindDrop} {
		f.Add(AppendMove(nil, k, "0123456789abcdef", slot.Set{1, 2, 3, 1 << 63}))
	}
	f.Add(AppendRows(nil, 1, []uint16{1, 2, 1 << 15}, []byte("items")))
	f.Add(AppendFloor(nil, 7, 1<<40))
	var rec, again Record
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := DecodeRecord(b, &rec)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if n < 1 || n > len(b) || len(rec.Columns) > MaxColumns {
			t.Fatalf("%d of %d bytes, %d columns", n, len(b), len(rec.Columns))
		}
		enc := encode(&rec)
		m, err := DecodeRecord(enc, &again)
		must(t, err)
		if m != len(enc) || len(enc) > n || !sameRecord(&rec, &again) {
			t.Fatalf("%+v encodes to %x, which is %+v", rec, enc, again)
		}
	})
}

// encode encodes any record.
func encode(r *Record) []byte {
	switch r.Kind {
	case KindSet:
		return AppendSet(nil, r.Counter, r.Column, r.Mid, r.Value)
	case KindSetItem:
		return AppendSetItem(nil, r.Counter, r.Mid, r.Columns)
	case KindDelete:
		return AppendDelete(nil, r.Counter, r.Mid)
	case KindFlush:
		return AppendFlush(nil)
	case KindSchema:
		return AppendSchema(nil, string(r.Text))
	case KindDefine:
		return AppendDefine(nil, r.Number, r.Epoch, r.Seq, r.Text)
	case KindOnce:
		return AppendOnce(nil, r.Number, r.Seq, r.Hash, r.Group, Result{r.Result, r.Value, r.Text})
	case KindImport, KindAccept, KindDrop:
		return AppendMove(nil, r.Kind, string(r.Text), r.Groups)
	case KindRows:
		columns := make([]uint16, len(r.Columns))
		for i, c := range r.Columns {
			columns[i] = c.Column
		}
		return AppendRows(nil, r.Counter, columns, r.Text)
	case KindFloor:
		return AppendFloor(nil, r.Number, r.Seq)
	}
	panic("kind without an encoder")
}

func sameRecord(a, b *Record) bool {
	x, y := *a, *b
	x.Columns, y.Columns, x.Text, y.Text = nil, nil, nil, nil
	return fmt.Sprint(x) == fmt.Sprint(y) && slices.Equal(a.Columns, b.Columns) && bytes.Equal(a.Text, b.Text)
}

func TestRecordRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 4))
	number := func(bits int) uint64 { return rng.Uint64() >> (64 - bits) >> rng.IntN(bits) }
	var got Record
	for range 2000 {
		want := Record{Kind: []Kind{KindSet, KindSetItem, KindDelete, KindFlush, KindSchema, KindDefine, KindOnce,
			KindImport, KindRows, KindAccept, KindDrop, KindFloor}[rng.IntN(12)]}
		switch want.Kind {
		case KindImport, KindAccept, KindDrop:
			want.Text = make([]byte, 1+rng.IntN(MaxMoveID))
			for i := range want.Groups {
				want.Groups[i] = number(64)
			}
		case KindRows:
			want.Counter, want.Text = uint32(number(32)), make([]byte, rng.IntN(300))
			for range rng.IntN(20) {
				want.Columns = append(want.Columns, ColumnValue{Column: uint16(number(16))})
			}
		case KindFloor:
			want.Number, want.Seq = uint32(number(14)), number(64)
		case KindSetItem:
			for range rng.IntN(20) {
				want.Columns = append(want.Columns, ColumnValue{uint16(number(16)), number(64)})
			}
			fallthrough
		case KindSet, KindDelete:
			want.Counter, want.Mid = uint32(number(32)), number(64)
			if want.Kind == KindSet {
				want.Column, want.Value = uint16(number(16)), number(64)
			}
		case KindDefine:
			want.Number = uint32(number(14))
			if want.Text = make([]byte, rng.IntN(MaxProducerID+1)); len(want.Text) > 0 {
				want.Epoch, want.Seq = number(64), number(64)
			}
		case KindOnce:
			want.Number, want.Seq, want.Hash = uint32(number(14)), number(64), uint32(number(HashBits))
			if want.Result = ResultKind(rng.IntN(resultKinds)); want.Result != ResultNext {
				want.Group = uint8(number(8))
			}
			switch want.Result {
			case ResultInt, ResultBulk:
				want.Value = number(64)
			case ResultBlob:
				want.Text = make([]byte, rng.IntN(300))
			}
		case KindSchema:
			want.Text = make([]byte, rng.IntN(300))
		}
		b := encode(&want)
		n, err := DecodeRecord(append(b, 0xff, 0xff), &got)
		must(t, err)
		if n != len(b) || !sameRecord(&want, &got) {
			t.Fatalf("want %+v, got %+v from %d of %d bytes", want, got, n, len(b))
		}
		for i := range b {
			if _, err := DecodeRecord(b[:i], &got); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v cut to %d of %d bytes: %v", want.Kind, i, len(b), err)
			}
		}
	}
	if n := len(AppendSet(nil, 1, 2, 19089006004, 300)); n > 11 {
		t.Errorf("an INCR of a mid of 11 digits takes %d bytes", n)
	}
	if n := len(AppendSet(nil, 1, 2, benchMid, 300)); n > 13 {
		t.Errorf("an INCR of a mid of 16 digits takes %d bytes", n)
	}
	if n := len(AppendOnce(nil, 1<<14-1, 1<<14-1, 1<<HashBits-1, 0, Result{})); n > 8 {
		t.Errorf("a producer adds %d bytes to an INCR", n)
	}
	longest := AppendDefine(nil, MaxProducers-1, 1<<64-1, 1<<64-1, make([]byte, MaxProducerID))
	if len(longest) > MaxDefineLen {
		t.Errorf("a define takes %d bytes, at most %d are said", len(longest), MaxDefineLen)
	}
	longest = AppendOnce(nil, MaxProducers-1, 1<<64-1, 1<<HashBits-1, 255, Result{Kind: ResultBlob, Blob: make([]byte, MaxResult)})
	if len(longest) > MaxOnceLen {
		t.Errorf("a once takes %d bytes, at most %d are said", len(longest), MaxOnceLen)
	}
	if n := len(AppendMove(nil, KindImport, strings.Repeat("m", MaxMoveID), slot.Set{})); n > MaxMoveLen {
		t.Errorf("an import takes %d bytes, at most %d are said", n, MaxMoveLen)
	}
	if n := len(AppendRows(nil, 1<<32-1, []uint16{1<<16 - 1}, make([]byte, MaxPage))); n > RowsLen(1, MaxPage) {
		t.Errorf("rows take %d bytes, at most %d are said", n, RowsLen(1, MaxPage))
	}
}

// TestRecordRefused reads records of producers that break a rule.
func TestRecordRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"a number too high to define": AppendDefine(nil, MaxProducers, 0, 0, []byte("a")),
		"an epoch of nobody":          AppendDefine(nil, 1, 1, 0, nil),
		"a base of nobody":            AppendDefine(nil, 1, 0, 1, nil),
		"an id too long":              AppendDefine(nil, 1, 0, 0, make([]byte, MaxProducerID+1)),
		"a number too high":           AppendOnce(nil, MaxProducers, 0, 0, 0, Result{}),
		"a kind that is none":         AppendOnce(nil, 1, 0, 0, 0, Result{Kind: resultKinds}),
		"a blob too long":             AppendOnce(nil, 1, 0, 0, 0, Result{Kind: ResultBlob, Blob: make([]byte, MaxResult+1)}),
		"a move without an id":        AppendMove(nil, KindImport, "", slot.Set{1}),
		"a move's id too long":        AppendMove(nil, KindDrop, strings.Repeat("m", MaxMoveID+1), slot.Set{1}),
		"too many columns":            AppendRows(nil, 1, make([]uint16, MaxColumns+1), nil),
		"items too long":              AppendRows(nil, 1, nil, make([]byte, MaxPage+1)),
		"a floor of nobody":           AppendFloor(nil, MaxProducers, 1),
		"a kind that never was":       {6, 1, 'a', 7, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		var rec Record
		if n, err := DecodeRecord(b, &rec); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

// fuzzSeedFrame is a valid frame at offset 0.
func fuzzSeedFrame() []byte {
	b := AppendSet(make([]byte, FrameHeaderLen), 1, 2, 3, 4)
	putFrameHeader(b, false, 0, 0, 1, 1)
	return b
}

func FuzzFrame(f *testing.F) {
	f.Add(fuzzSeedFrame())
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= FrameHeaderLen { // let the fuzzer past the checksum
			n := min(FrameHeaderLen+int(FramePayloadLen(b)), len(b))
			le.PutUint32(b, crc32c(b[4:n]))
		}
		var frame Frame
		if fault := decodeFrame(b, 0, &frame); fault != nil {
			return
		}
		var rec Record
		last := uint64(0)
		err := frame.Records(&rec, 0, func(pos uint64, _ *Record) error {
			if pos <= last || pos > frame.End() {
				t.Fatalf("record ends at %d after %d in a frame up to %d", pos, last, frame.End())
			}
			last = pos
			return nil
		})
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

// FuzzSegment opens arbitrary bytes as a log's only segment.
func FuzzSegment(f *testing.F) {
	h := segmentHeader{history: testHistory}
	f.Add(append(h.appendTo(nil), fuzzSeedFrame()...))
	f.Add(append(h.appendTo(nil), make([]byte, 100)...))
	f.Add([]byte{})
	h.durable = 1 << 60 // a claim behind the end
	f.Add(h.appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= segmentHeaderLen {
			le.PutUint32(b[60:], crc32c(b[:60]))
		}
		disk := newFS(t)
		must(t, disk.MkdirAll(LogDir(testDir)))
		file, err := disk.Create(LogDir(testDir) + "/" + SegmentName(0))
		must(t, err)
		_, err = file.WriteAt(b, 0)
		must(t, err)
		must(t, file.Close())
		l, rec, err := OpenLog(smallLog(disk, newClock()), 0, discard)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedFormat) {
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

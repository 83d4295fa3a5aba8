package past

import (
	"errors"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// mendable is a data directory, and another node's log that has the same frames.
type mendable struct {
	t      *testing.T
	disk   *vfs.Sim
	opts   persist.LogOptions
	frames [][]byte // of all of the log
	want   []string // records of all of the log
	end    uint64
	asked  uint64 // bytes that were given
}

func newMendable(t *testing.T) *mendable {
	t.Helper()
	_, disk, opts := persisttest.SampleDir(t)
	lineage := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: 0}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &lineage))
	m := &mendable{t: t, disk: disk.Crash(1, 0), opts: opts}
	walked, err := logfile.Walk(m.disk, persisttest.Dir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		m.frames = append(m.frames, slices.Clone(f.Raw))
		return nil
	}})
	persisttest.Must(t, err)
	m.want, _, _, _ = persisttest.LogRecords(t, m.disk, persisttest.Dir, 0)
	m.end = walked.End
	return m
}

// fetch gives two frames at a time.
func (m *mendable) fetch(term format.ReplID, from, end uint64) (raw []byte, err error) {
	if term != persisttest.History.ReplID {
		return nil, errors.New("another term")
	}
	at, n := uint64(0), 0
	for _, f := range m.frames {
		if at >= from && at+uint64(len(f)) <= end && n < 2 {
			raw = append(raw, f...)
			n++
		}
		at += uint64(len(f))
	}
	m.asked += uint64(len(raw))
	return raw, nil
}

// whole fails unless a directory has all of the log that the snapshots need, and opens.
func (m *mendable) whole(disk *vfs.Sim, what string) {
	m.t.Helper()
	persisttest.Must(m.t, FinishBegun(disk, persisttest.Dir))
	d, err := persist.OpenDir(disk, persisttest.Dir)
	persisttest.Must(m.t, err)
	defer d.Close()
	o := m.opts
	o.FS, o.Create, o.History = disk, false, format.History{}
	var records []string
	from := d.ReplayFrom()
	l, rec, err := persist.OpenLog(o, from, func(_ uint64, r *format.Record) error {
		records = append(records, persisttest.RecordText(r))
		return nil
	})
	if err != nil || rec.End != m.end { // a bit behind the end is cut as a torn tail
		m.t.Fatalf("%s: the log ends at %d, want %d: %v", what, rec.End, m.end, err)
	}
	persisttest.Must(m.t, l.Close())
	if !slices.Equal(records, m.want[len(m.want)-len(records):]) || len(records) < 30 {
		m.t.Fatalf("%s: %d records from %d on, not those of before", what, len(records), from)
	}
}

// TestMendLog damages each segment in many ways. Each damage that stops a start is mended, of the frames that were lost and a few more,
// and the log is as before.
func TestMendLog(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m := newMendable(t)
	segs, err := logfile.ListSegments(m.disk, persisttest.Dir)
	persisttest.Must(t, err)
	mended := 0
	for _, seg := range segs[len(segs)-2:] {
		text, err := vfs.ReadFile(m.disk, seg.Path, 1<<20)
		persisttest.Must(t, err)
		try := func(what string, damage func(disk *vfs.Sim) error) {
			disk := m.disk.Kill()
			persisttest.Must(t, damage(disk))
			m.asked = 0
			done, err := MendLog(disk, persisttest.Dir, LogMend{Fetch: m.fetch})
			if err != nil {
				t.Fatalf("segment %d, %s: %v", seg.Start, what, err)
			}
			if done.Bytes != m.asked || done.Bytes > uint64(len(text)) {
				t.Fatalf("segment %d, %s: %d bytes were fetched, and %d given", seg.Start, what, done.Bytes, m.asked)
			}
			mended += done.Segments
			m.whole(disk, what)
		}
		for what, bad := range damagetest.Variants(t, text, format.SegmentHeaderLen) {
			try(what, func(disk *vfs.Sim) error { return disk.Damage(seg.Path, func([]byte) []byte { return bad }) })
		}
		if seg.Start > 0 {
			try("gone", func(disk *vfs.Sim) error { return disk.Remove(seg.Path) })
		}
	}
	if mended < 60 {
		t.Errorf("only %d segments were mended", mended)
	}
}

// damagedInTheMiddle flips a bit in the middle of the last segment but one.
func (m *mendable) damagedInTheMiddle() (disk *vfs.Sim) {
	m.t.Helper()
	segs, err := logfile.ListSegments(m.disk, persisttest.Dir)
	persisttest.Must(m.t, err)
	seg := segs[len(segs)-2]
	disk = m.disk.Kill()
	persisttest.Damage(m.t, disk, seg.Path, seg.Offset((seg.Start+segs[len(segs)-1].Start)/2))
	return disk
}

// TestMendLogCrash mends with the power failing at every operation, and then again: the log is whole.
func TestMendLogCrash(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m, seed := newMendable(t), seed.Of(t)
	damaged := m.damagedInTheMiddle()
	for n, crashed := 0, true; crashed; n++ {
		disk := damaged.Kill()
		disk.TornCrashAt(n, 50)
		_, err := MendLog(disk, persisttest.Dir, LogMend{Fetch: m.fetch})
		if crashed = disk.Crashed(); !crashed {
			persisttest.Must(t, err)
			if n < 5 {
				t.Errorf("it takes only %d operations", n)
			}
		}
		for _, left := range []*vfs.Sim{disk.Kill(), disk.Crash(seed+uint64(n), 0), disk.Crash(seed+uint64(n), 50)} {
			_, err := MendLog(left, persisttest.Dir, LogMend{Fetch: m.fetch})
			persisttest.Must(t, err)
			m.whole(left, "behind a crash")
		}
	}
}

// TestMendLogRefused: frames that are damaged, of another term, or not those that are missing change nothing, and neither does a node
// that ends in the middle. A log that the other node cannot complete stays as it is.
func TestMendLogRefused(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m := newMendable(t)
	gone := errors.New("the other node has ended")
	for name, fetch := range map[string]func(term format.ReplID, from, end uint64) ([]byte, error){
		"ends": func(term format.ReplID, from, end uint64) ([]byte, error) { return nil, gone },
		"a flipped bit": func(term format.ReplID, from, end uint64) ([]byte, error) {
			raw, err := m.fetch(term, from, end)
			raw[len(raw)-1] ^= 1
			return raw, err
		},
		"nothing": func(format.ReplID, uint64, uint64) ([]byte, error) { return nil, nil },
		"other frames": func(term format.ReplID, from, end uint64) ([]byte, error) {
			return m.fetch(term, 0, end)
		},
		"another term": func(term format.ReplID, from, end uint64) ([]byte, error) {
			raw, err := m.fetch(term, from, end)
			n := format.RawFrameLen(raw)
			format.PutFrameHeader(raw[:n], false, from, 0, 1, persisttest.History.Epoch+1)
			return raw[:n], err
		},
	} {
		disk := m.damagedInTheMiddle()
		before := filesOf(t, disk, 0)
		if done, err := MendLog(disk, persisttest.Dir, LogMend{Fetch: fetch}); err == nil || done.Segments > 0 {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
		after := filesOf(t, disk, 0)
		for path, text := range before {
			if string(after[path]) != string(text) {
				t.Errorf("%s: %s was changed", name, path)
			}
		}
	}
}

// holding gives the frame that holds an offset.
func (m *mendable) holding(term format.ReplID, at, _ uint64) (start uint64, err error) {
	if term != persisttest.History.ReplID {
		return 0, errors.New("another term")
	}
	for _, f := range m.frames {
		if at < start+uint64(len(f)) {
			return start, nil
		}
		start += uint64(len(f))
	}
	return 0, errors.New("the log ends before")
}

// TestMendLogFirstSegment: the segment that holds the offset from which on a start reads is gone, alone, with those before it, or with all
// others. A new one takes its place, with the power failing at every operation too. Without the frame that holds the offset nothing is changed.
func TestMendLogFirstSegment(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m, seed := newMendable(t), seed.Of(t)
	segs, err := logfile.ListSegments(m.disk, persisttest.Dir)
	persisttest.Must(t, err)
	d, err := persist.OpenDir(m.disk, persisttest.Dir)
	persisttest.Must(t, err)
	from := d.ReplayFrom()
	persisttest.Must(t, d.Close())
	needed := logfile.Below(segs, from+1)
	for what, gone := range map[string][]logfile.Segment{"the first ones": segs[:needed], "all": segs} {
		damaged := m.disk.Kill()
		for _, seg := range gone {
			persisttest.Must(t, damaged.Remove(seg.Path))
		}
		for n, crashed := 0, true; crashed; n++ {
			disk := damaged.Kill()
			disk.TornCrashAt(n, 50)
			done, err := MendLog(disk, persisttest.Dir, LogMend{Fetch: m.fetch, Holding: m.holding})
			if crashed = disk.Crashed(); !crashed && (err != nil || done.Segments != 1 || done.Last != (what == "all")) {
				t.Errorf("%s: %+v, %v", what, done, err)
			}
			for _, left := range []*vfs.Sim{disk.Kill(), disk.Crash(seed+uint64(n), 0), disk.Crash(seed+uint64(n), 50)} {
				_, err := MendLog(left, persisttest.Dir, LogMend{Fetch: m.fetch, Holding: m.holding})
				persisttest.Must(t, err)
				m.whole(left, what)
			}
		}
		behind := func(_ format.ReplID, at, _ uint64) (uint64, error) { return at + 1, nil }
		inside := func(_ format.ReplID, at, _ uint64) (uint64, error) { return at - 1, nil }
		refused := errors.New("the log of the other node begins behind it")
		none := func(format.ReplID, uint64, uint64) (uint64, error) { return 0, refused }
		for i, holding := range []func(format.ReplID, uint64, uint64) (uint64, error){nil, behind, inside, none} {
			left := damaged.Kill()
			done, err := MendLog(left, persisttest.Dir, LogMend{Fetch: m.fetch, Holding: holding})
			list, lerr := logfile.ListSegments(left, persisttest.Dir)
			if err == nil || lerr != nil || done.Segments > 0 || len(list) != len(segs)-len(gone) || i == 3 && !errors.Is(err, refused) {
				t.Errorf("%s, %d: %+v, %v, %v", what, i, done, err, lerr)
			}
		}
	}
}

// TestMendLogEnd: the last segment of a primary ends too early. It gets all that its replica has, which is more than was known to be
// durable.
func TestMendLogEnd(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m := newMendable(t)
	segs, err := logfile.ListSegments(m.disk, persisttest.Dir)
	persisttest.Must(t, err)
	last := segs[len(segs)-1]
	disk := m.disk.Kill()
	persisttest.Must(t, disk.Damage(last.Path, func(b []byte) []byte { return b[:format.SegmentHeaderLen+10] }))
	persisttest.Must(t, logfile.DropClaim(disk, persisttest.Dir))
	done, err := MendLog(disk, persisttest.Dir, LogMend{Fetch: m.fetch, Reach: m.end})
	if err != nil || !done.Last {
		t.Fatalf("%+v, %v", done, err)
	}
	m.whole(disk, "truncated")
}

// TestMendLogEndIsNoted: the end of a log is damaged. With the power failing at every operation, it is noted that changes may be missing
// wherever a start would find a whole log.
func TestMendLogEndIsNoted(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m, seed := newMendable(t), seed.Of(t)
	segs, err := logfile.ListSegments(m.disk, persisttest.Dir)
	persisttest.Must(t, err)
	last := segs[len(segs)-1]
	damaged := m.disk.Kill()
	persisttest.Must(t, damaged.Damage(last.Path, func(b []byte) []byte { return b[:format.SegmentHeaderLen+10] }))
	claim, err := logfile.ReadClaim(damaged, persisttest.Dir)
	persisttest.Must(t, err)
	const noted = persisttest.Dir + "/NOTED"
	whole := 0
	for n, crashed := 0, true; crashed; n++ {
		disk := damaged.Kill()
		disk.TornCrashAt(n, 50)
		_, err := MendLog(disk, persisttest.Dir, LogMend{Fetch: m.fetch, Ends: func() error { return vfs.WriteFileAtomic(disk, noted, []byte("x")) }})
		if crashed = disk.Crashed(); !crashed {
			persisttest.Must(t, err)
		}
		for _, left := range []*vfs.Sim{disk.Kill(), disk.Crash(seed+uint64(n), 0), disk.Crash(seed+uint64(n), 50)} {
			if _, err := logfile.Walk(left, persisttest.Dir, 0, claim.Offset, logfile.Visitor{}); err != nil {
				continue
			}
			whole++
			if _, err := left.Stat(noted); err != nil {
				t.Errorf("operation %d: the log is whole, and nothing is noted: %v", n, err)
			}
		}
	}
	if whole < 3 {
		t.Errorf("the log was whole %d times", whole)
	}
	refused := errors.New("the disk is full")
	if done, err := MendLog(damaged, persisttest.Dir, LogMend{Fetch: m.fetch, Ends: func() error { return refused }}); !errors.Is(err, refused) || done.Segments > 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestMendLogCleanEnd: a bit of the last segment flips, with frames behind it. The log ends where it ended, so nothing is noted. Where the damage
// may hide frames of the end, as zeros or as a file that is cut short, that is noted.
func TestMendLogCleanEnd(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m := newMendable(t)
	segs, err := logfile.ListSegments(m.disk, persisttest.Dir)
	persisttest.Must(t, err)
	last := segs[len(segs)-1]
	at := m.end // where the last frame begins
	for _, f := range m.frames[len(m.frames)-1:] {
		at -= uint64(len(f))
	}
	if at <= last.Start {
		t.Fatalf("the last segment, from %d on, has one frame", last.Start)
	}
	refused := errors.New("the end is not known")
	for _, c := range []struct {
		name   string
		behind func(b []byte) []byte // changes the file behind the flipped bit, too
		clean  bool
	}{
		{"a flipped bit", func(b []byte) []byte { return b }, true},
		{"the last frame is zeros", func(b []byte) []byte { clear(b[last.Offset(at):]); return b }, false},
		{"the last frame is damaged", func(b []byte) []byte { b[last.Offset(at)+20] ^= 1; return b }, false},
		{"the file is cut short", func(b []byte) []byte { return b[:last.Offset(m.end)] }, false},
		{"something stands behind the end", func(b []byte) []byte { b[len(b)-1] = 1; return b }, false},
		{"the header", func(b []byte) []byte {
			b[20], b[last.Offset(last.Start)+20] = b[20]^1, b[last.Offset(last.Start)+20]^1
			return b
		}, true},
		{"the header, and the file is cut short", func(b []byte) []byte { b[20] ^= 1; return b[:last.Offset(m.end)+8] }, false},
		{"the header, and the last frame is zeros", func(b []byte) []byte { b[20] ^= 1; clear(b[last.Offset(at):]); return b }, false},
	} {
		disk := m.disk.Kill()
		persisttest.Must(t, disk.Damage(last.Path, func(b []byte) []byte {
			b[last.Offset(last.Start)+20] ^= 1
			return c.behind(b)
		}))
		noted := false
		mend := LogMend{Fetch: m.fetch, Ends: func() error { noted = true; return refused }}
		done, err := MendLog(disk, persisttest.Dir, mend)
		if noted == c.clean || errors.Is(err, refused) == c.clean || done.Last || (done.Segments == 1) != c.clean {
			t.Errorf("%s: noted %v, %+v, %v", c.name, noted, done, err)
		}
		if c.clean {
			m.whole(disk, c.name)
		}
	}
}

// TestMendLogEmptyEnd: a last segment without frames has lost its header. The log ends where it begins, so nothing is noted, unless more was durable.
func TestMendLogEmptyEnd(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m := newMendable(t)
	walked, err := logfile.Walk(m.disk, persisttest.Dir, 0, 0, logfile.Visitor{})
	persisttest.Must(t, err)
	header := logfile.Header{SegmentInfo: logfile.SegmentInfo{Start: m.end}, History: walked.History, Durable: m.end, Chain: walked.Chain}
	persisttest.Must(t, logfile.NewSegment(m.disk, persisttest.Dir, header, nil))
	segs, err := logfile.ListSegments(m.disk, persisttest.Dir)
	persisttest.Must(t, err)
	refused := errors.New("the end is not known")
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
		clean  bool
	}{
		{"the header", func(b []byte) []byte { b[20] ^= 1; return b }, true},
		{"the header, and the file is cut short", func(b []byte) []byte { b[20] ^= 1; return b[:70] }, false},
		{"the header, and something behind it", func(b []byte) []byte { b[20], b[90] = b[20]^1, 1; return b }, false},
	} {
		disk := m.disk.Kill()
		persisttest.Must(t, disk.Damage(segs[len(segs)-1].Path, c.damage))
		done, err := MendLog(disk, persisttest.Dir, LogMend{Fetch: m.fetch, Ends: func() error { return refused }})
		if errors.Is(err, refused) == c.clean || done.Last || (done.Segments == 1) != c.clean {
			t.Errorf("%s: %+v, %v", c.name, done, err)
		}
		if c.clean {
			m.whole(disk, c.name)
		}
	}
}

// TestMendLogMissingEnd: the last frames are zeros, and nothing tells that they were there. The log gets all that the replica has, with the
// power failing at every operation too.
func TestMendLogMissingEnd(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m, seed := newMendable(t), seed.Of(t)
	segs, err := logfile.ListSegments(m.disk, persisttest.Dir)
	persisttest.Must(t, err)
	last := segs[len(segs)-1]
	lacking := m.disk.Kill()
	persisttest.Must(t, logfile.DropClaim(lacking, persisttest.Dir))
	persisttest.Must(t, lacking.Damage(last.Path, func(b []byte) []byte {
		clear(b[format.SegmentHeaderLen+format.RawFrameLen(b[format.SegmentHeaderLen:]):])
		return b
	}))
	walked, err := logfile.Walk(lacking, persisttest.Dir, 0, 0, logfile.Visitor{})
	if err != nil || walked.Torn != nil || walked.End <= last.Start || walked.End >= m.end {
		t.Fatalf("the log ends at %d of %d: %v", walked.End, m.end, err)
	}
	for n, crashed := 0, true; crashed; n++ {
		disk := lacking.Kill()
		disk.TornCrashAt(n, 50)
		done, err := MendLog(disk, persisttest.Dir, LogMend{Fetch: m.fetch, Reach: m.end})
		if crashed = disk.Crashed(); !crashed && (err != nil || !done.Last || done.Segments != 1) {
			t.Errorf("%+v, %v", done, err)
		}
		for _, left := range []*vfs.Sim{disk.Kill(), disk.Crash(seed+uint64(n), 0), disk.Crash(seed+uint64(n), 50)} {
			_, err := MendLog(left, persisttest.Dir, LogMend{Fetch: m.fetch, Reach: m.end})
			persisttest.Must(t, err)
			m.whole(left, "behind a crash")
		}
	}
	gone := errors.New("the other node has ended")
	if done, err := MendLog(lacking, persisttest.Dir, LogMend{Fetch: func(format.ReplID, uint64, uint64) ([]byte, error) { return nil, gone }, Reach: m.end}); !errors.Is(err, gone) || done.Segments > 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestMendLogAndHistoryDamaged: the end of a primary's log is missing, and HISTORY is gone as well. Its copy counts before the mend and behind it.
func TestMendLogAndHistoryDamaged(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m := newMendable(t)
	disk := m.disk.Kill()
	want := format.Lineage{Terms: []format.Term{{ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &want))
	segs, err := logfile.ListSegments(disk, persisttest.Dir)
	persisttest.Must(t, err)
	persisttest.Must(t, disk.Damage(segs[len(segs)-1].Path, func(b []byte) []byte { return b[:format.SegmentHeaderLen] }))
	persisttest.Must(t, logfile.DropClaim(disk, persisttest.Dir))
	persisttest.Must(t, disk.Remove(format.LineagePath(persisttest.Dir)))
	done, err := MendLog(disk, persisttest.Dir, LogMend{Fetch: m.fetch, Reach: m.end})
	if err != nil || !done.Last {
		t.Fatalf("%+v, %v", done, err)
	}
	if l, err := logfile.ReadLineage(disk, persisttest.Dir); err != nil || l.Replica || len(l.Terms) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	m.whole(disk, "HISTORY is gone")
}

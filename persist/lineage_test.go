package persist

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

func TestLineageCommon(t *testing.T) {
	a := Lineage{Terms: []Term{{ReplID{1}, 1, 0}}}
	b := a.Begin(100) // promoted at 100
	for _, c := range []struct {
		l, o       *Lineage
		lEnd, oEnd uint64
		want       uint64
		ok         bool
	}{
		{&a, &a, 50, 70, 50, true},    // the primary lost its tail
		{&a, &a, 70, 50, 50, true},    // the replica is behind
		{&b, &a, 180, 150, 100, true}, // the old primary went on alone
		{&b, &a, 180, 80, 80, true},
		{&a, &b, 150, 180, 100, true},
		{&b, &b, 180, 150, 150, true},
		{&a, &Lineage{Terms: []Term{{ReplID{9}, 1, 0}}}, 1, 1, 0, false},
		{&a, &Lineage{}, 1, 0, 0, false},
	} {
		if got, ok := c.l.Common(c.lEnd, c.o, c.oEnd); got != c.want || ok != c.ok {
			t.Errorf("%v to %d and %v to %d agree up to %d %t, want %d %t", c.l.Terms, c.lEnd, c.o.Terms, c.oEnd, got, ok, c.want, c.ok)
		}
	}
	if cut := b.Cut(100); len(cut.Terms) != 1 {
		t.Errorf("cut at a term's start: %v", cut.Terms)
	}
	for range 2 * maxTerms {
		b = b.Begin(200 + uint64(len(b.Terms)))
	}
	if len(b.Terms) > maxTerms || len(b.AppendText(nil)) > MaxLineageText {
		t.Errorf("%d terms of %d bytes", len(b.Terms), len(b.AppendText(nil)))
	}
}

// TestLineageAhead: a replica knows terms of its primary that begin behind the end of its own log. They make no byte of it
// one that it has, and a log that is merely the beginning of another one is told from one that differs.
func TestLineageAhead(t *testing.T) {
	t1 := Lineage{Terms: []Term{{ReplID{1}, 1, 0}}}
	t2 := Lineage{Terms: append(slices.Clone(t1.Terms), Term{ReplID{2}, 2, 100})}
	t3 := Lineage{Terms: append(slices.Clone(t2.Terms), Term{ReplID{3}, 3, 110})}
	fork := Lineage{Terms: append(slices.Clone(t1.Terms), Term{ReplID{4}, 2, 80})}
	for _, c := range []struct {
		name         string
		mine, theirs *Lineage
		end, at      uint64 // of mine, of theirs
		common       uint64
		begins       bool
	}{
		{"the same term", &t1, &t1, 80, 120, 80, true},
		{"it has as much", &t1, &t1, 80, 80, 80, false},
		{"it has more", &t1, &t1, 120, 80, 80, false},
		{"it knows of a later term, they have the one before", &t3, &t2, 80, 105, 80, true},
		{"it knows of two later terms, they of none", &t3, &t1, 80, 120, 80, true},
		{"they have the later terms", &t1, &t3, 80, 120, 80, true},
		{"it ends where its next term begins, they went on in the one before", &t2, &t1, 100, 120, 100, false},
		{"it ends where the term begins that both have", &t2, &t2, 100, 120, 100, true},
		{"it leads since then, and they went on", &fork, &t1, 80, 120, 80, false},
		{"they know of a term that they have nothing of", &t2, &t3, 120, 105, 105, false},
		{"strangers", &t1, &Lineage{Terms: []Term{{ReplID{9}, 1, 0}}}, 80, 120, 0, false},
	} {
		if at, _ := c.mine.Common(c.end, c.theirs, c.at); at != c.common {
			t.Errorf("%s: the logs agree up to %d, want %d", c.name, at, c.common)
		}
		if got := c.mine.Begins(c.end, c.theirs, c.at); got != c.begins {
			t.Errorf("%s: got begins %t, want %t", c.name, got, c.begins)
		}
	}
}

// TestAdmits: a frame is admitted where the history has its term, and nowhere else.
func TestAdmits(t *testing.T) {
	l := Lineage{Terms: []Term{{ReplID{1}, 3, 50}, {ReplID{2}, 5, 100}, {ReplID{3}, 6, 200}}}
	for _, c := range []struct {
		at    uint64
		epoch uint32
		want  bool
	}{
		{150, 5, true}, {100, 5, true}, {199, 5, true}, {200, 6, true}, {1000, 6, true}, {60, 3, true},
		{150, 6, false}, {150, 4, false}, {150, 3, false}, {200, 7, false}, {1 << 40, 7, false}, {60, 5, false},
		{60, 2, true},  // the oldest term that is kept stands for those before it
		{20, 2, true},  // as before it
		{20, 3, false}, // a term begins where it begins
		{100, 3, true}, // part of a frame that a restore kept
		{101, 3, false},
	} {
		err := l.Admits(c.at, c.epoch)
		if errors.Is(err, ErrTerm) == c.want || err == nil != c.want {
			t.Errorf("a frame of epoch %d at %d: %v", c.epoch, c.at, err)
		}
	}
	if err := (&Lineage{}).Admits(0, 1); !errors.Is(err, ErrTerm) {
		t.Errorf("a history without terms: %v", err)
	}
}

func FuzzLineage(f *testing.F) {
	l := Lineage{Replica: true, Terms: []Term{{ReplID{1}, 1, 0}, {ReplID{2}, 4, 77}}}
	f.Add(l.AppendText(nil))
	l.install = installClear
	f.Add(l.AppendText(nil))
	l.install = installName
	l.cut, l.cutAt, l.chain = true, 77, 5
	f.Add(l.AppendText(nil))
	f.Add([]byte("counterd history 2\nend crc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parseLineage("x", text)
		if told, terr := ParseLineage("x", text); terr == nil && (err != nil || told.cut || told.install != installNone) {
			t.Errorf("%q is taken from another node: %+v", text, told)
		}
		if err == nil && !bytes.Equal(l.AppendText(nil), text) {
			t.Errorf("%q reads as %+v", text, l)
		}
	})
}

// TestCut cuts a log, with crashes in the middle: it opens again with the frames before, and the tail is saved. So too
// where the cut falls into what a restart wrote again, in a segment that claims to be durable up to its end.
func TestCut(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) { testCut(t, restarted) })
	}
}

func testCut(t *testing.T, restarted bool) {
	for at := uint64(1); at <= 6; at++ {
		for crash := 0; ; crash++ {
			sim := vfs.NewSim()
			opts := LogOptions{FS: sim, Dir: "d", Create: true, Manual: true, History: History{ReplID: ReplID{7}, Epoch: 1}, FirstSegmentBytes: minSegment, SegmentBytes: minSegment}
			log, _, err := OpenLog(opts, 0, func(uint64, *Record) error { return nil })
			must(t, err)
			var ends []uint64
			for i := range uint64(40) {
				pos := log.AppendSet(1, 2, i, i)
				must(t, log.Commit(pos))
				ends = append(ends, pos)
			}
			if !restarted {
				must(t, log.Sync())
			} else { // a process that died before it synced
				sim = sim.Kill()
				_ = log.Close()
				opts.FS = sim
				log, _, err = OpenLog(opts, 0, func(uint64, *Record) error { return nil })
				must(t, err)
			}
			must(t, log.Close())
			lineage := Lineage{Replica: true, Terms: []Term{{ReplID{7}, 1, 0}}}
			must(t, WriteLineage(sim, "d", &lineage))
			must(t, sim.SyncDir("."))
			n := ends[at*6]
			sim.CrashAt(sim.Ops() + crash)
			tail, err := Cut(sim, "d", n, lineage)
			crashed := sim.Crashed()
			if !crashed {
				must(t, err)
				if tail.Sets != 40-at*6-1 || tail.From != n || tail.To != ends[39] {
					t.Fatalf("cut at %d: %+v", n, tail)
				}
			}
			left := []*vfs.Sim{sim.Kill()}
			for keep := 0; keep <= 100; keep += 50 { // power failures, too
				left = append(left, sim.Crash(uint64(crash), keep))
			}
			for i, after := range left {
				must(t, FinishBegun(after, "d"))
				opts.FS, opts.History = after, History{}
				records := uint64(0)
				log, rec, err := OpenLog(opts, 0, func(uint64, *Record) error { records++; return nil })
				if err != nil {
					t.Fatalf("cut at %d, crash %d at operation %d: %v", n, i, crash, err)
				}
				if rec.End != n && !(crashed && rec.End == ends[39]) || records != at*6+1 && records != 40 {
					t.Fatalf("cut at %d, crash %d at operation %d: the log ends at %d with %d records", n, i, crash, rec.End, records)
				}
				must(t, log.Close())
			}
			if !crashed {
				if crash < 10 {
					t.Errorf("a cut of %d operations only", crash)
				}
				break
			}
		}
	}
}

// TestCutAgain cuts a log at the same offset again and again, with other frames behind it each time, and crashes at
// every operation of the last cut: every tail that was cut is there, in a file of its own, and only once, whichever cut
// was broken off and done again.
func TestCutAgain(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	disk := newFS(t)
	lineage := Lineage{Replica: true, Terms: []Term{{testHistory.ReplID, testHistory.Epoch, 0}}}
	opts := LogOptions{FS: disk, Dir: testDir, Create: true, Manual: true, History: testHistory, FirstSegmentBytes: minSegment, SegmentBytes: minSegment}
	log, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	at := log.AppendSet(1, 2, 3, 4)
	must(t, log.Commit(at))
	must(t, log.Close())
	must(t, WriteLineage(disk, testDir, &lineage))
	grow := func(value uint64) {
		t.Helper()
		opts.FS = disk
		log, _, err := OpenLog(opts, 0, discard)
		must(t, err)
		must(t, log.Commit(log.AppendSet(1, 2, 3, value)))
		must(t, log.Close())
	}
	// saved returns the values in the tails there are.
	saved := func(disk vfs.FS) (values []uint64) {
		t.Helper()
		tails, _, err := ListDiverged(disk, testDir)
		must(t, err)
		for _, d := range tails {
			if d.Offset != at {
				t.Errorf("%s: offset %d, want %d", d.Path, d.Offset, at)
			}
			_, err := WalkDiverged(disk, d, LogVisitor{Record: func(_ *Frame, _ uint64, rec *Record) error {
				values = append(values, rec.Value)
				return nil
			}})
			must(t, err)
		}
		slices.Sort(values)
		return values
	}
	for value := uint64(1); value <= 3; value++ {
		grow(value)
		before := disk.Kill()
		tail, err := Cut(disk, testDir, at, lineage)
		must(t, err)
		want := []uint64{1, 2, 3}[:value]
		if got := saved(disk); !slices.Equal(got, want) || tail.File == "" {
			t.Fatalf("saved %v in %q, want %v", got, tail.File, want)
		}
		for n := 0; ; n++ {
			s := before.Kill()
			s.CrashAt(s.Ops() + n)
			_, _ = Cut(s, testDir, at, lineage)
			if !s.Crashed() {
				break
			}
			for _, left := range []*vfs.Sim{s.Kill(), s.Crash(uint64(n), 0), s.Crash(uint64(n), 50), s.Crash(uint64(n), 100)} {
				must(t, FinishBegun(left, testDir))
				if _, err := Cut(left, testDir, at, lineage); err != nil {
					t.Fatalf("cut %d, crash at operation %d: %v", value, n, err)
				}
				if got := saved(left); !slices.Equal(got, want) {
					t.Fatalf("cut %d, crash at operation %d, and again: saved %v, want %v", value, n, got, want)
				}
				if got := saved(left.Crash(uint64(n), 0)); !slices.Equal(got, want) {
					t.Fatalf("cut %d, crash at operation %d, again, and a power failure: saved %v, want %v", value, n, got, want)
				}
			}
		}
	}
}

// TestCutBelowLog asks for a cut below the oldest offset that is kept: nothing is saved, as the log alone is not all that
// would go, and nothing is changed.
func TestCutBelowLog(t *testing.T) {
	sim := vfs.NewSim()
	history := History{ReplID: ReplID{7}, Epoch: 1}
	log, _, err := OpenLog(LogOptions{FS: sim, Dir: "d", Create: true, Manual: true, History: history}, 1000, func(uint64, *Record) error { return nil })
	must(t, err)
	end := log.AppendSet(1, 2, 3, 4)
	must(t, log.Commit(end))
	must(t, log.Close())
	before, err := vfs.ReadFile(sim, filepath.Join(LogDir("d"), SegmentName(1000)), 1<<20)
	must(t, err)
	lineage := Lineage{Replica: true, Terms: []Term{{ReplID{7}, 1, 0}}}
	tail, err := Cut(sim, "d", 500, lineage)
	if !errors.Is(err, ErrGone) || tail != (CutTail{}) {
		t.Fatalf("got %+v, %v, want nothing saved and ErrGone", tail, err)
	}
	if tails, _, err := ListDiverged(sim, "d"); err != nil || len(tails) > 0 {
		t.Errorf("saved %v, %v", tails, err)
	}
	after, err := vfs.ReadFile(sim, filepath.Join(LogDir("d"), SegmentName(1000)), 1<<20)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the log was changed")
	}
}

package persist

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// replicaLog makes a replica's log of the frames of sampleLog. With sealed it has several segments. What follows the
// last sync is written, and not synced; ended closes the log.
func replicaLog(t testing.TB, sealed, ended bool) (m model, disk *vfs.Sim, opts LogOptions, durable uint64) {
	t.Helper()
	m, primary, _ := sampleLog(t)
	disk = newFS(t)
	c := newClock()
	opts = smallLog(disk, c)
	opts.History.Replica = true
	if !sealed {
		opts.FirstSegmentBytes, opts.SegmentBytes = 1<<13, 1<<13
	}
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	n := 0
	_, err = WalkLog(primary, testDir, 0, 0, LogVisitor{Frame: func(_ SegmentInfo, f *Frame) error {
		if n++; n == 18 {
			c.now = c.now.Add(time.Second)
			l.Tick() // syncs, and claims
		}
		pos, err := l.AppendFrame(f.Raw)
		if err != nil {
			return err
		}
		return l.Commit(pos)
	}})
	must(t, err)
	if durable = l.Durable(); durable == 0 || durable == l.Written() {
		t.Fatalf("durable %d of %d", durable, l.Written())
	}
	if ended {
		must(t, l.Close())
		return m, disk, opts, l.Durable()
	}
	left := disk.Kill()
	must(t, l.Close())
	opts.FS = left
	return m, left, opts, durable
}

// damaged is a copy of a disk with other bytes in one file.
func damaged(t testing.TB, disk *vfs.Sim, path string, b []byte) *vfs.Sim {
	t.Helper()
	d := disk.Kill()
	must(t, d.Remove(path))
	f, err := d.Create(path)
	must(t, err)
	_, err = f.WriteAt(b, 0)
	must(t, errors.Join(err, f.Close()))
	return d
}

// TestReplicaDamage flips every bit of every segment of a replica's log, killed behind a sync and ended cleanly: what
// was durable is never cut, whatever the frames of the primary say, and what is cut is kept.
func TestReplicaDamage(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	for _, sealed := range []bool{false, true} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprintf("sealed=%v/ended=%v", sealed, ended), func(t *testing.T) {
				m, disk, opts, durable := replicaLog(t, sealed, ended)
				segs, err := listSegments(disk, testDir)
				must(t, err)
				if (len(segs) > 1) != sealed {
					t.Fatalf("%d segments", len(segs))
				}
				refused, torn := 0, 0
				for _, s := range segs {
					whole, err := vfs.ReadFile(disk, s.path, 1<<20)
					must(t, err)
					for i := range len(trimZeros(whole)) {
						bit := i % 8 // of each byte another one: the checksum has no favourites
						b := bytes.Clone(whole)
						b[i] ^= 1 << bit
						opts.FS = damaged(t, disk, s.path, b)
						n := 0
						l, rec, err := OpenLog(opts, 0, func(pos uint64, r *Record) error {
							if pos != m.pos[n] || recordText(r) != m.text[n] {
								t.Fatalf("%s byte %d bit %d: wrong record at %d", s.path, i, bit, pos)
							}
							n++
							return nil
						})
						switch {
						case errors.Is(err, ErrCorrupt):
							refused++
							continue
						case err != nil || rec.End < durable:
							t.Fatalf("%s byte %d bit %d: the log ends at %d of %d: %v", s.path, i, bit, rec.End, durable, err)
						case rec.Torn != nil:
							torn++
							checkKept(t, opts.FS, rec.Torn, b[segmentHeaderLen+rec.Torn.LogOffset-s.start:])
						}
						must(t, l.Close())
					}
				}
				if refused == 0 || (torn == 0) != ended {
					t.Errorf("%d refused, %d torn", refused, torn)
				}
			})
		}
	}
}

// checkKept compares the file with a torn tail with the bytes that were cut from the last segment.
func checkKept(t testing.TB, fsys vfs.FS, torn *TornTail, want []byte) {
	t.Helper()
	kept, err := vfs.ReadFile(fsys, torn.Kept, 1<<20)
	must(t, err)
	if !IsTornTail(torn.Kept[strings.LastIndexByte(torn.Kept, '/')+1:]) || !bytes.HasPrefix(want, kept[segmentHeaderLen:]) ||
		uint64(len(kept)-segmentHeaderLen) < torn.Bytes && !allZero(want[len(kept)-segmentHeaderLen:]) {
		t.Fatalf("%s: %d bytes of %d: %v", torn.Kept, len(kept), len(want), torn)
	}
}

// TestPrimaryTail: behind the last frame of a primary comes no other that says it is durable. The claim does, when the
// log has rested for an interval of syncs, and at its end.
func TestPrimaryTail(t *testing.T) {
	for _, ended := range []bool{false, true} {
		disk, c := newFS(t), newClock()
		opts := smallLog(disk, c)
		l, _, err := OpenLog(opts, 0, discard)
		must(t, err)
		var m model
		must(t, l.Commit(m.appendSome(t, l, 1)))
		tick := func() {
			c.now = c.now.Add(time.Second)
			l.Tick()
		}
		tick()
		if claim, err := ReadClaim(disk, testDir); err != nil || claim.Offset != 0 {
			t.Errorf("a frame may follow: %+v, %v", claim, err)
		}
		if !ended {
			tick()
			disk = disk.Kill()
		}
		must(t, l.Close())
		claim, err := ReadClaim(disk, testDir)
		must(t, err)
		if want := (Claim{m.pos[0], testHistory.ReplID}); claim != want {
			t.Errorf("got %+v, want %+v", claim, want)
		}
		path := LogDir(testDir) + "/" + SegmentName(0)
		b, err := vfs.ReadFile(disk, path, 1<<20)
		must(t, err)
		b[segmentHeaderLen+20] ^= 4
		opts.FS = damaged(t, disk, path, b)
		var bad *CorruptError
		if _, _, err := OpenLog(opts, 0, discard); !errors.As(err, &bad) || bad.File != path || bad.Offset != segmentHeaderLen || bad.Dir != testDir {
			t.Errorf("ended %v: got %v", ended, err)
		}
		// An empty segment behind does not hide it, with a header or without one.
		for _, header := range [][]byte{nil, (&segmentHeader{history: testHistory, start: claim.Offset, chain: 7, size: 512}).appendTo(nil)} {
			stray := opts.FS.(*vfs.Sim).Kill()
			must(t, vfs.WriteFileAtomic(stray, LogDir(testDir)+"/"+SegmentName(claim.Offset), header))
			opts := opts
			opts.FS = stray
			if _, _, err := OpenLog(opts, 0, discard); !errors.As(err, &bad) || bad.File != path {
				t.Errorf("an empty segment behind: got %v", err)
			}
		}
		// Nor is a log believed that is gone as a whole.
		gone := opts.FS.(*vfs.Sim).Kill()
		must(t, gone.Remove(path))
		opts.FS = gone
		if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, ErrGap) {
			t.Errorf("no segment: got %v", err)
		}
	}
}

// TestStrayHeader: a segment behind damage whose header no crash leaves so is damage itself, also where no claim is.
func TestStrayHeader(t *testing.T) {
	_, disk, opts, _ := replicaLog(t, false, true)
	must(t, DropClaim(disk, testDir))
	path := LogDir(testDir) + "/" + SegmentName(0)
	b, err := vfs.ReadFile(disk, path, 1<<20)
	must(t, err)
	b[300] ^= 1
	opts.FS = damaged(t, disk, path, b)
	must(t, vfs.WriteFileAtomic(opts.FS, LogDir(testDir)+"/"+SegmentName(5000), []byte("no header")))
	if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// TestClaimFile flips every bit of the file DURABLE and cuts it at every length near a slot: a claim is the newest, the
// one before, or none, and the log opens.
func TestClaimFile(t *testing.T) {
	disk := newFS(t)
	c := claimFile{fsys: disk, dir: testDir}
	older, newest := Claim{1000, testHistory.ReplID}, Claim{2000, testHistory.ReplID}
	must(t, c.write(older))
	must(t, c.write(newest))
	must(t, c.close())
	whole, err := vfs.ReadFile(disk, ClaimPath(testDir), 1<<20)
	must(t, err)
	golden(t, "v1-durable", whole)
	found := map[Claim]int{}
	try := func(b []byte) {
		claim, err := ReadClaim(damaged(t, disk, ClaimPath(testDir), b), testDir)
		must(t, err)
		if claim != older && claim != newest && claim != (Claim{}) {
			t.Fatalf("got %+v", claim)
		}
		found[claim]++
	}
	for i := range whole {
		if i%claimSlotLen < claimLen+8 {
			for bit := range 8 {
				b := bytes.Clone(whole)
				b[i] ^= 1 << bit
				try(b)
			}
			try(whole[:i])
			b := bytes.Clone(whole)
			clear(b[i:])
			try(b)
		}
	}
	if found[older] == 0 || found[newest] == 0 || found[Claim{}] == 0 {
		t.Errorf("%v", found)
	}
	for _, b := range [][]byte{nil, []byte("junk"), make([]byte, 3*claimSlotLen)} { // it is made anew
		d := damaged(t, disk, ClaimPath(testDir), b)
		c := claimFile{fsys: d, dir: testDir}
		must(t, errors.Join(c.write(newest), c.close()))
		if got, err := ReadClaim(d.Crash(1, 0), testDir); err != nil || got != newest {
			t.Errorf("over %d bytes: %+v, %v", len(b), got, err)
		}
	}
	newer := bytes.Clone(whole)
	newer[8] = claimVersion + 1
	le.PutUint32(newer[claimChecksum:], crc32c(newer[:claimChecksum]))
	if _, err := ReadClaim(damaged(t, disk, ClaimPath(testDir), newer), testDir); !errors.Is(err, ErrUnsupportedFormat) {
		t.Errorf("a newer version: %v", err)
	}
	// A claim of another history says nothing.
	for _, id := range []ReplID{testHistory.ReplID, {7}} {
		must(t, WriteLineage(disk, testDir, &Lineage{Terms: []Term{{ReplID: id, Epoch: 1}}}))
		want := Claim{}
		if id == testHistory.ReplID {
			want = newest
		}
		if got, err := ReadClaim(disk, testDir); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}

	// A program of before this file cut the log, and left the file: the log went on in another term.
	for _, next := range []uint64{1500, newest.Offset, 2500} {
		must(t, WriteLineage(disk, testDir, &Lineage{Terms: []Term{{testHistory.ReplID, 1, 0}, {ReplID{7}, 2, next}}}))
		want := Claim{min(next, newest.Offset), testHistory.ReplID}
		if got, err := ReadClaim(disk, testDir); err != nil || got != want {
			t.Errorf("a term begins at %d: got %+v, %v, want %+v", next, got, err, want)
		}
	}
}

// TestClaimCrash lets the power fail at every operation of a log that claims again and again: no claim is ever above
// what was durable, and none below the one before.
func TestClaimCrash(t *testing.T) {
	seed, base := newSeed(t), newFS(t)
	for n := 0; ; n++ {
		disk, c := base.Kill(), newClock()
		opts := smallLog(disk, c)
		opts.History.Replica = seed%2 == 0
		disk.TornCrashAt(n, 50)
		var durable, claimed uint64
		func() {
			for range 2 {
				l, _, err := OpenLog(opts, 0, discard)
				if err != nil {
					return
				}
				for i := range 6 {
					if opts.History.Replica {
						raw := AppendSet(make([]byte, FrameHeaderLen), 1, 2, uint64(i), 3)
						putFrameHeader(raw, false, l.Position(), l.Position(), 1, 7)
						if _, err := l.AppendFrame(raw); err != nil {
							t.Fatal(err)
						}
					} else if i%3 == 0 {
						l.AppendSet(1, 2, 3, uint64(i))
					}
					_ = l.Sync()
					durable = l.Durable()
					c.now = c.now.Add(time.Second)
					l.Tick()
					claimed = l.claimed
				}
				if l.Close() != nil {
					return
				}
			}
		}()
		for _, keep := range []int{0, 30, 70, 100} {
			left := disk.Crash(seed+uint64(n), keep)
			claim, err := ReadClaim(left, testDir)
			must(t, err)
			if claim.Offset > durable || claim.Offset < claimed {
				t.Fatalf("crash at %d, keep %d: claim %d, durable %d", n, keep, claim.Offset, durable)
			}
			opts := opts
			opts.FS = left
			l, rec, err := OpenLog(opts, 0, discard)
			if err != nil || rec.End < claim.Offset {
				t.Fatalf("crash at %d, keep %d: %v, end %d, claim %d", n, keep, err, rec.End, claim.Offset)
			}
			must(t, l.Close())
		}
		if !disk.Crashed() {
			if n < 30 || claimed == 0 {
				t.Errorf("%d operations, claimed %d", n, claimed)
			}
			return
		}
	}
}

// TestClaimAndCut takes a log's end away in every way there is, with the power failing at every operation: the log opens
// always, as the claim is gone before its end counts.
func TestClaimAndCut(t *testing.T) {
	seed := newSeed(t)
	m, base, opts, _ := replicaLog(t, true, true)
	for _, sub := range []string{ImageDir(testDir), ColdDir(testDir)} {
		must(t, base.MkdirAll(sub))
	}
	if claim, err := ReadClaim(base, testDir); err != nil || claim.Offset != m.pos[len(m.pos)-1] {
		t.Fatalf("claim %+v, %v", claim, err)
	}
	var ends []uint64
	_, err := WalkLog(base, testDir, 0, 0, LogVisitor{Frame: func(_ SegmentInfo, f *Frame) error {
		ends = append(ends, f.End())
		return nil
	}})
	must(t, err)
	lineage := Lineage{Replica: true, Terms: []Term{{testHistory.ReplID, testHistory.Epoch, 0}}}
	must(t, WriteLineage(base, testDir, &lineage))
	shorter := map[string]func(fsys vfs.FS) error{
		"cut": func(fsys vfs.FS) error {
			_, err := Cut(fsys, testDir, ends[len(ends)/2], lineage)
			return err
		},
		"cut to nothing": func(fsys vfs.FS) error {
			_, err := Cut(fsys, testDir, 0, lineage)
			return err
		},
		"install": func(fsys vfs.FS) error {
			in, err := BeginInstall(fsys, testDir, 0, Lineage{Terms: []Term{{ReplID{8}, 9, 0}}}, nil)
			if err == nil {
				err = in.Append(fuzzSeedFrame())
			}
			if err == nil {
				err = in.Stage()
			}
			if err == nil {
				err = in.Finish()
			}
			return err
		},
		"install of the same history": func(fsys vfs.FS) error { // a copy of a primary that came back with less
			in, err := BeginInstall(fsys, testDir, 0, lineage, nil)
			if err == nil {
				err = in.Stage()
			}
			if err == nil {
				err = in.Finish()
			}
			return err
		},
	}
	for name, do := range shorter {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				disk := base.Kill()
				disk.TornCrashAt(n, 50)
				err := do(disk)
				crashed := disk.Crashed()
				if !crashed {
					must(t, err)
				}
				for i, left := range []*vfs.Sim{disk.Crash(seed+uint64(n), 0), disk.Crash(seed+uint64(n), 50), disk.Crash(seed+uint64(n), 100), disk.Kill()} {
					o := opts
					o.FS, o.History = left, History{}
					must(t, FinishBegun(left, testDir))
					l, rec, err := OpenLog(o, 0, discard)
					if err != nil {
						t.Fatalf("crash at %d, disk %d: %v", n, i, err)
					}
					if !crashed && rec.End >= ends[len(ends)-1] {
						t.Fatalf("the log ends at %d", rec.End)
					}
					must(t, l.Close())
				}
				if !crashed {
					return
				}
			}
		})
	}
}

// TestClaimFails: a disk that takes no claim is told of once, and the log works on.
func TestClaimFails(t *testing.T) {
	disk, c := newFS(t), newClock()
	faulty := vfs.NewFaulty(disk)
	opts := smallLog(faulty, c)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	faulty.Inject(vfs.Rule{Glob: "*" + claimName + "*", Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
	var m model
	for i := range 4 {
		must(t, l.Ready())
		must(t, l.Commit(m.appendSome(t, l, i)))
		for range 2 {
			c.now = c.now.Add(time.Second)
			l.Tick()
		}
	}
	if faulty.Fired() == 0 || l.claimed != 0 || !l.claimFailed {
		t.Errorf("%d faults, claimed %d", faulty.Fired(), l.claimed)
	}
	faulty.Clear()
	must(t, l.Close())
	if claim, err := ReadClaim(disk, testDir); err != nil || claim.Offset != m.pos[3] {
		t.Errorf("%+v, %v", claim, err)
	}
	if leaks := disk.Leaks(); len(leaks) > 0 {
		t.Error(leaks)
	}
}

// TestTornKept cuts torn tails again and again: of many the newest few stay, two of one offset both, and a start that
// could not keep one, as the disk took nothing, keeps it when it is well.
func TestTornKept(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 5))
	disk := newFS(t)
	opts := smallLog(disk, newClock())
	var m model
	tear := func(garbage []byte) { // behind the last frame
		segs, err := listSegments(disk, testDir)
		must(t, err)
		last := segs[len(segs)-1]
		f, err := disk.OpenRW(last.path)
		must(t, err)
		_, err = f.WriteAt(garbage, last.offset(m.pos[len(m.pos)-1]))
		must(t, errors.Join(err, f.Close()))
	}
	torn := func() (names []string) {
		all, err := disk.List(testDir)
		must(t, err)
		for _, name := range all {
			if IsTornTail(name) {
				names = append(names, name)
			}
		}
		return names
	}
	for i := range keepTorn + 3 {
		l, rec, err := OpenLog(opts, 0, discard)
		must(t, err)
		if i > 0 && (rec.Torn == nil || rec.Torn.Kept == "") {
			t.Fatalf("torn: %+v", rec.Torn)
		}
		must(t, l.Commit(m.appendSome(t, l, i)))
		must(t, l.Close())
		garbage := make([]byte, 60)
		for k := range garbage {
			garbage[k] = byte(1 + rng.IntN(255))
		}
		tear(garbage)
	}
	before := torn()
	if len(before) != keepTorn {
		t.Errorf("kept %v", before)
	}
	for i := range 2 { // at one offset
		l, rec, err := OpenLog(opts, 0, discard)
		must(t, err)
		must(t, l.Close())
		if strings.HasSuffix(rec.Torn.Kept, "-2.aof") != (i == 1) {
			t.Errorf("%d: kept in %s", i, rec.Torn.Kept)
		}
		tear([]byte{byte(i + 1), 1, 2, 3})
	}
	faulty := vfs.NewFaulty(disk)
	faulty.Inject(vfs.Rule{Glob: "*" + tornPrefix + "*", Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
	o := opts
	o.FS, o.Unwritable = faulty, true
	l, rec, err := OpenLog(o, 0, discard)
	must(t, err)
	if rec.Torn == nil || rec.Torn.Kept != "" || !errors.Is(l.Ready(), syscall.ENOSPC) {
		t.Errorf("on a full disk: %+v, %v", rec.Torn, l.Ready())
	}
	before = torn()
	faulty.Clear()
	l.Tick()
	must(t, l.Ready())
	must(t, l.Close())
	if after := torn(); len(after) != keepTorn || slices.Equal(after, before) {
		t.Errorf("%v, before %v", after, before)
	}
}

// TestVerify flips bits in the segments of a log that is open: each is found, in the segment and at the frame where it
// is, and the segments behind are read too. Segments that are dropped meanwhile are no damage.
func TestVerify(t *testing.T) {
	m, disk, opts := sampleLog(t)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	must(t, l.Commit(m.appendSome(t, l, 3)))
	must(t, l.Sync())
	read := 0
	bad, err := l.Verify(func(n int) error { read += n; return nil })
	if len(bad) > 0 || err != nil || read != int(l.Durable()) {
		t.Fatalf("%v, %v, %d bytes of %d", bad, err, read, l.Durable())
	}
	stop := errors.New("stop")
	if _, err := l.Verify(func(int) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
	flip := func(path string, at int64) {
		t.Helper()
		f, err := disk.OpenRW(path)
		must(t, err)
		b := make([]byte, 1)
		_, err = f.ReadAt(b, at)
		must(t, err)
		b[0] ^= 16
		_, err = f.WriteAt(b, at)
		must(t, errors.Join(err, f.Close()))
	}
	segs := l.Segments()
	if len(segs) < 3 {
		t.Fatalf("%d segments", len(segs))
	}
	for i, s := range segs {
		for at := int64(0); at < s.segment().offset(s.End); at += 7 {
			flip(s.Path, at)
			bad, err := l.Verify(nil)
			must(t, err)
			var corrupt *CorruptError
			if len(bad) != 1 || !errors.As(bad[0], &corrupt) || corrupt.File != s.Path || corrupt.Offset > at {
				// The chain of a header is that of the frame before: both may be said to be wrong, never another.
				t.Fatalf("segment %d byte %d: %v", i, at, bad)
			}
			flip(s.Path, at)
		}
	}
	flip(segs[0].Path, 80)
	flip(segs[2].Path, 80)
	if bad, err := l.Verify(nil); len(bad) != 2 || err != nil {
		t.Errorf("%v, %v", bad, err)
	}
	must(t, disk.Remove(segs[1].Path))
	if bad, err := l.Verify(nil); len(bad) != 3 || err != nil {
		t.Errorf("%v, %v", bad, err)
	}
	flip(segs[0].Path, 80) // back: it is read to its end now
	dropped := false
	bad, err = l.Verify(func(int) error {
		if !dropped {
			dropped = true
			must(t, l.DropBefore(segs[2].Start))
		}
		return nil
	})
	if err != nil || len(bad) != 1 {
		t.Errorf("%v, %v", bad, err)
	}
	must(t, l.Close())
}

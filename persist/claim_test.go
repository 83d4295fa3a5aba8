package persist

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
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
	_, err = logfile.Walk(primary, testDir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		if n++; n == 18 {
			c.At = c.At.Add(time.Second)
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
				segs, err := logfile.ListSegments(disk, testDir)
				must(t, err)
				if (len(segs) > 1) != sealed {
					t.Fatalf("%d segments", len(segs))
				}
				refused, torn := 0, 0
				for _, s := range segs {
					whole, err := vfs.ReadFile(disk, s.Path, 1<<20)
					must(t, err)
					for i := range len(format.TrimZeros(whole)) {
						bit := i % 8 // of each byte another one: the checksum has no favourites
						b := bytes.Clone(whole)
						b[i] ^= 1 << bit
						opts.FS = damaged(t, disk, s.Path, b)
						n := 0
						l, rec, err := OpenLog(opts, 0, func(pos uint64, r *format.Record) error {
							if pos != m.pos[n] || recordText(r) != m.text[n] {
								t.Fatalf("%s byte %d bit %d: wrong record at %d", s.Path, i, bit, pos)
							}
							n++
							return nil
						})
						switch {
						case errors.Is(err, format.ErrCorrupt):
							refused++
							continue
						case err != nil || rec.End < durable:
							t.Fatalf("%s byte %d bit %d: the log ends at %d of %d: %v", s.Path, i, bit, rec.End, durable, err)
						case rec.Torn != nil:
							torn++
							checkKept(t, opts.FS, rec.Torn, b[format.SegmentHeaderLen+rec.Torn.LogOffset-s.Start:])
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

// TestClaimFile flips every bit of the file DURABLE and cuts it at every length near a slot: a claim is the newest, the
// one before, or none, and the log opens.
func TestClaimFile(t *testing.T) {
	disk := newFS(t)
	c := logfile.ClaimFile{FS: disk, Dir: testDir}
	older, newest := format.Claim{Offset: 1000, ReplID: testHistory.ReplID}, format.Claim{Offset: 2000, ReplID: testHistory.ReplID}
	must(t, c.Write(older))
	must(t, c.Write(newest))
	must(t, c.Close())
	whole, err := vfs.ReadFile(disk, format.ClaimPath(testDir), 1<<20)
	must(t, err)
	golden(t, "v1-durable", whole)
	found := map[format.Claim]int{}
	try := func(b []byte) {
		claim, err := logfile.ReadClaim(damaged(t, disk, format.ClaimPath(testDir), b), testDir)
		must(t, err)
		if claim != older && claim != newest && claim != (format.Claim{}) {
			t.Fatalf("got %+v", claim)
		}
		found[claim]++
	}
	for i := range whole {
		if i%format.ClaimSlotLen < format.ClaimLen+8 {
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
	if found[older] == 0 || found[newest] == 0 || found[format.Claim{}] == 0 {
		t.Errorf("%v", found)
	}
	for _, b := range [][]byte{nil, []byte("junk"), make([]byte, 3*format.ClaimSlotLen)} { // it is made anew
		d := damaged(t, disk, format.ClaimPath(testDir), b)
		c := logfile.ClaimFile{FS: d, Dir: testDir}
		must(t, errors.Join(c.Write(newest), c.Close()))
		if got, err := logfile.ReadClaim(d.Crash(1, 0), testDir); err != nil || got != newest {
			t.Errorf("over %d bytes: %+v, %v", len(b), got, err)
		}
	}
	newer := bytes.Clone(whole)
	newer[8] = format.ClaimVersion + 1
	le.PutUint32(newer[format.ClaimChecksum:], format.Checksum(newer[:format.ClaimChecksum]))
	if _, err := logfile.ReadClaim(damaged(t, disk, format.ClaimPath(testDir), newer), testDir); !errors.Is(err, format.ErrUnsupportedFormat) {
		t.Errorf("a newer version: %v", err)
	}
	// A claim of another history says nothing.
	for _, id := range []format.ReplID{testHistory.ReplID, {7}} {
		must(t, logfile.WriteLineage(disk, testDir, &format.Lineage{Terms: []format.Term{{ReplID: id, Epoch: 1}}}))
		want := format.Claim{}
		if id == testHistory.ReplID {
			want = newest
		}
		if got, err := logfile.ReadClaim(disk, testDir); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}

	// A program of before this file cut the log, and left the file: the log went on in another term.
	for _, next := range []uint64{1500, newest.Offset, 2500} {
		must(t, logfile.WriteLineage(disk, testDir, &format.Lineage{Terms: []format.Term{{ReplID: testHistory.ReplID, Epoch: 1, Start: 0}, {ReplID: format.ReplID{7}, Epoch: 2, Start: next}}}))
		want := format.Claim{Offset: min(next, newest.Offset), ReplID: testHistory.ReplID}
		if got, err := logfile.ReadClaim(disk, testDir); err != nil || got != want {
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
						raw := format.AppendSet(make([]byte, format.FrameHeaderLen), 1, 2, uint64(i), 3)
						format.PutFrameHeader(raw, false, l.Position(), l.Position(), 1, 7)
						if _, err := l.AppendFrame(raw); err != nil {
							t.Fatal(err)
						}
					} else if i%3 == 0 {
						l.AppendSet(1, 2, 3, uint64(i))
					}
					_ = l.Sync()
					durable = l.Durable()
					c.At = c.At.Add(time.Second)
					l.Tick()
					claimed = l.claims.made
				}
				if l.Close() != nil {
					return
				}
			}
		}()
		for _, keep := range []int{0, 30, 70, 100} {
			left := disk.Crash(seed+uint64(n), keep)
			claim, err := logfile.ReadClaim(left, testDir)
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

// TestClaimFails: a disk that takes no claim is told of once, and the log works on.
func TestClaimFails(t *testing.T) {
	disk, c := newFS(t), newClock()
	faulty := vfs.NewFaulty(disk)
	opts := smallLog(faulty, c)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	faulty.Inject(vfs.Rule{Glob: "*" + format.ClaimName + "*", Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
	var m model
	for i := range 4 {
		must(t, l.Ready())
		must(t, l.Commit(m.appendSome(t, l, i)))
		for range 2 {
			c.At = c.At.Add(time.Second)
			l.Tick()
		}
	}
	if faulty.Fired() == 0 || l.claims.made != 0 || !l.claims.failed {
		t.Errorf("%d faults, claimed %d", faulty.Fired(), l.claims.made)
	}
	faulty.Clear()
	must(t, l.Close())
	if claim, err := logfile.ReadClaim(disk, testDir); err != nil || claim.Offset != m.pos[3] {
		t.Errorf("%+v, %v", claim, err)
	}
	if leaks := disk.Leaks(); len(leaks) > 0 {
		t.Error(leaks)
	}
}

// TestClaimMended damages each byte of DURABLE under an open log, cuts it and removes it. The log writes it again, and a start
// finds the claim.
func TestClaimMended(t *testing.T) {
	m, disk, opts := sampleLog(t)
	opts.History.Replica = true // frames claim nothing
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	must(t, l.Commit(m.appendSome(t, l, 3)))
	must(t, l.Sync())
	l.Tick()
	l.Tick()
	name := format.ClaimPath(testDir)
	if damage, err := VerifyClaim(l); damage != nil || err != nil {
		t.Fatal(damage, err)
	}
	for k := range 300 {
		switch k {
		case 0:
			must(t, vfs.TruncateTo(disk, name, 100))
		case 1:
			must(t, disk.Remove(name))
		default:
			must(t, flipAt(disk, name, int64(k*31%format.ClaimFileLen)))
		}
		if damage, err := VerifyClaim(l); damage == nil || err != nil {
			t.Fatalf("damage %d: %v, %v", k, damage, err)
		}
		l.Tick()
		must(t, logfile.VerifyClaim(disk, testDir))
		if c, err := logfile.ReadClaim(disk, testDir); err != nil || c.Offset != l.Durable() {
			t.Fatalf("damage %d: the claim is %d, want %d, %v", k, c.Offset, l.Durable(), err)
		}
	}
	must(t, l.Close())
}

// TestClaimNotMended: as long as DURABLE cannot be written again, VerifyClaim does not say that it was.
func TestClaimNotMended(t *testing.T) {
	m, disk, opts := sampleLog(t)
	faulty := vfs.NewFaulty(disk)
	opts.FS = faulty
	opts.History.Replica = true // frames claim nothing
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	must(t, l.Commit(m.appendSome(t, l, 3)))
	must(t, l.Sync())
	l.Tick()
	l.Tick()
	must(t, flipAt(disk, format.ClaimPath(testDir), 20))
	faulty.Inject(vfs.Rule{Ops: vfs.OpOpenRW, Glob: "DURABLE", Every: 1, Err: syscall.EIO})
	if damage, err := VerifyClaim(l); damage == nil || err != nil {
		t.Fatal(damage, err)
	}
	for range 3 {
		l.Tick()
		if damage, err := VerifyClaim(l); damage == nil || err == nil {
			t.Fatalf("%v, %v, want an error", damage, err)
		}
	}
	faulty.Clear()
	l.Tick()
	if damage, err := VerifyClaim(l); damage != nil || err != nil {
		t.Fatal(damage, err)
	}
	must(t, l.Close())
}

// TestClaimWhileBusy: a log that grows all the time is killed, and the frames of its last seconds are zeros. DURABLE says that they were there.
func TestClaimWhileBusy(t *testing.T) {
	racetest.Skip(t, "the test drives the log itself, call after call")
	disk := newFS(t)
	c := newClock()
	opts := smallLog(disk, c)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	var ends []uint64 // of the log at each sync
	for i := range uint64(6) {
		must(t, l.Commit(l.AppendSet(1, 1, i, 1)))
		c.At = c.At.Add(time.Second)
		l.Tick()
		ends = append(ends, l.Durable())
	}
	segs := l.Segments().List()
	last := segs[len(segs)-1]
	for _, end := range ends[:len(ends)-1] {
		left := disk.Kill()
		must(t, left.Damage(last.Path, func(b []byte) []byte { clear(b[last.Segment().Offset(end):]); return b }))
		opts.FS = left
		if l, rec, err := OpenLog(opts, 0, discard); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("zeros from %d on: the log opens and ends at %d: %v", end, rec.End, err)
			must(t, l.Close())
		}
	}
	must(t, l.Close())
}

// Scenario: the log ends in bytes that were never durable

package persist

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// checkKept compares the file with a torn tail with the bytes that were cut from the last segment.
func checkKept(t testing.TB, fsys vfs.FS, torn *format.TornTail, want []byte) {
	t.Helper()
	kept, err := vfs.ReadFile(fsys, torn.Kept, 1<<20)
	must(t, err)
	if !logfile.IsTornTail(torn.Kept[strings.LastIndexByte(torn.Kept, '/')+1:]) || !bytes.HasPrefix(want, kept[format.SegmentHeaderLen:]) ||
		uint64(len(kept)-format.SegmentHeaderLen) < torn.Bytes && !format.AllZero(want[len(kept)-format.SegmentHeaderLen:]) {
		t.Fatalf("%s: %d bytes of %d: %v", torn.Kept, len(kept), len(want), torn)
	}
}

// TestPrimaryTail: behind the last frame of a primary comes no other that says it is durable. The claim does, behind the next sync of the
// background, and at the end of the log.
func TestPrimaryTail(t *testing.T) {
	for _, ended := range []bool{false, true} {
		disk, c := newFS(t), newClock()
		opts := smallLog(disk, c)
		l, _, err := OpenLog(opts, 0, discard)
		must(t, err)
		var m model
		must(t, l.Commit(m.appendSome(t, l, 1)))
		if claim, err := logfile.ReadClaim(disk, testDir); err != nil || claim.Offset != 0 {
			t.Errorf("before a sync: %+v, %v", claim, err)
		}
		if !ended {
			c.At = c.At.Add(time.Second)
			l.Tick()
			disk = disk.Kill()
		}
		must(t, l.Close())
		claim, err := logfile.ReadClaim(disk, testDir)
		must(t, err)
		if want := (format.Claim{Offset: m.pos[0], ReplID: testHistory.ReplID, Closed: ended}); claim != want {
			t.Errorf("got %+v, want %+v", claim, want)
		}
		path := format.LogDir(testDir) + "/" + format.SegmentName(0)
		b, err := vfs.ReadFile(disk, path, 1<<20)
		must(t, err)
		b[format.SegmentHeaderLen+20] ^= 4
		opts.FS = damaged(t, disk, path, b)
		var bad *format.CorruptError
		if _, _, err := OpenLog(opts, 0, discard); !errors.As(err, &bad) || bad.File != path || bad.Offset != format.SegmentHeaderLen || bad.Dir != testDir {
			t.Errorf("ended %v: got %v", ended, err)
		}
		// An empty segment behind does not hide it, with a header or without one.
		for _, header := range [][]byte{nil, (&format.SegmentHeader{History: testHistory, Start: claim.Offset, Chain: 7, Size: 512}).AppendTo(nil)} {
			stray := opts.FS.(*vfs.Sim).Kill()
			must(t, vfs.WriteFileAtomic(stray, format.LogDir(testDir)+"/"+format.SegmentName(claim.Offset), header))
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
		if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, format.ErrGap) {
			t.Errorf("no segment: got %v", err)
		}
	}
}

// TestStrayHeader: a segment behind damage whose header no crash leaves so is damage itself, also where no claim is.
func TestStrayHeader(t *testing.T) {
	_, disk, opts, _ := replicaLog(t, false, true)
	must(t, logfile.DropClaim(disk, testDir))
	path := format.LogDir(testDir) + "/" + format.SegmentName(0)
	b, err := vfs.ReadFile(disk, path, 1<<20)
	must(t, err)
	b[300] ^= 1
	opts.FS = damaged(t, disk, path, b)
	must(t, vfs.WriteFileAtomic(opts.FS, format.LogDir(testDir)+"/"+format.SegmentName(5000), []byte("no header")))
	if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("got %v", err)
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
		segs, err := logfile.ListSegments(disk, testDir)
		must(t, err)
		last := segs[len(segs)-1]
		f, err := disk.OpenRW(last.Path)
		must(t, err)
		_, err = f.WriteAt(garbage, last.Offset(m.pos[len(m.pos)-1]))
		must(t, errors.Join(err, f.Close()))
	}
	torn := func() (names []string) {
		all, err := disk.List(testDir)
		must(t, err)
		for _, name := range all {
			if logfile.IsTornTail(name) {
				names = append(names, name)
			}
		}
		return names
	}
	for i := range logfile.KeepTorn + 3 {
		l, rec, err := OpenLog(opts, 0, discard)
		must(t, err)
		if i > 0 && (rec.Torn == nil || rec.Torn.Kept == "") {
			t.Fatalf("torn: %+v", rec.Torn)
		}
		if i > 0 {
			want, err := vfs.ReadFile(disk, rec.Torn.Kept, 1<<20)
			must(t, err)
			if got, err := vfs.ReadFile(disk.CrashNames(), rec.Torn.Kept, 1<<20); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("behind a power failure: %d bytes of a torn tail are kept, %v, want %d", len(got), err, len(want))
			}
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
	if len(before) != logfile.KeepTorn {
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
	faulty.Inject(vfs.Rule{Glob: "*" + logfile.TornPrefix + "*", Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
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
	if after := torn(); len(after) != logfile.KeepTorn || slices.Equal(after, before) {
		t.Errorf("%v, before %v", after, before)
	}
}

// Scenario: producers in snapshots, lost images, and restarts.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// incrOnce adds 1 to a post as number seq of pa, and demands that it is a repeat or not.
func incrOnce(t testing.TB, s *Store, seq uint64, repeat bool) {
	t.Helper()
	o, _ := numbered(t, s, Once{Producer: pa, Seq: seq}, Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1})
	if o.Err != nil || o.Repeat != repeat {
		t.Errorf("number %d: got repeat %v, %v, want %v", seq, o.Repeat, o.Err, repeat)
	}
}

func mustSnapshot(t testing.TB, s *Store) SnapshotStats {
	t.Helper()
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	return s.Admin().Snapshots()
}

// TestOnceSnapshot: a snapshot has the table of producers, writes it only where the log went on, and FLUSHALL keeps it.
func TestOnceSnapshot(t *testing.T) {
	dir := t.TempDir()
	opts := Options{Manual: true, SnapshotGrowth: -1}
	s := openDir(t, dir, opts, seedScript)
	if mustSnapshot(t, s); s.repl.Manifests()[0].Producers != nil {
		t.Error("a snapshot without producers names an image of them")
	}
	incrOnce(t, s, 1, false)
	mustSnapshot(t, s)
	if st := mustSnapshot(t, s); st.LastImages != 0 {
		t.Errorf("got %d images of what did not change", st.LastImages)
	}
	if err := s.Set("8.cntrn", 1); err != nil {
		t.Fatal(err)
	}
	if st := mustSnapshot(t, s); st.LastImages != 2 {
		t.Errorf("got %d images, want that of the block, and another one of the producers", st.LastImages)
	}
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	err := b.Whole().Clear()
	b.End()
	if err := errors.Join(err, b.Commit()); err != nil {
		t.Fatal(err)
	}
	incrOnce(t, s, 2, false)
	want := dump(t, s)
	for range 2 { // from the log, and from the snapshot alone
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openDir(t, dir, opts, "")
		if got := dump(t, s); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		incrOnce(t, s, 1, true)
		incrOnce(t, s, 2, true)
		mustSnapshot(t, s)
	}
	if st := s.Admin().Snapshots(); st.LastImages != 0 || st.Replayed != 0 {
		t.Errorf("got %d images, %d records replayed, want none", st.LastImages, st.Replayed)
	}
}

// producersImages returns the images of producers of the two snapshots of a directory, the newest first.
func producersImages(t testing.TB, dir string) (paths []string) {
	t.Helper()
	good, bad, err := snapfile.ReadManifests(vfs.OS(), dir)
	if err = errors.Join(append(bad, err)...); err != nil {
		t.Fatal(err)
	}
	for _, m := range good {
		paths = append(paths, m.Producers.Path(dir))
	}
	return paths
}

// TestOnceLostImage damages, or removes, images of producers: the older snapshot is used, with the log behind it. Where
// none has a good one a start is refused, check says so, and only who is told to give it up goes on.
func TestOnceLostImage(t *testing.T) {
	for _, how := range []string{"damaged", "missing", "a block's"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			opts := Options{Manual: true, SnapshotGrowth: -1}
			s := openDir(t, dir, opts, seedScript)
			incrOnce(t, s, 1, false)
			mustSnapshot(t, s)
			incrOnce(t, s, 2, false)
			mustSnapshot(t, s)
			incrOnce(t, s, 3, false)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			images := producersImages(t, dir)
			if len(images) != 2 || images[0] == images[1] {
				t.Fatalf("got images %v", images)
			}
			ruin := func(path string) {
				switch how {
				case "damaged":
					flip(t, path, 90)
				case "missing":
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				default:
					good, _, err := snapfile.ReadManifests(vfs.OS(), dir)
					if err != nil {
						t.Fatal(err)
					}
					b, err := os.ReadFile(good[0].Counters[0].Blocks[0].Path(dir))
					if err == nil {
						err = os.WriteFile(path, b, 0o640)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			check := func() (fatal bool, text string) {
				t.Helper()
				r, err := datadir.Check(vfs.OS(), dir, datadir.CheckOptions{Cold: ColdVerifier(vfs.OS())})
				if err != nil {
					t.Fatal(err)
				}
				return !r.OK(), fmt.Sprint(r.Problems)
			}
			if fatal, text := check(); fatal {
				t.Errorf("check: got %s", text)
			}
			ruin(images[0])
			if _, text := check(); !strings.Contains(text, "producers") {
				t.Errorf("check: got %s", text)
			}
			s = openDir(t, dir, opts, "")
			for seq := range uint64(3) {
				incrOnce(t, s, seq+1, true)
			}
			wantValue(t, s, "7.cntrn", 3)
			// Two snapshots of one log offset, which share an image, with no log from the beginning.
			if err := s.Set("9.cntrn", 5); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				mustSnapshot(t, s)
			}
			incrOnce(t, s, 4, false)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, seg := range dropLog(t, dir) {
				t.Logf("removed %s", seg)
			}
			images = producersImages(t, dir)
			if images[0] != images[1] {
				t.Fatalf("got images %v", images)
			}
			ruin(images[0])
			if fatal, text := check(); !fatal || !strings.Contains(text, "producers") {
				t.Errorf("check: got %s", text)
			}
			_, err := Open(dir, opts)
			var corrupt *format.CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "counterctl repair") {
				t.Fatalf("got %v, want a CorruptError that prints the repair command", err)
			}
			err = datadir.Repair(vfs.OS(), dir, datadir.RepairOptions{Cold: ColdVerifier(vfs.OS()), Say: func(s string) { t.Log(s) }})
			if err == nil || !strings.Contains(err.Error(), "repeats") {
				t.Fatalf("repair: got %v, want it to say what is lost", err)
			}
			if _, err := Open(dir, opts); !errors.As(err, &corrupt) {
				t.Fatalf("repaired: got %v, want a CorruptError", err)
			}
			var said []string
			if err := loseUnreadable(dir, func(s string) { said = append(said, s) }); err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(said, "\n"); !strings.Contains(text, "given up: what 1 producers had done") {
				t.Errorf("got %s", text)
			}
			if fatal, text := check(); fatal {
				t.Errorf("check: got %s", text)
			}
			s = openDir(t, dir, opts, "")
			wantValue(t, s, "7.cntrn", 4)
			wantValue(t, s, "9.cntrn", 5)
			incrOnce(t, s, 1, false)
			incrOnce(t, s, 1, true)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openDir(t, dir, opts, "")
			incrOnce(t, s, 1, true)
			wantValue(t, s, "7.cntrn", 5)
		})
	}
}

// dropLog removes the segments that no snapshot of a directory needs.
func dropLog(t testing.TB, dir string) (removed []string) {
	t.Helper()
	good, _, err := snapfile.ReadManifests(vfs.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	segs, err := logfile.Segments(vfs.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range segs[:len(segs)-1] {
		if segs[i+1].Start <= good[len(good)-1].Replay {
			if err := os.Remove(segs[i].Path); err != nil {
				t.Fatal(err)
			}
			removed = append(removed, segs[i].Path)
		}
	}
	return removed
}

// TestOnceVerify: an image of producers that is damaged while the store is open is written anew.
func TestOnceVerify(t *testing.T) {
	dir := t.TempDir()
	opts := Options{Manual: true, SnapshotGrowth: -1}
	s := openDir(t, dir, opts, seedScript)
	incrOnce(t, s, 1, false)
	mustSnapshot(t, s)
	flip(t, producersImages(t, dir)[0], 90)
	pin, err := s.pins.PinSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := pin.VerifyImages(); !errors.Is(err, format.ErrCorrupt) {
		t.Fatalf("got %v, want damage", err)
	}
	pin.Release()
	for s.Admin().Snapshots().Made < 2 {
		if err := s.Snapshot(); err != nil && !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
	}
	if err := s.snapshots.VerifyImages(s.repl.Manifests()[0]); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, opts, "")
	incrOnce(t, s, 1, true)
}

// TestOnceArchive: an archive has the table of producers, from the image and from the log, and a directory restored from
// it answers repeats.
func TestOnceArchive(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, SnapshotGrowth: -1}, seedScript)
	incrOnce(t, s, 1, false)
	mustSnapshot(t, s)
	incrOnce(t, s, 2, false)
	want := dump(t, s)
	path := filepath.Join(t.TempDir(), "data.archive")
	writeArchive(t, s, path)
	s = restoreArchive(t, path)
	if got := dump(t, s); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	incrOnce(t, s, 1, true)
	incrOnce(t, s, 2, true)
	wantValue(t, s, "7.cntrn", 2)
}

// TestOnceLimits: more producers than there may be, and results larger than there is memory for. Who is idle makes
// room, in the log too: a restart, from the log or a snapshot, knows the same producers. The limits hold, what does not
// fit is refused before any change, and no number is made twice while its producer is known.
func TestOnceLimits(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	limits := ProducerLimits{Producers: 6, Bytes: 64 << 10, MinIdle: 10}
	dir, now := t.TempDir(), time.Now()
	var s *Store
	script := seedScript
	open := func() {
		s = openDir(t, dir, Options{Manual: true, SnapshotGrowth: -1, Producers: limits}, script)
		s.data.Producers.Now = func() time.Time { return now }
		script = ""
	}
	open()
	var refused, made, sum int
	seqs := map[string]uint64{}
	for i := range 3000 {
		now = now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
		id := fmt.Sprint("producer", rng.IntN(9))
		seqs[id]++
		size := 0
		if rng.IntN(2) == 0 {
			size = rng.IntN(2000)
		}
		before := s.Admin().ProducerStats()
		o, ops := numbered(t, s, Once{Producer: []byte(id), Seq: seqs[id], Room: size, Make: func(*Batch, *Once, int, int) Result {
			return Result{Kind: ResultBlob, Blob: make([]byte, size)}
		}}, Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1})
		st := s.Admin().ProducerStats()
		var full *ProducersFullError
		switch {
		case o.Repeat:
			t.Fatalf("step %d: number %d of %s was never made", i, seqs[id], id)
		case o.Err == nil:
			made++
			sum++
		case errors.As(o.Err, &full) && !ops[0].Done && st.Producers == before.Producers && st.Bytes == before.Bytes:
			refused++
		default:
			t.Fatalf("step %d: got %v, %+v behind %+v", i, o.Err, st, before)
		}
		if st.Producers > limits.Producers || st.Bytes > limits.Bytes {
			t.Fatalf("step %d: %+v is above %+v", i, st, limits)
		}
		if rng.IntN(100) == 0 {
			mustSnapshot(t, s)
		}
		if rng.IntN(100) == 0 {
			want := dump(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if open(); !maps.Equal(dump(t, s), want) {
				t.Fatalf("step %d: got %v, want %v", i, dump(t, s), want)
			}
		}
	}
	wantValue(t, s, "7.cntrn", uint64(sum))
	if st := s.Admin().ProducerStats(); made < 1000 || refused < 10 {
		t.Errorf("%d made, %d refused, %+v", made, refused, st)
	}
}

// TestOnceGolden restores an archive with producers, in its snapshot and in its log, that was written when they were new.
func TestOnceGolden(t *testing.T) {
	const name = "testdata/producers-v1"
	if *filetest.Update {
		s := openDir(t, t.TempDir(), Options{Manual: true, SnapshotGrowth: -1}, seedScript)
		incrOnce(t, s, 1, false)
		numbered(t, s, Once{Producer: []byte("b"), Epoch: 3, Seq: 1 << 50, Room: 100, Make: answers}, Op{Kind: OpAdd, Mid: 8, Column: 1, Arg: 5}, Op{Kind: OpAdd, Mid: 9, Column: 1, Arg: 6})
		mustSnapshot(t, s)
		incrOnce(t, s, 2, false)
		numbered(t, s, Once{Producer: []byte("c"), Seq: 1, Make: func(*Batch, *Once, int, int) Result { return Result{Kind: ResultNil} }})
		writeArchive(t, s, name+".archive")
		if err := os.WriteFile(name+".txt", []byte(goldenText(t, s)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := restoreArchive(t, name+".archive")
	want, err := os.ReadFile(name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := goldenText(t, s); got != string(want) {
		t.Errorf("got %s, want %s", got, want)
	}
	incrOnce(t, s, 1, true)
	incrOnce(t, s, 2, true)
	o, _ := numbered(t, s, Once{Producer: []byte("b"), Epoch: 3, Seq: 1 << 50, Make: answers}, Op{Kind: OpAdd, Mid: 8, Column: 1, Arg: 5}, Op{Kind: OpAdd, Mid: 9, Column: 1, Arg: 6})
	wantResult(t, "a group", o, true, Result{Kind: ResultBlob, Blob: []byte("5 <nil>;6 <nil>;")})
}

// goldenText is all that a store holds.
func goldenText(t testing.TB, s *Store) string {
	all := dump(t, s)
	text := ""
	for _, k := range slices.Sorted(maps.Keys(all)) {
		text += k + ": " + all[k] + "\n"
	}
	return text
}

func writeArchive(t testing.TB, s *Store, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Admin().Archive()
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.WriteTo(file)
	if err = errors.Join(err, a.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// restoreArchive opens a directory restored from an archive.
func restoreArchive(t testing.TB, path string) *Store {
	t.Helper()
	from, err := archive.Open(vfs.OS(), path)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	_, err = datadir.Restore(from, from.Path(), vfs.OS(), out, datadir.Target{Offset: from.End()}, datadir.RestoreOptions{Cold: ColdVerifier(vfs.OS())})
	if err = errors.Join(err, from.Close()); err != nil {
		t.Fatal(err)
	}
	return openDir(t, out, Options{Manual: true}, "")
}

// TestOnceRefusedOnBadDisk: while the disk takes nothing, a repeat of what is durable is answered, whatever else its
// block holds, and what is refused says why: neither waits for changes that are not safe, or is in doubt as they are. Nor
// is a refused group without a number.
func TestOnceRefusedOnBadDisk(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewSim())
	s := openDir(t, "data", Options{FS: faulty, Manual: true, AppendFsync: SyncAlways}, seedScript)
	incr := Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1}
	first, _ := numbered(t, s, Once{Producer: pa, Seq: 1}, incr)
	wantResult(t, "with a good disk", first, false, Result{Kind: ResultInt, N: 1})
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating &^ vfs.OpMkdir, Every: 1, Err: syscall.EIO})
	if err := s.Set("8.cntrn", 3); !errors.As(err, new(*UncertainError)) {
		t.Fatalf("a change with a disk that fails: %v", err)
	}
	// numbered fails where the answer is in doubt.
	o, _ := numbered(t, s, Once{Producer: pa, Seq: 1}, incr)
	wantResult(t, "repeat", o, true, first.Result)
	for what, o := range map[string]Once{"known producer": {Producer: pa, Seq: 2}, "new producer": {Producer: []byte("b")}, "group": {Producer: pa, Seq: 2, Make: answers}} {
		ops := []Op{incr}
		if o.Make != nil {
			ops = append(ops, incr)
		}
		if o, _ := numbered(t, s, o, ops...); !errors.Is(o.Err, ErrNotReady) {
			t.Errorf("%s: got %v", what, o.Err)
		}
	}
	if o, _ := numbered(t, s, Once{Producer: pa, Seq: 1, Hash: 5}, incr); o.Err != ErrMismatch {
		t.Errorf("mismatch: got %v", o.Err)
	}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	for mid := range uint64(2) {
		b.Add(Op{Kind: OpSet, Counter: b.Schema().Counter("weibo"), Mid: 7 + mid, Column: 1})
	}
	b.ChangeSet(0)
	b.Run()
	b.End()
	if err := b.Commit(); err != nil || !errors.Is(b.Op(0).Err, ErrNotReady) {
		t.Errorf("a group: got %v, %v", b.Op(0).Err, err)
	}
	faulty.Clear()
	heal(t, s, 0)
	o, _ = numbered(t, s, Once{Producer: pa, Seq: 2}, incr)
	wantResult(t, "well again", o, false, Result{Kind: ResultInt, N: 2})
	wantValue(t, s, "8.cntrn", 3)
}

// TestOnceOutage: while the server is down nobody is idle. Its clients keep their places for the rest of their time when
// it is back, and those who were idle for long before do not.
func TestOnceOutage(t *testing.T) {
	dir, limits := t.TempDir(), ProducerLimits{Producers: 2, MinIdle: 600}
	s := openDir(t, dir, Options{Manual: true, Producers: limits}, seedScript)
	past := time.Now().Add(-time.Hour)
	s.data.Producers.Now = func() time.Time { return past }
	incr := Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1}
	numbered(t, s, Once{Producer: []byte("idle"), Seq: 1}, incr)
	past = past.Add(601 * time.Second)
	numbered(t, s, Once{Producer: pa, Seq: 1}, incr)
	mustSnapshot(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{Manual: true, Producers: limits}, "")
	if o, _ := numbered(t, s, Once{Producer: []byte("b"), Seq: 1}, incr); o.Err != nil {
		t.Errorf("in the place of the idle one: %v", o.Err)
	}
	if o, _ := numbered(t, s, Once{Producer: []byte("c"), Seq: 1}, incr); !errors.As(o.Err, new(*ProducersFullError)) {
		t.Errorf("in the place of one that could not be heard: got %v", o.Err)
	}
	o, _ := numbered(t, s, Once{Producer: pa, Seq: 1}, incr)
	wantResult(t, "repeat after an outage", o, true, Result{Kind: ResultInt, N: 2})
	now := time.Now().Add(601 * time.Second)
	s.data.Producers.Now = func() time.Time { return now }
	if o, _ := numbered(t, s, Once{Producer: []byte("c"), Seq: 1}, incr); o.Err != nil {
		t.Errorf("after its time: %v", o.Err)
	}
}

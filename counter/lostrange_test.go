// Scenario: images that cannot be used, which no snapshot has another copy of.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// lostItems is how many posts a block has.
const lostItems = 1000

// lostDir makes a directory with several blocks of which the two snapshots share the images, without the log before
// them, and changes behind them. The model is of the posts of one block: which chooses it among the entries of the
// manifest. others are all other posts.
func lostDir(t *testing.T, which func(*format.BlockFile) bool, prepare func(*Store, []uint64)) (dir string, m *partialModel, others *partialModel, file format.BlockFile) {
	t.Helper()
	t.Logf("-seed %d", *seed)
	dir = t.TempDir()
	opts := Options{Manual: true, BlockItems: lostItems}
	s := openDir(t, dir, opts, seedScript)
	mids := fill(t, s, 7*lostItems+lostItems/2, 3)
	if prepare != nil {
		prepare(s, mids)
	}
	if err := s.Close(); err != nil { // so that the log goes on in a new segment
		t.Fatal(err)
	}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	for v := range uint64(2) {
		if err := s.Set("1.cntrn", v); err != nil { // the first block's image is not shared
			t.Fatal(err)
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if first := s.data.Log.Stats().First; first == 0 {
		t.Fatal("the whole log is still there")
	}
	found := false
	_ = s.data.Dir.Manifests()[0].Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
		if !found && which(b) {
			file, found = *b, true
		}
		return nil
	})
	if !found {
		t.Fatal("no such block")
	}
	model := func() *partialModel {
		return &partialModel{t: t, s: s, truth: map[uint64][3]uint64{}, since: map[uint64][3]bool{}, whole: map[uint64]bool{}, r: rand.New(rand.NewPCG(*seed, 2))}
	}
	m, others = model(), model()
	for i, mid := range mids {
		of := others
		if file.Lo <= mid && mid < file.Hi {
			of = m
		} else if !*long && i%5 > 0 { // the others would take six times as long
			continue
		} else {
			of.whole[mid] = true
		}
		of.mids = append(of.mids, mid)
		row := [3]uint64{}
		for c := range row {
			row[c], _, _ = s.Get(m.key(mid, c))
		}
		of.truth[mid] = row
	}
	for range 600 {
		m.change(m.mids[m.r.IntN(len(m.mids))])
		others.change(others.mids[m.r.IntN(len(others.mids))])
	}
	return dir, m, others, file
}

func sealedImage(b *format.BlockFile) bool {
	return b.Tier == format.TierHot && b.Lo > 0 && b.Hi != hot.EndMid
}

// reopen closes the models' store and opens the directory again.
func reopen(t *testing.T, dir string, fsys vfs.FS, models ...*partialModel) {
	t.Helper()
	if err := models[0].s.Close(); err != nil && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{Manual: true, BlockItems: lostItems, FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, m := range models {
		m.s = s
	}
}

// TestLostImage: an image that cannot be used, and that both snapshots share, takes its own range and nothing else;
// what was set since is known, through snapshots, restarts and more damage; and a start that can read it again has all.
func TestLostImage(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, how := range kinds("missing", "flipped", "short", "open", "read") {
		t.Run(how, func(t *testing.T) {
			dir, m, others, file := lostDir(t, sealedImage, nil)
			path := file.Path(dir)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			faulty := vfs.NewFaulty(vfs.OS())
			var fsys vfs.FS = faulty
			switch how {
			case "missing":
				err = os.Remove(path)
			case "flipped":
				flip(t, path, fileSize(t, path)/2)
			case "short":
				err = os.Truncate(path, int64(len(good)/3))
			case "open":
				faulty.Inject(vfs.Rule{Ops: vfs.OpOpen, Glob: filepath.Base(path), Every: 1, Err: syscall.EIO})
			case "read":
				faulty.Inject(vfs.Rule{Ops: vfs.OpRead, Glob: filepath.Base(path), Every: 1, Err: syscall.EIO})
			}
			if err != nil {
				t.Fatal(err)
			}
			items, err := m.s.Len()
			if err != nil {
				t.Fatal(err)
			}
			reopen(t, dir, fsys, m, others)
			if m.check("opened") == 0 || others.check("opened, other ranges") != 0 {
				t.Error("want errors of the lost range and of no other")
			}
			if now, err := m.s.Len(); err != nil || now < items*9/10 || now > items*11/10 {
				t.Errorf("%d items, want about %d", now, items)
			}
			if st := tierStats(t, m.s); st.Broken != 1 {
				t.Errorf("%d files are told to be unusable, want 1", st.Broken)
			}
			for range 300 {
				m.change(m.mids[m.r.IntN(len(m.mids))])
				others.change(others.mids[m.r.IntN(len(others.mids))])
			}
			// A start that can read it again has everything, whatever snapshots were made meanwhile.
			putBack := func(when string) {
				t.Helper()
				back := copyDir(t, dir)
				if err := os.WriteFile(file.Path(back), good, 0o640); err != nil {
					t.Fatal(err)
				}
				healed := *m
				healed.truth, healed.since, healed.whole = maps.Clone(m.truth), maps.Clone(m.since), maps.Clone(m.whole)
				healed.s = openCopy(t, back)
				for range 3 {
					if n := healed.check(when); n != 0 {
						t.Fatalf("%s: %d values cannot be read though the image is there again", when, n)
					}
					if st := tierStats(t, healed.s); st.Broken != 0 {
						t.Errorf("%s: %d files are told to be unusable", when, st.Broken)
					}
					for range 100 {
						healed.change(healed.mids[healed.r.IntN(len(healed.mids))])
					}
					if err := healed.s.Snapshot(); err != nil {
						t.Fatal(err)
					}
					reopen(t, back, vfs.OS(), &healed)
				}
				report, err := datadir.Check(vfs.OS(), back, datadir.CheckOptions{Cold: ColdVerifier(vfs.OS())})
				if err != nil || len(report.Problems) > 0 {
					t.Errorf("%s: check: %v, %+v", when, err, report.Problems)
				}
				if err := healed.s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			putBack("put back")
			for round := range 3 {
				if err := m.s.Snapshot(); err != nil {
					t.Fatal(err)
				}
				reopen(t, dir, fsys, m, others)
				if m.check("snapshot") == 0 || others.check("snapshot, other ranges") != 0 {
					t.Fatalf("round %d: want errors of the lost range and of no other", round)
				}
				for range 100 {
					m.change(m.mids[m.r.IntN(len(m.mids))])
				}
				putBack(fmt.Sprintf("put back behind %d snapshots", round+1))
			}
			if _, err := os.Stat(path); how != "missing" && err != nil {
				t.Errorf("the image was not kept for who may want to look at it: %v", err)
			}
			// The rest can be given up.
			if err := m.s.Close(); err != nil {
				t.Fatal(err)
			}
			if how == "open" {
				fsys = vfs.OS() // the disk is well again
			}
			giveUp(t, fsys, dir, file)
			reopen(t, dir, vfs.OS(), m, others)
			if others.check("given up, other ranges") != 0 {
				t.Error("errors of other ranges")
			}
			if how != "open" {
				absentOrTrue(t, m, "given up")
			} else if n := m.check("given up"); n != 0 {
				t.Errorf("%d values cannot be read although the image can", n)
			}
			report, err := datadir.Check(vfs.OS(), dir, datadir.CheckOptions{Cold: ColdVerifier(vfs.OS())})
			if err != nil || !report.OK() {
				t.Errorf("check: %v, %+v", err, report.Problems)
			}
		})
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func tierStats(t *testing.T, s *Store) TierStats {
	t.Helper()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	return s.Admin().Tiers(b)
}

func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func openCopy(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{Manual: true, BlockItems: lostItems})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// giveUp repairs with explicit leave, which names the range and sets files aside; a second run finds nothing.
func giveUp(t *testing.T, fsys vfs.FS, dir string, file format.BlockFile) {
	t.Helper()
	var told strings.Builder
	say := func(s string) { fmt.Fprintln(&told, s) }
	err := datadir.Repair(fsys, dir, datadir.RepairOptions{Cold: ColdVerifier(fsys), Say: say})
	var fault *snapfile.BlockFault
	if !errors.As(err, &fault) || fault.Lost[0] != (snapfile.MidRange{Lo: file.Lo, Hi: file.Hi}) {
		t.Fatalf("repair: got %v, want the range of %s", err, file.Name)
	}
	lose := func(say func(string)) error {
		return datadir.LoseUnreadable(fsys, dir, datadir.LoseOptions{Say: say, Cold: ColdVerifier(fsys), Salvage: Salvage})
	}
	if err := lose(say); err != nil {
		t.Fatalf("%v\n%s", err, told.String())
	}
	if !strings.Contains(told.String(), fmt.Sprintf("[%d, %d)", file.Lo, file.Hi)) {
		t.Errorf("the range [%d, %d) is not named:\n%s", file.Lo, file.Hi, told.String())
	}
	if err := lose(func(s string) { t.Error("second run:", s) }); err != nil {
		t.Error(err)
	}
}

// absentOrTrue checks that each post of a range that was given up is absent, or right where all of it was set since.
func absentOrTrue(t *testing.T, m *partialModel, when string) {
	t.Helper()
	for _, mid := range m.mids {
		row, there := m.truth[mid]
		for c := range 3 {
			v, found, err := m.s.Get(m.key(mid, c))
			if want := there && m.whole[mid]; err != nil || found != want || found && v != row[c] {
				t.Fatalf("%s: %s: got %d, %v, %v, want %d, %v", when, m.key(mid, c), v, found, err, row[c], want)
			}
		}
	}
}

// TestLostLastImage: without any image of the last block the start is refused, as no post of it and no new one could be
// served; with leave the range is given up, and new posts are counted.
func TestLostLastImage(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	last := func(b *format.BlockFile) bool { return b.Hi == hot.EndMid }
	dir, m, others, file := lostDir(t, last, nil)
	older := file
	_ = m.s.data.Dir.Manifests()[1].Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
		if last(b) {
			older = *b
		}
		return nil
	})
	if err := m.s.Close(); err != nil || older.Name == file.Name {
		t.Fatalf("both snapshots have %s, %v", file.Name, err)
	}
	flip(t, older.Path(dir), 200)
	flip(t, file.Path(dir), 200)
	_, err := Open(dir, Options{Manual: true})
	var corrupt *format.CorruptError
	if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), older.Name) || !strings.Contains(err.Error(), "counterctl repair") {
		t.Fatalf("got %v, want a *CorruptError that names %s and the command", err, older.Name)
	}
	giveUp(t, vfs.OS(), dir, file)
	if m.s, err = Open(dir, Options{Manual: true, BlockItems: lostItems}); err != nil {
		t.Fatal(err)
	}
	others.s = m.s
	for round := range 2 {
		absentOrTrue(t, m, "given up")
		if others.check("other ranges") != 0 {
			t.Error("errors of other ranges")
		}
		if v, err := m.s.Incr(fmt.Sprintf("%d.cntrn", m.mids[len(m.mids)-1]+77), 1); v != uint64(round)+1 || err != nil {
			t.Errorf("a new post: got %d, %v", v, err)
		}
		reopen(t, dir, vfs.OS(), m, others)
	}
}

// TestLostOverlayImage: without the image of an overlay nobody knows which rows of the cold file are of the past: none
// is shown.
func TestLostOverlayImage(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir, m, others, file := lostDir(t, func(b *format.BlockFile) bool { return b.Tier == format.TierOverlay }, func(s *Store, mids []uint64) {
		if err := s.Admin().Demote("weibo", mids[5*lostItems/2]); err != nil {
			t.Fatal(err)
		}
		for _, mid := range mids[5*lostItems/2-100 : 5*lostItems/2+100] {
			if err := s.Set(fmt.Sprintf("%d.cntcm", mid), 12345); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	})
	flip(t, file.Path(dir), fileSize(t, file.Path(dir))/2)
	for round := range 3 {
		reopen(t, dir, vfs.OS(), m, others)
		if n := m.check("opened"); n < len(m.mids) || others.check("opened, other ranges") != 0 {
			t.Errorf("round %d: %d values of %d posts are errors, want most, and of no other range", round, n, len(m.mids))
		}
		if err := m.s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if cold, _ := filepath.Glob(filepath.Join(dir, "cold", "*.cold")); len(cold) != 1 {
		t.Errorf("cold files %v, want the one below the overlay kept", cold)
	}
	if err := m.s.Close(); err != nil {
		t.Fatal(err)
	}
	giveUp(t, vfs.OS(), dir, file)
	reopen(t, dir, vfs.OS(), m, others)
	absentOrTrue(t, m, "given up")
}

// TestLostImageWholeLog: no snapshot can be used, and the log begins at 0. A start reads all of it, and nothing is lost. If the log is damaged, too, where a
// start without the image needs it, the start is refused.
func TestLostImageWholeLog(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	opts := Options{Manual: true, BlockItems: lostItems, RetainBytes: 1 << 40}
	for name, which := range map[string]func(*format.BlockFile) bool{
		"sealed":    sealedImage,
		"last":      func(b *format.BlockFile) bool { return b.Tier == format.TierHot && b.Hi == hot.EndMid },
		"producers": func(b *format.BlockFile) bool { return b.Tier == format.TierProducers },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openDir(t, dir, opts, seedScript)
			mids := fill(t, s, 5*lostItems, 3)
			once := func() Once {
				o, _ := numbered(t, s, Once{Producer: []byte("p"), Seq: 1, Hash: 7, Make: answers}, Op{Kind: OpAdd, Mid: mids[0], Arg: 1})
				return o
			}
			once()
			for range 2 {
				if err := s.Snapshot(); err != nil {
					t.Fatal(err)
				}
			}
			want := dump(t, s)
			bad := map[string]bool{}
			for _, m := range s.data.Dir.Manifests() {
				_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
					if which(b) {
						bad[b.Path(dir)] = true
					}
					return nil
				})
			}
			if err := s.Close(); err != nil || len(bad) == 0 {
				t.Fatalf("%d files, %v", len(bad), err)
			}
			for path := range bad {
				flip(t, path, fileSize(t, path)/2)
			}
			log, err := logfile.Segments(vfs.OS(), dir)
			if err != nil || log[0].Start != 0 {
				t.Fatal(log, err)
			}
			flip(t, log[0].Path, 200)
			var corrupt *format.CorruptError
			if _, err := Open(dir, opts); !errors.As(err, &corrupt) || bad[corrupt.File] == (name == "sealed") {
				t.Errorf("got %v, want the damage of the log, and before it that of an image that no start goes on without", err)
			}
			flip(t, log[0].Path, 200)
			for round := range 2 {
				if s, err = Open(dir, opts); err != nil {
					t.Fatal(err)
				}
				if !once().Repeat {
					t.Error("a repeated change counts again")
				}
				if got := dump(t, s); !maps.Equal(got, want) {
					t.Errorf("round %d: %d items, want %d", round, len(got), len(want))
				}
				if err := errors.Join(s.Snapshot(), s.Close()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestLostImageFewest: of two snapshots that both miss an image the one is taken by which less is lost.
func TestLostImageFewest(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	dir, m, others, file := lostDir(t, sealedImage, nil)
	if err := m.s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	var other format.BlockFile // written anew by the newest snapshot
	_ = m.s.data.Dir.Manifests()[0].Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
		if sealedImage(b) && b.Lo >= file.Hi {
			other = *b
		}
		return nil
	})
	older := m.s.data.Dir.Manifests()[1]
	_ = older.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
		if b.Name == other.Name {
			t.Fatal("the newest snapshot wrote no image")
		}
		return nil
	})
	flip(t, other.Path(dir), 300)
	for _, m := range m.s.data.Dir.Manifests() { // the first one is bad in both
		_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
			if b.Lo < file.Hi && file.Lo < b.Hi {
				if err := os.Remove(b.Path(dir)); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
			return nil
		})
	}
	reopen(t, dir, vfs.OS(), m, others)
	if n, others := m.check("opened"), others.check("opened, other ranges"); n == 0 || others != 0 {
		t.Errorf("%d errors of the range that is bad in both snapshots, %d of others", n, others)
	}
}

// TestLostTwice: the image of what is known of a lost range is lost as well, again and again. All that it had is an
// error then; the first image, put back, is of the past, and none of its values is shown.
func TestLostTwice(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir, m, others, file := lostDir(t, sealedImage, nil)
	good, err := os.ReadFile(file.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file.Path(dir)); err != nil {
		t.Fatal(err)
	}
	trueOrError := func(when string) (errs int) {
		t.Helper()
		for _, mid := range m.mids {
			row, there := m.truth[mid]
			for c := range 3 {
				v, found, err := m.s.Get(m.key(mid, c))
				switch {
				case errors.Is(err, block.ErrCold):
					errs++
				case err != nil || found != there || v != row[c]:
					t.Fatalf("%s: %s: got %d, %v, %v, want %d, %v or ErrCold", when, m.key(mid, c), v, found, err, row[c], there)
				}
			}
		}
		return errs
	}
	for round := range 6 {
		reopen(t, dir, vfs.OS(), m, others)
		if errs := trueOrError("opened"); errs < len(m.mids) || others.check("opened, other ranges") != 0 {
			t.Fatalf("round %d: %d values of %d posts are errors", round, errs, len(m.mids))
		}
		for v := range uint64(2) {
			for range 20 {
				mid := m.mids[m.r.IntN(len(m.mids))]
				row, there := m.truth[mid]
				if !there {
					continue
				}
				row[0] = m.r.Uint64N(1000)
				if err := m.s.Set(m.key(mid, 0), row[0]); err != nil {
					t.Fatal(err)
				}
				m.truth[mid] = row
			}
			if err := m.s.Set("1.cntrn", v); err != nil {
				t.Fatal(err)
			}
			if err := m.s.Snapshot(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		_ = m.s.data.Dir.Manifests()[0].Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
			if b.Block == file.Block && b.Tier == format.TierCold {
				if files := b.Remains(dir); len(files) != min(2, 1+round) || files[0] != file.Path(dir) || len(b.Name) > 50 {
					t.Errorf("round %d: %s stands for %v, want the first image, and the last overlay's", round, b.Name, files)
				}
			}
			return nil
		})
		if err := m.s.Close(); err != nil {
			t.Fatal(err)
		}
		images, _ := filepath.Glob(filepath.Join(dir, "rdb", fmt.Sprintf("%d-*.hot", file.Block)))
		for _, path := range images {
			if path != file.Path(dir) {
				flip(t, path, fileSize(t, path)/2)
			}
		}
		if err := os.WriteFile(file.Path(dir), good, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	giveUp(t, vfs.OS(), dir, file)
	reopen(t, dir, vfs.OS(), m, others)
	if errs := trueOrAbsent(m); errs != nil || others.check("given up, other ranges") != 0 {
		t.Error(errs)
	}
}

// trueOrAbsent says which post of a range that was given up is neither absent nor what it was.
func trueOrAbsent(m *partialModel) error {
	for _, mid := range m.mids {
		for c := range 3 {
			if v, found, err := m.s.Get(m.key(mid, c)); err != nil || found && v != m.truth[mid][c] {
				return fmt.Errorf("%s: got %d, %v, want %d", m.key(mid, c), v, err, m.truth[mid][c])
			}
		}
	}
	return nil
}

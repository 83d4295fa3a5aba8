package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// damagedDir makes a directory with a damaged cold file and changes of its rows in the log behind the snapshots; with
// all of the log, or only what the snapshots need.
func damagedDir(t *testing.T, how string, wholeLog bool) (dir string, m *partialModel) {
	t.Helper()
	t.Logf("-seed %d", *seed)
	dir, s, mids, cold := coldDir(t, 24_000)
	m = &partialModel{t: t, s: s, mids: mids[:10_000], truth: map[uint64][3]uint64{}, since: map[uint64][3]bool{}, whole: map[uint64]bool{}, r: rand.New(rand.NewPCG(*seed, 2))}
	for _, mid := range m.mids {
		row := [3]uint64{}
		for c := range row {
			row[c], _, _ = s.Get(m.key(mid, c))
		}
		m.truth[mid] = row
	}
	reopen := func() {
		t.Helper()
		if err := m.s.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if m.s, err = Open(dir, Options{Manual: true}); err != nil {
			t.Fatal(err)
		}
	}
	if !wholeLog {
		reopen() // a new segment
		for v := range uint64(2) {
			if err := m.s.Set("1.cntrn", v); err != nil {
				t.Fatal(err)
			}
			if err := m.s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		if first := m.s.data.Log.Stats().First; first == 0 {
			t.Fatal("the whole log is still there")
		}
	}
	for range 2000 {
		m.change(m.mids[m.r.IntN(len(m.mids))])
	}
	if how == "missing" {
		if err := os.Remove(cold); err != nil {
			t.Fatal(err)
		}
	} else {
		flip(t, cold, 10_000)
		flip(t, cold, 30_000)
	}
	reopen()
	if m.check("opened") == 0 {
		t.Fatal("nothing is damaged")
	}
	for range 1000 {
		m.change(m.mids[m.r.IntN(len(m.mids))])
	}
	return dir, m
}

// TestRepairFromLog: where the log reaches back far enough, repair brings every post of a damaged cold file back.
func TestRepairFromLog(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, how := range kinds("pages", "missing") {
		t.Run(how, func(t *testing.T) {
			dir, m := damagedDir(t, how, true)
			if err := m.s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := datadir.Repair(vfs.OS(), dir, datadir.RepairOptions{Cold: ColdVerifier(vfs.OS()), Say: func(s string) { t.Log(s) }}); err != nil {
				t.Fatal(err)
			}
			var err error
			if m.s, err = Open(dir, Options{Manual: true}); err != nil {
				t.Fatal(err)
			}
			defer m.s.Close()
			if n := m.check("repaired"); n > 0 {
				t.Errorf("%d values cannot be read although the log has them", n)
			}
		})
	}
}

// loseUnreadable gives up what cannot be read of a directory, as counterctl does.
func loseUnreadable(dir string, say func(string)) error {
	return datadir.LoseUnreadable(vfs.OS(), dir, datadir.LoseOptions{Say: say, Cold: ColdVerifier(vfs.OS()), Salvage: Salvage})
}

// TestLoseUnreadable: what is given up is absent and named, everything else is the truth, and no number is made up. The
// log that was there before, replayed at every start, changes nothing of that; nor can a node that has the posts go on
// with this one's log.
func TestLoseUnreadable(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, how := range kinds("pages", "missing") {
		t.Run(how, func(t *testing.T) {
			dir, m := damagedDir(t, how, false)
			before, end := m.s.repl.Lineage(), m.s.data.Log.Position()
			lost := map[uint64]bool{}
			partial := map[uint64]bool{}
			for _, mid := range m.mids {
				errs := 0
				for c := range 3 {
					if _, _, err := m.s.Get(m.key(mid, c)); errors.Is(err, block.ErrCold) {
						errs++
					}
				}
				lost[mid], partial[mid] = errs > 0, errs == 1 || errs == 2
			}
			young := m.s.mustAlter(t, "add column weibo quote hint=8 max=32 suffix=cntqt", m)
			if err := m.s.Close(); err != nil {
				t.Fatal(err)
			}
			err := datadir.Repair(vfs.OS(), dir, datadir.RepairOptions{Cold: ColdVerifier(vfs.OS())})
			var fault *snapfile.BlockFault
			if err != nil && !errors.As(err, &fault) {
				t.Fatal(err)
			}
			var told strings.Builder
			if err := loseUnreadable(dir, func(s string) { fmt.Fprintln(&told, s) }); err != nil {
				t.Fatal(err)
			}
			report, err := datadir.Check(vfs.OS(), dir, datadir.CheckOptions{Cold: ColdVerifier(vfs.OS())})
			if err != nil || !report.OK() {
				t.Errorf("check: %v, %+v", err, report.Problems)
			}
			if broken, _ := filepath.Glob(filepath.Join(dir, "cold", "*.broken-*")); how == "pages" && len(broken) != 1 {
				t.Errorf("set aside: %v, want the damaged file", broken)
			}
			for round := range 3 {
				if m.s, err = Open(dir, Options{Manual: true}); err != nil {
					t.Fatal(err)
				}
				for _, mid := range m.mids {
					row, there := m.truth[mid]
					for c := range 3 {
						v, found, err := m.s.Get(m.key(mid, c))
						if lost[mid] && found || !lost[mid] && (found != there || v != row[c]) || err != nil {
							t.Fatalf("round %d: %s: got %d, %v, %v, want %d, %v (given up: %v)", round, m.key(mid, c), v, found, err, row[c], there, lost[mid])
						}
					}
					if partial[mid] && !strings.Contains(told.String(), fmt.Sprintf("weibo:%d,", mid)) {
						t.Errorf("%d was given up without a word:\n%s", mid, told.String())
					}
				}
				for mid, want := range young {
					if v, _, err := m.s.Get(fmt.Sprintf("%d.cntqt", mid)); v != want || err != nil {
						t.Fatalf("round %d: %d.cntqt: got %d, %v, want %d", round, mid, v, err, want)
					}
				}
				now := m.s.repl.Lineage()
				if at, ok := now.Common(m.s.data.Log.Position(), &before, end); ok {
					t.Errorf("a node of the old history may go on at %d", at)
				}
				if round == 1 {
					if err := m.s.Snapshot(); err != nil {
						t.Fatal(err)
					}
				}
				if err := m.s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := loseUnreadable(dir, func(s string) { t.Error("second run:", s) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// mustAlter adds a column and sets it for items that are whole. It returns its values.
func (s *Store) mustAlter(t *testing.T, script string, m *partialModel) map[uint64]uint64 {
	t.Helper()
	if err := s.AlterScript(script); err != nil {
		t.Fatal(err)
	}
	values := map[uint64]uint64{}
	for i := 0; i < len(m.mids); i += 7 {
		mid := m.mids[i]
		readable := true
		for c := range 3 {
			_, found, err := s.Get(m.key(mid, c))
			readable = readable && found && err == nil
		}
		if !readable {
			continue
		}
		values[mid] = uint64(i) + 1
		if err := s.Set(fmt.Sprintf("%d.cntqt", mid), values[mid]); err != nil {
			t.Fatal(err)
		}
	}
	return values
}

// TestLoseUnreadableAltered: a column that is added while the snapshot is made, at every file of it, whose schema
// therefore does not know it, keeps its values when damaged pages are given up; those of the pages that can be read,
// and of the overlay.
func TestLoseUnreadableAltered(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	first, stride := int(*seed%3), 3 // every third file, others each time
	if *long {
		first, stride = 0, 1
	}
	for at, more := first, true; more; at += stride {
		dir, s, mids, cold := coldDir(t, 24_000)
		if err := s.Close(); err != nil { // so that the log goes on in a new segment
			t.Fatal(err)
		}
		fs := &hookFS{FS: vfs.OS()}
		s, err := Open(dir, Options{FS: fs, Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		set := func(suffix string, step int) {
			t.Helper()
			for i := 0; i < len(mids); i += step {
				if err := s.Set(fmt.Sprintf("%d.%s", mids[i], suffix), uint64(i)+7); err != nil {
					t.Fatal(err)
				}
			}
		}
		files := 0
		for round := range 2 {
			set("cntrn", 300+round)
			fs.hook = func(string) {
				if files++; files == at+1 {
					fs.hook = nil
					if err := s.AlterScript("add column weibo quote hint=8 max=32 suffix=cntqt"); err != nil {
						t.Fatal(err)
					}
					set("cntqt", 200)
				}
			}
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		fs.hook = nil
		if more = files > at; !more { // the snapshots make fewer files
			s.Close()
			if at < 4 {
				t.Errorf("two snapshots made %d files, want at least 4", files)
			}
			break
		}
		if first := s.data.Log.Stats().First; first == 0 {
			t.Fatal("the whole log is still there")
		}
		set("cntqt", 350)
		suffixes := append([]string{"cntqt"}, seedSuffixes...)
		truth := map[string]uint64{}
		for i := 0; i < len(mids); i += 50 {
			for _, suffix := range suffixes {
				key := fmt.Sprintf("%d.%s", mids[i], suffix)
				if truth[key], _, err = s.Get(key); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		flip(t, cold, 10_000)
		flip(t, cold, 30_000)
		if err := datadir.Repair(vfs.OS(), dir, datadir.RepairOptions{Cold: ColdVerifier(vfs.OS())}); err != nil {
			t.Fatal(err)
		}
		if err := loseUnreadable(dir, nil); err != nil {
			t.Fatal(err)
		}
		for round := range 2 {
			if s, err = Open(dir, Options{Manual: true}); err != nil {
				t.Fatal(err)
			}
			lost := 0
			for key, want := range truth {
				v, found, err := s.Get(key)
				switch {
				case err != nil || found && v != want:
					t.Fatalf("added at file %d, round %d: %s: got %d, %v, %v, want %d", at, round, key, v, found, err, want)
				case !found:
					lost++
				}
			}
			if lost == 0 || lost > len(truth)/4 {
				t.Errorf("added at file %d: %d of %d values are given up, want those of two pages", at, lost, len(truth))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLoseCounts: posts that are given up take their counts of windows and of decaying columns along: lists have no post that does not exist, and a post that is
// made again begins anew. Counts of other posts stay.
func TestLoseCounts(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir := t.TempDir()
	opts := Options{Manual: true, BlockItems: 64}
	s := openDir(t, dir, opts, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd column a win window=300d/6d of=v top=3 suffix=win\nadd column a heat decay=366d of=v top=3 suffix=heat")
	s.Windows().Begin()
	for mid := range 200 {
		if _, err := s.Incr(fmt.Sprintf("%d.v", 1000+mid), int64(1000-mid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Admin().Demote("a", 1000); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := errors.Join(s.Set("1199.v", 1), s.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	files := s.scrubber.Files()
	if err := s.Close(); err != nil || len(files) != 1 {
		t.Fatal(len(files), err)
	}
	if err := os.Remove(files[0].Name()); err != nil {
		t.Fatal(err)
	}
	if err := loseUnreadable(dir, func(s string) { t.Log(s) }); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		s, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"win", "heat"} {
			def := s.Schema().Counter("a")
			rows, err := s.Top(Query{Counter: def, To: 1 << 62}, int16(len(def.Columns)+i), 3)
			if err != nil || rows.Len() != 3 {
				t.Fatal(name, rows, err)
			}
			for i := range 3 {
				if mid, _ := rows.At(i); mid < 1064 {
					t.Errorf("the list of %s has post %d, which was given up", name, mid)
				}
			}
			if v, found, err := s.Get("1000." + name); v != 0 || found || err != nil {
				t.Errorf("%s of a post that was given up: %d, %t, %v", name, v, found, err)
			}
			if v, _, err := s.Get("1100." + name); v != 900 || err != nil {
				t.Errorf("%s of a post that was not: %d, %v", name, v, err)
			}
			again := fmt.Sprintf("%d.", 1001+round)
			if err := s.Set(again+"v", 5); err != nil { // made again; a set is no addition
				t.Fatal(err)
			}
			if v, found, err := s.Get(again + name); v != 0 || !found || err != nil {
				t.Errorf("%s of a post that was made again: %d, %t, %v", name, v, found, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

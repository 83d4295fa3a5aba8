// Scenario: a start from, and counterctl repair of, a directory whose snapshots and log are both damaged, or whose log an earlier repair cut.

package counter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// The outcomes of a start or a repair.
const (
	whole   = "whole"   // no change is lost
	aRange  = "range"   // the posts of one image answer errors, and repair names them
	lost    = "LOST"    // repair says that changes are lost
	both    = "both"    // the two before
	newest  = "newest"  // repair says that the newest posts, without which no start goes on, are damaged
	nothing = "nothing" // repair changes no file, as neither a snapshot nor the log can be used
	refused = "refused" // a start says that the directory is damaged
	unknown = "unknown" // nothing is wanted: a loss of power in the first snapshot leaves the same files, or nothing but the damage is left
)

// repairOptions have small segments, so that the log can lose its beginning.
var repairOptions = Options{Manual: true, BlockItems: lostItems, SegmentBytes: 16 << 10, RetainBytes: 1 << 40}

// repairDir makes a directory with two snapshots, of which all images but those of the first and the last block are shared, and changes
// before, between and behind them. cut: before the second snapshot, a repair cuts the log below the first one, of a replica that leads
// from then on if replica is set. It returns the value of each post.
func repairDir(t *testing.T, cut, replica bool) (dir string, want map[string]uint64) {
	t.Helper()
	dir = t.TempDir()
	fs := &hookFS{FS: vfs.OS()}
	opts := repairOptions
	opts.FS = fs
	s := openDir(t, dir, opts, seedScript)
	mids := fill(t, s, 4*lostItems, 3)
	must(t, s.data.Log.Sync()) // the end of a frame
	last := fmt.Sprintf("%d.cntcm", slices.Max(mids))
	once := fmt.Sprintf("%d.cntan", slices.Max(mids))
	fs.hook = func(string) { // while the images are written, the newest post is changed
		fs.hook = nil
		must(t, s.Set(once, 4321))
		must(t, s.data.Log.Sync())
	}
	must(t, s.Snapshot())
	fs.hook = nil
	m := s.data.Dir.Manifests()[0]
	if cut {
		must(t, s.Close())
		segs := segmentsOf(t, dir)
		at := segs[0]
		for _, seg := range segs {
			if seg.Start < m.Offset {
				at = seg
			}
		}
		flip(t, at.Path, at.Segment().Offset(m.Offset)-1)
		past, err := logfile.ReadLineage(vfs.OS(), dir)
		must(t, err)
		past.Replica = replica
		must(t, logfile.WriteLineage(vfs.OS(), dir, &past))
		must(t, datadir.Repair(vfs.OS(), dir, datadir.RepairOptions{Cold: ColdVerifier(vfs.OS())}))
		s, err = Open(dir, opts)
		must(t, err)
		if replica {
			_, err = s.Replication().Lead()
			must(t, err)
		}
	}
	for v := range uint64(3) {
		must(t, s.Close()) // the log goes on in a new segment
		var err error
		s, err = Open(dir, opts)
		must(t, err)
		must(t, s.Set("1.cntrn", v+1))
		must(t, s.Set(last, 5000+v))
		for i := range uint64(200) { // at least one segment
			must(t, s.Set("2.cntrn", i*10+v))
		}
		must(t, s.data.Log.Sync())
		if v < 2 {
			must(t, s.Snapshot())
		}
	}
	want = map[string]uint64{"1.cntrn": 0, "2.cntrn": 0, once: 0}
	for _, mid := range mids {
		want[fmt.Sprintf("%d.cntcm", mid)] = 0
	}
	for key := range want {
		v, _, err := s.Get(key)
		must(t, err)
		want[key] = v
	}
	if want[once] != 4321 {
		t.Fatalf("%s is %d", once, want[once])
	}
	must(t, s.Close())
	return dir, want
}

// lastImage tells whether an image is of the newest posts.
func lastImage(b *format.BlockFile) bool { return b.Tier == format.TierHot && b.Hi == hot.EndMid }

// flipImages damages the images, chosen by which, of the two snapshots.
func flipImages(which func(*format.BlockFile) bool) func(*testing.T, string, []*format.Manifest) {
	return func(t *testing.T, dir string, manifests []*format.Manifest) {
		done := map[string]bool{}
		for _, m := range manifests {
			_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
				if path := b.Path(dir); which(b) && !done[path] {
					done[path] = true
					flip(t, path, 200)
				}
				return nil
			})
		}
	}
}

// flipHistory damages HISTORY and its copy.
func flipHistory(t *testing.T, dir string, _ []*format.Manifest) {
	flip(t, format.LineagePath(dir), 30)
	flip(t, format.LineagePath(dir)+vfs.CopySuffix, 30)
}

// eachDamage calls do with a directory in each state of the snapshots and of the log, the values of its posts, and the wanted outcome.
func eachDamage(t *testing.T, want [][]string, do func(t *testing.T, dir string, values map[string]uint64, want string)) {
	type harm struct {
		name string
		do   func(t *testing.T, dir string, manifests []*format.Manifest)
	}
	logs := []harm{
		{"whole", nil},
		{"cut", nil},
		{"late", func(t *testing.T, dir string, manifests []*format.Manifest) { // the beginning is gone
			for _, seg := range segmentsOf(t, dir) {
				if seg.End > 0 && seg.End <= manifests[1].Replay {
					must(t, os.Remove(seg.Path))
				}
			}
			if segs := segmentsOf(t, dir); segs[0].Start == 0 {
				t.Fatal("the log has its beginning")
			}
		}},
		{"early damage", func(t *testing.T, dir string, manifests []*format.Manifest) {
			if segs := segmentsOf(t, dir); segs[1].End > manifests[1].Replay {
				t.Fatal("the snapshots need the second segment")
			}
			flip(t, segmentsOf(t, dir)[1].Path, 1000)
		}},
		{"late damage", func(t *testing.T, dir string, manifests []*format.Manifest) {
			segs := segmentsOf(t, dir)
			last := segs[len(segs)-1]
			if last.Start < manifests[0].Offset {
				t.Fatal("the last segment is not behind the snapshots")
			}
			flip(t, last.Path, format.SegmentHeaderLen+40)
		}},
		{"torn", func(t *testing.T, dir string, _ []*format.Manifest) {
			segs := segmentsOf(t, dir)
			f, err := os.OpenFile(segs[len(segs)-1].Path, os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			_, err = f.Write([]byte("the beginning of a frame"))
			must(t, errors.Join(err, f.Close()))
		}},
		{"short", func(t *testing.T, dir string, manifests []*format.Manifest) { // it ends before the newest snapshot, and nothing else tells
			for _, seg := range segmentsOf(t, dir) {
				if seg.Start >= manifests[1].Offset {
					must(t, os.Remove(seg.Path))
				}
			}
			must(t, os.Remove(format.ClaimPath(dir)))
		}},
		{"cut on a replica", nil},
		{"whole, HISTORY damaged", flipHistory},
		{"cut, HISTORY damaged", flipHistory},
	}
	snapshots := []harm{
		{"whole", func(*testing.T, string, []*format.Manifest) {}},
		{"newest damaged", func(t *testing.T, dir string, manifests []*format.Manifest) {
			flipImages(lastImage)(t, dir, manifests[:1])
		}},
		{"a damaged image in both", flipImages(sealedImage)},
		{"the newest posts damaged in both", flipImages(lastImage)},
		{"manifests damaged", func(t *testing.T, dir string, manifests []*format.Manifest) {
			for _, m := range manifests {
				flip(t, filepath.Join(dir, format.ManifestName(m.Generation)), 30)
			}
		}},
		{"manifests deleted", func(t *testing.T, dir string, manifests []*format.Manifest) {
			for _, m := range manifests {
				must(t, os.Remove(filepath.Join(dir, format.ManifestName(m.Generation))))
			}
		}},
		{"images deleted", func(t *testing.T, dir string, _ []*format.Manifest) {
			must(t, os.RemoveAll(format.ImageDir(dir)))
		}},
		{"all deleted", func(t *testing.T, dir string, manifests []*format.Manifest) {
			for _, m := range manifests {
				must(t, os.Remove(filepath.Join(dir, format.ManifestName(m.Generation))))
			}
			must(t, errors.Join(os.RemoveAll(format.ImageDir(dir)), os.RemoveAll(format.ColdDir(dir))))
		}},
	}
	whole, values := repairDir(t, false, false)
	cut, cutValues := repairDir(t, true, false)
	replica, replicaValues := repairDir(t, true, true)
	for i, harmSnapshots := range snapshots {
		for j, harmLog := range logs {
			if want[i][j] == unknown {
				continue
			}
			t.Run(harmSnapshots.name+", log "+harmLog.name, func(t *testing.T) {
				from, values := whole, values
				switch harmLog.name {
				case "cut", "cut, HISTORY damaged":
					from, values = cut, cutValues
				case "cut on a replica":
					from, values = replica, replicaValues
				}
				dir := copyDir(t, from)
				manifests, _, err := snapfile.ReadManifests(vfs.OS(), dir)
				must(t, err)
				if harmLog.do != nil {
					harmLog.do(t, dir, manifests)
				}
				harmSnapshots.do(t, dir, manifests)
				do(t, dir, values, want[i][j])
			})
		}
	}
}

// TestRepairTable repairs a directory in each state of the snapshots and of the log. It never loses a change without a word.
func TestRepairTable(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	eachDamage(t, [][]string{ // whole, cut, late, early damage, late damage, torn, short, cut on a replica, whole and cut with HISTORY damaged
		{whole, whole, whole, whole, lost, whole, lost, whole, whole, whole},
		{whole, whole, whole, whole, lost, whole, lost, whole, whole, whole},
		{whole, aRange, aRange, aRange, lost, whole, both, aRange, aRange, aRange},
		{whole, lost, newest, lost, lost, whole, lost, lost, lost, lost},
		{whole, lost, nothing, lost, lost, whole, lost, lost, lost, lost},
		{whole, lost, nothing, lost, lost, whole, unknown, lost, lost, lost},
		{whole, lost, unknown, lost, lost, whole, lost, lost, lost, lost},
		{whole, lost, nothing, lost, lost, whole, unknown, lost, whole, lost},
	}, func(t *testing.T, dir string, values map[string]uint64, want string) {
		if got, said := repairOutcome(t, dir, values); got != want {
			t.Errorf("%s, want %s; repair says:\n%s", got, want, strings.Join(said, "\n"))
		}
	})
}

// TestStartTable starts from a directory in each state of the snapshots and of the log. A start that lacks a change of a post answers errors for
// the post, or is refused.
func TestStartTable(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	eachDamage(t, [][]string{ // whole, cut, late, early damage, late damage, torn, short, cut on a replica, whole and cut with HISTORY damaged
		{whole, whole, whole, whole, refused, whole, refused, whole, refused, refused},
		{whole, whole, whole, whole, refused, whole, refused, whole, refused, refused},
		{whole, aRange, aRange, aRange, refused, whole, refused, aRange, refused, refused},
		{whole, refused, refused, refused, refused, whole, refused, refused, refused, refused},
		{whole, refused, refused, refused, refused, whole, refused, refused, refused, refused},
		{whole, refused, refused, refused, refused, whole, unknown, refused, refused, refused},
		{whole, refused, refused, refused, refused, whole, refused, refused, refused, refused},
		{whole, refused, refused, refused, refused, whole, unknown, refused, refused, refused},
	}, func(t *testing.T, dir string, values map[string]uint64, want string) {
		report, err := datadir.Check(vfs.OS(), dir, datadir.CheckOptions{Cold: ColdVerifier(vfs.OS())})
		must(t, err)
		got := refused
		if s, err := Open(dir, repairOptions); err == nil {
			old, unreadable := compareValues(t, s, values)
			must(t, s.Close())
			if got = whole; unreadable > 0 {
				got = aRange
			}
			if old > 0 {
				t.Errorf("%d posts have old values", old)
			}
		} else if !errors.Is(err, format.ErrCorrupt) || !strings.Contains(err.Error(), "counterctl repair") {
			t.Error(err)
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if report.OK() != (got == whole) {
			t.Errorf("%s, and check says %+v", got, report.Problems)
		}
	})
}

// compareValues returns how many posts have other values than the given ones, and how many answer errors.
func compareValues(t *testing.T, s *Store, want map[string]uint64) (old, unreadable int) {
	t.Helper()
	for key, v := range want {
		switch got, _, err := s.Get(key); {
		case errors.Is(err, ErrCold):
			unreadable++
		case err != nil:
			t.Fatal(err)
		case got != v:
			old++
		}
	}
	return old, unreadable
}

func segmentsOf(t *testing.T, dir string) []logfile.SegmentInfo {
	t.Helper()
	segs, err := logfile.Segments(vfs.OS(), dir)
	must(t, err)
	return segs
}

// repairOutcome repairs a directory and starts from it. It returns the losses that repair tells, after it has compared them with the posts that
// a reader sees.
func repairOutcome(t *testing.T, dir string, want map[string]uint64) (outcome string, said []string) {
	t.Helper()
	opts := datadir.RepairOptions{Cold: ColdVerifier(vfs.OS()), Say: func(line string) { said = append(said, line) }}
	err := datadir.Repair(vfs.OS(), dir, opts)
	told := slices.ContainsFunc(said, func(line string) bool { return strings.HasPrefix(line, "LOST: ") })
	var fault *snapfile.BlockFault
	named := errors.As(err, &fault)
	switch {
	case errors.Is(err, datadir.ErrUnrepairable):
		return nothing, said
	case err != nil && !named:
		t.Fatal(err)
	case named && fault.Block.Hi == hot.EndMid:
		return newest, said
	}
	said = append(said, fmt.Sprint(err))
	first := len(said)
	if again := datadir.Repair(vfs.OS(), dir, opts); fmt.Sprint(again) != said[first-1] {
		t.Errorf("a second repair: %v", again)
	}
	for _, line := range said[first:] {
		if !named {
			t.Errorf("a second repair says: %s", line)
		}
	}
	s, err := Open(dir, repairOptions)
	must(t, err)
	defer s.Close()
	old, unreadable := compareValues(t, s, want)
	if old > 0 && !told || unreadable > 0 && !named {
		t.Errorf("%d posts have old values, and %d answer errors, without a word", old, unreadable)
	}
	return map[[2]bool]string{{false, false}: whole, {true, false}: lost, {false, true}: aRange, {true, true}: both}[[2]bool{told, unreadable > 0}], said
}

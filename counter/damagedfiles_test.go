// Scenario: a disk damages one file of a data directory, of each kind, before a start

package counter

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// fileKinds are the kinds of files that a store has, one row each: which files of the directory are of the kind, and how many
// bytes of them are a header. The notes of other packages have tests of their own: CONFIRMED, PRIMARY and HANDOVER in package
// repl, and node.json in package cluster.
var fileKinds = []struct {
	name   string
	header int
	files  func(d *sampleDir) []string
}{
	{"hot image", format.ImageHeaderLen, func(d *sampleDir) []string { return d.blockFiles(format.TierHot) }},
	{"cold file", 128, func(d *sampleDir) []string { return d.blockFiles(format.TierCold) }},
	{"log segment", format.SegmentHeaderLen, func(d *sampleDir) []string { return d.segments(false) }},
	{"packed segment", format.SegmentHeaderLen, func(d *sampleDir) []string { return d.segments(true) }},
	{"manifest", 40, func(d *sampleDir) []string { return d.named(format.ManifestName(0)[:8]) }},
	{"producers", format.ImageHeaderLen, func(d *sampleDir) []string { return d.blockFiles(format.TierProducers) }},
	{"HISTORY", 64, func(d *sampleDir) []string { return d.named("HISTORY") }},
	{"DURABLE", format.ClaimLen, func(d *sampleDir) []string { return d.named(format.ClaimName) }},
}

// sampleDir is a directory with files of each kind, and all that is in it.
type sampleDir struct {
	disk  *vfs.Sim
	opts  Options
	mids  []uint64
	rows  map[uint64]string
	made  Once   // a numbered change that was made
	log   []byte // all frames that are kept
	first uint64 // the log offset where they begin
}

// newSampleDir makes the directory: two snapshots with hot and cold blocks and producers, a log with packed segments and
// others, and changes behind the newest snapshot.
func newSampleDir(t *testing.T) *sampleDir {
	t.Helper()
	d := &sampleDir{disk: vfs.NewSim(), rows: map[uint64]string{}}
	d.opts = Options{FS: d.disk, Manual: true, AppendFsync: SyncAlways, BlockItems: 64, HashSeed: 1, SnapshotGrowth: -1, RetainBytes: 1 << 40, CompressLog: true}
	s := openDir(t, "data", d.opts, seedScript)
	must := filetest.Must
	restart := func() { // so that the log goes on in a new segment
		t.Helper()
		must(t, s.Close())
		s = openDir(t, "data", d.opts, "")
	}
	d.mids = fill(t, s, 300, 3)
	change := func(producer string, seq uint64) Once {
		o, _ := numbered(t, s, Once{Producer: []byte(producer), Seq: seq, Hash: 7, Make: answers}, Op{Kind: OpAdd, Mid: d.mids[1], Arg: 1}, Op{Kind: OpAdd, Mid: d.mids[1], Column: 1, Arg: 2})
		return o
	}
	for i := range 8 {
		change(fmt.Sprint("producer ", i), 1)
	}
	_, err := s.Replication().Lead()
	must(t, err)
	for i := range uint64(3) {
		restart()
		for _, mid := range d.mids[:60] {
			must(t, s.Set(fmt.Sprintf("%d.cntrn", mid), 1000*i+mid%999))
		}
		d.made = change("producer 5", 2+i)
		if i == 1 {
			must(t, s.Admin().Demote("weibo", d.mids[len(d.mids)/2]))
		}
		must(t, s.Snapshot())
	}
	if !s.packing.PackAll(nil) || s.data.Log.Stats().Packed == 0 {
		t.Fatalf("nothing is packed: %+v", s.data.Log.Stats())
	}
	for _, mid := range d.mids[:20] {
		must(t, s.Set(fmt.Sprintf("%d.cntan", mid), 77))
	}
	d.made = change("producer 5", 9)
	rows, bad := d.read(s)
	if len(bad) > 0 || len(rows) != len(d.mids) {
		t.Fatalf("%d posts of %d, %v", len(rows), len(d.mids), bad)
	}
	d.rows = rows
	must(t, s.data.Log.Sync())
	d.first = s.data.Log.Stats().First
	d.log, err = d.frames(s, d.first)
	must(t, err)
	must(t, s.Close())
	return d
}

// read reads each post. It returns the rows, and the errors of the posts that answer one.
func (d *sampleDir) read(s *Store) (rows map[uint64]string, bad []error) {
	rows = map[uint64]string{}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return nil, []error{err}
	}
	defer b.End()
	for _, mid := range d.mids {
		b.Add(Op{Kind: OpRead, Counter: b.Schema().Counter("weibo"), Mid: mid})
	}
	b.Run()
	for i, mid := range d.mids {
		if op := b.Op(i); op.Err != nil {
			bad = append(bad, op.Err)
		} else {
			rows[mid] = fmt.Sprint(b.Row(op))
		}
	}
	return rows, bad
}

// frames reads the log from an offset to its end.
func (d *sampleDir) frames(s *Store, from uint64) (raw []byte, err error) {
	r, err := s.data.Log.NewReader(from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		f, err := r.TryNext()
		if f == nil || err != nil {
			return raw, err
		}
		raw = append(raw, f.Raw...)
	}
}

// blockFiles are the files of a tier that the manifests name.
func (d *sampleDir) blockFiles(tier format.Tier) (paths []string) {
	good, _, _ := snapfile.ReadManifests(d.disk, "data")
	for _, m := range good {
		_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
			if path := b.Path("data"); b.Tier == tier && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
			return nil
		})
	}
	return paths
}

// segments are the segments of the log that are packed, or that are not.
func (d *sampleDir) segments(packed bool) (paths []string) {
	for _, path := range d.list(format.LogDir("data")) {
		b, _ := vfs.ReadFile(d.disk, path, 1<<24)
		if format.IsPackedHeader(b) == packed {
			paths = append(paths, path)
		}
	}
	return paths
}

// named are the files of the directory whose names begin so.
func (d *sampleDir) named(prefix string) []string {
	return slices.DeleteFunc(d.list("data"), func(path string) bool { return !strings.HasPrefix(filepath.Base(path), prefix) })
}

func (d *sampleDir) list(dir string) (paths []string) {
	names, _ := d.disk.List(dir)
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// TestDamagedFiles damages one file of each kind in every way of package damagetest, before the store starts, or while it is
// open and has nothing of the file in memory. The damage must be found, by an error that says so, or do no harm: each post has
// its true value or answers an error, no post is missing in silence, a numbered change is not made twice, and a reader of the
// log gets true frames or an error. That holds too after the next snapshot and a restart.
func TestDamagedFiles(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	d := newSampleDir(t)
	total := 0
	for _, kind := range fileKinds {
		t.Run(strings.ReplaceAll(kind.name, " ", "-"), func(t *testing.T) {
			paths := kind.files(d)
			if len(paths) == 0 {
				t.Fatal("the directory has no such file")
			}
			oneOf, try := 8, 1
			if !*long { // one of them, and a sixth of its damages, others each time
				paths = paths[rng.IntN(len(paths)):][:1]
				oneOf, try = 8, 6
			}
			count := map[string]int{}
			for _, path := range paths {
				whole, err := vfs.ReadFile(d.disk, path, 1<<24)
				filetest.Must(t, err)
				for what, b := range damagetest.Variants(t, whole, kind.header) {
					if rng.IntN(try) > 0 {
						continue
					}
					what = path + ": " + what
					serving, again := rng.IntN(oneOf) == 0, rng.IntN(oneOf) == 0
					disk := d.disk.Kill()
					filetest.Put(t, disk, path, b)
					count[d.checkStart(t, disk, what, again)]++
					if serving {
						count["while it serves: "+d.checkServing(t, path, b, what+", while it serves")]++
					}
				}
				disk := d.disk.Kill()
				filetest.Must(t, disk.Remove(path))
				count[d.checkStart(t, disk, path+": removed", true)]++
			}
			for _, n := range count {
				total += n
			}
			t.Logf("%d files: %v", len(paths), count)
		})
	}
	t.Logf("%d damages", total)
}

// checkStart starts a store on a damaged directory and returns what came of it. again tells it to make a snapshot and to start
// the store once more.
func (d *sampleDir) checkStart(t *testing.T, disk *vfs.Sim, what string, again bool) (outcome string) {
	t.Helper()
	opts := d.opts
	opts.FS = disk
	for run := range 2 {
		s, err := Open("data", opts)
		if err != nil {
			if !isDamage(err) {
				t.Fatalf("%s: the start fails: %v", what, err)
			}
			return "refused"
		}
		now := d.check(t, s, what)
		if run == 0 {
			outcome = now
		}
		if !again || run == 1 {
			filetest.Must(t, s.Close())
			break
		}
		if err := s.Snapshot(); err != nil && !isDamage(err) {
			t.Fatalf("%s: the snapshot fails: %v", what, err)
		}
		filetest.Must(t, s.Close())
		what += ", then a snapshot and a restart"
	}
	return outcome
}

// checkServing starts a store on a whole directory, damages one of its files in place, and returns what came of it.
func (d *sampleDir) checkServing(t *testing.T, path string, b []byte, what string) string {
	t.Helper()
	opts := d.opts
	opts.FS = d.disk.Kill()
	s, err := Open("data", opts)
	filetest.Must(t, err)
	defer s.Close()
	if _, err := opts.FS.Stat(path); err != nil {
		return "the start has replaced it"
	}
	f, err := opts.FS.OpenRW(path)
	filetest.Must(t, err)
	_, err = f.WriteAt(b, 0)
	filetest.Must(t, errors.Join(err, f.Truncate(int64(len(b))), f.Close()))
	return d.check(t, s, what)
}

// check reads all that is in a store, and repeats a numbered change. It returns what came of it.
func (d *sampleDir) check(t *testing.T, s *Store, what string) (outcome string) {
	t.Helper()
	outcome = "harmless"
	rows, bad := d.read(s)
	for _, err := range bad {
		if outcome = "errors of some posts"; !isDamage(err) {
			t.Fatalf("%s: a post answers: %v", what, err)
		}
	}
	for mid, row := range rows {
		if row != d.rows[mid] {
			t.Fatalf("%s: post %d is %s, want %s", what, mid, row, d.rows[mid])
		}
	}
	if got := len(rows) + len(bad); got != len(d.mids) {
		t.Fatalf("%s: %d posts, want %d", what, got, len(d.mids))
	}
	before := rows[d.mids[1]]
	repeat := d.made
	repeat.Repeat, repeat.Err = false, nil
	o, done := numbered(t, s, repeat, Op{Kind: OpAdd, Mid: d.mids[1], Arg: 1}, Op{Kind: OpAdd, Mid: d.mids[1], Column: 1, Arg: 2})
	switch after, _ := d.read(s); {
	case after[d.mids[1]] != before:
		t.Fatalf("%s: a numbered change was made twice: %s, then %s", what, before, after[d.mids[1]])
	case o.Err == nil && (!o.Repeat || string(o.Result.Blob) != string(d.made.Result.Blob)):
		t.Fatalf("%s: the repeat of a numbered change answers %+v, %v", what, o, done)
	case o.Err != nil:
		outcome = "a numbered change is in doubt"
	}
	first := s.data.Log.Stats().First
	if raw, err := d.frames(s, first); first < d.first || !bytes.HasPrefix(d.log[first-d.first:], raw) {
		t.Fatalf("%s: the log reads as other frames", what)
	} else if err != nil {
		if outcome = "the log cannot be read"; !isDamage(err) {
			t.Fatalf("%s: the log: %v", what, err)
		}
	}
	return outcome
}

// isDamage reports whether an error says that a file is damaged, and not that a newer program wrote it.
func isDamage(err error) bool {
	return (errors.Is(err, format.ErrCorrupt) || errors.Is(err, ErrCold) || errors.Is(err, coldstore.ErrCorrupt)) && !errors.Is(err, format.ErrUnsupportedFormat)
}

// Scenario: a directory that was built is opened, changed and opened again.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	testseed "github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

func buildSchema(t testing.TB) *schema.Schema {
	t.Helper()
	s, err := schema.ParseScript(strings.NewReader("add counter weibo\nadd column weibo comment hint=16 max=32 default=3 suffix=cntcm\n"+
		"add column weibo repost hint=16 max=64 suffix=cntrn\nadd counter other\nadd column other n hint=8 max=16\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// buildPosts are n posts with counters as real ones have them, and the same as a map.
func buildPosts(rnd *rand.Rand, n int) (Posts, map[uint64][2]uint64) {
	p := Posts{Columns: make([][]uint64, 2)}
	model := map[uint64][2]uint64{}
	mid := uint64(1 + rnd.IntN(1000))
	for range n {
		row := [2]uint64{}
		for c := range row {
			if rnd.IntN(4) == 0 {
				row[c] = rnd.Uint64() >> (33 + rnd.IntN(31))
			}
		}
		p.Mids = append(p.Mids, mid)
		p.Columns[0], p.Columns[1] = append(p.Columns[0], row[0]), append(p.Columns[1], row[1])
		model[mid] = row
		mid += 1 + uint64(rnd.ExpFloat64()*4000)
	}
	return p, model
}

// addAll adds posts in pieces of random sizes.
func addAll(b *Build, c *schema.Counter, p Posts, rnd *rand.Rand) error {
	for at, n := 0, len(p.Mids); at < n; {
		to := min(n, at+1+rnd.IntN(n/3+1))
		if err := b.Add(c, p.Slice(at, to)); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// checkBuilt compares the posts of a store with those that were built and changed since.
func checkBuilt(t testing.TB, s *Store, want map[uint64][2]uint64) {
	t.Helper()
	got := map[uint64][2]uint64{}
	err := s.Find(query.Query{Counter: s.Schema().Counters()[0], To: schema.MaxMid}, func(mid uint64, values []uint64) bool {
		got[mid] = [2]uint64(values)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%d posts, want %d as they were built", len(got), len(want))
	}
}

var buildKinds = []struct {
	name string
	opts BuildOptions
}{
	{"cold", BuildOptions{}},
	{"hot by memory", BuildOptions{HotBytes: 64 << 10}},
	{"hot by boundary", BuildOptions{HotFrom: 10_000_000}},
	{"slot groups", BuildOptions{SlotGroups: true}},
	{"slot groups, hot", BuildOptions{SlotGroups: true, HotBytes: 64 << 10}},
}

// TestBuild builds directories of random posts, opens them, changes them in all tiers and opens them again.
func TestBuild(t *testing.T) {
	for _, kind := range buildKinds {
		t.Run(kind.name, func(t *testing.T) {
			seed := testseed.Next(t)
			rnd := rand.New(rand.NewPCG(seed, 1))
			t.Logf("seed %d", seed)
			dir := filepath.Join(t.TempDir(), "data")
			sch := buildSchema(t)
			opts := kind.opts
			opts.Schema, opts.FilePosts, opts.BlockItems = sch, 64+rnd.IntN(1000), 64
			b, err := NewBuild(dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			most := 3000
			if *long {
				most = 8000
			} else if testing.Short() {
				most = 1000
			}
			posts, model := buildPosts(rnd, 1+rnd.IntN(most))
			if err := addAll(b, sch.Counters()[0], posts, rnd); err != nil {
				t.Fatal(err)
			}
			again := posts.Slice(len(posts.Mids)-1, len(posts.Mids))
			var order *BuildOrderError
			if err := b.Add(sch.Counters()[0], again); !errors.As(err, &order) {
				t.Fatalf("the last post again: %v", err)
			}
			r, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			if r.Posts != uint64(len(model)) || r.First != posts.Mids[0] || r.Last != order.Mid {
				t.Fatalf("%+v, want %d posts, %d to %d", r, len(model), posts.Mids[0], order.Mid)
			}
			if kind.opts.HotBytes == 0 && kind.opts.HotFrom == 0 && !kind.opts.SlotGroups && r.HotPosts > 63 {
				t.Fatalf("%+v, want the open block alone in memory", r)
			}
			if err := b.Abort(); err != nil { // nothing, any more
				t.Fatal(err)
			}
			checkDir(t, vfs.OS(), dir)
			store := func() *Store {
				s, err := Open(dir, Options{BlockItems: 64, Manual: true})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := store()
			if s.SlotGroups() != kind.opts.SlotGroups {
				t.Fatalf("SlotGroups() is %t", s.SlotGroups())
			}
			checkBuilt(t, s, model)
			for range 300 {
				mid := posts.Mids[rnd.IntN(len(posts.Mids))]
				switch rnd.IntN(8) {
				case 0:
					if _, err := s.do(fmt.Sprintf("%d.cntrn", mid), Op{Kind: OpDelete}); err != nil {
						t.Fatal(err)
					}
					delete(model, mid)
				case 1:
					if err := s.Admin().Demote("weibo", mid); err != nil && !errors.Is(err, ErrNoBlock) {
						t.Fatal(err)
					}
				case 2:
					if err := s.Admin().Promote("weibo", mid); err != nil && !errors.Is(err, ErrNoBlock) {
						t.Fatal(err)
					}
				case 3:
					if rnd.IntN(10) == 0 {
						if err := s.Snapshot(); err != nil {
							t.Fatal(err)
						}
					}
				default:
					mid += uint64(rnd.IntN(2)) // that, or one that is likely new
					row, ok := model[mid]
					if !ok {
						row = [2]uint64{3, 0}
					}
					if row[1]++; row[1] > 1<<62 {
						continue
					}
					if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mid), 1); err != nil {
						t.Fatal(err)
					}
					model[mid] = row
				}
			}
			checkBuilt(t, s, model)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = store()
			checkBuilt(t, s, model)
			if err := errors.Join(s.Snapshot(), s.Snapshot(), s.Close()); err != nil { // both manifests are its own
				t.Fatal(err)
			}
			checkDir(t, vfs.OS(), dir)
			s = store()
			defer s.Close()
			checkBuilt(t, s, model)
		})
	}
}

// TestBuildRefuses: what must not be built over, and what is no post.
func TestBuildRefuses(t *testing.T) {
	sch, fsys := buildSchema(t), vfs.NewSim()
	weibo := sch.Counters()[0]
	opts := BuildOptions{Schema: sch, FS: fsys, Workers: 1}
	if err := fsys.MkdirAll("/full/x"); err != nil {
		t.Fatal(err)
	}
	if _, err := NewBuild("/full", opts); err == nil {
		t.Fatal("a directory with something in it was taken")
	}
	b, err := NewBuild("/dir", opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewBuild("/dir", opts); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("two builds at a time: %v", err)
	}
	if err := b.Add(weibo, Posts{Mids: []uint64{1}, Columns: [][]uint64{{1}}}); err == nil {
		t.Fatal("a column was missing")
	}
	if err := b.Add(weibo, Posts{Mids: []uint64{2, 1}, Columns: [][]uint64{{1, 1}, {1, 1}}}); err == nil {
		t.Fatal("posts out of order")
	}
	if err := b.Add(weibo, Posts{Mids: []uint64{1 << 63}, Columns: [][]uint64{{1}, {1}}}); err == nil {
		t.Fatal("a mid that is none")
	}
	if err := b.Add(weibo, Posts{Mids: []uint64{1}, Columns: [][]uint64{{1 << 32}, {1}}}); err == nil {
		t.Fatal("a value above the column's max")
	}
	if err := b.Abort(); err != nil {
		t.Fatal(err)
	}
	if names, _ := fsys.List("/"); !slices.Equal(names, []string{"full"}) {
		t.Fatalf("left behind: %q", names)
	}
	if _, err := b.Finish(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// namingFS asks what a test says before a name is taken away or given.
type namingFS struct {
	vfs.FS
	remove, rename func(name string) error
}

func (f *namingFS) Remove(name string) error {
	if err := f.remove(name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

func (f *namingFS) Rename(from, to string) error {
	if err := f.rename(from); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

// TestBuildName: an empty directory whose name is not to be had, as a file system is mounted there, is told at once; until
// a directory has its name no other build takes what is whole for what was left.
func TestBuildName(t *testing.T) {
	none := func(string) error { return nil }
	fsys := &namingFS{vfs.NewSim(), none, none}
	opts := BuildOptions{Schema: buildSchema(t), FS: fsys, Workers: 1}
	if err := fsys.MkdirAll("/dir"); err != nil {
		t.Fatal(err)
	}
	fsys.remove = func(name string) error {
		if name == "/dir" {
			return syscall.EBUSY
		}
		return nil
	}
	if _, err := NewBuild("/dir", opts); !errors.Is(err, syscall.EBUSY) {
		t.Fatalf("a directory that keeps its name: %v", err)
	}
	fsys.remove = none
	fsys.rename = func(name string) error {
		if strings.Contains(name, "/log/") {
			return syscall.ENOSPC
		}
		return nil
	}
	if _, err := NewBuild("/dir", opts); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("no room for the log: %v", err)
	}
	if names, _ := fsys.List("/"); len(names) > 0 {
		t.Fatalf("left behind by a build that did not begin: %q", names)
	}
	fsys.rename = none
	b, err := NewBuild("/dir", opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(opts.Schema.Counters()[0], Posts{Mids: []uint64{7}, Columns: [][]uint64{{1}, {2}}}); err != nil {
		t.Fatal(err)
	}
	asked := false
	fsys.rename = func(name string) error {
		if name == "/dir.building" {
			asked = true
			if _, err := NewBuild("/dir", opts); !errors.Is(err, vfs.ErrLocked) {
				t.Errorf("another build while the first gives its name: %v", err)
			}
		}
		return nil
	}
	if _, err := b.Finish(); err != nil || !asked {
		t.Fatal(asked, err)
	}
	s, err := Open("/dir", Options{FS: fsys, Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if v, found, err := s.Get("7.cntrn"); v != 2 || !found || err != nil {
		t.Fatal(v, found, err)
	}
}

// TestCrashBuild breaks a build off at each operation of the file system: there is no directory then, or a whole one;
// what is left of it no store opens; and the next build makes it.
func TestCrashBuild(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	sch := buildSchema(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	posts, model := buildPosts(rnd, 300)
	build := func(fsys vfs.FS) error {
		b, err := NewBuild("/dir", BuildOptions{Schema: sch, FS: fsys, Workers: 1, FilePosts: 64, BlockItems: 64, HotBytes: 2000})
		if err != nil {
			return err
		}
		err = b.Add(sch.Counters()[0], posts)
		if err == nil {
			_, err = b.Finish()
		}
		return errors.Join(err, b.Abort())
	}
	opens := func(fsys vfs.FS, dir string) bool {
		if _, err := fsys.Stat(dir); err != nil {
			return false
		}
		s, err := Open(dir, Options{FS: fsys, Manual: true, BlockItems: 64})
		if err != nil {
			return false
		}
		checkBuilt(t, s, model)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return true
	}
	whole := 0
	for n := 0; ; n++ {
		s := vfs.NewSim()
		s.CrashAt(n)
		err := build(s)
		crashed := s.Crashed()
		if crashed == (err == nil) {
			t.Fatalf("operation %d: crashed %t: %v", n, crashed, err)
		}
		for _, keep := range []int{0, 60} {
			disk := s.Crash(uint64(n), keep)
			left := Leftover(disk, "/dir")
			if opens(disk, "/dir") {
				whole++
			} else if !crashed {
				t.Fatalf("%d %% kept: a power failure behind the build took it", keep)
			}
			if left != "" && slices.ContainsFunc([]string{"log", "rdb", "cold"}, func(sub string) bool {
				names, _ := disk.List(filepath.Join(left, sub))
				return slices.ContainsFunc(names, func(n string) bool { return !strings.HasSuffix(n, vfs.TempSuffix) })
			}) {
				opens(disk, left) // checks that what opens is whole
			}
			if err := build(disk); opens(disk, "/dir") != true {
				t.Fatalf("operation %d, %d %% kept: the next build: %v", n, keep, err)
			}
		}
		if !crashed {
			break
		}
	}
	if whole < 2 { // the last round at least
		t.Fatalf("%d whole directories", whole)
	}
}

// TestCrashBuildAgain breaks a build off that removes the rest of a whole one. A store that opens the rest has all posts, or it is
// a new one.
func TestCrashBuildAgain(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	sch := buildSchema(t)
	posts, model := buildPosts(rand.New(rand.NewPCG(3, 4)), 300)
	disk := vfs.NewSim()
	noName := &namingFS{disk, func(string) error { return nil }, func(name string) error {
		if name == "/dir.building" {
			return syscall.EBUSY
		}
		return nil
	}}
	opts := BuildOptions{Schema: sch, FS: noName, Workers: 1, FilePosts: 64, BlockItems: 64, HotBytes: 2000}
	b, err := NewBuild("/dir", opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(sch.Counters()[0], posts); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Finish(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	whole := 0
	for n, crashed := 0, true; crashed; n++ {
		s := disk.Kill()
		s.CrashAt(n)
		opts.FS = s
		again, err := NewBuild("/dir", opts)
		if crashed = s.Crashed(); crashed == (err == nil) {
			t.Fatalf("operation %d: %v", n, err)
		}
		if !crashed {
			s.CrashAt(-1)
			if err := errors.Join(again.Abort(), b.Abort()); err != nil {
				t.Fatal(err)
			}
			break
		}
		for draw := range uint64(4) {
			store, err := Open("/dir.building", Options{FS: s.Crash(4*uint64(n)+draw, 50), Manual: true, BlockItems: 64})
			if err != nil {
				continue
			}
			if n, err := store.Len(); n > 0 || err != nil {
				whole++
				checkBuilt(t, store, model)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if whole == 0 {
		t.Error("no store opened what was whole before")
	}
}

// checkDir fails the test where counterctl check would say that something is wrong.
func checkDir(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	good, bad, err := snapfile.ReadManifests(fsys, dir)
	if err != nil || len(bad) > 0 || len(good) == 0 {
		t.Fatal(good, bad, err)
	}
	for _, m := range good {
		if err := m.Files(func(c *format.CounterFiles, b *format.BlockFile) error { return CheckBlockFile(fsys, dir, c, b) }); err != nil {
			t.Fatal(err)
		}
	}
}

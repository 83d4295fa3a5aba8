// Scenario: every implementation does the same as a plain model, for random operations

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// modelFile and model are the durability contract in its plainest form: whole contents, whole directories.
type modelFile struct {
	live, durable string
}

type model struct {
	live, durable map[string]*modelFile
}

// pair is one open file on every implementation.
type pair struct {
	name  string
	files []File
	m     *modelFile
}

// classes are the errors that storage code tells apart.
var classes = []error{fs.ErrExist, fs.ErrNotExist, fs.ErrClosed, ErrLocked, ErrCrashed, io.EOF, io.ErrUnexpectedEOF,
	syscall.EBADF, syscall.EINVAL, syscall.EXDEV, syscall.EISDIR, syscall.ENOTDIR, syscall.ENOTEMPTY}

func class(err error) string {
	if err == nil {
		return "ok"
	}
	for _, c := range classes {
		if errors.Is(err, c) {
			return c.Error()
		}
	}
	return "other: " + err.Error()
}

// differ runs random operations on OS and Sim, compares every result, and Sim's crashes with the model.
type differ struct {
	t    *testing.T
	rng  *rand.Rand
	fss  []FS // OS, Sim
	dirs []string
	sim  *Sim
	m    model
	open []pair
	log  []string
}

// same calls f for each implementation and compares what it returns.
func (d *differ) same(what string, f func(i int) (string, error)) error {
	d.t.Helper()
	d.log = append(d.log, what)
	r0, err0 := f(0)
	r1, err1 := f(1)
	if r0 != r1 || class(err0) != class(err1) {
		d.t.Fatalf("%s: OS %.100q, %v; Sim %.100q, %v\nafter %q", what, r0, err0, r1, err1, d.log[max(0, len(d.log)-20):])
	}
	return err1
}

func (d *differ) name() string { return string('a' + rune(d.rng.IntN(5))) }

// offset prefers the sector borders.
func (d *differ) offset() int64 {
	return max(0, int64(d.rng.IntN(8))*sectorSize+int64(d.rng.IntN(5))-2)
}

func (d *differ) step() {
	name, other := d.name(), d.name()
	switch d.rng.IntN(12) {
	case 0, 1, 2:
		d.openFile(name)
	case 3:
		if err := d.same("remove "+name, func(i int) (string, error) {
			return "", d.fss[i].Remove(filepath.Join(d.dirs[i], name))
		}); err == nil {
			delete(d.m.live, name)
		}
	case 4:
		if err := d.same("rename "+name+" "+other, func(i int) (string, error) {
			return "", d.fss[i].Rename(filepath.Join(d.dirs[i], name), filepath.Join(d.dirs[i], other))
		}); err == nil && name != other {
			d.m.live[other] = d.m.live[name]
			delete(d.m.live, name)
		}
	case 5:
		_ = d.same("list", func(i int) (string, error) {
			list, err := d.fss[i].List(d.dirs[i])
			return fmt.Sprint(list), err
		})
		_ = d.same("stat "+name, func(i int) (string, error) {
			info, err := d.fss[i].Stat(filepath.Join(d.dirs[i], name))
			if err != nil {
				return "", err
			}
			return fmt.Sprint(info.Name(), info.Size(), info.IsDir()), nil
		})
	case 6:
		// The OS side is not synced: only Sim's answer depends on it.
		must(d.t, d.sim.SyncDir(d.dirs[1]))
		d.log = append(d.log, "syncdir")
		d.m.durable = maps.Clone(d.m.live)
	default:
		for range 4 {
			if len(d.open) > 0 {
				d.fileStep(d.rng.IntN(len(d.open)))
			}
		}
	}
}

func (d *differ) openFile(name string) {
	p := pair{name: name, files: make([]File, 2)}
	kind := d.rng.IntN(3)
	err := d.same(fmt.Sprint("open ", kind, " ", name), func(i int) (_ string, err error) {
		open := []func(string) (File, error){d.fss[i].Create, d.fss[i].OpenRW, d.fss[i].Open}[kind]
		p.files[i], err = open(filepath.Join(d.dirs[i], name))
		return "", err
	})
	if err != nil {
		return
	}
	if kind == 0 {
		d.m.live[name] = &modelFile{}
	}
	p.m = d.m.live[name]
	d.open = append(d.open, p)
}

func (d *differ) fileStep(n int) {
	p := d.open[n]
	off := d.offset()
	resize := func(what string, set func(f File) error, want func(live string) string) {
		if err := d.same(fmt.Sprint(what, " ", p.name, " ", off), func(i int) (string, error) { return "", set(p.files[i]) }); err == nil {
			p.m.live = want(p.m.live)
		}
	}
	grown := func(s string, size int64) string { return s + string(make([]byte, max(0, size-int64(len(s))))) }
	switch d.rng.IntN(11) {
	case 0, 1, 2, 3:
		data := make([]byte, 1+d.rng.IntN(3*sectorSize)) // the OS is not asked for an empty write
		for i := range data {
			data[i] = byte(d.rng.Uint32())
		}
		err := d.same(fmt.Sprint("write ", p.name, " ", off, " ", len(data)), func(i int) (string, error) {
			n, err := p.files[i].WriteAt(data, off)
			return fmt.Sprint(n), err
		})
		if err == nil {
			s := grown(p.m.live, off+int64(len(data)))
			p.m.live = s[:off] + string(data) + s[off+int64(len(data)):]
		}
	case 4, 5:
		buf := make([]byte, 1+d.rng.IntN(5*sectorSize))
		_ = d.same(fmt.Sprint("read ", p.name, " ", off, " ", len(buf)), func(i int) (string, error) {
			n, err := p.files[i].ReadAt(buf, off)
			return string(buf[:n]), err
		})
	case 6:
		resize("truncate", func(f File) error { return f.Truncate(off) }, func(s string) string { return grown(s, off)[:off] })
	case 7:
		resize("preallocate", func(f File) error { return f.Preallocate(off + 1) }, func(s string) string { return grown(s, off+1) })
	case 8:
		d.log = append(d.log, "sync "+p.name)
		if err := p.files[1].Sync(); err == nil {
			p.m.durable = p.m.live
		}
	case 9:
		_ = d.same("map "+p.name, func(i int) (string, error) {
			data, unmap, err := p.files[i].Map(off)
			if err != nil {
				return "", err
			}
			s := string(data)
			return s, unmap()
		})
	case 10:
		_ = d.same("close "+p.name, func(i int) (string, error) { return "", p.files[i].Close() })
		if d.rng.IntN(4) > 0 { // else use the closed file
			d.open = slices.Delete(d.open, n, n+1)
		}
	}
}

// tree reads all files of a directory.
func tree(t *testing.T, fsys FS, dir string) map[string]string {
	t.Helper()
	list, err := fsys.List(dir)
	must(t, err)
	files := map[string]string{}
	for _, name := range list {
		files[name], err = get(fsys, filepath.Join(dir, name))
		must(t, err)
	}
	return files
}

// check compares the whole of what is visible and what survives.
func (d *differ) check() {
	d.t.Helper()
	live, durable := map[string]string{}, map[string]string{}
	for name, f := range d.m.live {
		live[name] = f.live
	}
	for name, f := range d.m.durable {
		durable[name] = f.durable
	}
	seed := d.rng.Uint64()
	for what, c := range map[string]struct{ got, want map[string]string }{
		"OS":       {tree(d.t, d.fss[0], d.dirs[0]), live},
		"Sim":      {tree(d.t, d.sim, d.dirs[1]), live},
		"kill":     {tree(d.t, d.sim.Kill(), d.dirs[1]), live},
		"keep 100": {tree(d.t, d.sim.Crash(seed, 100), d.dirs[1]), live},
		"keep 0":   {tree(d.t, d.sim.Crash(seed, 0), d.dirs[1]), durable},
		"kill, 0":  {tree(d.t, d.sim.Kill().Crash(seed, 0), d.dirs[1]), durable},
	} {
		if !maps.Equal(c.got, c.want) {
			d.t.Fatalf("%s: got %d files %.300q, want %d files %.300q\nafter %q", what, len(c.got), fmt.Sprint(c.got), len(c.want), fmt.Sprint(c.want),
				d.log[max(0, len(d.log)-40):])
		}
	}
	d.checkDraws(seed)
}

// checkDraws checks that a draw repeats from its seed, also on a fork, and that its result is durable.
func (d *differ) checkDraws(seed uint64) {
	d.t.Helper()
	for _, keep := range []int{30, 70} {
		c := d.sim.Crash(seed, keep)
		got := tree(d.t, c, d.dirs[1])
		for what, again := range map[string]*Sim{"same seed": d.sim.Crash(seed, keep), "second crash": c.Crash(seed+1, 0), "fork": d.sim.Kill().Crash(seed, keep)} {
			if !maps.Equal(got, tree(d.t, again, d.dirs[1])) {
				d.t.Fatalf("seed %d keep %d, %s: different\nafter %q", seed, keep, what, d.log[max(0, len(d.log)-40):])
			}
		}
	}
}

// quiesce syncs everything. From then on no crash changes anything.
func (d *differ) quiesce() {
	d.t.Helper()
	for name := range d.m.live {
		f, err := d.sim.Open(filepath.Join(d.dirs[1], name))
		must(d.t, err)
		must(d.t, f.Sync())
		must(d.t, f.Close())
	}
	must(d.t, d.sim.SyncDir(d.dirs[1]))
	want := tree(d.t, d.sim, d.dirs[1])
	for seed := range uint64(10) {
		if !maps.Equal(tree(d.t, d.sim.Crash(seed, 10*int(seed)), d.dirs[1]), want) {
			d.t.Fatalf("synced files changed by a crash with seed %d\nafter %q", seed, d.log)
		}
	}
}

// TestDifferential: random operations give the same results on OS and Sim, and Sim's crashes keep the contract.
func TestDifferential(t *testing.T) {
	seed := testSeed(t)
	for round := range uint64(15) {
		d := &differ{t: t, rng: rand.New(rand.NewPCG(seed, round)), sim: NewSim(), dirs: []string{t.TempDir(), "/"},
			m: model{live: map[string]*modelFile{}, durable: map[string]*modelFile{}}}
		d.fss = []FS{OS(), d.sim}
		for range 20 {
			for range 15 {
				d.step()
			}
			d.check()
		}
		d.quiesce()
		for _, p := range d.open {
			_ = p.files[0].Close() // may be closed already
		}
	}
}

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWriteFileAtomic(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "MANIFEST")
		put(t, fsys, name+TempSuffix, "left by a crash")
		for _, content := range []string{"one", "", "three"} {
			must(t, WriteFileAtomic(fsys, name, []byte(content)))
			wantContent(t, fsys, name, content)
			wantList(t, fsys, dir, "MANIFEST")
		}
		wantErr(t, WriteFileAtomic(fsys, filepath.Join(dir, "x", "f"), nil), fs.ErrNotExist)
	})
}

func TestRemoveTempsAndReadFile(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		put(t, fsys, filepath.Join(dir, "a.tmp"), "")
		put(t, fsys, filepath.Join(dir, "b"), "12345")
		put(t, fsys, filepath.Join(dir, "c.tmp"), "")
		n, err := RemoveTemps(fsys, dir)
		must(t, err)
		if n != 2 {
			t.Errorf("removed %d, want 2", n)
		}
		wantList(t, fsys, dir, "b")
		_, err = RemoveTemps(fsys, filepath.Join(dir, "x"))
		wantErr(t, err, fs.ErrNotExist)

		data, err := ReadFile(fsys, filepath.Join(dir, "b"), 5)
		must(t, err)
		if string(data) != "12345" {
			t.Errorf("read %q", data)
		}
		_, err = ReadFile(fsys, filepath.Join(dir, "b"), 4)
		wantErr(t, err, ErrTooLarge)
	})
}

// crashEverywhere replaces the file d/f by write, crashes that at every operation, and draws outcomes of each crash. It
// returns the number of crash points, the outcomes, and the first that breaks the promise: the old or the new content,
// the new one for certain once write returned nil.
func crashEverywhere(t *testing.T, write func(fsys FS, name string, data []byte) error) (points int, seen map[string]int, broken string) {
	t.Helper()
	base := NewSim()
	must(t, base.MkdirAll("d"))
	must(t, base.SyncDir("/"))
	oldData, newData := fmt.Sprintf("%1000d", 1), fmt.Sprintf("%3000d", 2)
	must(t, WriteFileAtomic(base, "d/f", []byte(oldData)))
	seen = map[string]int{}
	for n := 0; ; n++ {
		s := base.Kill()
		s.CrashAt(n)
		werr := write(s, "d/f", []byte(newData))
		if crashed := s.Crashed(); crashed != errors.Is(werr, ErrCrashed) {
			t.Fatalf("crash at %d: crashed %v, error %v", n, crashed, werr)
		}
		check := func(what string, o *Sim) {
			got, err := get(o, "d/f")
			switch {
			case err == nil && got == newData:
				seen["new"]++
			case err == nil && got == oldData && werr != nil:
				seen["old"]++
			case broken == "":
				broken = fmt.Sprintf("crash at %d (%v), %s: %d bytes, %v", n, werr, what, len(got), err)
			}
			_, err = RemoveTemps(o, "d")
			must(t, err)
			wantList(t, o, "d", "f")
		}
		check("kill", s.Kill())
		for seed := range uint64(20) {
			for _, keep := range []int{0, 30, 70, 100} {
				check(fmt.Sprint("seed ", seed, " keep ", keep), s.Crash(seed, keep))
			}
		}
		if werr == nil {
			return n, seen, broken
		}
	}
}

func TestWriteFileAtomicCrash(t *testing.T) {
	points, seen, broken := crashEverywhere(t, WriteFileAtomic)
	if points != 5 || seen["old"] == 0 || seen["new"] == 0 || broken != "" {
		t.Errorf("%d crash points (want 5), outcomes %v, broken: %q", points, seen, broken)
	}
}

// TestCrashFindsPlantedBugs: the crash model finds each of the usual mistakes in replacing a file.
func TestCrashFindsPlantedBugs(t *testing.T) {
	// replace is WriteFileAtomic with steps left out.
	replace := func(sync, rename, syncDir bool) func(FS, string, []byte) error {
		return func(fsys FS, name string, data []byte) error {
			open, temp := fsys.Create, name+TempSuffix
			if !rename {
				open, temp = fsys.OpenRW, name
			}
			f, err := open(temp)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(data, 0)
			if err == nil && sync {
				err = f.Sync()
			}
			err = errors.Join(err, f.Close())
			if err == nil && rename {
				err = fsys.Rename(temp, name)
			}
			if err == nil && syncDir {
				err = fsys.SyncDir(filepath.Dir(name))
			}
			return err
		}
	}
	bugs := map[string]func(FS, string, []byte) error{
		"no sync":           replace(false, true, true),
		"no sync of dir":    replace(true, true, false),
		"in place":          replace(true, false, true),
		"sync tried again":  retrySync(replace(true, true, true)),
		"temp not complete": func(fsys FS, name string, data []byte) error { return WriteFileAtomic(fsys, name, data[:len(data)-1]) },
	}
	for bug, write := range bugs {
		if _, seen, broken := crashEverywhere(t, write); broken == "" {
			t.Errorf("%s: not found, outcomes %v", bug, seen)
		}
	}
	if _, _, broken := crashEverywhere(t, replace(true, true, true)); broken != "" {
		t.Errorf("no bug planted, found %s", broken)
	}
}

// retrySync runs write on a disk whose first sync fails, and hides that by a second sync of the same file.
func retrySync(write func(FS, string, []byte) error) func(FS, string, []byte) error {
	return func(fsys FS, name string, data []byte) error {
		f := NewFaulty(fsys)
		f.Inject(Rule{Ops: OpSync, Err: syscall.EIO})
		return write(retryingFS{f}, name, data)
	}
}

// retryingFS opens files whose Sync calls again when it fails.
type retryingFS struct{ FS }

func (r retryingFS) Create(name string) (File, error) {
	f, err := r.FS.Create(name)
	return retryingFile{f}, err
}

type retryingFile struct{ File }

func (f retryingFile) Sync() error {
	if f.File.Sync() == nil {
		return nil
	}
	return f.File.Sync()
}

// TestWriteFileAtomicErrors fails every call once. The file keeps its old content or has the new one, also after a
// crash, and the next try succeeds.
func TestWriteFileAtomicErrors(t *testing.T) {
	for _, errno := range []error{syscall.EIO, syscall.ENOSPC, syscall.EMFILE, syscall.EROFS} {
		k := 0
		for ; ; k++ {
			s := NewSim()
			must(t, WriteFileAtomic(s, "f", []byte("old")))
			f := NewFaulty(s)
			f.FailNth(k, errno)
			err := WriteFileAtomic(f, "f", []byte("new"))
			if f.Fired() == 0 {
				must(t, err)
				break
			}
			wantErr(t, err, errno)
			if got, err := get(s.Crash(1, 50), "f"); err != nil || got != "old" && got != "new" {
				t.Fatalf("after %v: %q, %v", f.Faults(), got, err)
			}
			must(t, WriteFileAtomic(f, "f", []byte("new")))
			wantContent(t, s.Crash(1, 0), "f", "new")
			wantList(t, s, ".", "f")
			if m := append(s.Misuse(), s.Leaks()...); len(m) > 0 {
				t.Fatalf("after %v: %v", f.Faults(), m)
			}
		}
		if k != 7 {
			t.Errorf("%d points of failure, want 7", k)
		}
	}
}

func TestIsNoSpace(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                                     false,
		syscall.EIO:                             false,
		syscall.ENOSPC:                          true,
		pathError("sync", "f", syscall.EDQUOT):  true,
		&IOError{Op: "write", Err: syscall.EIO}: false,
		fmt.Errorf("append: %w", &IOError{Op: "write", Err: syscall.ENOSPC}): true,
	} {
		if got := IsNoSpace(err); got != want {
			t.Errorf("IsNoSpace(%v) = %v", err, got)
		}
	}
}

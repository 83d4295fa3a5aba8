package vfs

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// everyCall makes each kind of call once, in a fixed order, and returns the kinds that gave want.
func everyCall(t *testing.T, fsys FS, want error) (failed Op) {
	t.Helper()
	note := func(kind Op, err error) {
		if errors.Is(err, want) {
			failed |= kind
		} else {
			must(t, err)
		}
	}
	note(OpMkdir, fsys.MkdirAll("d"))
	f, err := fsys.Create("d/a")
	if note(OpCreate, err); err != nil {
		return failed
	}
	_, err = f.WriteAt([]byte("0123456789"), 0)
	note(OpWrite, err)
	note(OpTruncate, f.Truncate(10))
	note(OpPreallocate, f.Preallocate(10))
	_, err = f.ReadAt(make([]byte, 10), 0)
	note(OpRead, err)
	_, err = f.Size()
	note(OpSize, err)
	_, unmap, err := f.Map(10)
	if note(OpMap, err); err == nil {
		must(t, unmap())
	}
	note(OpSync, f.Sync())
	note(OpClose, f.Close())
	for i, open := range []func(string) (File, error){fsys.Open, fsys.OpenRW} {
		kind := []Op{OpOpen, OpOpenRW}[i]
		f, err := open("d/a")
		if note(kind, err); err == nil {
			note(OpClose, f.Close())
		}
	}
	_, err = fsys.Stat("d/a")
	note(OpStat, err)
	_, err = fsys.List("d")
	note(OpList, err)
	l, err := fsys.Lock("d/a")
	if note(OpLock, err); err == nil {
		must(t, l.Close())
	}
	name := "d/b"
	err = fsys.Rename("d/a", "d/b")
	if note(OpRename, err); err != nil {
		name = "d/a"
	}
	note(OpRemove, fsys.Remove(name))
	note(OpSyncDir, fsys.SyncDir("d"))
	return failed
}

// TestFaultyEveryKind fails each kind of call with each error, by its kind and by its number.
func TestFaultyEveryKind(t *testing.T) {
	for _, errno := range []error{syscall.EIO, syscall.ENOSPC, syscall.EROFS, syscall.EMFILE, syscall.EINTR} {
		for kind := OpCreate; kind < opEnd; kind <<= 1 {
			if kind&OpAll == 0 {
				continue
			}
			s := NewSim()
			must(t, s.MkdirAll("d"))
			f := NewFaulty(s)
			f.Inject(Rule{Ops: kind, Err: errno})
			if got := everyCall(t, f, errno); got != kind || f.Fired() != 1 {
				t.Errorf("rule for %s: failed %q, fired %v", kind, got, f.Faults())
			}
			if m := append(s.Misuse(), s.Leaks()...); len(m) > 0 {
				t.Errorf("rule for %s: %v", kind, m)
			}
		}
	}
	var all Op
	k := 0
	for ; ; k++ {
		s := NewSim()
		must(t, s.MkdirAll("d"))
		f := NewFaulty(s)
		f.FailNth(k, syscall.EIO)
		failed := everyCall(t, f, syscall.EIO)
		if f.Fired() == 0 {
			break
		}
		all |= failed
	}
	if all != OpAll || k != 20 { // 18 kinds, close three times
		t.Errorf("%d points of failure, kinds %q", k, all)
	}
}

func TestRuleSelection(t *testing.T) {
	cases := []struct {
		rule Rule
		want string // the failing ones of ten creations f0 ... f9 with mkdir between
	}{
		{Rule{Ops: OpCreate, Err: syscall.EIO}, "[0]"},
		{Rule{Ops: OpCreate, Skip: 4, Err: syscall.EIO}, "[4]"},
		{Rule{Ops: OpCreate, Skip: 7, Every: 1, Err: syscall.EIO}, "[7 8 9]"},
		{Rule{Ops: OpCreate, Skip: 1, Every: 3, Err: syscall.EIO}, "[1 4 7]"},
		{Rule{Skip: 3, Every: 6, Err: syscall.EIO}, "[1 4 7]"}, // all kinds: mkdir is every second call
		{Rule{Ops: OpCreate, Glob: "f[3-5]", Every: 1, Err: syscall.EIO}, "[3 4 5]"},
		{Rule{Ops: OpCreate, Glob: "d/f[3-5]", Skip: 1, Err: syscall.EIO}, "[4]"},
		{Rule{Ops: OpCreate, Glob: "x/*", Every: 1, Err: syscall.EIO}, "[]"},
		{Rule{Ops: OpSync | OpMkdir, Glob: "f*", Every: 1, Err: syscall.EIO}, "[]"},
		{Rule{Every: 1}, "[]"},
	}
	for _, c := range cases {
		f := NewFaulty(NewSim())
		must(t, f.MkdirAll("d"))
		f.Inject(c.rule)
		failed := []int{}
		for i := range 10 {
			_ = f.MkdirAll("d")
			if _, err := f.Create(fmt.Sprint("d/f", i)); err != nil {
				wantErr(t, err, syscall.EIO)
				failed = append(failed, i)
			}
		}
		if got := fmt.Sprint(failed); got != c.want {
			t.Errorf("%+v: failed %s, want %s", c.rule, got, c.want)
		}
	}

	f := NewFaulty(NewSim())
	f.Inject(Rule{Ops: OpCreate, Every: 1, Err: syscall.EMFILE}, Rule{Ops: OpRename, Glob: "new", Err: syscall.EIO})
	_, err := f.Create("a")
	wantErr(t, err, syscall.EMFILE)
	f.Clear()
	put(t, f, "a", "")
	f.Inject(Rule{Ops: OpRename, Glob: "new", Err: syscall.EIO})
	wantErr(t, f.Rename("a", "new"), syscall.EIO)
	must(t, f.Rename("a", "new"))
	if want := []string{"create a: too many open files", "rename a: input/output error"}; !slices.Equal(f.Faults(), want) {
		t.Errorf("faults %q, want %q", f.Faults(), want)
	}

	defer func() {
		if recover() == nil {
			t.Error("a malformed pattern was taken")
		}
	}()
	f.Inject(Rule{Glob: "[", Err: syscall.EIO})
}

func TestShortWrite(t *testing.T) {
	f := NewFaulty(NewSim())
	file, err := f.Create("f")
	must(t, err)
	f.Inject(Rule{Ops: OpWrite, Short: true, Err: syscall.ENOSPC}, Rule{Ops: OpWrite, Skip: 1, Short: true})
	n, err := file.WriteAt([]byte("0123456789"), 0)
	var ioErr *IOError
	if n != 5 || !IsNoSpace(err) || !errors.As(err, &ioErr) || ioErr.Done != 5 || ioErr.Want != 10 {
		t.Errorf("wrote %d, %v", n, err)
	}
	wantContent(t, f, "f", "01234")
	n, err = file.WriteAt([]byte("abcd"), 5)
	wantErr(t, err, io.ErrShortWrite)
	must(t, file.Close())
	wantContent(t, f, "f", "01234ab")
	if n != 2 {
		t.Errorf("wrote %d, want 2", n)
	}
}

// TestDelay runs on a false clock.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFaulty(NewSim())
		f.Inject(Rule{Ops: OpMkdir, Skip: 1, Delay: time.Hour}, Rule{Ops: OpMkdir, Skip: 1, Delay: time.Minute})
		for _, want := range []time.Duration{0, time.Hour + time.Minute, 0} {
			start := time.Now()
			must(t, f.MkdirAll("d"))
			if got := time.Since(start); got != want {
				t.Errorf("took %v, want %v", got, want)
			}
		}
		if f.Fired() != 0 {
			t.Errorf("faults %v", f.Faults())
		}
	})
}

// TestFsyncgate: code that retries a failed sync is caught, through two layers; so is code that goes on appending. Code
// that writes the bytes to a new file is not.
func TestFsyncgate(t *testing.T) {
	s := NewSim()
	f := NewFaulty(NewFaulty(s))
	file, err := f.Create("f")
	must(t, err)
	must(t, f.SyncDir("/"))
	_, err = file.WriteAt([]byte("acknowledged"), 0)
	must(t, err)
	f.Inject(Rule{Ops: OpSync, Err: syscall.EIO})
	wantErr(t, file.Sync(), syscall.EIO)
	must(t, file.Sync())
	for _, keep := range []int{0, 30, 70, 100} {
		wantContent(t, s.Crash(1, keep), "f", "")
	}
	wantContent(t, s, "f", "acknowledged")
	must(t, file.Close())
	must(t, WriteFileAtomic(f, "g", []byte("acknowledged")))
	wantContent(t, s.Crash(1, 0), "g", "acknowledged")
}

// TestMapReadFault: the first touch of the mapped bytes is a fault that a reader can recover from.
func TestMapReadFault(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := dir + "/f"
		put(t, fsys, name, "0123456789")
		f := NewFaulty(fsys)
		f.Inject(Rule{Ops: OpMapRead, Skip: 1, Err: syscall.EIO})
		file, err := f.Open(name)
		must(t, err)
		defer file.Close()
		touch := func() (b byte, fault error) {
			data, unmap, err := file.Map(10)
			must(t, err)
			defer func() { must(t, unmap()) }()
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if r := recover(); r != nil {
					fault = r.(error)
				}
			}()
			return data[9], nil
		}
		for i, wantFault := range []bool{false, true, false} {
			b, fault := touch()
			if (fault != nil) != wantFault || !wantFault && b != '9' {
				t.Errorf("map %d: byte %q, fault %v", i, b, fault)
			}
		}
		if f.Fired() != 1 {
			t.Errorf("faults %v", f.Faults())
		}
	})
}

package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"
)

// Faulty wraps an FS and makes chosen calls fail, be short, be late or hang.
//
//	f := vfs.NewFaulty(sim)
//	f.Inject(vfs.Rule{Ops: vfs.OpSync, Glob: "*.aof", Skip: 2, Err: syscall.EIO}) // the third one, once
//	f.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EROFS})          // all of them, until Clear
//
// The loop over all points of failure of a run:
//
//	for k := 0; ; k++ {
//		f := vfs.NewFaulty(base.Kill())
//		f.FailNth(k, syscall.EIO)
//		run(f)
//		if f.Fired() == 0 {
//			break
//		}
//	}
//
// A Sync that is made to fail on a Sim loses the unsynced bytes as Linux does: they stay readable, and a later Sync
// returns nil without making them durable. Code that retries a failed sync on the same file is caught by the next
// Crash, whatever it keeps. On other file systems a failed Sync syncs nothing. A Close that is made to fail closes the
// file; so does Linux.
//
// Rules are asked in the order of injection. Each that matches counts the call; delays add up, and the first error
// is returned.
type Faulty struct {
	inner FS

	mu    sync.Mutex // guards the rest; not held during calls and delays
	rules []*Rule
	fired []string
	hung  int // calls that hang now
}

var _ FS = (*Faulty)(nil)

// NewFaulty returns inner with no rules.
func NewFaulty(inner FS) *Faulty { return &Faulty{inner: inner} }

// Inject adds rules. It panics if a pattern is malformed: the test would test nothing.
func (f *Faulty) Inject(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rules {
		if _, err := path.Match(r.Glob, ""); err != nil {
			panic(fmt.Sprintf("vfs: rule pattern %q: %v", r.Glob, err))
		}
		f.rules = append(f.rules, &r)
	}
}

// FailNth makes the n-th call from now, counted from 0, fail with err.
func (f *Faulty) FailNth(n int, err error) { f.Inject(Rule{Skip: n, Err: err}) }

// Clear removes all rules: the fault is repaired. Fired goes on.
func (f *Faulty) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Fired returns the number of errors given so far.
func (f *Faulty) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.fired)
}

// Hanging returns how many calls hang now.
func (f *Faulty) Hanging() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hung
}

// Faults returns the calls that were made to fail, in order, to explain a failing test.
func (f *Faulty) Faults() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.fired)
}

// fault is what the rules have for one call.
type fault struct {
	err   error
	short bool
}

// faultOf counts the call with all rules, sleeps and hangs, and returns the fault.
func (f *Faulty) faultOf(kind Op, names ...string) fault {
	var got fault
	var delay time.Duration
	var hangs []<-chan struct{}
	f.mu.Lock()
	for _, r := range f.rules {
		if !r.matches(kind, names...) || !r.due() {
			continue
		}
		delay += r.Delay
		if r.Until != nil {
			hangs = append(hangs, r.Until)
		}
		if got.err != nil {
			continue
		}
		got = fault{err: r.Err, short: r.Short && kind == OpWrite}
		if got.short && got.err == nil {
			got.err = io.ErrShortWrite
		}
	}
	if got.err != nil {
		f.fired = append(f.fired, fmt.Sprintf("%s %s: %v", kind, names[0], got.err))
	}
	f.hung += len(hangs)
	f.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	for _, until := range hangs {
		<-until
		f.mu.Lock()
		f.hung--
		f.mu.Unlock()
	}
	return got
}

// fail returns the error for a call on a name, nil if it may go on.
func (f *Faulty) fail(kind Op, names ...string) error {
	if err := f.faultOf(kind, names...).err; err != nil {
		return pathError(kind.String(), names[0], err)
	}
	return nil
}

// Create implements FS.
func (f *Faulty) Create(name string) (File, error) { return f.open(OpCreate, name, f.inner.Create) }

// Open implements FS.
func (f *Faulty) Open(name string) (File, error) { return f.open(OpOpen, name, f.inner.Open) }

// OpenRW implements FS.
func (f *Faulty) OpenRW(name string) (File, error) { return f.open(OpOpenRW, name, f.inner.OpenRW) }

func (f *Faulty) open(kind Op, name string, open func(string) (File, error)) (File, error) {
	if err := f.fail(kind, name); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, faulty: f}, nil
}

// Remove implements FS.
func (f *Faulty) Remove(name string) error {
	if err := f.fail(OpRemove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// Rename implements FS. A pattern matches it by either name.
func (f *Faulty) Rename(oldname, newname string) error {
	if err := f.fail(OpRename, oldname, newname); err != nil {
		return err
	}
	return f.inner.Rename(oldname, newname)
}

// List implements FS.
func (f *Faulty) List(dir string) ([]string, error) {
	if err := f.fail(OpList, dir); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// Stat implements FS.
func (f *Faulty) Stat(name string) (fs.FileInfo, error) {
	if err := f.fail(OpStat, name); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

// MkdirAll implements FS.
func (f *Faulty) MkdirAll(dir string) error {
	if err := f.fail(OpMkdir, dir); err != nil {
		return err
	}
	return f.inner.MkdirAll(dir)
}

// SyncDir implements FS. Made to fail it syncs nothing, and may be called again.
func (f *Faulty) SyncDir(dir string) error {
	if err := f.fail(OpSyncDir, dir); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

// Space implements FS. It does not fail.
func (f *Faulty) Space(dir string) (Space, error) { return f.inner.Space(dir) }

// Lock implements FS.
func (f *Faulty) Lock(name string) (io.Closer, error) {
	if err := f.fail(OpLock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

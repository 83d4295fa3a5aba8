// Scenario: the disk fails while files are read and written

package coldstore

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// TestTruncatedUnderMapping cuts the file short while it is mapped: the keys behind the cut get an error, those
// before it are served, and the process lives.
func TestTruncatedUnderMapping(t *testing.T) {
	r := posts(rand.New(rand.NewPCG(1, 2)), 30000, 4000)
	f := r.open(t, nil)
	last := len(r.mids) - 1
	var dst [3]uint64
	if found, err := f.Get(r.mids[last], nil, dst[:]); !found || err != nil {
		t.Fatal(found, err)
	}
	if err := os.Truncate(f.Name(), 2*4096); err != nil {
		t.Fatal(err)
	}
	if found, err := f.Get(r.mids[0], nil, dst[:]); !found || err != nil || !equal(dst[:], r.vals[0]) {
		t.Errorf("before the cut: %v %v %v", found, dst, err)
	}
	var ue *UnreadableError
	if _, err := f.Get(r.mids[last], nil, dst[:]); !errors.Is(err, ErrUnreadable) || !errors.As(err, &ue) || ue.File != f.Name() || ue.Offset < 2*4096 {
		t.Errorf("behind the cut: %v", err)
	}
	batch := []lookup{{file: f, mid: r.mids[0], vals: dst[:]}, {file: f, mid: r.mids[last], vals: make([]uint64, 3)}, {file: f, mid: r.mids[1], vals: make([]uint64, 3)}}
	getBatch(batch)
	if !batch[0].found || !batch[2].found || !errors.Is(batch[1].err, ErrUnreadable) {
		t.Errorf("batch: %+v", batch)
	}
	n := 0
	if err := f.Iterate(0, func(uint64, []uint64) bool { n++; return true }); !errors.Is(err, ErrUnreadable) || n == 0 {
		t.Errorf("Iterate after %d rows: %v", n, err)
	}
	if err := f.Verify(nil); !errors.Is(err, ErrUnreadable) && !errors.Is(err, ErrCorrupt) {
		t.Errorf("Verify: %v", err)
	}
}

// unmap takes a file's mapping away, as where too many are mapped.
func unmap(t *testing.T, f *File) {
	t.Helper()
	f.data.mu.Lock()
	defer f.data.mu.Unlock()
	if err := f.data.forget(); err != nil {
		t.Fatal(err)
	}
}

// TestMapFault has the disk fail under a mapping, and reads.
func TestMapFault(t *testing.T) {
	r := posts(rand.New(rand.NewPCG(1, 2)), 30000, 4000)
	name := filepath.Join(t.TempDir(), "block.cold")
	r.write(t, vfs.OS(), name)
	fs := vfs.NewFaulty(vfs.OS())
	fs.Inject(vfs.Rule{Ops: vfs.OpMapRead, Every: 1, Err: syscall.EIO})
	f, err := Open(fs, name, NewCache(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var dst [3]uint64
	if _, err := f.Get(r.mids[7], nil, dst[:]); !errors.Is(err, ErrUnreadable) {
		t.Errorf("Get: %v", err)
	}
	if st := f.cache.Stats(); st.Bytes != 0 {
		t.Errorf("an unread page is cached: %+v", st)
	}
	fs.Inject(vfs.Rule{Ops: vfs.OpRead, Every: 1, Err: syscall.EIO})
	if err := f.Iterate(0, func(uint64, []uint64) bool { return true }); !errors.Is(err, ErrUnreadable) || !errors.Is(err, syscall.EIO) {
		t.Errorf("Iterate: %v", err)
	}
	fs.Clear()
	unmap(t, f)
	if found, err := f.Get(r.mids[7], nil, dst[:]); !found || err != nil {
		t.Errorf("Get after the repair: %v %v", found, err)
	}
}

// TestFailEveryCall makes each call of a writer and of a reader fail in turn: an error comes back, Abort leaves
// nothing behind.
func TestFailEveryCall(t *testing.T) {
	r := posts(rand.New(rand.NewPCG(1, 2)), 1500, 4000) // one page: a read of more that fails is tried again for each
	for k := 0; ; k++ {
		sim := vfs.NewSim()
		fs := vfs.NewFaulty(sim)
		fs.FailNth(k, syscall.EIO)
		scanning := false
		err := func() error {
			w, err := Create(fs, "block.cold", r.meta)
			if err != nil {
				return err
			}
			for i, mid := range r.mids {
				if err = w.Add(mid, r.vals[i]); err != nil {
					break
				}
			}
			if err == nil {
				_, err = w.Finish()
			}
			if err != nil {
				if err := w.Abort(); err != nil {
					t.Errorf("Abort: %v", err)
				}
				if names, _ := sim.List("."); len(names) > 0 {
					t.Errorf("call %d failed, %v is left", k, names)
				}
				if err := w.Add(MaxMid, r.vals[0]); err == nil {
					t.Error("Add after Abort")
				}
				return err
			}
			f, err := Open(fs, "block.cold", nil)
			if err != nil {
				return err
			}
			scanning = fs.Fired() == 0
			err = f.Iterate(0, func(uint64, []uint64) bool { return true })
			return errors.Join(err, f.Verify(nil), f.Close())
		}()
		if m := append(sim.Misuse(), sim.Leaks()...); len(m) > 0 {
			t.Fatalf("call %d failed: %v", k, m)
		}
		if fs.Fired() == 0 {
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d calls", k)
			return
		}
		// A scan closes a file that it has only read.
		if scanned := err == nil && scanning && strings.HasPrefix(fs.Faults()[0], "close "); !scanned && !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: error %v", fs.Faults(), err)
		}
	}
}

// TestCrash crashes at every operation: a file whose Finish returned is whole afterwards (its name is synced here),
// and none that is not whole opens.
func TestCrash(t *testing.T) {
	r := posts(rand.New(rand.NewPCG(1, 2)), 3000, 4000)
	rnd := newRand(t)
	for k := 0; ; k++ {
		sim := vfs.NewSim()
		sim.CrashAt(k)
		finished := false
		if w, err := Create(sim, "block.cold", r.meta); err == nil {
			for i, mid := range r.mids {
				if w.Add(mid, r.vals[i]) != nil {
					break
				}
			}
			if _, err := w.Finish(); err == nil {
				finished = sim.SyncDir(".") == nil
			}
		}
		for range 20 {
			after := sim.Crash(rnd.Uint64(), []int{0, 30, 70, 100}[rnd.IntN(4)])
			f, err := Open(after, "block.cold", nil)
			if err != nil {
				if finished {
					t.Fatalf("crash at %d: finished file lost: %v", k, err)
				}
				continue
			}
			// Open does not read the pages: a torn file may open, but no row of it is wrong.
			if err := f.Verify(nil); err != nil && finished {
				t.Fatalf("crash at %d: %v", k, err)
			}
			var dst [3]uint64
			for i := 0; i < len(r.mids); i += 101 {
				if found, err := f.Get(r.mids[i], nil, dst[:]); err == nil && (!found || !equal(dst[:], r.vals[i])) {
					t.Fatalf("crash at %d: Get(%d) = %v %v", k, r.mids[i], found, dst)
				}
			}
			f.Close()
		}
		if !sim.Crashed() {
			return
		}
	}
}

// TestConcurrent reads in all ways from several goroutines while the file is released and at last closed: answers
// are exact or ErrClosed.
func TestConcurrent(t *testing.T) {
	r := posts(rand.New(rand.NewPCG(1, 2)), 20000, 4000)
	cache := NewCache(32 << 10) // evicts all the time
	for range 3 {
		f := r.open(t, cache)
		var wg sync.WaitGroup
		var reads atomic.Int64
		reader := func(read func(rnd *rand.Rand) error) {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(reads.Add(1)), 1))
				for {
					if err := read(rnd); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					reads.Add(1)
				}
			})
		}
		for range 2 {
			dst := make([]uint64, 3)
			reader(func(rnd *rand.Rand) error {
				i := rnd.IntN(len(r.mids))
				found, err := f.Get(r.mids[i], nil, dst)
				if err == nil && (!found || !equal(dst, r.vals[i])) {
					t.Errorf("Get(%d) = %v %v", r.mids[i], found, dst)
				}
				return err
			})
		}
		batch := make([]lookup, 20)
		for i := range batch {
			batch[i] = lookup{file: f, vals: make([]uint64, 3)}
		}
		reader(func(rnd *rand.Rand) error {
			at := make([]int, len(batch))
			for i := range batch {
				at[i] = rnd.IntN(len(r.mids))
				batch[i].mid = r.mids[at[i]]
			}
			getBatch(batch)
			for i, l := range batch {
				if l.err != nil {
					return l.err
				}
				if !l.found || !equal(l.vals, r.vals[at[i]]) {
					t.Errorf("batch: %d = %v", l.mid, l.vals)
				}
			}
			return nil
		})
		reader(func(rnd *rand.Rand) error {
			i := rnd.IntN(len(r.mids))
			return f.Iterate(r.mids[i], func(mid uint64, vals []uint64) bool {
				if mid != r.mids[i] || !equal(vals, r.vals[i]) {
					t.Errorf("row %d is %d %v", i, mid, vals)
				}
				i++
				return rnd.IntN(1000) > 0
			})
		})
		reader(func(*rand.Rand) error { return f.Verify(nil) })
		for reads.Load() < 3000 {
			if err := f.Release(); err != nil {
				t.Error(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if err := f.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
	}
}

package coldstore

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// TestMappingsBounded reads many files from several goroutines while few of them may be mapped, and closes them: each
// answer is right, none more is mapped than may be, and no descriptor is left open.
func TestMappingsBounded(t *testing.T) {
	const files, limit = 24, 5
	rnd := newRand(t)
	sim := vfs.NewSim()
	pool := &mappings{limit: limit}
	var all []*File
	var models []*rows
	for i := range files {
		r := posts(rnd, 300, 4000)
		name := strconv.Itoa(i)
		r.write(t, sim, name)
		f, err := Open(sim, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.data.pool = pool
		all, models = append(all, f), append(models, r)
	}
	var wg sync.WaitGroup
	var next atomic.Uint64
	for range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(next.Add(1), 1))
			dst := make([]uint64, 3)
			for range 2000 {
				i := rnd.IntN(files)
				k := rnd.IntN(len(models[i].mids))
				found, err := all[i].Get(models[i].mids[k], nil, dst)
				if err != nil || !found || !equal(dst, models[i].vals[k]) {
					t.Errorf("file %d, row %d: %v %v %v", i, k, found, dst, err)
					return
				}
				if rnd.IntN(50) == 0 {
					if err := all[i].Release(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := len(pool.ring); n > limit+3 { // what others read when the last one was mapped
		t.Errorf("%d files are mapped, want %d", n, limit)
	}
	for _, f := range all[:files/2] {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	for i, m := range pool.ring {
		if m.place != i || m.data == nil || m.closed {
			t.Errorf("place %d: %+v", i, m)
		}
	}
	for _, f := range all[files/2:] {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(pool.ring) > 0 {
		t.Errorf("%d closed files are mapped", len(pool.ring))
	}
	if m := append(sim.Misuse(), sim.Leaks()...); len(m) > 0 {
		t.Error(m)
	}
}

// TestMappingNeedsRoom: where the kernel gives no more mappings, others are given up for a new one.
func TestMappingNeedsRoom(t *testing.T) {
	for _, errno := range []error{syscall.ENOMEM, syscall.EMFILE} {
		fs := vfs.NewFaulty(vfs.NewSim())
		r := posts(rand.New(rand.NewPCG(1, 2)), 300, 4000)
		pool := &mappings{limit: 10}
		var files [3]*File
		dst := make([]uint64, 3)
		for i := range files {
			name := strconv.Itoa(i)
			r.write(t, fs, name)
			f, err := Open(fs, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.data.pool, files[i] = pool, f
			if i == 2 {
				fs.Inject(vfs.Rule{Ops: vfs.OpMap, Err: errno})
			}
			if found, err := f.Get(r.mids[7], nil, dst); !found || err != nil {
				t.Errorf("%v: file %d: %v %v", errno, i, found, err)
			}
		}
		if fs.Fired() != 1 || len(pool.ring) != 1 {
			t.Errorf("%v: %d failed, %d are mapped", errno, fs.Fired(), len(pool.ring))
		}
		fs.Inject(vfs.Rule{Ops: vfs.OpMap, Every: 1, Err: errno})
		if _, err := files[0].Get(r.mids[7], nil, dst); !errors.Is(err, ErrUnreadable) || !errors.Is(err, errno) {
			t.Errorf("got %v, want %v", err, errno)
		}
	}
}

// TestMappingsReleased reads files from several goroutines where the pages of all of them are taken out of the process behind
// each copy, one after the other and by unmapping, as where no kernel helps, and closes them at last. It would wait for ever
// if a reader kept its mapping locked meanwhile.
func TestMappingsReleased(t *testing.T) {
	const files = 6
	rnd := newRand(t)
	sim := vfs.NewSim()
	pool := &mappings{limit: 4}
	pool.budget.most.Store(1)
	pool.budget.beside = -1 << 50 // so much counts always
	var all []*File
	var models []*rows
	for i := range files {
		r := posts(rnd, 300, 4000)
		r.write(t, sim, strconv.Itoa(i))
		f, err := Open(sim, strconv.Itoa(i), nil)
		if err != nil {
			t.Fatal(err)
		}
		f.data.pool = pool
		all, models = append(all, f), append(models, r)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(n), 1))
				dst := make([]uint64, 3)
				for range 500 {
					i := rnd.IntN(files)
					k := rnd.IntN(len(models[i].mids))
					found, err := all[i].Get(models[i].mids[k], nil, dst)
					if err == ErrClosed && i == 0 {
						continue
					}
					if err != nil || !found || !equal(dst, models[i].vals[k]) {
						t.Errorf("file %d, row %d: %v %v %v", i, k, found, dst, err)
						return
					}
				}
				if err := all[0].Close(); err != nil && err != ErrClosed {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("readers wait for one another")
	}
	for _, f := range all[1:] {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(pool.ring) > 0 || pool.budget.releases.Load() == 0 {
		t.Errorf("%d closed files are mapped, %d releases", len(pool.ring), pool.budget.releases.Load())
	}
	if m := append(sim.Misuse(), sim.Leaks()...); len(m) > 0 {
		t.Error(m)
	}
}

// Scenario: a batch that waits for a page of a cold file holds no lock that others want.

package counter

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// hangingMaps is a file system on which mapping and reading a cold file wait until the channel that hang holds, if any, is closed.
type hangingMaps struct {
	vfs.FS
	waiting *atomic.Int64
	hang    *atomic.Pointer[chan struct{}]
}

type hangingMap struct {
	vfs.File
	fs hangingMaps
}

func (h hangingMaps) Open(name string) (vfs.File, error) {
	f, err := h.FS.Open(name)
	if err == nil && strings.HasSuffix(name, ".cold") {
		f = hangingMap{f, h}
	}
	return f, err
}

func (h hangingMaps) wait() {
	if hang := h.hang.Load(); hang != nil {
		h.waiting.Add(1)
		<-*hang
		h.waiting.Add(-1)
	}
}

func (f hangingMap) Map(size int64) ([]byte, func() error, error) {
	f.fs.wait()
	return f.File.Map(size)
}

func (f hangingMap) ReadAt(p []byte, off int64) (int, error) {
	f.fs.wait()
	return f.File.ReadAt(p, off)
}

// TestFetchLocksNothing: while a batch waits for a page of a cold file, others read and change posts of the same block, whose
// pages are in the cache or which are in its overlay; and to ask whether pages are missing does not touch the disk.
func TestFetchLocksNothing(t *testing.T) {
	fs := hangingMaps{vfs.NewSim(), new(atomic.Int64), new(atomic.Pointer[chan struct{}])}
	s := openDir(t, "data", Options{FS: fs, Manual: true, BlockItems: 8 << 10}, seedScript)
	defer s.Close()
	b := s.NewBatch()
	run := func(b *Batch, kind OpKind, mids ...uint64) {
		t.Helper()
		if err := b.Begin(); err != nil {
			t.Error(err)
			return
		}
		defer b.End()
		b.Reset()
		for _, mid := range mids {
			b.Add(Op{Kind: kind, Counter: b.Schema().Counters()[0], Column: 1, Mid: mid, Arg: 1})
		}
		b.Run()
		for i := range mids {
			if op := b.Op(i); op.Err != nil || kind == OpGet && (!op.Found || op.Value == 0) {
				t.Errorf("post %d: %v %d %v", mids[i], op.Found, op.Value, op.Err)
			}
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2)) // pages of a regular stream would hold all of it
	mids := []uint64{}
	for mid := uint64(1); len(mids) < 20<<10; mid += 1 + rnd.Uint64N(5000) {
		mids = append(mids, mid)
	}
	for i := 0; i < len(mids); i += 256 {
		run(b, OpAdd, mids[i:i+256]...)
	}
	if err := s.Admin().Demote("weibo", 0); err != nil {
		t.Fatal(err)
	}
	blk := s.data.Spaces[b.Schema().Counters()[0].ID][0].Dir.Load().Find(0)
	file := blk.Cold.File
	if file.Pages() < 3 {
		t.Fatalf("the file has %d pages only", file.Pages())
	}
	cached := file.PageStart(file.Pages() - 1)
	run(b, OpAdd, mids[1])   // to the overlay
	s.data.Cache.SetLimit(0) // forgets its page
	s.data.Cache.SetLimit(1 << 20)
	run(b, OpGet, cached)
	if err := file.Release(); err != nil { // the next read maps it again
		t.Fatal(err)
	}
	blocked := func(what string, wait func(), others func()) {
		t.Helper()
		hang := make(chan struct{})
		fs.hang.Store(&hang)
		late, served := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(late)
			wait()
		}()
		for end := time.Now().Add(3 * time.Minute); fs.waiting.Load() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody reads the file")
			}
		}
		go func() {
			defer close(served)
			others()
		}()
		select {
		case <-served:
		case <-time.After(3 * time.Minute):
			t.Errorf("posts of the same block wait for %s", what)
		}
		fs.hang.Store(nil)
		close(hang)
		<-late
		<-served
	}
	blocked("a page of others", func() { run(s.NewBatch(), OpGet, mids[2], mids[3]) }, func() {
		for _, mid := range []uint64{mids[1], cached} {
			run(b, OpGet, mid)
			run(b, OpAdd, mid)
		}
		run(b, OpGet, mids[len(mids)-1]) // of another block
		if err := b.Begin(); err != nil {
			t.Error(err)
		}
		defer b.End()
		b.Reset()
		b.Add(Op{Kind: OpGet, Counter: b.Schema().Counters()[0], Column: 1, Mid: mids[3000]})
		b.Add(Op{Kind: OpGet, Counter: b.Schema().Counters()[0], Column: 1, Mid: mids[3001]})
		if !b.Cold() {
			t.Error("a post in a file is not cold")
		}
	})
	blocked("the block's way back to memory", func() {
		if err := s.Admin().Promote("weibo", 0); err != nil {
			t.Error(err)
		}
	}, func() {
		run(b, OpGet, mids[1])
		run(b, OpAdd, mids[1])
	})
}

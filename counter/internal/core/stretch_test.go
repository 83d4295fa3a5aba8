package core

import (
	"errors"
	"strings"
	"testing"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// TestStretchBeforeFile: a batch that comes back to a cold block, where it may have to read a page, holds no other.
func TestStretchBeforeFile(t *testing.T) {
	fsys := vfs.NewSim()
	d := NewData(Config{FS: fsys, BlockItems: 16, Manual: true}, nil)
	sch, err := schema.ParseScript(strings.NewReader("add counter a\nadd column a n hint=8 max=63 suffix=n"), schema.Empty())
	if err == nil {
		err = d.SetSchema(sch)
	}
	if err == nil {
		d.Dir, err = persist.OpenDir(fsys, "data")
	}
	if err == nil {
		d.Log, _, err = persist.OpenLog(persist.LogOptions{FS: fsys, Dir: "data", Create: true, Manual: true}, 0, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Release(nil); err != nil {
			t.Error(err)
		}
	}()
	def := d.Schema.Load().Counter("a")
	const posts = 100
	b := d.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	for mid := range uint64(posts) {
		b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Arg: mid})
	}
	b.Run()
	b.Reset()

	ks := d.Spaces[def.ID][0]
	old := ks.Lock(0)
	lost := &block.Block{Lo: old.Lo, Hi: old.Hi, ID: old.ID}
	lost.Cold = &block.ColdRange{File: coldstore.Broken("lost.cold", coldstore.Meta{Lo: old.Lo, Hi: old.Hi}, 0, errors.New("lost"))}
	ks.Swap(old, old.Lo, lost).Mu.Unlock()

	for _, mid := range []uint64{0, posts - 1, 1} { // cold, hot, cold
		b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Arg: 1})
	}
	b.checkState()
	locate(b)
	var cur *block.Block
	for i := range 2 {
		cur = b.stretch.next(b.Op(i), cur)
		cur = b.apply(cur, b.Op(i))
	}
	other := cur
	if other.Cold != nil || other.Mu.TryLock() {
		t.Fatal("the post in memory has no block that is held")
	}
	if cur = b.stretch.next(b.Op(2), cur); cur.Cold == nil {
		t.Fatal("the old post is not in a file")
	}
	if !other.Mu.TryLock() {
		t.Error("a block in memory is held while a page may be read")
	} else {
		other.Mu.Unlock()
	}
	cur = b.apply(cur, b.Op(2))
	b.stretch.end(cur)
	for i := range b.Len() {
		if op := b.Op(i); op.Err != nil || !op.Done {
			t.Errorf("post %d: done %t, %v", op.Mid, op.Done, op.Err)
		}
	}
}

package block

import (
	"sync"
	"sync/atomic"
)

// ColdFiles is the register of cold files: which of them are in use, and so are no orphans, and how much memory the partial
// rows above them take. One is shared by all keyspaces of a store. Safe for concurrent use.
type ColdFiles struct {
	mu   sync.Mutex
	live map[string]bool // names of cold files in use or about to be

	PartialBytes atomic.Int64 // memory of partial rows
}

// Some tells whether there are cold files.
func (t *ColdFiles) Some() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.live) > 0
}

// Keep marks a cold file as in use. Its counterpart is drop.
func (t *ColdFiles) Keep(name string) {
	t.mu.Lock()
	if t.live == nil {
		t.live = make(map[string]bool)
	}
	t.live[name] = true
	t.mu.Unlock()
}

// Drop ends keep.
func (t *ColdFiles) Drop(name string) {
	t.mu.Lock()
	delete(t.live, name)
	t.mu.Unlock()
}

// Keeps tells whether a cold file is in use.
func (t *ColdFiles) Keeps(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[name]
}

// Retire closes the file of a block that has been replaced or removed. The next snapshot that leaves the file unnamed in
// both manifests removes it. A hot block has no file: nothing is done.
func (t *ColdFiles) Retire(b *Block) {
	if b.Cold != nil {
		t.Drop(b.Cold.Entry.Name)
		_ = b.Cold.File.Close() // read only: nothing can be lost
	}
}

// partialRowBytes is about what a partial row takes in memory beside its columns, and columnValueBytes what each of
// those does.
const (
	partialRowBytes  = 96
	columnValueBytes = 16
)

// PutPartial keeps a partial row of b and counts its memory. A nil row is forgotten. REQUIRES b.Mu held.
func (t *ColdFiles) PutPartial(b *Block, mid uint64, row PartialRow) {
	size := func(row PartialRow) int64 {
		if row == nil {
			return 0
		}
		return partialRowBytes + int64(len(row))*columnValueBytes
	}
	t.PartialBytes.Add(size(row) - size(b.Cold.Partial[mid]))
	switch {
	case row == nil:
		delete(b.Cold.Partial, mid)
	case b.Cold.Partial == nil:
		b.Cold.Partial = map[uint64]PartialRow{mid: row}
	default:
		b.Cold.Partial[mid] = row
	}
}

// CountPartial counts the memory of partial rows that were read back.
func (t *ColdFiles) CountPartial(b *Block) {
	if b.Cold == nil {
		return
	}
	rows := b.Cold.Partial
	b.Cold.Partial = nil
	for mid, row := range rows {
		t.PutPartial(b, mid, row)
	}
}

// dropPartial forgets all partial rows of a block that is no more.
func (t *ColdFiles) dropPartial(b *Block) {
	if b.Cold != nil {
		for mid := range b.Cold.Partial {
			t.PutPartial(b, mid, nil)
		}
	}
}

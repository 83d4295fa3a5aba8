package block

import (
	"testing"
	"unsafe"
)

var made = new(Block)

// TestBlockLines: the fields of a block that every operation needs are in as few cache lines as its comment says.
func TestBlockLines(t *testing.T) {
	const line = 64
	var b Block
	if size := unsafe.Sizeof(b); size%line != 0 || size > 512 { // the allocator has classes of those, without a header
		t.Errorf("a block has %d bytes, want a multiple of %d that is at most 512", size, line)
	}
	if off := unsafe.Offsetof(b.Tab); off != 0 {
		t.Errorf("the table is at %d, want 0", off)
	}
	if off := unsafe.Offsetof(b.Mu); off%line != 0 {
		t.Errorf("the lock is at %d, want the start of a line", off)
	}
	if end := unsafe.Offsetof(b.Dirty) + 1; end > unsafe.Offsetof(b.Mu)+line {
		t.Errorf("the lock's line has more than operations need: to %d, want at most %d", end, unsafe.Offsetof(b.Mu)+line)
	}
	if at := uintptr(unsafe.Pointer(made)); at%line != 0 {
		t.Errorf("a block begins at %#x, want the start of a line", at)
	}
}

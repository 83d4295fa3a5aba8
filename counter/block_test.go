package counter

import (
	"testing"
	"unsafe"
)

var made = new(block)

// TestBlockLines: what every operation needs of a block is in as few cache lines as its comment says.
func TestBlockLines(t *testing.T) {
	const line = 64
	var b block
	if size := unsafe.Sizeof(b); size%line != 0 || size > 512 { // the allocator has classes of those, without a header
		t.Errorf("a block has %d bytes, want a multiple of %d that is at most 512", size, line)
	}
	if off := unsafe.Offsetof(b.tab); off != 0 {
		t.Errorf("the table is at %d, want 0", off)
	}
	if off := unsafe.Offsetof(b.mu); off%line != 0 {
		t.Errorf("the lock is at %d, want the start of a line", off)
	}
	if end := unsafe.Offsetof(b.dirty) + 1; end > unsafe.Offsetof(b.mu)+line {
		t.Errorf("the lock's line has more than operations need: to %d, want at most %d", end, unsafe.Offsetof(b.mu)+line)
	}
	if at := uintptr(unsafe.Pointer(made)); at%line != 0 {
		t.Errorf("a block begins at %#x, want the start of a line", at)
	}
}

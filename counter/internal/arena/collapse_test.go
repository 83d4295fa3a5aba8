package arena

import (
	"slices"
	"syscall"
	"testing"
	"unsafe"
)

// pages fills a chunk with spans of a quarter of a huge page.
func pages(t *testing.T, a *Arena) []Span {
	t.Helper()
	var spans []Span
	for range chunkSize / hugePage * 4 {
		s, err := a.Alloc(hugePage/4, false)
		if err != nil {
			t.Fatal(err)
		}
		spans = append(spans, s)
	}
	if len(a.chunks) != 1 || len(a.chunks[0].free) != 0 {
		t.Fatalf("got %d chunks, want one that is full", len(a.chunks))
	}
	return spans
}

// TestCollapse frees parts of huge pages and takes them again: broken pages that are in use are put together, once, even if
// it fails for other pages, and the data stay.
func TestCollapse(t *testing.T) {
	var a Arena
	defer a.Close()
	var asked []int
	var fail error
	a.collapse = func(mem []byte) error {
		asked = append(asked, int(uintptr(unsafe.Pointer(&mem[0]))-uintptr(unsafe.Pointer(&a.chunks[0].mem[0])))/hugePage)
		if len(mem) != hugePage {
			t.Errorf("got %d bytes, want %d", len(mem), hugePage)
		}
		return fail
	}
	spans := pages(t, &a)
	collapse := func(what string, most, n int, pages ...int) {
		t.Helper()
		asked = nil
		if got := a.Collapse(most); got != n || !slices.Equal(asked, pages) {
			t.Errorf("%s: got %d huge pages, asked for %v; want %d, %v", what, got, asked, n, pages)
		}
	}
	collapse("nothing was freed", 9, 0)
	for _, i := range []int{1, 40, 80} { // of huge pages 0, 10 and 20
		a.Free(spans[i])
	}
	collapse("a quarter is free", 9, 0)
	for range 2 {
		if _, err := a.Alloc(hugePage/4, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Alloc(hugePage/4-mostFree, false); err != nil {
		t.Fatal(err)
	}
	fail = syscall.EAGAIN
	collapse("busy", 9, 0, 0, 10, 20)
	fail = nil
	collapse("one at a time", 1, 1, 0)
	collapse("the others", 9, 2, 10, 20)
	collapse("all are whole", 9, 0)

	a.Free(spans[8])
	if _, err := a.Alloc(hugePage/4, false); err != nil {
		t.Fatal(err)
	}
	fail = syscall.EINVAL
	collapse("the kernel cannot", 9, 0, 2)
	fail = nil
	collapse("and is not asked again", 9, 0)
}

// TestCollapseData uses the system call, where the system has it: used memory keeps its data, free memory is zero.
func TestCollapseData(t *testing.T) {
	var a Arena
	defer a.Close()
	spans := pages(t, &a)
	for i, s := range spans {
		for k := 0; k < len(s.Data); k += pageSize {
			s.Data[k] = byte(i + 1)
		}
	}
	a.Free(spans[5])
	again, err := a.Alloc(hugePage/4-mostFree, false)
	if err != nil {
		t.Fatal(err)
	}
	again.Data[0] = 6
	t.Logf("%d huge pages", a.Collapse(4))
	for i, s := range spans {
		for k := 0; k < len(s.Data); k += pageSize {
			want := byte(i + 1)
			if i == 5 && k > 0 {
				want = 0
			}
			if s.Data[k] != want {
				t.Fatalf("span %d: byte %d: got %d, want %d", i, k, s.Data[k], want)
			}
		}
	}
	rest, err := a.Alloc(mostFree, false)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(rest.Data, func(b byte) bool { return b != 0 }); i >= 0 {
		t.Errorf("byte %d of new memory: got %d, want 0", i, rest.Data[i])
	}
}

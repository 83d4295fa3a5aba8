package heap

import (
	"os"
	"strings"
	"testing"
	"unsafe"
)

// TestReleaseProgram: unused pages of the program's file leave the process, and come back with the same bytes.
func TestReleaseProgram(t *testing.T) {
	resident := func() (sum uint64) {
		for _, m := range ownMappings(t) {
			if m.released() {
				sum += m.resident
			}
		}
		return sum
	}
	touch := func() (sum int) {
		for _, m := range ownMappings(t) {
			if m.released() {
				for at := m.from; at < m.to; at += 4096 {
					sum += int(*(*byte)(unsafe.Add(nil, at)))
				}
			}
		}
		return sum
	}
	sum, before := touch(), resident()
	after := before
	for range 20 { // on a busy machine the runtime may use many pages again before they are counted
		releaseProgram()
		after = min(after, resident())
	}
	if before < 1<<10 || after > before*3/4 {
		t.Errorf("got %d KiB of the program's file in memory, %d before", after, before)
	}
	if again := touch(); again != sum {
		t.Errorf("got bytes whose sum is %d, %d before", again, sum)
	}
}

func ownMappings(t *testing.T) []mapping {
	t.Helper()
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return programMappings(file)
}

// TestProgramMappings: only mappings of the program's file are taken, and of them none with a page that the file does not have.
func TestProgramMappings(t *testing.T) {
	const fixed = `00400000-00e55000 r-xp 00000000 fe:00 12   /usr/bin/counterd
Rss:                9684 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00e55000-01ac9000 r--p 00a55000 fe:00 12   /usr/bin/counterd
Rss:                8976 kB
Anonymous:             4 kB
01ac9000-01b4b000 rw-p 016c9000 fe:00 12   /usr/bin/counterd
Rss:                 392 kB
Anonymous:             0 kB
01b4b000-03ba6000 rw-p 00000000 00:00 0
Rss:                 176 kB
7f7448962000-7f7448ab8000 r-xp 00028000 fe:00 13   /usr/lib/libc.so.6
Rss:                 824 kB
`
	list := programMappings(strings.NewReader(fixed))
	if len(list) != 3 {
		t.Fatalf("got %+v, want three mappings", list)
	}
	want := mapping{from: 0x400000, to: 0xe55000, resident: 9684}
	if list[0] != want || !list[0].released() {
		t.Errorf("got %+v, want %+v, which is released", list[0], want)
	}
	for _, m := range list[1:] {
		if m.released() {
			t.Errorf("%+v has pages that the file does not have, or may get some", m)
		}
	}
	const movable = "c000000000-c000800000 rw-p 00000000 00:00 0\nRss: 2636 kB\n555500400000-555500e55000 r-xp 00000000 fe:00 12 /usr/bin/counterd\n"
	if list := programMappings(strings.NewReader(movable)); len(list) != 0 {
		t.Errorf("got %+v, want none: the kernel would walk over the whole heap", list)
	}
}

package heap

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// releaseProgram takes the pages of the program's file out of the process. The kernel maps 64 KiB around each byte that is used, and a start
// uses something of each package: 19 of the 24 MiB of an empty server are such pages, and most of them are not used again. The
// others come back by one fault each, without a read of the disk.
//
// A mapping with a page of its own, a breakpoint of a debugger for instance, would lose it, and is left alone.
func releaseProgram() {
	file, err := os.Open("/proc/self/smaps")
	if err != nil { // no /proc: the pages stay
		return
	}
	defer file.Close()
	for _, m := range programMappings(file) {
		if m.released() {
			// Nothing can be done about a failure, and nothing is lost by it.
			_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(nil, m.from)), m.to-m.from), unix.MADV_DONTNEED)
		}
	}
}

// mapping is a line of /proc/self/smaps and those below it.
type mapping struct {
	from, to  uintptr
	writable  bool
	anonymous uint64 // KiB that are not the file's
	resident  uint64 // KiB
}

// released says whether the mapping's pages are the file's, all of them.
func (m mapping) released() bool { return !m.writable && m.anonymous == 0 }

// programMappings reads the mappings of the file that the first mapping is of, until one of another follows. Only the beginning is read, as the
// kernel walks over all pages of a mapping to describe it. An executable that is linked to a fixed address, as counterd is, stands first; in
// any other the first mappings are of no file.
func programMappings(smaps io.Reader) (list []mapping) {
	program := ""
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) >= 5 && strings.Contains(words[0], "-"):
			if len(words) < 6 || program != "" && words[5] != program {
				return list
			}
			program = words[5]
			from, to, _ := strings.Cut(words[0], "-")
			list = append(list, mapping{from: hex(from), to: hex(to), writable: strings.Contains(words[1], "w")})
		case len(list) > 0 && len(words) == 3 && words[0] == "Rss:":
			list[len(list)-1].resident, _ = strconv.ParseUint(words[1], 10, 64)
		case len(list) > 0 && len(words) == 3 && words[0] == "Anonymous:":
			list[len(list)-1].anonymous, _ = strconv.ParseUint(words[1], 10, 64)
		}
	}
	return list
}

func hex(text string) uintptr {
	n, _ := strconv.ParseUint(text, 16, 64)
	return uintptr(n)
}

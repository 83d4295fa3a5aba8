package jumpclock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Clock is the wall clock of a process.
type Clock struct {
	mem    string // of the process
	offset int64  // where in its memory the offset stands: a number of seconds
}

// code takes the place of clock_gettime(edi: clock, rsi: *timespec). The offset stands behind it, at byte offsetAt.
//
//	mov eax, 228          the number of clock_gettime
//	syscall
//	test edi, edi         is it CLOCK_REALTIME?
//	jnz end
//	mov rcx, [rip+6]      the offset
//	add [rsi], rcx        to the seconds
//	end: ret
var code = []byte{0xb8, 0xe4, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 0x0a, 0x48, 0x8b, 0x0d, 6, 0, 0, 0, 0x48, 0x01, 0x0e, 0xc3}

const (
	offsetAt = 24
	room     = 32 // of code and offset
	jumpSize = 5
)

// Attach puts the code into a running process. An error wraps ErrNotHere where the system does not allow it.
func Attach(pid int) (*Clock, error) {
	base, size, err := vdso(pid)
	if err != nil {
		return nil, err
	}
	c := &Clock{mem: fmt.Sprintf("/proc/%d/mem", pid)}
	image := make([]byte, size)
	if err := c.access(func(f *os.File) error { _, err := f.ReadAt(image, base); return err }); err != nil {
		return nil, fmt.Errorf("%w: the vDSO: %w", ErrNotHere, err)
	}
	entry, err := clockGettime(image)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotHere, err)
	}
	free := len(bytes.TrimRight(image, "\x00")) + room - 1
	free -= free % room
	if free+room > len(image) {
		return nil, fmt.Errorf("%w: the vDSO of %d bytes has no %d unused bytes at its end", ErrNotHere, size, room)
	}
	c.offset = base + int64(free) + offsetAt
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(int32(free-entry-jumpSize)))
	err = paused(pid, base+int64(entry), func() error {
		return c.access(func(f *os.File) error {
			if _, err := f.WriteAt(code, base+int64(free)); err != nil {
				return fmt.Errorf("%w: %w", ErrNotHere, err)
			}
			_, err := f.WriteAt(jump, base+int64(entry))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Set sets the clock: it differs by whole seconds from that of the machine.
func (c *Clock) Set(by time.Duration) error {
	word := binary.LittleEndian.AppendUint64(nil, uint64(by/time.Second))
	return c.access(func(f *os.File) error { _, err := f.WriteAt(word, c.offset); return err })
}

func (c *Clock) access(do func(f *os.File) error) error {
	f, err := os.OpenFile(c.mem, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(f)
}

// vdso is where the library stands in the memory of a process.
func vdso(pid int) (base, size int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		var end int64
		if _, err := fmt.Sscanf(line, "%x-%x", &base, &end); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", line, err)
		}
		return base, end - base, nil
	}
	return 0, 0, fmt.Errorf("%w: process %d has no vDSO", ErrNotHere, pid)
}

// clockGettime is where the function begins in the library.
func clockGettime(image []byte) (int, error) {
	lib, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := lib.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return int(s.Value), nil
		}
	}
	return 0, fmt.Errorf("the vDSO has no clock_gettime among its %d functions", len(symbols))
}

// paused stops a process at a moment at which no thread is inside of the bytes that the jump takes, and lets it go on.
func paused(pid int, entry int64, do func() error) error {
	for try := 0; ; try++ {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		busy, err := within(pid, entry)
		if err == nil && !busy {
			err = do()
		}
		if cont := syscall.Kill(pid, syscall.SIGCONT); err == nil {
			err = cont
		}
		if !busy || err != nil || try == 100 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// within waits until all threads have stopped, and tells whether one is inside of the bytes that the jump takes.
func within(pid int, entry int64) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Microsecond) {
			text, err := os.ReadFile(filepath.Join(thread, "stat"))
			if err != nil { // it has ended
				break
			}
			state := strings.TrimSpace(string(text[bytes.LastIndexByte(text, ')')+1:]))
			if state[0] == 'T' || state[0] == 't' {
				break
			}
			if time.Now().After(deadline) {
				return false, fmt.Errorf("thread %s does not stop: its state is %c", thread, state[0])
			}
		}
		text, err := os.ReadFile(filepath.Join(thread, "syscall")) // NUMBER ... SP PC
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text))
		pc, err := strconv.ParseInt(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
		if err == nil && pc > entry && pc < entry+jumpSize {
			return true, nil
		}
	}
	return false, nil
}

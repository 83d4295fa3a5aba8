package resp

import (
	"fmt"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// largeCommand is a command of 15 MiB, of 60,000 arguments.
func largeCommand() []byte {
	words := []string{"MGET"}
	for i := range 60_000 {
		words = append(words, fmt.Sprintf("%0246d.cntrn", i))
	}
	return encode(words...)
}

// readInParts has r read a command in parts of 64 KiB. look is called behind each of them.
func readInParts(t *testing.T, r *Reader, command []byte, look func()) (args [][]byte) {
	t.Helper()
	for rest := command; len(rest) > 0; look() {
		n := copy(r.Space(4<<10), rest)
		r.Filled(n)
		rest = rest[n:]
		var err error
		if args, err = r.Next(); (err == nil) != (len(rest) == 0) {
			t.Fatalf("%v with %d bytes to come", err, len(rest))
		}
	}
	return args
}

// TestAsideIsUsedAgain: a large command is read into the memory of one before. The collector, and the race detector, may take some of it from the
// pools, so it is tried more than once.
func TestAsideIsUsedAgain(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	command := largeCommand()
	least := uint64(len(command))
	for range 10 {
		r := NewReader(DefaultLimits())
		took := allocated(func() { readInParts(t, r, command, func() {}) })
		if least = min(least, took); least < uint64(len(command))/2 {
			return
		}
		if r.Shrink(); r.Held() > MaxRetained+24*maxBatchArgs {
			t.Fatalf("%d bytes held behind the command", r.Held())
		}
	}
	t.Errorf("each of ten commands of %d bytes took %d bytes of new memory or more", len(command), least)
}

// TestAsideArgsMove: the list of arguments that are set aside becomes twice as long when it is full. The loop waits while the list is moved, and
// a list that grew by a quarter was moved more than a dozen times.
func TestAsideArgsMove(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for asideArgs.Take(0) != nil { // the command begins without a list
	}
	r := NewReader(DefaultLimits())
	moves, room := 0, 0
	args := readInParts(t, r, largeCommand(), func() {
		if n := cap(r.aside.args); n != room {
			moves, room = moves+1, n
		}
	})
	if len(args) != 60_001 || room < len(args) || room > 2*len(args) || moves > 9 {
		t.Errorf("%d arguments in a list of %d, which was moved %d times, want at most 9", len(args), room, moves)
	}
}

// TestAsideIsEmptied: lists of arguments that are left to others do not keep the buffers of the command before.
func TestAsideIsEmptied(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	r := NewReader(DefaultLimits())
	args := readInParts(t, r, largeCommand(), func() {})
	list := args[:len(args):len(args)]
	r.Space(1)
	for i, a := range list {
		if a != nil {
			t.Fatalf("argument %d of %d is still in the list", i, len(list))
		}
	}
	if r.aside.args != nil || r.aside.bufs != nil || r.aside.bytes != 0 {
		t.Errorf("the reader keeps %d arguments and %d buffers", len(r.aside.args), len(r.aside.bufs))
	}
}

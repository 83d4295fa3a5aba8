// Scenario: memory, reading allocates nothing per command, and announced lengths take no memory.

package resp

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// feed gives packet to r in one read and returns the number of commands in it.
func feed(r *Reader, packet []byte) (commands int) {
	r.Filled(copy(r.Space(len(packet)), packet))
	for {
		if _, err := r.Next(); err != nil {
			return commands
		}
		commands++
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	incr := encode("INCR", "000010406136.cntrn")
	long := encode("SET", strings.Repeat("k", 150), strings.Repeat("v", 1500))
	for _, tt := range []struct {
		name     string
		packet   []byte
		commands int
	}{
		{"one", incr, 1},
		{"pipeline", bytes.Repeat(incr, 64), 64},
		{"long arguments", bytes.Repeat(long, 4), 4},
		{"inline", []byte("GET \"1 \\x41\" '2'\r\nPING\r\n\r\n"), 2},
		{"ignored", []byte("*0\r\n*-1\r\n\r\n"), 0},
		{"incomplete", nil, 0},
	} {
		r := NewReader(DefaultLimits())
		if n := testing.AllocsPerRun(100, func() {
			if got := feed(r, tt.packet); got != tt.commands {
				t.Fatalf("%s: %d commands, want %d", tt.name, got, tt.commands)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations a batch, want 0", tt.name, n)
		}
	}
}

// TestResumedAllocatesNothing cuts commands in the middle of everything.
func TestResumedAllocatesNothing(t *testing.T) {
	packet := slices.Concat(encode("INCR", "1.cntrn"), []byte("GET '1'\r\n"), encode("SET", strings.Repeat("k", 150), "1"))
	r := NewReader(DefaultLimits())
	if n := testing.AllocsPerRun(100, func() {
		commands := 0
		for i := range packet {
			commands += feed(r, packet[i:i+1])
		}
		if commands != 3 {
			t.Fatal(commands)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// allocated is the number of bytes f takes from the heap, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDeclaredLengthsTakeNothing: the largest lengths that are accepted, declared and never followed by their bytes, take
// only the memory of the header.
func TestDeclaredLengthsTakeNothing(t *testing.T) {
	huge := Limits{MaxArgs: redisMaxArgs, MaxBulk: redisMaxBulk, MaxInline: maxCommandBound, MaxCommand: maxCommandBound}
	for _, declared := range []string{
		"*2147483647\r\n",
		"*1\r\n$536870912\r\n",
		"*2147483647\r\n$536870912\r\nx",
		"*2147483647\r\n$3\r\nGET\r\n$536870912\r\n",
	} {
		const readers = 100
		got := allocated(func() {
			for range readers {
				r := NewReader(huge)
				for i := range len(declared) {
					r.Filled(copy(r.Space(1), declared[i:i+1]))
					if _, err := r.Next(); err != ErrIncomplete {
						t.Fatal(err)
					}
				}
			}
		})
		// A Reader, its first buffer and a few spans; room for the
		// testing package to do something meanwhile.
		if most := uint64(readers*(MinBuffer+1024) + 64<<10); got > most {
			t.Errorf("%q: %d bytes for %d readers, want at most %d", declared, got, readers, most)
		}
	}
}

// TestGrowth: a command of 16 MiB in 16 KiB reads makes the buffer double, so all
// allocations together are below four times what arrived.
func TestGrowth(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	words := []string{"MSET"}
	for range 15 {
		words = append(words, strings.Repeat("x", 1<<20))
	}
	packet := encode(words...)
	r := NewReader(DefaultLimits())
	feed(r, bytes.Repeat(encode("PING"), 100))
	got := allocated(func() {
		for rest := packet; len(rest) > 0; {
			n := min(16<<10, len(rest))
			r.Filled(copy(r.Space(n), rest[:n]))
			rest = rest[n:]
			args, err := r.Next()
			if (err == nil) != (len(rest) == 0) || err == nil && len(args) != len(words) {
				t.Fatal(len(args), err)
			}
		}
	})
	if most := uint64(4 * len(packet)); got > most {
		t.Errorf("%d bytes allocated for a command of %d, want at most %d", got, len(packet), most)
	}
	if most := r.limits.MaxCommand + 16<<10 + slack; len(r.buf) > most {
		t.Errorf("a buffer of %d bytes, want at most %d", len(r.buf), most)
	}
	for _, a := range r.args[len(words):cap(r.args)] {
		if a != nil {
			t.Fatal("an argument keeps an old buffer alive")
		}
	}
	if got := len(r.Space(1)); got > maxRead {
		t.Errorf("Space(1) is %d bytes, want at most %d", got, maxRead)
	}

	r.Shrink()
	if len(r.buf) != 0 || cap(r.spans) > maxBatchArgs {
		t.Errorf("Shrink left a buffer of %d bytes and %d spans", len(r.buf), cap(r.spans))
	}
	if feed(r, encode("PING")) != 1 {
		t.Error("not usable after Shrink")
	}
}

// TestArgumentsGrowAsTheyArrive: the list of arguments is the largest multiple of
// the input that a client can make the Reader take.
func TestArgumentsGrowAsTheyArrive(t *testing.T) {
	r := NewReader(DefaultLimits())
	got := allocated(func() {
		r.Filled(copy(r.Space(100), "*65536\r\n"))
		piece := []byte(strings.Repeat("$0\r\n\r\n", 1000))
		for range 60 {
			r.Filled(copy(r.Space(len(piece)), piece))
			if _, err := r.Next(); err != ErrIncomplete {
				t.Fatal(err)
			}
		}
	})
	if cap(r.args) != 0 || cap(r.spans) > 2*65536 {
		t.Errorf("%d arguments, %d spans", cap(r.args), cap(r.spans))
	}
	if got > 5<<20 {
		t.Errorf("%d bytes for 60,000 empty arguments", got)
	}
}

// TestBatchLists: the shortest commands make the longest list of arguments. It is
// gone when the reader waits for the next batch.
func TestBatchLists(t *testing.T) {
	for _, tt := range []struct {
		limits Limits
		most   int
	}{{DefaultLimits(), maxBatchArgs}, {PreAuthLimits(), maxRetainedArgs}} {
		r := NewReader(tt.limits)
		if n := feed(r, []byte(strings.Repeat("a\n", 16_000))); n != 16_000 || cap(r.args) < n {
			t.Fatalf("%d commands in a list of %d", n, cap(r.args))
		}
		r.Space(1)
		if cap(r.args) > tt.most || cap(r.spans) > tt.most {
			t.Errorf("%d arguments and %d spans are kept, want at most %d", cap(r.args), cap(r.spans), tt.most)
		}
	}
}

// TestLinear: one-byte reads look at every byte a bounded number of times. The
// work is counted, not timed: bytes passed by pos, plus examined.
func TestLinear(t *testing.T) {
	many := []string{"MSET"}
	for i := range 3000 {
		many = append(many, fmt.Sprintf("%d.cntrn", i*7919), strings.Repeat("v", i%130))
	}
	inputs := []struct {
		name  string
		input []byte
	}{
		{"many arguments", encode(many...)},
		{"large argument", encode("SET", "k", strings.Repeat("v", 1<<18))},
		{"inline", []byte("SET k '" + strings.Repeat("v", 60_000) + "'\n")},
		{"long count", []byte("*" + strings.Repeat("1", 60_000))},
		{"long length", []byte("*1\r\n$" + strings.Repeat("1", 60_000))},
		{"no marker", []byte("*1\r\n" + strings.Repeat("x", 60_000))},
		{"empty counts", []byte(strings.Repeat("*0\r\n", 10_000))},
	}
	for _, tt := range inputs {
		for _, size := range []int{1, 2, 100, 1460, 1 << 30} {
			r := NewReader(DefaultLimits())
			moved := 0
			for rest := tt.input; len(rest) > 0; {
				n := min(size, len(rest))
				before, used := r.start, r.Buffered()
				buf := r.buf
				room := r.Space(n)
				if used > 0 && (before != r.start || len(buf) != len(r.buf)) {
					moved += used
				}
				r.Filled(copy(room, rest[:n]))
				rest = rest[n:]
				for {
					if _, err := r.Next(); err != nil {
						break
					}
				}
			}
			// A failed attempt of the fast path looks at 10 bytes, and
			// there is at most one a call of Next.
			if most := int64(12 * len(tt.input)); r.examined > most {
				t.Errorf("%s in reads of %d: %d bytes examined again, want at most %d", tt.name, size, r.examined, most)
			}
			if most := 3 * len(tt.input); moved > most {
				t.Errorf("%s in reads of %d: %d bytes moved, want at most %d", tt.name, size, moved, most)
			}
		}
	}
}

// TestCompaction: a buffer that never runs empty, because every read ends within
// a command, must neither grow nor move more than the unfinished command.
func TestCompaction(t *testing.T) {
	stream := bytes.Repeat(encode("INCR", "000010406136.cntrn"), 20_000)
	r := NewReader(DefaultLimits())
	commands := 0
	for rest := stream; len(rest) > 0; {
		n := min(1000, len(rest))
		commands += feed(r, rest[:n])
		rest = rest[n:]
	}
	if commands != 20_000 || len(r.buf) != MinBuffer {
		t.Fatalf("%d commands through a buffer of %d bytes", commands, len(r.buf))
	}
	if got, want := r.base+int64(r.end), int64(len(stream)); got != want {
		t.Fatalf("at offset %d of the stream, want %d", got, want)
	}
}

func TestRelease(t *testing.T) {
	r := NewReader(DefaultLimits())
	var m Memory
	if r.Release(&m) {
		t.Fatal("a new reader had memory")
	}
	feed(r, bytes.Repeat(encode("INCR", "1.cntrn"), 40))
	if !r.Release(&m) || m.Size() != MinBuffer || r.buf != nil || r.args != nil || r.spans != nil {
		t.Fatalf("released %d bytes, kept %d, %d arguments, %d spans", m.Size(), len(r.buf), cap(r.args), cap(r.spans))
	}

	if r.Attach(&Memory{buf: make([]byte, MinBuffer-1)}) {
		t.Fatal("took a buffer that is too small")
	}
	other := NewMemory(1)
	if !r.Attach(&m) || m.Size() != 0 || r.Attach(&other) {
		t.Fatal("want the first Attach to succeed, the second to be refused")
	}
	if n := feed(r, []byte("PING\r\nPI")); n != 1 || !r.Partial() {
		t.Fatal(n, r.Partial())
	}
	if r.Release(&m) {
		t.Fatal("released memory with half a command in it")
	}
	if n := feed(r, []byte("NG\r\n")); n != 1 || r.Partial() || r.Buffered() != 0 {
		t.Fatal(n, r.Partial(), r.Buffered())
	}
	r.Release(&m)
	if _, err := r.Next(); err != ErrIncomplete {
		t.Fatal(err)
	}

	// Readers that share memory allocate nothing, whatever the size of their batches, and do not see what others received.
	two := NewReader(DefaultLimits())
	many := bytes.Repeat(encode("INCR", "1.cntrn"), 40)
	if n := testing.AllocsPerRun(100, func() {
		for _, reader := range []*Reader{r, two} {
			reader.Attach(&m)
			if n := feed(reader, many[:len(many)-7]); n != 39 {
				t.Fatal(n)
			}
			if n := feed(reader, many[len(many)-7:]); n != 1 {
				t.Fatal(n)
			}
			reader.Release(&m)
		}
	}); n != 0 {
		t.Errorf("%v allocations a wake-up, want 0", n)
	}
}

// TestShrinkPartial keeps an unfinished command across the change of buffers.
func TestShrinkPartial(t *testing.T) {
	r := NewReader(DefaultLimits())
	feed(r, encode("SET", "k", strings.Repeat("v", 1<<19)))
	half := encode("MSET", "key", "value", "another key", strings.Repeat("w", 200))
	feed(r, half[:50])
	if len(r.buf) <= MaxRetained {
		t.Fatal("the buffer did not grow")
	}
	r.Shrink()
	if len(r.buf) != MaxRetained {
		t.Fatalf("a buffer of %d bytes, want %d", len(r.buf), MaxRetained)
	}
	rest := half[50:]
	r.Filled(copy(r.Space(len(rest)), rest))
	args, err := r.Next()
	if err != nil || len(args) != 5 || string(args[3]) != "another key" || len(args[4]) != 200 {
		t.Fatalf("%q, %v", args, err)
	}

	feed(r, encode("SET", "k", strings.Repeat("v", 1<<19)))
	feed(r, encode("SET", "k", strings.Repeat("v", MaxRetained))[:MaxRetained])
	large := len(r.buf)
	if r.Shrink(); len(r.buf) != large {
		t.Fatalf("exchanged the buffer for one of %d bytes though %d are needed", len(r.buf), r.Buffered())
	}
}

// TestSizes holds the promise of Release about idle connections.
func TestSizes(t *testing.T) {
	const idle = 1000
	readers := make([]*Reader, idle)
	one := encode("INCR", "1.cntrn")
	memory := NewMemory(MinBuffer)
	got := allocated(func() {
		for i := range readers {
			readers[i] = NewReader(DefaultLimits())
			readers[i].Attach(&memory)
			feed(readers[i], one)
			readers[i].Release(&memory)
		}
	})
	if most := uint64(idle*1024 + 64<<10); got > most {
		t.Errorf("%d bytes for %d idle readers, want at most %d", got, idle, most)
	}
	runtime.KeepAlive(readers)
}

func TestFilledPanics(t *testing.T) {
	for _, n := range []int{-1, MinBuffer, math.MaxInt} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Filled(%d) was accepted", n)
				}
			}()
			r := NewReader(DefaultLimits())
			r.Space(1)
			r.Filled(n)
		}()
	}
	NewReader(DefaultLimits()).Filled(0)
}

// TestArgsAreApart: growing one argument does not reach into the next, and the
// commands of a batch do not share their lists.
func TestArgsAreApart(t *testing.T) {
	r := NewReader(DefaultLimits())
	feed(r, bytes.Repeat(encode("PING"), 100)) // one list for all that follows
	packet := slices.Concat(encode("SET", "a", "b"), []byte("GET c\r\n"), encode("SET", "d", "e"))
	r.Filled(copy(r.Space(len(packet)), packet))
	var batch [][][]byte
	for {
		args, err := r.Next()
		if err != nil {
			break
		}
		batch = append(batch, args)
	}
	for _, args := range batch {
		for _, a := range args {
			_ = append(a, "spoilt"...)
		}
		_ = append(args, []byte("spoilt"))
	}
	if got := fmt.Sprintf("%s", batch); got != "[[SET a b] [GET c] [SET d e]]" {
		t.Fatal(got)
	}
}

// TestLargeCommandIsNotMoved reads a command of 15 MiB in parts of 64 KiB: its arguments stay where they arrived. A buffer that doubled
// took 32 MiB, and the loop 5 ms for the last copy.
func TestLargeCommandIsNotMoved(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	words := []string{"MGET"}
	for i := range 60_000 {
		words = append(words, fmt.Sprintf("%0246d.cntrn", i))
	}
	command := encode(words...)
	r := NewReader(DefaultLimits())
	var got [][]byte
	took := allocated(func() {
		for rest := command; len(rest) > 0; {
			if got != nil {
				t.Fatal("complete too early")
			}
			room := r.Space(4 << 10)
			n := copy(room, rest)
			if r.Filled(n); len(room) > 64<<10 || len(r.buf) > 2*asideSize {
				t.Fatalf("a read of %d bytes, a buffer of %d", len(room), len(r.buf))
			}
			rest = rest[n:]
			args, err := r.Next()
			if got = args; (err == nil) != (len(rest) == 0) || r.Buffered() != len(command)-len(rest) && err != nil {
				t.Fatalf("%v with %d bytes to come, %d buffered", err, len(rest), r.Buffered())
			}
			if held := r.Held(); held < len(command)-len(rest) {
				t.Fatalf("%d bytes held of %d", held, len(command)-len(rest))
			}
		}
	})
	for i, arg := range got {
		if string(arg) != words[i] {
			t.Fatalf("argument %d: got %q, want %q", i, arg, words[i])
		}
	}
	if took > uint64(len(command))*3/2 {
		t.Errorf("a command of %d bytes took %d", len(command), took)
	}
	if r.Space(1); r.Held() > 2<<20 || r.Partial() {
		t.Errorf("%d bytes held behind the command", r.Held())
	}
}

// TestLargeCommandsInParts reads large and small commands behind each other, of arguments of all sizes, in parts of random sizes. A command
// that is too long is refused although its beginning was set aside.
func TestLargeCommandsInParts(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	const seed = 31
	rng := rand.New(rand.NewPCG(seed, seed))
	var commands [][]string
	var stream []byte
	for i := range 12 {
		words := []string{"MGET"}
		for size := rng.IntN(3 << 20 >> (i % 4 * 6)); size > 0; {
			n := rng.IntN(60)
			if rng.IntN(200) == 0 {
				n = rng.IntN(300 << 10)
			}
			words = append(words, strings.Repeat(string(rune('a'+n%26)), n))
			size -= n + 5
		}
		commands = append(commands, words)
		stream = append(stream, encode(words...)...)
	}
	for _, most := range []int{7000, 64 << 10} {
		r := NewReader(DefaultLimits())
		n := 0
		for rest := stream; len(rest) > 0; {
			room := r.Space(1 + rng.IntN(most))
			part := copy(room[:1+rng.IntN(len(room))], rest)
			r.Filled(part)
			rest = rest[part:]
			for {
				args, err := r.Next()
				if err != nil {
					if err != ErrIncomplete {
						t.Fatalf("seed %d: command %d: %v", seed, n, err)
					}
					break
				}
				if !slices.EqualFunc(args, commands[n], func(a []byte, b string) bool { return string(a) == b }) {
					t.Fatalf("seed %d: command %d of %d arguments: got %d others", seed, n, len(commands[n]), len(args))
				}
				n++
			}
			if r.Partial() == (len(rest) == 0) && n == len(commands) {
				t.Fatalf("seed %d: %d bytes to come, partial is %v", seed, len(rest), r.Partial())
			}
		}
		if n != len(commands) {
			t.Fatalf("seed %d: got %d commands, want %d", seed, n, len(commands))
		}
	}
	r := NewReader(Limits{MaxCommand: 1 << 20})
	stream = bytes.Repeat([]byte("$30\r\n012345678901234567890123456789\r\n"), 60_000)
	stream = append([]byte("*60000\r\n"), stream...)
	for at := 0; ; {
		n := copy(r.Space(4<<10), stream[at:])
		r.Filled(n)
		at += n
		_, err := r.Next()
		if err == ErrIncomplete && at < len(stream) {
			continue
		}
		e, ok := err.(*ProtocolError)
		if !ok || e.Limit != 1<<20 || e.Got <= e.Limit || e.Got > e.Limit+64<<10 || at > 2<<20 {
			t.Errorf("a command of %d bytes: got %v behind %d", len(stream), err, at)
		}
		if r.Buffered() < 0 || r.Partial() {
			t.Errorf("%d bytes buffered behind the error", r.Buffered())
		}
		return
	}
}

package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// read gives input to r in pieces of the sizes that next returns and collects
// copies of all commands. The arguments are compared again when the batch is
// over, since that is how long they are promised to live.
func read(t *testing.T, r *Reader, input []byte, next func() int) (commands [][]string, err error) {
	t.Helper()
	for {
		var batch [][][]byte
		var args [][]byte
		first := len(commands)
		for {
			if args, err = r.Next(); err != nil {
				break
			}
			if len(args) == 0 {
				t.Fatal("a command without a name")
			}
			batch = append(batch, args)
			commands = append(commands, copyArgs(args))
			for most := len(commands) % 4; most > 0; most-- { // 0: they are read as others are
				keys, lasts := r.Series(most)
				for i, key := range keys {
					like := [][]byte{args[0], key}
					if lasts != nil {
						like = append(like, args[2], args[3], lasts[i])
					}
					batch = append(batch, like)
					commands = append(commands, copyArgs(like))
				}
			}
		}
		for i, args := range batch {
			if got := copyArgs(args); !slices.Equal(got, commands[first+i]) {
				t.Fatalf("command changed within its batch: got %q, want %q", got, commands[first+i])
			}
		}
		if err != ErrIncomplete {
			if _, again := r.Next(); again != err {
				t.Fatalf("after %v the reader went on with %v", err, again)
			}
			return commands, err
		}
		if len(input) == 0 {
			return commands, nil
		}
		size := min(max(next(), 1), len(input))
		room := r.Space(size)
		if len(room) < size {
			t.Fatalf("Space(%d) is %d bytes", size, len(room))
		}
		for i := range min(len(room), size+64) { // overwritten bytes must not matter
			room[i] = '*'
		}
		r.Filled(copy(room, input[:size]))
		input = input[size:]
		if got, most := r.Buffered(), r.limits.MaxCommand+size; got > most {
			t.Fatalf("%d bytes buffered, want at most %d", got, most)
		}
	}
}

func copyArgs(args [][]byte) []string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	return words
}

// compare reads input in pieces and checks the outcome against the reference.
func compare(t *testing.T, input []byte, l Limits, next func() int) {
	t.Helper()
	r := NewReader(l)
	got, err := read(t, r, input, next)
	want, text := reference(string(input), r.Limits())
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("limits %+v, input %s\n got %s\nwant %s", l, short80(input), short80(got), short80(want))
	}
	gotText := ""
	if err != nil {
		gotText = err.Error()
	}
	if gotText != text {
		t.Fatalf("limits %+v, input %s\n got error %q\nwant error %q", l, short80(input), gotText, text)
	}
}

func short80(v any) string {
	s := fmt.Sprintf("%q", v)
	if len(s) > 500 {
		s = s[:300] + "..." + s[len(s)-200:]
	}
	return s
}

func inPiecesOf(n int) func() int { return func() int { return n } }

const (
	protocolError = "Protocol error: "
	many          = 70_000 // above MaxInline
)

// TestReaderTable: the replies of Redis 7.0.15 to the same bytes, except for the
// rows marked as ours.
func TestReaderTable(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	ping := [][]string{{"PING"}}
	tests := []struct {
		input string
		want  [][]string
		err   string // without "Protocol error: "
	}{
		// Arrays.
		{"", nil, ""},
		{"*1\r\n$4\r\nPING\r\n", ping, ""},
		{"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n", [][]string{{"GET", "x"}}, ""},
		{"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", [][]string{{"PING"}, {"PING"}}, ""},
		{"*2\r\n$0\r\n\r\n$0\r\n\r\n", [][]string{{"", ""}}, ""},
		{"*1\r\n$2\r\n\r\n\r\n", [][]string{{"\r\n"}}, ""},
		{"*1\r\n$3\r\n\x00\xff*\r\n", [][]string{{"\x00\xff*"}}, ""},
		{"*1\r\n$100\r\n" + strings.Repeat("y", 100) + "\r\n", [][]string{{strings.Repeat("y", 100)}}, ""},
		{"*0\r\n*1\r\n$4\r\nPING\r\n", ping, ""},
		{"*-1\r\nPING\r\n", ping, ""},
		{"*-5000000000\r\nPING\r\n", ping, ""},
		{"*-9223372036854775808\r\nPING\r\n", ping, ""},

		// Not complete.
		{"*", nil, ""},
		{"*1", nil, ""},
		{"*1\r", nil, ""},
		{"*1\r\n", nil, ""},
		{"*1\r\nx", nil, ""},
		{"*1\r\n\r", nil, ""},
		{"*1\r\n$4", nil, ""},
		{"*1\r\n$4\r\nPING", nil, ""},
		{"*1\r\n$4\r\nPING\r", nil, ""},
		{"*65536\r\n", nil, ""},
		{"PING", nil, ""},
		{"PING\r", nil, ""},

		// Counts.
		{"*a\r\n", nil, "invalid multibulk length"},
		{"*\r\n", nil, "invalid multibulk length"},
		{"*+1\r\n", nil, "invalid multibulk length"},
		{"*01\r\n", nil, "invalid multibulk length"},
		{"*1 \r\n", nil, "invalid multibulk length"},
		{"*-\r\n", nil, "invalid multibulk length"},
		{"*-0\r\n", nil, "invalid multibulk length"},
		{"*-9223372036854775809\r\n", nil, "invalid multibulk length"},
		{"*2147483648\r\n", nil, "invalid multibulk length"},
		{"*9223372036854775807\r\n", nil, "invalid multibulk length"},
		{"*9223372036854775808\r\n", nil, "invalid multibulk length"},
		{"*18446744073709551617\r\n", nil, "invalid multibulk length"},
		{"*" + strings.Repeat("1", 100) + "\r\n", nil, "invalid multibulk length"},
		{"*1\n$4\r\nPING\r\n", nil, "invalid multibulk length"},
		{"*" + strings.Repeat("1", many), nil, "too big mbulk count string"},
		{"*65537\r\n", nil, "invalid multibulk length"},          // ours: MaxArgs
		{"*1\rX$4\r\nPING\r\n", nil, "invalid multibulk length"}, // ours: CRLF or nothing
		{"*1\x00\r\n", nil, "invalid multibulk length"},          // ours: a zero byte ends nothing

		// Lengths.
		{"*1\r\n$-1\r\n", nil, "invalid bulk length"},
		{"*1\r\n$-0\r\n\r\n", nil, "invalid bulk length"},
		{"*1\r\n$\r\n", nil, "invalid bulk length"},
		{"*1\r\n$+4\r\nPING\r\n", nil, "invalid bulk length"},
		{"*1\r\n$04\r\nPING\r\n", nil, "invalid bulk length"},
		{"*1\r\n$00\r\n", nil, "invalid bulk length"},
		{"*1\r\n$ 4\r\n", nil, "invalid bulk length"},
		{"*1\r\n$4x\r\n", nil, "invalid bulk length"},
		{"*1\r\n$536870913\r\n", nil, "invalid bulk length"},
		{"*1\r\n$9223372036854775808\r\n", nil, "invalid bulk length"},
		{"*1\r\n$-9223372036854775809\r\n", nil, "invalid bulk length"},
		{"*1\r\n$18446744073709551620\r\n", nil, "invalid bulk length"},
		{"*1\r\n$" + strings.Repeat("1", 100) + "\r\n", nil, "invalid bulk length"},
		{"*1\r\n$4\nPING\r\n", nil, "invalid bulk length"},
		{"*1\r\n$" + strings.Repeat("1", many), nil, "too big bulk count string"},
		{"*1\r\n" + strings.Repeat("x", many), nil, "too big bulk count string"},
		{"*1\r\n$1048577\r\n", nil, "invalid bulk length"},               // ours: MaxBulk
		{"*1\r\n$4\rXPING\r\n", nil, "invalid bulk length"},              // ours: CRLF or nothing
		{"*1\r\n$4\r\nPINGXX", nil, "invalid bulk length"},               // ours
		{"*1\r\n$4\r\nPING\rX", nil, "invalid bulk length"},              // ours
		{"*1\r\n$3\r\nPING\r\n", nil, "invalid bulk length"},             // ours: Redis runs PIN
		{"*2\r\n$1\r\nx\r\n$5\r\nPING\r\n", nil, ""},                     // one byte short
		{"*2\r\n$1\r\nx\r\n$5\r\nPING\r\n*", nil, "invalid bulk length"}, // ours

		// Elements of an array that are no bulk strings.
		{"*1\r\n:1\r\n", nil, "expected '$', got ':'"},
		{"*1\r\n*1\r\n$4\r\nPING\r\n", nil, "expected '$', got '*'"},
		{"*2\r\n$4\r\nECHO\r\n*1\r\n$1\r\na\r\n", nil, "expected '$', got '*'"},
		{"*1\r\n%1\r\n", nil, "expected '$', got '%'"},
		{"*1\r\n_\r\n", nil, "expected '$', got '_'"},
		{"*1\r\nx\r\n", nil, "expected '$', got 'x'"},
		{"*1\r\n'\r\n", nil, "expected '$', got '''"},
		{"*1\r\n\xff\r\n", nil, "expected '$', got '\xff'"},
		{"*1\r\n\r\n", nil, "expected '$', got ' '"},
		{"*1\r\n\n\r\n", nil, "expected '$', got ' '"},
		{"*1\r\n\x00\r\n", nil, "expected '$', got '\x00'"}, // ours: Redis waits

		// Commands complete before an error are returned before it.
		{"*1\r\n$4\r\nPING\r\nPING\r\n*1\r\nx\r\n*1\r\n$4\r\nPING\r\n",
			[][]string{{"PING"}, {"PING"}}, "expected '$', got 'x'"},

		// Inline.
		{"PING\r\n", ping, ""},
		{"PING\n", ping, ""},
		{"\r\n\n\r\n  \r\n\t\nPING\n", ping, ""},
		{"  GET  x\ty \r\n", [][]string{{"GET", "x", "y"}}, ""},
		{"GET a\rb\r\n", [][]string{{"GET", "a", "b"}}, ""},
		{"$4\r\nPING\r\n", [][]string{{"$4"}, {"PING"}}, ""},
		{" *1\r\nPING\r\n", [][]string{{"*1"}, {"PING"}}, ""},
		{"ECHO \"a b\"\r\n", [][]string{{"ECHO", "a b"}}, ""},
		{"ECHO \"abc\r\n", nil, "unbalanced quotes in request"},
		{"PING\r\nECHO 'a'b\r\n", ping, "unbalanced quotes in request"},
		{strings.Repeat("x", 65536) + "\n", [][]string{{strings.Repeat("x", 65536)}}, ""},
		{strings.Repeat("x", 65536), nil, ""},
		{strings.Repeat("x", 65537), nil, "too big inline request"},
		{strings.Repeat("x", 65537) + "\n", nil, "too big inline request"}, // ours: whatever the read
		{"GET a\x00b\n", [][]string{{"GET", "a\x00b"}}, ""},                // ours: Redis waits
	}
	for _, tt := range tests {
		text := ""
		if tt.err != "" {
			text = protocolError + tt.err
		}
		for _, piece := range []int{1, 2, 3, 7, 1460, 1 << 30} {
			if len(tt.input) > 1000 && piece < 1000 { // TestLinear has these
				continue
			}
			r := NewReader(DefaultLimits())
			got, err := read(t, r, []byte(tt.input), inPiecesOf(piece))
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s in pieces of %d: got %s, want %s", short80(tt.input), piece, short80(got), short80(tt.want))
			}
			checkError(t, tt.input, err, text)
		}
		if want, refText := reference(tt.input, DefaultLimits()); !reflect.DeepEqual(want, tt.want) || refText != text {
			t.Errorf("%s: the reference says %s, %q", short80(tt.input), short80(want), refText)
		}
	}
}

func checkError(t *testing.T, input string, err error, text string) {
	t.Helper()
	var pe *ProtocolError
	switch {
	case text == "" && err != nil:
		t.Errorf("%s: got error %q, want none", short80(input), err)
	case text != "" && (!errors.As(err, &pe) || pe.Text != text):
		t.Errorf("%s: got error %v, want %q", short80(input), err, text)
	}
}

func TestReaderLimits(t *testing.T) {
	pre := PreAuthLimits()
	small := Limits{MaxArgs: 4, MaxBulk: 200, MaxInline: 64, MaxCommand: 300}
	tests := []struct {
		limits Limits
		input  string
		err    string
	}{
		{pre, "*10\r\n", ""},
		{pre, "*11\r\n", "unauthenticated multibulk length"},
		{pre, "*2147483647\r\n", "unauthenticated multibulk length"},
		{pre, "*2147483648\r\n", "invalid multibulk length"},
		{pre, "*-1\r\n", ""},
		{pre, "*1\r\n$16000\r\n", ""},
		{pre, "*1\r\n$16385\r\n", "unauthenticated bulk length"},
		{pre, "*1\r\n$16384\r\n", "unauthenticated bulk length"}, // with its headers above MaxCommand
		{pre, "*1\r\n$536870912\r\n", "unauthenticated bulk length"},
		{pre, "*1\r\n$536870913\r\n", "invalid bulk length"},
		{pre, "*1\r\n$-1\r\n", "invalid bulk length"},
		{pre, "*2\r\n$9000\r\n" + strings.Repeat("x", 9000) + "\r\n$9000\r\n", "unauthenticated bulk length"},
		{pre, strings.Repeat("x", 16385), "too big inline request"},
		{pre, "a b c d e f g h i j\n", ""},
		{pre, "a b c d e f g h i j k\n", "unauthenticated multibulk length"},
		{pre, "*" + strings.Repeat("1", 16385), "unauthenticated bulk length"},

		{small, "*4\r\n", ""},
		{small, "*5\r\n", "invalid multibulk length"},
		{small, "a b c d e\n", "invalid multibulk length"},
		{small, "a b c d 'e\n", "invalid multibulk length"},
		{small, "a b c 'd\n", "unbalanced quotes in request"},
		{small, "*1\r\n$200\r\n", ""},
		{small, "*1\r\n$201\r\n", "invalid bulk length"},
		// 4 + 6 + 200 + 2 = 212 bytes, then 5 + 81 + 2 is 300 and still fits.
		{small, "*2\r\n$200\r\n" + strings.Repeat("x", 200) + "\r\n$81\r\n", ""},
		{small, "*2\r\n$200\r\n" + strings.Repeat("x", 200) + "\r\n$82\r\n", "too big request"},
		{small, "*3\r\n$200\r\n" + strings.Repeat("x", 200) + "\r\n$81\r\n" + strings.Repeat("x", 81) + "\r\n", "too big request"},
		{small, "*2\r\n$200\r\n" + strings.Repeat("x", 200) + "\r\n" + strings.Repeat("y", 90), "too big bulk count string"},
		{small, "*3\r\n$200\r\n" + strings.Repeat("x", 200) + "\r\n$31\r\n" + strings.Repeat("x", 31) + "\r\n$" + strings.Repeat("1", 60), "too big request"},
		{small, "*1\r\n$" + strings.Repeat("1", 63) + "\r", ""},
		{small, "*1\r\n$" + strings.Repeat("1", 64) + "\r", "too big bulk count string"},
		{small, "*" + strings.Repeat("1", 63) + "\r", ""},
		{small, "*" + strings.Repeat("1", 64) + "\r", "too big mbulk count string"},
	}
	for _, tt := range tests {
		text := ""
		if tt.err != "" {
			text = protocolError + tt.err
		}
		for _, piece := range []int{1, 5, 1 << 30} {
			_, err := read(t, NewReader(tt.limits), []byte(tt.input), inPiecesOf(piece))
			checkError(t, tt.input, err, text)
			compare(t, []byte(tt.input), tt.limits, inPiecesOf(piece))
		}
	}
}

// TestHugeBulkLength: a length of 2^63-1 overflows the position behind the
// payload. redcon 1.6.2 panics on it in a goroutine of its own, which ends the
// process before any authentication.
func TestHugeBulkLength(t *testing.T) {
	const packet = "*1\r\n$9223372036854775807\r\nPING\r\n"
	for _, l := range []Limits{DefaultLimits(), PreAuthLimits(), {MaxBulk: math.MaxInt, MaxCommand: math.MaxInt}} {
		for _, piece := range []int{1, 26, 1 << 30} {
			_, err := read(t, NewReader(l), []byte(packet), inPiecesOf(piece))
			checkError(t, packet, err, "Protocol error: invalid bulk length")
		}
	}
}

// TestEndlessCommand: a command that never ends. redcon 1.6.2 keeps all of it and
// recurses once a read until its stack overflows. Each way of not ending must run
// into a limit, with no more buffered than MaxCommand and one read.
func TestEndlessCommand(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, tt := range []struct{ name, head, endless string }{
		{"arguments", "*65536\r\n", "$4000\r\n" + strings.Repeat("x", 4000) + "\r\n"},
		{"empty arguments", "*65536\r\n", "$0\r\n\r\n"},
		{"count", "*", "1"},
		{"length", "*1\r\n$", "1"},
		{"no marker", "*1\r\n", "x"},
		{"inline", "GET ", "x"},
		{"quoted inline", "GET \"", "x\r"},
		{"empty counts", "", "*0\r\n"},
		{"empty lines", "", "\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(DefaultLimits())
			const size = 8000
			piece := []byte(strings.Repeat(tt.endless, size/len(tt.endless)))
			r.Filled(copy(r.Space(size), tt.head))
			ended := false
			for total := 0; total < 40<<20 && !ended; total += len(piece) {
				args, err := r.Next()
				ended = err != ErrIncomplete
				if err == nil && len(args) != 65536 {
					t.Fatalf("a command of %d arguments", len(args))
				}
				if most := r.limits.MaxCommand + len(piece); r.Buffered() > most || len(r.buf) > most+slack {
					t.Fatalf("%d bytes buffered in %d, want at most %d", r.Buffered(), len(r.buf), most)
				}
				r.Filled(copy(r.Space(len(piece)), piece))
			}
			if endsAlone := tt.head != ""; ended != endsAlone {
				t.Fatalf("ended: %v, want %v", ended, endsAlone)
			}
			if !ended && len(r.buf) > 2*size {
				t.Fatalf("%d bytes of buffer for nothing", len(r.buf))
			}
		})
	}
}

// TestSetLimits raises the limits between two commands that arrived together, as
// AUTH does, and in the midst of one.
func TestSetLimits(t *testing.T) {
	r := NewReader(PreAuthLimits())
	packet := append(encode("AUTH", "x"), encode(strings.Split(strings.Repeat("a", 20), "")...)...)
	r.Filled(copy(r.Space(len(packet)), packet))
	auth, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	r.SetLimits(DefaultLimits())
	if args, err := r.Next(); err != nil || len(args) != 20 {
		t.Fatalf("got %d arguments, %v", len(args), err)
	}
	if got := copyArgs(auth); !slices.Equal(got, []string{"AUTH", "x"}) {
		t.Fatalf("SetLimits spoilt %q", got)
	}

	r = NewReader(DefaultLimits())
	r.Filled(copy(r.Space(100), "*20\r\n$1\r\na\r\n"))
	r.Next()
	r.SetLimits(PreAuthLimits())
	r.Filled(copy(r.Space(100), "$20000\r\n"))
	if _, err := r.Next(); err == nil || err.Error() != unauthBulk {
		t.Fatalf("got %v, want %q", err, unauthBulk)
	}
	if got := r.Limits(); got != PreAuthLimits() {
		t.Fatalf("got %+v", got)
	}
}

func TestProtocolErrorFields(t *testing.T) {
	r := NewReader(DefaultLimits())
	_, err := read(t, r, []byte("PING\r\n*2\r\n$4\r\nECHO\r\n$1048577\r\n"), inPiecesOf(4))
	var pe *ProtocolError
	if !errors.As(err, &pe) {
		t.Fatal(err)
	}
	want := ProtocolError{Text: invalidBulk, Offset: 6 + 4 + 10, Got: 1048577, Limit: 1 << 20}
	if *pe != want {
		t.Fatalf("got %+v, want %+v", *pe, want)
	}
	if r.Partial() {
		t.Fatal("a failed reader waits for the rest of a command")
	}
}

func TestLimitsValidate(t *testing.T) {
	for _, l := range []Limits{{}, DefaultLimits(), PreAuthLimits()} {
		if err := l.Validate(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	err := Limits{MaxArgs: -1, MaxBulk: math.MaxInt, MaxInline: 1, MaxCommand: math.MaxInt}.Validate()
	for _, name := range []string{"MaxArgs", "MaxBulk", "MaxInline", "MaxCommand"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not reported in %v", name, err)
		}
	}
}

// randomInput is a mixture of valid commands, near misses and noise.
func randomInput(rng *rand.Rand) []byte {
	var b bytes.Buffer
	scraps := []string{"\r\n", "\r", "\n", "*", "$", "0", "-1", "9", "12", "300", "PING", "*1\r\n", "*2\r\n", "$4\r\n",
		"$0\r\n\r\n", " ", "\"", "'", "\\", "\\x41", "a b", "\x00", "*0\r\n", "*-1\r\n", "9223372036854775807", "2147483648"}
	for range rng.IntN(12) {
		switch rng.IntN(6) {
		case 0:
			b.WriteString(scraps[rng.IntN(len(scraps))])
		case 1:
			b.WriteString("GET 'a b' \"c\\n\"\r\n")
		case 2:
			words := make([]string, 1+rng.IntN(30))
			for i := range words {
				words[i] = strings.Repeat("w", rng.IntN(1+rng.IntN(400)))
			}
			b.Write(encode(words...))
		default:
			b.Write(encode("INCR", fmt.Sprintf("%d.cntrn", rng.Uint32())))
		}
	}
	out := b.Bytes()
	if len(out) > 0 && rng.IntN(3) == 0 { // break a valid one
		out[rng.IntN(len(out))] = scraps[rng.IntN(len(scraps))][0]
	}
	return out
}

func randomLimits(rng *rand.Rand) Limits {
	l := Limits{Unauthenticated: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		l.MaxArgs = 1 + rng.IntN(25)
	}
	if rng.IntN(2) == 0 {
		l.MaxBulk = 1 + rng.IntN(500)
	}
	if rng.IntN(2) == 0 {
		l.MaxInline = minLine + rng.IntN(100)
	}
	if rng.IntN(2) == 0 {
		l.MaxCommand = minLine + rng.IntN(1000)
	}
	return l
}

func TestReaderRandom(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := random(t)
	for range 10_000 {
		most := 1 + rng.IntN(1+rng.IntN(300))
		compare(t, randomInput(rng), randomLimits(rng), func() int { return 1 + rng.IntN(most) })
	}
}

// FuzzReader: whatever the bytes, the limits and the cuts, the Reader finds the
// commands and the error that the reference finds with all bytes in hand.
func FuzzReader(f *testing.F) {
	f.Add([]byte("*2\r\n$4\r\nINCR\r\n$18\r\n000010406136.cntrn\r\nPING\r\n"), uint64(0))
	f.Add([]byte("*1\r\n$9223372036854775807\r\nPING\r\n"), uint64(1))
	f.Add([]byte("*0\r\n*-1\r\n\r\nECHO \"a\\x41\\n\" 'b\\'' c\"d e\"\n"), uint64(2))
	f.Add([]byte("*3\r\n$0\r\n\r\n$100\r\n"+strings.Repeat("x", 100)+"\r\n*1\r\n"), uint64(3))
	f.Add([]byte("*11\r\n$-1\r\n"), uint64(4))
	for seed := range uint64(8) {
		f.Add(randomInput(rand.New(rand.NewPCG(seed, 1))), seed)
	}
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := randomLimits(rng)
		compare(t, input, l, inPiecesOf(1<<30))
		most := 1 + rng.IntN(40)
		compare(t, input, l, func() int { return 1 + rng.IntN(most) })
		compare(t, input, l, inPiecesOf(1))
	})
}

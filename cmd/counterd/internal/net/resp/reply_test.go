package resp

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/tidwall/redcon"
)

// TestReplies: the forms are those of Redis 7.0.15, taken from its answers to
// HELLO, DEBUG PROTOCOL and ZSCORE in both protocols. Two it would not give: nan,
// and a push in RESP2, which is the array that SUBSCRIBE answers there.
func TestReplies(t *testing.T) {
	double := func(v float64) func([]byte, int) []byte {
		return func(dst []byte, proto int) []byte { return AppendDouble(dst, proto, v) }
	}
	verbatim := func(format string) func([]byte, int) []byte {
		return func(dst []byte, proto int) []byte { return AppendVerbatim(dst, proto, format, "a\r\nb") }
	}
	for _, tt := range []struct {
		name         string
		write        func(dst []byte, proto int) []byte
		resp2, resp3 string
	}{
		{"map", func(dst []byte, proto int) []byte { return AppendMap(dst, proto, 3) }, "*6\r\n", "%3\r\n"},
		{"empty map", func(dst []byte, proto int) []byte { return AppendMap(dst, proto, 0) }, "*0\r\n", "%0\r\n"},
		{"set", func(dst []byte, proto int) []byte { return AppendSet(dst, proto, 12) }, "*12\r\n", "~12\r\n"},
		{"push", func(dst []byte, proto int) []byte { return AppendPush(dst, proto, 3) }, "*3\r\n", ">3\r\n"},
		{"null", AppendNull, "$-1\r\n", "_\r\n"},
		{"null array", AppendNullArray, "*-1\r\n", "_\r\n"},
		{"3.141", double(3.141), "$5\r\n3.141\r\n", ",3.141\r\n"},
		{"0.1", double(0.1), "$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n"},
		{"1.5", double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"},
		{"100000", double(100000), "$6\r\n100000\r\n", ",100000\r\n"},
		{"1e16", double(1e16), "$17\r\n10000000000000000\r\n", ",10000000000000000\r\n"},
		{"1e17", double(1e17), "$5\r\n1e+17\r\n", ",1e+17\r\n"},
		{"-1e-7", double(-1e-7), "$23\r\n-9.9999999999999995e-08\r\n", ",-9.9999999999999995e-08\r\n"},
		{"0", double(0), "$1\r\n0\r\n", ",0\r\n"},
		{"-0", double(math.Copysign(0, -1)), "$2\r\n-0\r\n", ",-0\r\n"},
		{"inf", double(math.Inf(1)), "$3\r\ninf\r\n", ",inf\r\n"},
		{"-inf", double(math.Inf(-1)), "$4\r\n-inf\r\n", ",-inf\r\n"},
		{"nan", double(math.NaN()), "$3\r\nnan\r\n", ",nan\r\n"},
		{"verbatim", verbatim("txt"), "$4\r\na\r\nb\r\n", "=8\r\ntxt:a\r\nb\r\n"},
		{"verbatim, short format", verbatim("t"), "$4\r\na\r\nb\r\n", "=8\r\nt  :a\r\nb\r\n"},
		{"verbatim, long format", verbatim("text"), "$4\r\na\r\nb\r\n", "=8\r\ntex:a\r\nb\r\n"},
	} {
		for proto, want := range map[int]string{2: tt.resp2, 3: tt.resp3} {
			got := tt.write([]byte("before"), proto)
			if string(got) != "before"+want {
				t.Errorf("%s, RESP%d: got %q, want %q", tt.name, proto, got[6:], want)
			}
		}
	}
}

// TestAppendInts: numbers of all lengths have the form of redcon's, behind the bytes
// that were there, whatever room there is.
func TestAppendInts(t *testing.T) {
	var values []uint64
	for v := uint64(1); v <= math.MaxInt64/10; v *= 10 {
		values = append(values, v-1, v, v+1)
	}
	values = append(values, math.MaxInt64)
	for n := range len(values) + 1 {
		want := redcon.AppendArray([]byte("before"), n)
		for _, v := range values[:n] {
			want = redcon.AppendInt(want, int64(v))
		}
		for _, room := range []int{6, 10, len(want), 4096} {
			got := AppendInts(append(make([]byte, 0, room), "before"...), values[:n])
			if !bytes.Equal(got, want) {
				t.Errorf("%d numbers, room for %d bytes: got %q, want %q", n, room, got, want)
			}
		}
	}
}

func TestAppendError(t *testing.T) {
	for _, tt := range []struct{ msg, want string }{
		{"ERR no", "-ERR no\r\n"},
		{"ERR a\r\nb\nc\rd", "-ERR a  b c d\r\n"},
		{"\r\nERR a\r\n\n", "-ERR a\r\n"},
		{"ERR x\r\n+OK\r\n", "-ERR x  +OK\r\n"},
		{"", "-\r\n"},
		{"ERR \xff", "-ERR \xff\r\n"},
	} {
		if got := AppendError([]byte("\r\n"), tt.msg); string(got) != "\r\n"+tt.want {
			t.Errorf("%q: got %q, want %q", tt.msg, got[2:], tt.want)
		}
	}
}

// numbers are all widths, their edges, and a few at random.
func numbers(t *testing.T) []uint64 {
	vs := []uint64{0, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64}
	for p, i := uint64(1), 0; i < 20; i++ {
		vs = append(vs, p-1, p, p+1)
		p *= 10
	}
	for i := range 64 {
		vs = append(vs, 1<<i-1, 1<<i, 1<<i+1)
	}
	rng := random(t)
	for range 10_000 {
		vs = append(vs, rng.Uint64()>>rng.IntN(64))
	}
	return vs
}

func TestAppendBulkNumbers(t *testing.T) {
	for _, v := range numbers(t) {
		if got, want := AppendBulkUint([]byte("x"), v), redcon.AppendBulkString([]byte("x"), strconv.FormatUint(v, 10)); !bytes.Equal(got, want) {
			t.Fatalf("AppendBulkUint(%d): got %q, want %q", v, got, want)
		}
	}
}

// TestAppendLeavesTheRestAlone: the number is written into spare capacity, and
// nothing before it may change.
func TestAppendLeavesTheRestAlone(t *testing.T) {
	buf := bytes.Repeat([]byte{'#'}, 64)
	got := AppendBulkUint(buf[:10], 42)
	if string(got) != "##########$2\r\n42\r\n" {
		t.Fatalf("%q", got)
	}
}

func TestRepliesAllocateNothing(t *testing.T) {
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		for proto := 2; proto <= 3; proto++ {
			b := AppendMap(buf, proto, 2)
			b = AppendSet(b, proto, 2)
			b = AppendPush(b, proto, 2)
			b = AppendNull(b, proto)
			b = AppendNullArray(b, proto)
			b = AppendDouble(b, proto, 1.0/3)
			b = AppendVerbatim(b, proto, "txt", "text")
			b = AppendError(b, "ERR no\r\n")
			AppendBulkUint(b, math.MaxUint64)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func ExampleAppendMap() {
	for proto := 2; proto <= 3; proto++ {
		b := AppendMap(nil, proto, 1)
		b = redcon.AppendBulkString(b, "proto")
		b = redcon.AppendInt(b, int64(proto))
		fmt.Printf("%q\n", b)
	}
	// Output:
	// "*2\r\n$5\r\nproto\r\n:2\r\n"
	// "%1\r\n$5\r\nproto\r\n:3\r\n"
}

func ExampleReader() {
	r := NewReader(DefaultLimits())
	for _, received := range []string{"*2\r\n$4\r\nINC", "R\r\n$7\r\n1.cntrn\r\nPING\r\n"} {
		r.Filled(copy(r.Space(512), received))
		for {
			args, err := r.Next()
			if err != nil {
				fmt.Println(err)
				break
			}
			fmt.Printf("%q\n", args)
		}
	}
	// Output:
	// resp: incomplete command
	// ["INCR" "1.cntrn"]
	// ["PING"]
	// resp: incomplete command
}

package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// readers returns a Reader that gets stream whole, and a Reader that gets it byte by byte.
func readers(stream string) []*Reader {
	return []*Reader{NewReader(strings.NewReader(stream), StartSize), NewReader(iotest.OneByteReader(strings.NewReader(stream)), StartSize)}
}

func TestReadValue(t *testing.T) {
	for stream, want := range map[string]Value{
		"+OK\r\n":                           {Str: "OK"},
		":-42\r\n":                          {IsInt: true, Int: -42},
		":9223372036854775807\r\n":          {IsInt: true, Int: 1<<63 - 1},
		"$5\r\na\r\nbc\r\n":                 {Str: "a\r\nbc"},
		"$0\r\n\r\n":                        {},
		"$-1\r\n":                           {Null: true},
		"*-1\r\n":                           {Null: true},
		"_\r\n":                             {Null: true},
		"*0\r\n":                            {Array: []Value{}},
		"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n":     {Array: []Value{{IsInt: true, Int: 1}, {Array: []Value{{Str: "x"}}}}},
		"*2\r\n-ERR inside\r\n:1\r\n":       {Array: []Value{{IsErr: true, Str: "ERR inside"}, {IsInt: true, Int: 1}}},
		"%1\r\n+a\r\n:1\r\n":                {Array: []Value{{Str: "a"}, {IsInt: true, Int: 1}}},
		"=7\r\ntxt:abc\r\n":                 {Str: "abc"},
		"$70000\r\n" + long(70000) + "\r\n": {Str: long(70000)},
	} {
		for _, r := range readers(stream) {
			if got, err := r.ReadValue(); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%.40q: %v, %v, want %v", stream, got, err, want)
			}
			if _, err := r.ReadValue(); err != io.EOF {
				t.Errorf("%.40q: then %v, want %v", stream, err, io.EOF)
			}
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestText(t *testing.T) {
	v := Value{Array: []Value{{Str: "add counter a"}, {IsInt: true, Int: 5}}}
	if got := v.Text(); got != "add counter a\n5" {
		t.Errorf("%q", got)
	}
}

// TestTyped gives each of the typed methods the replies that it takes, and those that it must refuse.
func TestTyped(t *testing.T) {
	type result struct {
		text string
		err  error // nil, ErrProtocol, or a ServerError
	}
	refused, failed := result{err: ErrProtocol}, result{err: &ServerError{"ERR no"}}
	ok := func(v any) result { return result{text: fmt.Sprint(v)} }
	methods := map[string]func(*Reader) (string, error){
		"status": func(r *Reader) (string, error) { return "", r.ReadStatus() },
		"int":    func(r *Reader) (string, error) { v, err := r.ReadInt(); return fmt.Sprint(v), err },
		"number": func(r *Reader) (string, error) {
			v, found, err := r.ReadNumber()
			if !found {
				return "absent", err
			}
			return fmt.Sprint(v), err
		},
		"bulk": func(r *Reader) (string, error) {
			b, found, err := r.ReadBulk()
			if !found {
				return "absent", err
			}
			return string(b), err
		},
		"array": func(r *Reader) (string, error) {
			n, found, err := r.ReadArray()
			if !found {
				return "absent", err
			}
			return fmt.Sprint(n), err
		},
	}
	for stream, want := range map[string]map[string]result{
		"+OK\r\n":                   {"status": ok(""), "int": refused, "number": refused, "bulk": refused, "array": refused},
		":12\r\n":                   {"status": ok(""), "int": ok(12), "number": ok(12), "bulk": refused, "array": refused},
		"$2\r\n12\r\n":              {"status": refused, "int": refused, "number": ok(12), "bulk": ok(12), "array": refused},
		"$2\r\n1x\r\n":              {"int": refused, "number": refused, "bulk": ok("1x")},
		"$-1\r\n":                   {"int": refused, "number": ok("absent"), "bulk": ok("absent"), "array": ok("absent")},
		"_\r\n":                     {"int": refused, "number": ok("absent"), "bulk": ok("absent"), "array": ok("absent")},
		"*-1\r\n":                   {"int": refused, "number": refused, "bulk": refused, "array": ok("absent")},
		"*3\r\n":                    {"status": refused, "int": refused, "number": refused, "bulk": refused, "array": ok(3)},
		"-ERR no\r\n":               {"status": failed, "int": failed, "number": failed, "bulk": failed, "array": failed},
		"*1048577\r\n":              {"array": refused},
		"*-2\r\n":                   {"array": refused},
		"$16777217\r\n":             {"number": refused, "bulk": refused},
		"$99999999999999999999\r\n": {"number": refused, "bulk": refused, "array": refused},
		":99999999999999999999\r\n": {"int": refused, "number": refused},
		":\r\n":                     {"int": refused, "number": refused},
		":-\r\n":                    {"int": refused},
		"$1\r\nabc\r\n":             {"bulk": refused},
		"\r\n":                      {"status": refused},
		"\n":                        {"status": refused},
		"+OK\n":                     {"status": refused},
		"HTTP/1.1 400\r\n":          {"status": refused, "int": refused, "array": refused},
	} {
		for method, want := range want {
			for _, r := range readers(stream) {
				got, err := methods[method](r)
				var server *ServerError
				switch {
				case want.err == nil && (err != nil || got != want.text):
					t.Errorf("%s of %q: %q, %v, want %q", method, stream, got, err, want.text)
				case errors.Is(want.err, ErrProtocol) && !errors.Is(err, ErrProtocol):
					t.Errorf("%s of %q: %q, %v, want %v", method, stream, got, err, want.err)
				case errors.As(want.err, &server) && !reflect.DeepEqual(err, want.err):
					t.Errorf("%s of %q: %q, %v, want %v", method, stream, got, err, want.err)
				}
			}
		}
	}
}

func TestTorn(t *testing.T) {
	for _, stream := range []string{"+O", "$5\r\nab", "$5\r\nabcde\r", ":"} {
		for _, r := range readers(stream) {
			if _, err := r.ReadValue(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q: %v, want %v", stream, err, io.ErrUnexpectedEOF)
			}
		}
	}
}

// TestLimits checks that a reply beyond a limit is refused before memory is taken for it.
func TestLimits(t *testing.T) {
	endless := io.LimitReader(zeros{}, 100<<20)
	r := NewReader(endless, StartSize)
	if _, err := r.ReadValue(); !errors.Is(err, ErrProtocol) || len(r.buf) > 4*MaxLine {
		t.Errorf("an endless line: %v with a buffer of %d bytes", err, len(r.buf))
	}
	deep := NewReader(strings.NewReader(strings.Repeat("*1\r\n", 100000)), StartSize)
	if _, err := deep.ReadValue(); !errors.Is(err, ErrProtocol) {
		t.Errorf("deep arrays: %v", err)
	}
	wide := NewReader(strings.NewReader("*2\r\n"+strings.Repeat("*1048575\r\n", 2)), StartSize)
	if _, err := wide.ReadValue(); !errors.Is(err, ErrProtocol) {
		t.Errorf("more values than a reply may have: %v", err)
	}
	body := fmt.Sprintf("$%d\r\n%s\r\n", MaxBulk, long(MaxBulk))
	large := io.MultiReader(strings.NewReader("*5\r\n"), strings.NewReader(body), strings.NewReader(body), strings.NewReader(body),
		strings.NewReader(body), strings.NewReader("$1\r\n"))
	if _, err := NewReader(large, StartSize).ReadValue(); !errors.Is(err, ErrProtocol) {
		t.Errorf("more text than a reply may have: %v", err)
	}
	r = NewReader(strings.NewReader(strings.Repeat("*1\r\n", MaxDepth)+":7\r\n"), StartSize)
	if v, err := r.ReadValue(); err != nil || v.Text() != "7" {
		t.Errorf("the deepest arrays: %v, %v", v, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func TestAllocatesNothing(t *testing.T) {
	reply := []byte("*2\r\n:123456\r\n$6\r\n654321\r\n+OK\r\n")
	r := NewReader(&loop{data: reply}, StartSize)
	out := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(1000, func() {
		r.ReadArray()
		r.ReadInt()
		r.ReadNumber()
		if err := r.ReadStatus(); err != nil {
			t.Fatal(err)
		}
		out = AppendArray(out[:0], 3)
		out = AppendArg(out, "INCRBY")
		out = AppendKey(out, 3620000000004000, "cntrn")
		out = AppendUint(out, 7)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// loop repeats data for ever.
type loop struct {
	data []byte
	at   int
}

func (l *loop) Read(b []byte) (int, error) {
	n := copy(b, l.data[l.at:])
	l.at = (l.at + n) % len(l.data)
	return n, nil
}

func TestAppend(t *testing.T) {
	var out []byte
	out = AppendArray(out, 5)
	out = AppendArg(out, "GET")
	out = AppendKey(out, 42, "cntrn")
	out = AppendKey(out, 42, "")
	out = AppendNamed(out, "weibo:", 7)
	out = AppendBytes(out, []byte{0, '\r', '\n'})
	want := "*5\r\n$3\r\nGET\r\n$8\r\n42.cntrn\r\n$2\r\n42\r\n$7\r\nweibo:7\r\n$3\r\n\x00\r\n\r\n"
	if string(out) != want {
		t.Errorf("%q, want %q", out, want)
	}
	for v, want := uint64(1), 1; ; v, want = v*10, want+1 {
		if digits(v) != want || digits(v-1) != max(want-1, 1) {
			t.Errorf("digits of %d: %d and of one less %d, want %d", v, digits(v), digits(v-1), want)
		}
		if want == 20 {
			break
		}
	}
	if got := digits(1<<64 - 1); got != 20 {
		t.Errorf("digits of 2^64-1: %d", got)
	}
}

// FuzzReader checks that any bytes give values or an error, the same however they arrive, and never much memory.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{"+OK\r\n:1\r\n", "$3\r\nabc\r\n", "*2\r\n$-1\r\n_\r\n", "-ERR x\r\n:5\r\n", "%1\r\n+a\r\n#t\r\n",
		"=7\r\ntxt:abc\r\n", "$9223372036854775807\r\n", "*1048576\r\n", "$16777216\r\nabc"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, wholeErr := readAll(NewReader(bytes.NewReader(stream), StartSize))
		split, splitErr := readAll(NewReader(iotest.OneByteReader(bytes.NewReader(stream)), StartSize))
		if !reflect.DeepEqual(whole, split) || fmt.Sprint(wholeErr) != fmt.Sprint(splitErr) {
			t.Errorf("whole %v, %v; byte by byte %v, %v", whole, wholeErr, split, splitErr)
		}
	})
}

func readAll(r *Reader) (values []string, err error) {
	for {
		v, err := r.ReadValue()
		var failed *ServerError
		if errors.As(err, &failed) {
			values = append(values, "-"+failed.Text)
			continue
		}
		if err != nil {
			return values, err
		}
		values = append(values, fmt.Sprintf("%#v", v))
	}
}

func BenchmarkReadPage(b *testing.B) {
	reply := []byte("*20\r\n" + strings.Repeat("*3\r\n:12\r\n:0\r\n:1234\r\n", 20))
	r := NewReader(&loop{data: reply}, StartSize)
	b.ReportAllocs()
	for range b.N {
		n, _, _ := r.ReadArray()
		for range n {
			m, _, _ := r.ReadArray()
			for range m {
				if _, err := r.ReadInt(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

func BenchmarkAppendIncr(b *testing.B) {
	out := make([]byte, 0, 1024)
	b.ReportAllocs()
	for i := range b.N {
		out = AppendArray(out[:0], 2)
		out = AppendArg(out, "INCR")
		out = AppendKey(out, 3620000000000000+uint64(i), "cntrn")
	}
}

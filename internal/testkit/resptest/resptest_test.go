package resptest

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

func read(reply string, proto int) (Value, error) {
	return Read(bufio.NewReader(strings.NewReader(reply)), proto)
}

// TestRead reads replies of either version, and types of only one of them in both.
func TestRead(t *testing.T) {
	const both, two, three = "both", "RESP2", "RESP3"
	for _, tt := range []struct{ reply, in, want string }{
		{"+OK\r\n", both, "+OK"}, {"+\r\n", both, "+"}, {"-ERR no\r\n", both, "-ERR no"}, {":-12\r\n", both, ":-12"},
		{"$3\r\na\r\n\r\n", both, `"a\r\n"`}, {"$0\r\n\r\n", both, `""`}, {"*0\r\n", both, "[]"}, {"*2\r\n:1\r\n*1\r\n+x\r\n", both, "[:1 [+x]]"},
		{"$-1\r\n", two, "nil"}, {"*-1\r\n", two, "nil"}, {"_\r\n", three, "nil"}, {"#t\r\n", three, "#t"}, {",1.5\r\n", three, ",1.5"},
		{"=7\r\ntxt:abc\r\n", three, `txt"abc"`}, {"~1\r\n:1\r\n", three, "{:1}"}, {"%1\r\n+a\r\n:1\r\n", three, "(+a :1)"}, {">1\r\n+a\r\n", three, ">+a<"},
	} {
		for proto, is := range map[int]bool{Any: true, RESP2: tt.in != three, RESP3: tt.in != two} {
			v, err := read(tt.reply, proto)
			if is != (err == nil) || v.Raw != tt.reply && is || is && v.String() != tt.want {
				t.Errorf("%q in RESP%d: %v (raw %q), %v; want %s, good %t", tt.reply, proto, v, v.Raw, err, tt.want, is)
			}
		}
	}
}

// TestStrict: input that is almost a reply is refused.
func TestStrict(t *testing.T) {
	for _, reply := range []string{"\r\n", "OK\r\n", "+OK\n", "+O\rK\r\n", ":\r\n", ":+1\r\n", ":01\r\n", ":-0\r\n", ":1x\r\n", ":9223372036854775808\r\n", "$01\r\na\r\n",
		"$-2\r\n", "*-2\r\n", "$1\r\nab\r\n", "$1\r\na\n\n", "$67108865\r\n", "*67108865\r\n", "_x\r\n", "#x\r\n", "#\r\n", ",x\r\n", "=3\r\nabc\r\n", "=-1\r\n", "~-1\r\n",
		"%-1\r\n", ">-1\r\n", "(1\r\n", "!1\r\nx\r\n", "|1\r\n", "*1\r\n:x\r\n"} {
		for _, proto := range []int{Any, RESP2, RESP3} {
			if v, err := read(reply, proto); err == nil || err == io.EOF {
				t.Errorf("%q in RESP%d is read as %v, %v", reply, proto, v, err)
			}
		}
	}
}

// TestCutShort: a reply that ends too early is no end of the connection.
func TestCutShort(t *testing.T) {
	whole := "*3\r\n:12\r\n$3\r\nabc\r\n*1\r\n+x\r\n"
	for n := range len(whole) {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if v, err := read(whole[:n], RESP2); err != want || v.Raw != whole[:n] {
			t.Errorf("%q: %q, %v, want %v", whole[:n], v.Raw, err, want)
		}
	}
}

func TestAppend(t *testing.T) {
	if got := string(Append([]byte("x"), "SET", "", "a\r\n")); got != "x*3\r\n$3\r\nSET\r\n$0\r\n\r\n$3\r\na\r\n\r\n" {
		t.Errorf("%q", got)
	}
}

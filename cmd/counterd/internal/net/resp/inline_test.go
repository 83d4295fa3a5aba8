package resp

import (
	"reflect"
	"strings"
	"testing"
)

func split(line string, most int) ([]string, splitError) {
	args, err := splitInline(nil, []byte(line), most)
	if len(args) == 0 {
		return nil, err
	}
	return copyArgs(args), err
}

// TestSplitInline: the rows were tried with ECHO on Redis 7.0.15.
func TestSplitInline(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
		err  splitError
	}{
		{"", nil, splitOK},
		{" \t\v\f\r\n ", nil, splitOK},
		{"a", []string{"a"}, splitOK},
		{" a  b\tc ", []string{"a", "b", "c"}, splitOK},
		{"a\vb\fc", []string{"a\vb\fc"}, splitOK}, // VT and FF do not end a word
		{"\va", []string{"a"}, splitOK},           // but they may stand before one
		{"\x85\xa0a", []string{"\x85\xa0a"}, splitOK},
		{`""`, []string{""}, splitOK},
		{`''`, []string{""}, splitOK},
		{`"" ''`, []string{"", ""}, splitOK},
		{`"a b" 'c d'`, []string{"a b", "c d"}, splitOK},
		{`"a\x41\n\r\t\b\a\q\\\"\xZ"`, []string{"aA\n\r\t\b\aq\\\"xZ"}, splitOK},
		{`"\x4"`, []string{"x4"}, splitOK},
		{`"\x4g"`, []string{"x4g"}, splitOK},
		{`"\xfF\x00"`, []string{"\xff\x00"}, splitOK},
		{`"\X41"`, []string{"X41"}, splitOK},
		{`'a\'b\n\\ '`, []string{`a'b\n\\ `}, splitOK},
		{`'a\\'`, nil, errUnbalanced}, // no escape but \'
		{`a"b c"`, []string{"ab c"}, splitOK},
		{`ab'c d'`, []string{"abc d"}, splitOK},
		{`a\nb`, []string{`a\nb`}, splitOK},
		{"\"a\"\vb", []string{"a", "b"}, splitOK}, // any space may follow a quote
		{`"a"b`, nil, errUnbalanced},
		{`'a'b`, nil, errUnbalanced},
		{`"a"'b'`, nil, errUnbalanced},
		{`"a`, nil, errUnbalanced},
		{`'a`, nil, errUnbalanced},
		{`"a\`, nil, errUnbalanced},
		{`"a\"`, nil, errUnbalanced},
		{`'a\'`, nil, errUnbalanced},
		{`"`, nil, errUnbalanced},
		{`a b "c`, nil, errUnbalanced},
		{`a b c`, []string{"a", "b", "c"}, splitOK},
		{`a b c d`, nil, errTooManyArgs},
		{`a b c "d`, nil, errTooManyArgs},
	} {
		got, err := split(tt.line, 3)
		if !reflect.DeepEqual(got, tt.want) || err != tt.err {
			t.Errorf("%q: got %q, %d, want %q, %d", tt.line, got, err, tt.want, tt.err)
		}
	}
}

func FuzzSplitInline(f *testing.F) {
	f.Add(`SET "a\x41\n" 'b\'c' d"e f"`)
	f.Add(`"unterminated \`)
	f.Add("a\vb \"c\"\fd")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsRune(line, '\n') {
			return
		}
		want, balanced := referenceSplit(line)
		if !balanced {
			want = nil
		}
		got, err := split(line, len(line)+1)
		if !reflect.DeepEqual(got, want) || (err == splitOK) != balanced {
			t.Fatalf("%q: got %q, %d, want %q, %v", line, got, err, want, balanced)
		}
	})
}

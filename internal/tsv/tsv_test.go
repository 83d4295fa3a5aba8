package tsv

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// readAll returns the posts of a file as lines of text, to compare.
func readAll(r *Reader) (string, error) {
	var out strings.Builder
	row := make([]uint64, len(r.Columns()))
	for {
		id, err := r.Read(row)
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return out.String(), err
		}
		fmt.Fprintln(&out, id, row)
	}
}

func max32(string) uint64 { return 1<<32 - 1 }

func TestRead(t *testing.T) {
	for _, test := range []struct {
		name, file string
		opts       Options
		columns    string
		want       string
	}{
		{"marked header", "# mid\ta\tb\n5\t1\t2\n6\t3\t4\n", Options{}, "[a b]", "5 [1 2]\n6 [3 4]\n"},
		{"header with spaces", "# mid a b\n5\t1\t2\n", Options{}, "[a b]", "5 [1 2]\n"},
		{"bare header", "a\tid\n1\t5\n", Options{}, "[a]", "5 [1]\n"},
		{"skipped column", "id\t-\tb\n5\ttext\t2\n", Options{}, "[b]", "5 [2]\n"},
		{"names given", "5\t1\t2\n6\t3\t4", Options{Columns: []string{"mid", "x", "-"}}, "[x]", "5 [1]\n6 [3]\n"},
		{"names given over a header", "# p\tq\n5\t1\n", Options{Columns: []string{"mid", "x"}}, "[x]", "5 [1]\n"},
		{"id named", "mid\tpost\n1\t5\n", Options{ID: "post"}, "[mid]", "5 [1]\n"},
		{"comments, empty lines, CRLF", "# id a\r\n\r\n# more\r\n5\t1\r\n", Options{}, "[a]", "5 [1]\n"},
		{"nothing but a header", "# id a\n", Options{}, "[a]", ""},
		{"empty, names given", "", Options{Columns: []string{"id", "a"}}, "[a]", ""},
		{"csv", "id,a,\"-\"\n5,1,\"te\nxt, \"\"\"\n\"6\",2,\n#7,1,1\n", Options{Comma: ','}, "[a]", "5 [1]\n6 [2]\n"},
		{"a mark of order", "\ufeffmid\ta\n5\t1\n", Options{}, "[a]", "5 [1]\n"},
		{"a mark of order and no header", "\ufeff5\t1\n", Options{Columns: []string{"mid", "a"}}, "[a]", "5 [1]\n"},
		{"csv with a mark of order, CRLF and an unnamed column", "\ufeffmid;a;\r\n5;1;x\r\n", Options{Comma: ';'}, "[a]", "5 [1]\n"},
		{"csv, names given", "5|1\n6|2", Options{Comma: '|', Columns: []string{"mid", "x"}}, "[x]", "5 [1]\n6 [2]\n"},
		{"csv, marked header", "# mid,a\n5,1\n", Options{Comma: ','}, "[a]", "5 [1]\n"},
		{"csv, empty, names given", "", Options{Comma: ',', Columns: []string{"id", "a"}}, "[a]", ""},
		{"highest id", "id a\n9223372036854775807\t4294967295\n", Options{Max: max32}, "[a]", "9223372036854775807 [4294967295]\n"},
	} {
		for _, packed := range []string{"", "gzip", "zstd"} {
			if packed != "" && test.file == "" {
				continue // zipped, an empty file is not empty
			}
			t.Run(test.name+"/"+packed, func(t *testing.T) {
				content := []byte(test.file)
				switch packed {
				case "gzip":
					content = gzipped(content)
				case "zstd":
					content = zstdOf(t, content)
				}
				r, err := New("posts.tsv", bytes.NewReader(content), test.opts)
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(r.Columns()); got != test.columns {
					t.Errorf("columns %s, want %s", got, test.columns)
				}
				got, err := readAll(r)
				if err != nil || got != test.want {
					t.Errorf("read %q, %v, want %q", got, err, test.want)
				}
			})
		}
	}
}

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		name, file string
		opts       Options
		want       string
	}{
		{"no number", "# id a b\n1\t2\t3\n4\t5\tx\n", Options{Max: max32},
			`posts.tsv:3: column 3 "b": "x" is not a whole number 0..4294967295`},
		{"beyond the column's maximum", "# id a\n1\t4294967296\n", Options{Max: max32},
			`posts.tsv:2: column 2 "a": "4294967296" is not a whole number 0..4294967295`},
		{"beyond the highest id", "# id a\n9223372036854775808\t1\n", Options{},
			`posts.tsv:2: column 1 "id": "9223372036854775808" is not a whole number 0..9223372036854775807`},
		{"negative", "# id a\n1\t-1\n", Options{Max: max32},
			`posts.tsv:2: column 2 "a": "-1" is not a whole number 0..4294967295`},
		{"empty field", "# id a\n1\t\n", Options{Max: max32},
			`posts.tsv:2: column 2 "a": "" is not a whole number 0..4294967295`},
		{"long field", "# id a\n1\t" + strings.Repeat("7", 100) + "\n", Options{Max: max32},
			`posts.tsv:2: column 2 "a": "` + strings.Repeat("7", 40) + `..." is not a whole number 0..4294967295`},
		{"first line, names given", "1\ty\n", Options{Columns: []string{"id", "a"}, Max: max32},
			`posts.tsv:1: column 2 "a": "y" is not a whole number 0..4294967295`},
		{"first id, names given", "y\t1\n", Options{Columns: []string{"id", "a"}, Max: max32},
			`posts.tsv:1: column 1 "id": "y" is not a whole number 0..9223372036854775807`},
		{"too few columns", "# id a b\n1\t2\n", Options{}, `posts.tsv:2: 2 columns, want 3 separated by tabs (id a b)`},
		{"too many columns", "# id a\n1\t2\t3\n", Options{}, `posts.tsv:2: 3 columns, want 2 separated by tabs (id a)`},
		{"no tabs", "# id a\n1 2\n", Options{}, `posts.tsv:2: 1 column, want 2 separated by tabs (id a)`},
		{"no header", "1\t2\n", Options{},
			`posts.tsv:1: "1\t2", want a header line that names the columns, or names given by --columns`},
		{"empty", "", Options{}, `posts.tsv: is empty`},
		{"long line", "# id a\n" + strings.Repeat("1", maxLine+10) + "\n", Options{},
			`posts.tsv:2: a line of over 16384 bytes, want a shorter one`},
		{"csv, no number", "id,a\n1,2\n4,\"x\ny\"\n", Options{Comma: ',', Max: max32}, "posts.tsv:3: column 2 \"a\": \"x\\ny\" is not a whole number 0..4294967295"},
		{"csv, too few columns", "id,a\n1\n", Options{Comma: ','}, `posts.tsv:2: 1 column, want 2`},
		{"csv, a stray quote", "id,a\n1,2\"3\n", Options{Comma: ','}, "posts.tsv:2: bare \" in non-quoted-field, want fields as RFC 4180 has them"},
		{"csv, a quote that is never closed", "id,a\n1,\"" + strings.Repeat("x\n", recordMax), Options{Comma: ','},
			`posts.tsv:2: a record of over 1048576 bytes, want a shorter one: is a quote not closed?`},
		{"csv, no header", "1,2\n", Options{Comma: ','}, `posts.tsv:1: "1,2", want a header line that names the columns, or names given by --columns`},
		{"csv, empty", "", Options{Comma: ','}, `posts.tsv: is empty`},
		{"a window that is too large", "\x28\xb5\x2f\xfd\x00\xb8\x01\x00\x00", Options{}, "posts.tsv:1: window size exceeded"},
		{"no such id", "# a b\n1\t2\n", Options{ID: "mid"}, `posts.tsv: no column "mid" for the id among a, b`},
		{"one name twice", "# id a a\n", Options{}, `posts.tsv: two columns named "a"`},
		{"id alone", "# id -\n", Options{}, `posts.tsv: no column beside the id: id, -`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := New("posts.tsv", strings.NewReader(test.file), test.opts)
			if err == nil {
				_, err = readAll(r)
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("error %v\nwant  %s", err, test.want)
			}
		})
	}
}

func TestErrorIsTyped(t *testing.T) {
	r, err := New("f", strings.NewReader("id a\n1\tx\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = readAll(r)
	var bad *Error
	if !errors.As(err, &bad) || bad.Line != 2 || bad.Column != 2 || bad.Name != "a" || bad.Got != "x" {
		t.Fatalf("got %#v", err)
	}
}

func TestTornGzip(t *testing.T) {
	whole := gzipped([]byte("id a\n" + strings.Repeat("123\t456\n", 10000)))
	path := filepath.Join(t.TempDir(), "torn.gz")
	if err := os.WriteFile(path, whole[:len(whole)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := readAll(r); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), path+":") {
		t.Fatalf("got %v, want an unexpected end that names %s", err, path)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	r, err := New("f", strings.NewReader("id a b\n"+strings.Repeat("3655529446300818\t12\t0\n", 5000)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	row := make([]uint64, 2)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := r.Read(row); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a line, want 0", n)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"# id a\n1\t2\n", "1\t2\n", "id\n", "# id a b\n1\t2\n\n#\n", "\x1f\x8b\x08", "\r\n\r\n"} {
		f.Add([]byte(seed), false)
	}
	f.Add([]byte("id,a\n\"1\",2\n#x\n"), true)
	f.Add(zstdOf(f, []byte("id,a\n\"1\",2\n#x\n")), true)
	f.Fuzz(func(t *testing.T, content []byte, comma bool) {
		o := Options{Max: max32}
		if comma {
			o.Comma = ','
		}
		r, err := New("f", bytes.NewReader(content), o)
		if err != nil {
			return
		}
		defer r.Close()
		row := make([]uint64, len(r.Columns()))
		for range 10_000 { // a few bytes may unpack to very many
			id, err := r.Read(row)
			if err != nil {
				return
			}
			if id > MaxID {
				t.Fatalf("id %d", id)
			}
			for _, v := range row {
				if v > 1<<32-1 {
					t.Fatalf("row %d", row)
				}
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	content := []byte("id a b c\n" + strings.Repeat("3655529446300818\t12\t0\t7\n", 100000))
	row := make([]uint64, 3)
	var r *Reader
	b.ReportAllocs()
	for range b.N {
		if r == nil {
			r, _ = New("f", bytes.NewReader(content), Options{})
		}
		if _, err := r.Read(row); err != nil {
			r = nil
		}
	}
}

func zstdOf(t testing.TB, content []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(content, nil)
}

func gzipped(content []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(content)
	w.Close()
	return out.Bytes()
}

package tsv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// readPieces reads all posts of a text by pieces of a size, and the errors of bad lines.
func readPieces(text string, opts Options, size int) (ids []uint64, columns [][]uint64, lines []int, bad []string, err error) {
	p, err := NewPieces("f", strings.NewReader(text), opts)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	defer p.Close()
	columns = make([][]uint64, len(p.Columns()))
	var rows Rows
	var buf []byte
	for {
		piece, err := p.Next(buf, size)
		if err == io.EOF {
			return ids, columns, lines, bad, nil
		}
		if err != nil {
			return ids, columns, lines, bad, err
		}
		if err := piece.Parse(&rows, func(e *Error) error {
			bad = append(bad, e.Error())
			return nil
		}); err != nil {
			return nil, nil, nil, nil, err
		}
		for i := range rows.IDs {
			lines = append(lines, rows.Line(i))
		}
		ids = append(ids, rows.IDs...)
		for c := range columns {
			columns[c] = append(columns[c], rows.Columns[c]...)
		}
	}
}

// readRows is the same by a Reader.
func readRows(text string, opts Options) (ids []uint64, columns [][]uint64, lines []int, bad []string, err error) {
	r, err := New("f", strings.NewReader(text), opts)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	defer r.Close()
	columns = make([][]uint64, len(r.Columns()))
	row := make([]uint64, len(columns))
	for {
		id, err := r.Read(row)
		var wrong *Error
		switch {
		case err == io.EOF:
			return ids, columns, lines, bad, nil
		case errors.As(err, &wrong) && !strings.Contains(wrong.Got, "a line of over"):
			bad = append(bad, err.Error())
			continue
		case err != nil:
			return ids, columns, lines, bad, err
		}
		ids, lines = append(ids, id), append(lines, r.line)
		for c, v := range row {
			columns[c] = append(columns[c], v)
		}
	}
}

// TestPieces: pieces hold what a Reader reads, in lines with all that may stand there, wherever they are cut.
func TestPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	var text strings.Builder
	text.WriteString("# mid\trepost\t-\tattitude\n")
	for i := range 20_000 {
		switch rnd.IntN(40) {
		case 0:
			text.WriteString("\n")
		case 1:
			text.WriteString("# a remark\n")
		case 2:
			fmt.Fprintf(&text, "%d\t1\tx\n", i)
		case 3:
			fmt.Fprintf(&text, "%d\t-1\tx\t0\n", i)
		case 4:
			fmt.Fprintf(&text, "%d\t1\tsome text\t%d\r\n", i, rnd.IntN(10))
		case 5:
			fmt.Fprintf(&text, "%d\t%d\t\t9223372036854775808\n", i, i)
		case 6:
			fmt.Fprintf(&text, "%020d\t%d\t\t1\n", i, i)
		default:
			fmt.Fprintf(&text, "%d\t%d\t%d\t%d\n", rnd.Uint64()>>(1+rnd.IntN(63)), rnd.IntN(1000), i, rnd.Uint64N(300)*uint64(rnd.IntN(2)))
		}
	}
	for _, tail := range []string{"", "7\t8\t9\t10", "7\t8\t9"} {
		all := text.String() + tail
		ids, columns, lines, bad, err := readRows(all, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 70_000, 10 << 20} {
			ids2, columns2, lines2, bad2, err := readPieces(all, Options{}, size)
			if err != nil || !reflect.DeepEqual(ids, ids2) || !reflect.DeepEqual(columns, columns2) || !reflect.DeepEqual(lines, lines2) || !reflect.DeepEqual(bad, bad2) {
				t.Fatalf("pieces of %d bytes: %d posts, %d bad lines, %v; want %d, %d", size, len(ids2), len(bad2), err, len(ids), len(bad))
			}
		}
	}
}

func TestPiecesFiles(t *testing.T) {
	for _, c := range []struct {
		text string
		opts Options
		want string // the ids, or of the error
	}{
		{"", Options{}, "is empty"},
		{"1\t2\n", Options{}, "header line"},
		{"1\t2\n", Options{Columns: []string{"mid", "n"}}, "[1]"},
		{"mid\tn\n1\t2\n", Options{Columns: []string{"mid", "n"}}, "[1]"},
		{"mid,n\n\"1\",2\n3,\"4\"\n", Options{Comma: ','}, "[1 3]"},
		{"\"n\",\"mid\"\n2,1", Options{Comma: ','}, "[1]"},
		{"mid,-,n\n1,\"a\nb\",2\n", Options{Comma: ','}, ErrText.Error()},
		{"mid\tn\n" + strings.Repeat("1", 80_000), Options{}, "f:2: a line of over"},
		{strings.Repeat("1", 300_000), Options{}, "f:1: a line of over"},
		{"\x1f\x8bnot gzip at all", Options{}, "gzip"},
		{"mid\tmid\n", Options{}, "two columns"},
		{"\ufeffmid\tn\r\n1\t2\r\n", Options{}, "[1]"},
		{"\ufeff1\t2\n", Options{Columns: []string{"mid", "n"}}, "[1]"},
		{"\ufeff1,2\n", Options{Columns: []string{"mid", "n"}, Comma: ','}, "[1]"},
		{"\ufeff", Options{}, "is empty"},
	} {
		ids, _, _, _, err := readPieces(c.text, c.opts, 0)
		if got := fmt.Sprint(ids); err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %s, %v, want %s", c.text, got, err, c.want)
		}
	}
	p, err := NewPieces("f", strings.NewReader("mid\tn\n1\t2\nx\t1\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	piece, err := p.Next(nil, 0)
	stop := errors.New("stop")
	if err != nil || piece.Bytes() != 8 {
		t.Fatal(piece.Bytes(), err)
	}
	if err := piece.Parse(new(Rows), func(e *Error) error { return stop }); err != stop {
		t.Errorf("a line that was not to be passed over: %v", err)
	}
}

// FuzzPieces: pieces of any text give the same posts as a Reader.
func FuzzPieces(f *testing.F) {
	f.Add([]byte("mid\tn\tm\n1\t2\t3\n\n#\n12345678901234567\t1\t2\r\n"), false)
	f.Add([]byte("mid,n\n1,2\n\"3\",4\n"), true)
	f.Add([]byte("mid\t-\n99999999999999999999\t\t\n"), false)
	f.Add([]byte("mid\tn\n1234567812345678\t00000000000000000007"), false)
	f.Fuzz(func(t *testing.T, text []byte, commas bool) {
		if commas {
			// Quotes in odd places are something else to a Reader; pieces must only stand them.
			_, _, _, _, _ = readPieces(string(text), Options{Comma: ','}, 0)
			return
		}
		if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) || bytes.HasPrefix(text, []byte{0x28, 0xb5}) {
			return
		}
		// Of a line with several faults they may name different ones.
		places := func(bad []string) (places []string) {
			for _, s := range bad {
				place, _, _ := strings.Cut(s, ": ")
				places = append(places, place)
			}
			return places
		}
		ids, columns, lines, bad, err := readRows(string(text), Options{})
		ids2, columns2, lines2, bad2, err2 := readPieces(string(text), Options{}, 0)
		if (err == nil) != (err2 == nil) && !strings.Contains(fmt.Sprint(err, err2), "a line of over") {
			t.Fatalf("a Reader: %v; pieces: %v", err, err2)
		}
		if err == nil && err2 == nil && (!reflect.DeepEqual(ids, ids2) || !reflect.DeepEqual(columns, columns2) || !reflect.DeepEqual(lines, lines2) || !reflect.DeepEqual(places(bad), places(bad2))) {
			t.Fatalf("a Reader: %v %v %v %q; pieces: %v %v %v %q", ids, columns, lines, bad, ids2, columns2, lines2, bad2)
		}
	})
}

func BenchmarkPieces(b *testing.B) {
	var text bytes.Buffer
	text.WriteString("mid\tcomment\trepost\tattitude\n")
	rnd := rand.New(rand.NewPCG(1, 1))
	const n = 1 << 17
	for i := range n {
		row := [3]int{}
		if rnd.IntN(4) == 0 {
			row = [3]int{rnd.IntN(10), rnd.IntN(10), rnd.IntN(300)}
		}
		fmt.Fprintf(&text, "%d\t%d\t%d\t%d\n", 3_000_000_000_000_000+i*4000+rnd.IntN(4000), row[0], row[1], row[2])
	}
	var rows Rows
	for b.Loop() {
		p, err := NewPieces("f", bytes.NewReader(text.Bytes()), Options{})
		if err != nil {
			b.Fatal(err)
		}
		piece, err := p.Next(nil, 8<<20)
		if err != nil {
			b.Fatal(err)
		}
		if err := piece.Parse(&rows, func(e *Error) error { return e }); err != nil || len(rows.IDs) != n {
			b.Fatal(len(rows.IDs), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/line")
	b.SetBytes(int64(text.Len()))
}

package resp

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestOneWord: all numbers of up to four digits, and these behind four others.
func TestOneWord(t *testing.T) {
	for v := range uint64(10000) {
		for _, v := range []uint64{v, 10000*(v%10) + v, 10000*v + v%10, 10000*v + (v*7919)%10000} {
			text, width := oneWord(v)
			var got []byte
			for range width {
				got = append(got, byte(text))
				text >>= 8
			}
			if want := strconv.FormatUint(v, 10); string(got) != want || text != 0 {
				t.Fatalf("oneWord(%d): got %q and %#x behind it", v, got, text)
			}
		}
	}
}

// TestNumbersInARow: numbers of all widths beside each other, in each of the replies that have several.
func TestNumbersInARow(t *testing.T) {
	rng := random(t)
	all := numbers(t)
	for v := range uint64(1100) {
		all = append(all, v)
	}
	for range 2000 {
		values := make([]uint64, 1+rng.IntN(30))
		for i := range values {
			values[i] = all[rng.IntN(len(all))]
		}
		checkNumbers(t, rng, values)
	}
}

func checkNumbers(t *testing.T, rng *rand.Rand, values []uint64) {
	t.Helper()
	var bulks, want []byte
	nulls := rng.Uint64() & rng.Uint64()
	if rng.IntN(2) == 0 {
		nulls = 0
	}
	proto := 2 + rng.IntN(2)
	for i, v := range values {
		if nulls>>i&1 != 0 {
			want = AppendNull(want, proto)
			continue
		}
		s := strconv.FormatUint(v, 10)
		want = append(want, "$"+strconv.Itoa(len(s))+"\r\n"+s+"\r\n"...)
	}
	// Bytes in front of the replies stay, whether there is room behind them or not.
	before := bytes.Repeat([]byte{'#'}, rng.IntN(20))
	into := func() Replies { return Replies{b: append(make([]byte, 0, len(before)+rng.IntN(300)), before...)} }
	r := into()
	r.SetProtocol(proto)
	r.BulkUints(values, nulls)
	if bulks = r.From(0); string(bulks) != string(before)+string(want) {
		t.Fatalf("BulkUints(%d, %b): got %q, want %q", values, nulls, bulks, want)
	}
	want = nil
	for i, v := range values {
		values[i] = v & math.MaxInt64
		want = append(want, ":"+strconv.FormatUint(values[i], 10)+"\r\n"...)
	}
	r = into()
	if r.EachInt(values); string(r.From(0)) != string(before)+string(want) {
		t.Fatalf("EachInt(%d): got %q, want %q", values, r.From(0), want)
	}
	rows := 1
	for n := 2; n <= len(values); n++ {
		if len(values)%n == 0 && rng.IntN(2) == 0 {
			rows = n
		}
	}
	want = nil
	packed := into()
	start := packed.BeginPacked()
	for i := range rows {
		row := values[i*len(values)/rows : (i+1)*len(values)/rows]
		at := packed.BeginRow()
		packed.Array(len(row))
		want = append(want, "*"+strconv.Itoa(len(row))+"\r\n"...)
		for _, v := range row {
			packed.Int(int64(v))
			want = append(want, ":"+strconv.FormatUint(v, 10)+"\r\n"...)
		}
		packed.EndRow(at)
	}
	packed.EndPacked(start)
	r = into()
	if r.Rows(values, rows); string(r.From(0)) != string(before)+string(want) {
		t.Fatalf("Rows(%d, %d): got %q, want %q", values, rows, r.From(0), want)
	}
	r = into()
	start = r.BeginPacked()
	r.PackedInts(values, rows)
	r.EndPacked(start)
	if string(r.From(0)) != string(packed.From(0)) {
		t.Fatalf("PackedInts(%d, %d): got %q, want %q", values, rows, r.From(0), packed.From(0))
	}
}
